"""What processes that died have left behind, completed or removed before `connect` returns.

An operation that had committed is published, any other is discarded. A view whose first rows were never
committed was never created, as far as anybody was told: it is removed. Whoever lives is left alone.
"""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.errors import InUse, MonusError, UnknownView, ViewBusy
from monus.maintenance.commitment import Commitment
from monus.maintenance.creation import Creation
from monus.maintenance.lease import held_lease
from monus.maintenance.protocol import mark_unusable, prepare

logger = logging.getLogger(__name__)

# A JVM outlives a killed Python by about two seconds; a loaded machine takes longer.
DYING_SECONDS = 30.0


def recover(spark: SparkSession, catalog: Catalog, creation: Creation, commitment: Commitment) -> list[str]:
    """The names of the views that something was done about, after transactions that were left are completed."""
    _complete_transactions(catalog, commitment)
    creation.remove_dropped()
    settled = []
    for name in reversed(catalog.dependency_order()):  # a view that is removed must not be read by another
        if _is_unfinished(catalog, name) and not _is_at_work(catalog, name):
            try:
                _settle(spark, catalog, creation, name)
            except (ViewBusy, UnknownView):
                continue  # another process is at it, or was quicker
            except MonusError:
                # What is published stays right; the next operation on the view tries again, and tells.
                logger.exception("%s could not be recovered", name)
                continue
            settled.append(name)
    return settled[::-1]


def _complete_transactions(catalog: Catalog, commitment: Commitment) -> None:
    for record in catalog.ledger().outstanding:
        if any(_is_at_work(catalog, part.name) for part in record.parts):
            continue
        try:
            commitment.recover(record, DYING_SECONDS)
        except ViewBusy:
            continue  # another process is at it
        except MonusError:
            # Readers see the state before it; whoever next uses one of its tables tries again, and tells.
            logger.exception("The transaction %s could not be completed", record.id)


def _settle(spark: SparkSession, catalog: Catalog, creation: Creation, name: str) -> None:
    with held_lease(catalog, spark, name, DYING_SECONDS) as lease:
        record = prepare(catalog, lease, spark)
        if record.batch > 0:
            return
        try:
            creation.remove_view(record, lease)
        except InUse:
            mark_unusable(catalog, name, "NEVER_FILLED", "Its creation was not finished.", lease)
            return
        logger.warning("%s: its creation was not finished; it was removed", name)


def _is_unfinished(catalog: Catalog, name: str) -> bool:
    record = catalog.find_view(name)
    return record is not None and (record.batch == 0 or catalog.outstanding_intent(name) is not None)


def _is_at_work(catalog: Catalog, name: str) -> bool:
    holder = catalog.holder(name)
    return holder is not None and not holder.owner.is_dying()

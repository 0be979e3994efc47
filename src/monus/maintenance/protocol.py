"""The protocol by which a view's table and the catalog move together (DESIGN, "The protocol").

1. lease (epoch + 1), settle what an earlier owner left; 2. intent n; 3. a batch is a plain append,
counted only if published; 4. one commit with number n; 5. check that n landed and that nobody else
wrote; 6. publish, and the intent is gone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.catalog.leases import Lease
from monus.catalog.owners import Owner
from monus.catalog.records import Intent, RefreshRecord, State, ViewRecord
from monus.errors import LeaseLost, ViewBusy, ViewUnusable
from monus.store.apply import TxnNumber, append
from monus.store.delta_table import DeltaTable
from monus.store.log import foreign_commits, landed

logger = logging.getLogger(__name__)

LEASE_SECONDS = 60.0
WAIT_SECONDS = 60.0


@contextmanager
def held_lease(catalog: Catalog, spark: SparkSession, view: str, wait_seconds: float = WAIT_SECONDS) -> Iterator[Lease]:
    """The view's lease, renewed in the background for as long as the work takes."""
    jvm: Any = spark._jvm
    owner = Owner.here(jvm_pid=int(jvm.java.lang.ProcessHandle.current().pid()))
    lease = _acquire(catalog, view, owner, wait_seconds)
    stop = threading.Event()

    def renew() -> None:
        while not stop.wait(LEASE_SECONDS / 3):
            try:
                catalog.renew(lease, LEASE_SECONDS)
            except LeaseLost:
                return  # whoever took it over; our next conditional write finds out

    thread = threading.Thread(target=renew, name=f"monus-lease-{view}", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        stop.set()
        thread.join()
        catalog.release(lease)


def _acquire(catalog: Catalog, view: str, owner: Owner, wait_seconds: float) -> Lease:
    """On a local disk a commit is not atomic against a stalled process: a living one is waited for."""
    deadline = time.monotonic() + wait_seconds
    while True:
        holder = catalog.holder(view)
        if holder is None or holder.owner.host != owner.host or holder.owner.is_dead():
            return catalog.acquire(view, owner, LEASE_SECONDS, max(0.0, deadline - time.monotonic()))
        if time.monotonic() >= deadline:
            raise ViewBusy(
                f"The view '{view}' is being maintained by {holder.owner} since {holder.acquired_at:%H:%M:%S}.",
                "Try again when it is done.",
                view=view,
            )
        time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state that an operation leads to; kept in the intent, so that recovery can publish it."""

    vector: State
    pending_vector: State
    folds: bool
    has_batch: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "vector": dict(self.vector),
            "pending_vector": dict(self.pending_vector),
            "folds": self.folds,
            "has_batch": self.has_batch,
        }


def app_id(table_id: str) -> str:
    return f"monus-{table_id}"


def commit(
    catalog: Catalog,
    lease: Lease,
    record: ViewRecord,
    table: DeltaTable,
    operation: str,
    outcome: Outcome,
    write: Callable[[TxnNumber], int | None],
    describe: Callable[[int], RefreshRecord],
) -> int:
    """Steps 2 to 6; `write` makes the commit under its number, `describe` the record of what was done."""
    number = catalog.begin_intent(lease, operation, {"vector": dict(record.vector)}, outcome.to_json())
    table_id = record.table_id or table.snapshot().table_id
    try:
        write(TxnNumber(app_id(table_id), number))
        version = _check(catalog, lease, record, table, number) if outcome.folds else record.version
    except BaseException:
        _abandon(catalog, lease, record, table, number, outcome)
        raise
    _publish(catalog, lease, record, number, operation, outcome, version, describe(number))
    return number


def settle(catalog: Catalog, lease: Lease, record: ViewRecord, table: DeltaTable, refresh: RefreshRecord) -> bool:
    """Publish or discard what an earlier owner left; whether there was something."""
    intent = catalog.outstanding_intent(record.name)
    if intent is None:
        return False
    logger.warning("%s: settling operation %s, which was not finished", record.name, intent.number)
    outcome = Outcome(**intent.to_state)
    if not outcome.folds or record.table_id is None:
        catalog.discard_intent(lease, intent.number)
        return True
    _fence(catalog, lease, table, app_id(record.table_id), intent)
    version = landed(
        table, app_id(record.table_id), intent.number, record.version if record.version is not None else -1
    )
    if version is None:
        catalog.discard_intent(lease, intent.number)
    else:
        _publish(catalog, lease, record, intent.number, intent.operation, outcome, version, refresh)
    return True


def _check(catalog: Catalog, lease: Lease, record: ViewRecord, table: DeltaTable, number: int) -> int:
    """Step 5: our commit is there, and nobody else changed the view's rows."""
    since = record.version if record.version is not None else 0
    ours = app_id(record.table_id or "")
    version = landed(table, ours, number, since)
    if version is None:
        raise LeaseLost(
            f"The commit {number} of the view '{record.name}' was skipped: another owner used its number.",
            "Nothing was published; refresh again.",
        )
    strangers = [c for c in foreign_commits(table, ours, since, version) if c.is_data_change]
    if strangers:
        sentence = (
            f"Version {strangers[0].version} of its table was written by somebody else ({strangers[0].operation})."
        )
        catalog.mark_unusable(record.name, "FOREIGN_COMMIT", sentence, lease)
        raise ViewUnusable(
            f"The view '{record.name}' was changed from outside: {sentence}",
            "Mend it: REFRESH MATERIALIZED VIEW … FULL.",
            view=record.name,
        )
    return version


def _publish(
    catalog: Catalog,
    lease: Lease,
    record: ViewRecord,
    number: int,
    operation: str,
    outcome: Outcome,
    version: int | None,
    refresh: RefreshRecord,
) -> None:
    catalog.publish(
        lease,
        number,
        version=version,
        vector=outcome.vector,
        pending_vector=outcome.pending_vector,
        pending_from=number + 1 if outcome.folds else record.pending_from,
        batch_has_rows=outcome.has_batch,
        operation=operation,
        refresh=refresh,
    )


def _abandon(
    catalog: Catalog, lease: Lease, record: ViewRecord, table: DeltaTable, number: int, outcome: Outcome
) -> None:
    """A commit that failed here and now did not land; one that did stays for recovery to publish."""
    try:
        ours = app_id(record.table_id or "")
        since = record.version if record.version is not None else 0
        if not outcome.folds or landed(table, ours, number, since) is None:
            catalog.discard_intent(lease, number)
    except Exception:  # the first error is the one to tell; recovery settles the rest
        logger.exception("%s: operation %s stays for recovery", record.name, number)


def _fence(catalog: Catalog, lease: Lease, table: DeltaTable, ours: str, intent: Intent) -> None:
    """An empty commit with a higher number: the old one can no longer land behind our back."""
    number = catalog.fence(lease, intent.number)
    empty = table.read(table.snapshot()).where("false")
    append(table, empty, TxnNumber(ours, number))

"""The protocol by which a view's table and the catalog move together (DESIGN, "The protocol").

1. lease (epoch + 1), settle what an earlier owner left, see whether a stranger wrote; 2. intent n;
3. a batch is a plain append, counted only if published; 4. one commit with number n; 5. check that n
landed and that nobody else changed a row since the version that it builds on; 6. publish, and the
intent is gone. `tests/unit/test_protocol_model.py` leaves each step out and finds the wrong view.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.catalog.leases import Lease
from monus.catalog.records import Intent, RefreshRecord, State, ViewRecord
from monus.errors import LeaseLost, SourceHistoryLost, ViewUnusable
from monus.maintenance.fault_points import FaultPoint, fault_point
from monus.store.apply import TxnNumber, append
from monus.store.delta_table import DeltaTable
from monus.store.log import Commit, Metadata, commits, landed

logger = logging.getLogger(__name__)

FENCE_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state that an operation leads to; kept in the intent, so that recovery can publish it.

    `base` is the version of the view's table that the commit builds on. A full operation replaces all rows, so it
    builds on whatever is there, and mends an unusable view.
    """

    vector: State
    pending_vector: State
    folds: bool
    has_batch: bool
    is_full: bool = False
    base: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "vector": dict(self.vector), "pending_vector": dict(self.pending_vector)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Outcome:
        return cls(**stored)


def app_id(table_id: str) -> str:
    return f"monus-{table_id}"


def prepare(catalog: Catalog, lease: Lease, spark: SparkSession) -> ViewRecord:
    """Step 1, under the lease: the view's record, with everything settled that was left."""
    fault_point(FaultPoint.LEASE_TAKEN)
    record = catalog.view(lease.resource)
    table = DeltaTable(spark, record.location)
    if settle(catalog, lease, record, table):
        record = catalog.view(lease.resource)
    if adopt(catalog, lease, record, table):
        record = catalog.view(lease.resource)
    return record


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
    if outcome.folds:
        outcome = replace(outcome, base=table.version() if outcome.is_full else record.version)
    ours = app_id(record.table_id or table.snapshot().table_id)
    number = catalog.begin_intent(lease, operation, {"vector": dict(record.vector)}, outcome.to_json())
    fault_point(FaultPoint.INTENT_WRITTEN)
    try:
        write(TxnNumber(ours, number))
        fault_point(FaultPoint.COMMITTED)
        version = _check(catalog, lease, record, table, ours, number, outcome) if outcome.folds else record.version
    except Exception:
        # Anything that is not an Exception, such as an interrupt, may leave the JVM at work on the commit: then
        # the intent stays, and is settled behind a fence.
        _abandon(catalog, lease, record, table, ours, number, outcome)
        raise
    fault_point(FaultPoint.CHECKED)
    _publish(catalog, lease, record, number, operation, outcome, version, describe(number))
    fault_point(FaultPoint.PUBLISHED)
    return number


def mark_unusable(catalog: Catalog, view: str, code: str, sentence: str, lease: Lease) -> None:
    """Nobody reads or maintains the view until it is computed anew."""
    catalog.mark_unusable(view, code, sentence, lease)
    fault_point(FaultPoint.MARKED_UNUSABLE)


def settle(catalog: Catalog, lease: Lease, record: ViewRecord, table: DeltaTable) -> bool:
    """Publish or discard what an earlier owner left; whether there was something."""
    intent = catalog.outstanding_intent(record.name)
    if intent is None:
        return False
    logger.warning("%s: settling the %s %s, which was not finished", record.name, intent.operation, intent.number)
    outcome = Outcome.from_json(intent.to_state)
    if not outcome.folds or record.table_id is None:
        catalog.discard_intent(lease, intent.number)
        fault_point(FaultPoint.INTENT_DISCARDED)
        return True
    ours = app_id(record.table_id)
    _fence(catalog, lease, table, ours, intent)
    base = _base(record, outcome)
    version = landed(table, ours, intent.number, base)
    stranger = None if version is None else _stranger(table, base, version - 1)
    if stranger is not None:
        mark_unusable(catalog, record.name, "FOREIGN_COMMIT", written_by_other(stranger), lease)
    if version is None or stranger is not None:
        catalog.discard_intent(lease, intent.number)
        fault_point(FaultPoint.INTENT_DISCARDED)
    else:
        _publish(catalog, lease, record, intent.number, intent.operation, outcome, version, _recovered(intent, outcome))
        fault_point(FaultPoint.PUBLISHED)
    return True


def adopt(catalog: Catalog, lease: Lease, record: ViewRecord, table: DeltaTable) -> bool:
    """Move on to the head if nobody changed a row since the published version, as OPTIMIZE or a fence.

    Otherwise the view becomes unusable. Whether the record has changed.
    """
    if record.version is None or not record.usable or (head := table.version()) == record.version:
        return False
    try:
        reason = _why_lost(record, table, head)
    except SourceHistoryLost as error:
        reason = ("FOREIGN_COMMIT", f"What was written to its table since is not known: {error.message}")
    if reason is None:
        catalog.move_version(lease, head)
        fault_point(FaultPoint.VERSION_MOVED)
    else:
        logger.warning("%s: %s", record.name, reason[1])
        mark_unusable(catalog, record.name, *reason, lease)
    return True


def _why_lost(record: ViewRecord, table: DeltaTable, head: int) -> tuple[str, str] | None:
    assert record.version is not None
    if head < record.version or table.snapshot().table_id != record.table_id:
        return "TABLE_LOST", f"Its table at {record.location} was removed or replaced."
    stranger = _stranger(table, record.version, head)
    return None if stranger is None else ("FOREIGN_COMMIT", written_by_other(stranger))


def _check(
    catalog: Catalog, lease: Lease, record: ViewRecord, table: DeltaTable, ours: str, number: int, outcome: Outcome
) -> int:
    """Step 5: our commit is there, and nobody else changed the view's rows."""
    base = _base(record, outcome)
    version = landed(table, ours, number, base)
    if version is None:
        raise LeaseLost(
            f"The commit {number} of the view '{record.name}' was skipped: another owner used its number.",
            "Nothing was published; refresh again.",
        )
    stranger = _stranger(table, base, version - 1)
    if stranger is None:
        return version
    sentence = written_by_other(stranger)
    mark_unusable(catalog, record.name, "FOREIGN_COMMIT", sentence, lease)
    catalog.discard_intent(lease, number)
    raise ViewUnusable(
        f"The view '{record.name}' was changed from outside: {sentence}",
        f"Compute it anew: REFRESH MATERIALIZED VIEW {record.name} FULL.",
        view=record.name,
    )


def _base(record: ViewRecord, outcome: Outcome) -> int:
    """The creation of a table is version 0 and has no rows: nothing builds on less."""
    return outcome.base if outcome.base is not None else record.version or 0


def _stranger(table: DeltaTable, after: int, upto: int) -> Commit | None:
    """The first commit after `after` up to `upto` that changed rows or columns; ours are outside that range."""
    for found in commits(table, after, upto):
        if found.is_data_change:
            return found
        if found.metadata is not None and _columns(found.metadata) != _columns(table.snapshot_at(after).metadata):
            return found
    return None


def _columns(metadata: Metadata) -> list[tuple[str, Any]]:
    """Names and types; comments and settings do no harm."""
    return [(field["name"], field["type"]) for field in json.loads(metadata.schema_json)["fields"]]


def written_by_other(stranger: Commit) -> str:
    return f"Version {stranger.version} of its table was written by somebody else ({stranger.operation})."


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
        mends=outcome.is_full,
    )


def _abandon(
    catalog: Catalog,
    lease: Lease,
    record: ViewRecord,
    table: DeltaTable,
    ours: str,
    number: int,
    outcome: Outcome,
) -> None:
    """A commit that failed here and now did not land; one that did stays for recovery to publish."""
    try:
        if not outcome.folds or landed(table, ours, number, _base(record, outcome)) is None:
            catalog.discard_intent(lease, number)
    except LeaseLost:
        pass  # the intent is discarded already, or another owner's to settle
    except Exception:  # the first error is the one to tell; recovery settles the rest
        logger.exception("%s: operation %s stays for recovery", record.name, number)


def _fence(catalog: Catalog, lease: Lease, table: DeltaTable, ours: str, intent: Intent) -> None:
    """An empty commit with a higher number: the old one can no longer land behind our back."""
    for attempt in range(1, FENCE_ATTEMPTS + 1):
        number = catalog.fence(lease, intent.number)
        fault_point(FaultPoint.FENCE_MARKED)
        try:
            empty = table.read(table.snapshot()).where("false")
            append(table, empty, TxnNumber(ours, number))
        except LeaseLost:  # the commit that is to be fenced off came in between: try the next number
            if attempt == FENCE_ATTEMPTS:
                raise
            continue
        fault_point(FaultPoint.FENCED)
        return


def _recovered(intent: Intent, outcome: Outcome) -> RefreshRecord:
    """What is known of an operation whose process died after its commit."""
    return RefreshRecord(
        view=intent.view,
        operation=intent.operation,
        strategy="full" if outcome.is_full else "none",
        incremental=not outcome.is_full,
        code="RECOVERED",
        reason="The operation had committed, but its process ended before it was published.",
        rows_inserted=0,
        rows_deleted=0,
        seconds=0.0,
        spark_jobs=0,
        commits=1,
        rows_read={},
        from_versions={},
        to_versions={},
        started_at=datetime.now(UTC),
    )

"""The protocol by which a transaction over several tables is committed (DESIGN, "The protocol").

1. staged durably; the leases of its tables and of the views that take part, all at once; what was left on them is
completed. 2. conflicts, the views' changes, assertions: a failure here refuses it with nothing written. 3. intent:
**now it is committed**. 4. one commit per table, with its number. 5. versions recorded. 6. views, by their own
protocol. 7. the end: from now on readers see it. `tests/unit/test_transaction_model.py` leaves each step out.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from monus.algebra.scalars import Column
from monus.catalog.catalog import Catalog
from monus.catalog.leases import Lease
from monus.catalog.records import TransactionPart, TransactionRecord, ViewRecord, key_of
from monus.catalog.transactions import Reached
from monus.compiler.identity import identity_key
from monus.compiler.materialize import Materializer
from monus.errors import (
    LeaseLost,
    MonusError,
    SourceInvalid,
    StorageUnavailable,
    TransactionBlocked,
    TransactionOutstanding,
    ViewBusy,
)
from monus.frontend.definition import spark_message
from monus.maintenance.concerned import concerned_views
from monus.maintenance.conflicts import check_conflicts
from monus.maintenance.creation import remove_folder
from monus.maintenance.fault_points import FaultPoint, fault_point
from monus.maintenance.lease import held_leases, owner_here
from monus.maintenance.maintainer import Maintainer
from monus.maintenance.participation import Participation
from monus.maintenance.pins import before_of
from monus.maintenance.sources import TableSource
from monus.maintenance.staging import Net, StagedTable, leaving, read_rows
from monus.maintenance.staging_area import claim
from monus.store.apply import TxnNumber
from monus.store.delta_table import DeltaTable
from monus.store.log import landed
from monus.store.table_change import commit_change

logger = logging.getLogger(__name__)

COMMIT_ATTEMPTS = 20
PAUSE = 0.1
OUTSIDE = "CONFLICT_OUTSIDE"


@dataclass(slots=True)
class Commitment:
    spark: SparkSession
    catalog: Catalog
    maintainer: Maintainer
    _warehouse: str = field(init=False)

    def __post_init__(self) -> None:
        self._warehouse = self.catalog.warehouse_id()

    # -- a transaction of this process

    def commit(
        self, staged: Mapping[str, StagedTable], staging: str, statements: int, wait_seconds: float
    ) -> TransactionRecord | None:
        """None where nothing is changed in the end."""
        with ExitStack() as stack:
            session = stack.enter_context(self.maintainer.sessions.session({}))
            materializer = Materializer(session)
            stack.callback(materializer.release)
            touched = {key: table for key, table in staged.items() if not table.is_untouched}
            if touched:
                claim(staging, owner_here(self.spark))
            nets = {key: table.net(self.spark, staging, materializer) for key, table in touched.items()}
            nets = {key: net for key, net in nets.items() if not net.is_empty}
            if not nets:
                return None
            fault_point(FaultPoint.STAGED)
            deadline = time.monotonic() + wait_seconds
            while True:
                concerned = self._concerned(staged, nets)
                names = [staged[key].record.name for key in nets] + [record.name for record in concerned]
                left = max(0.0, deadline - time.monotonic())
                with held_leases(self.catalog, self.spark, names, left) as held:
                    fault_point(FaultPoint.ALL_LEASES_TAKEN)
                    unfinished = self._outstanding(names)
                    if unfinished is None and _names(self._concerned(staged, nets)) == _names(concerned):
                        return self._commit(staged, nets, concerned, staging, statements, held, session, materializer)
                if unfinished is not None:
                    self.recover(unfinished, max(0.0, deadline - time.monotonic()))

    def _commit(
        self,
        staged: Mapping[str, StagedTable],
        nets: Mapping[str, Net],
        concerned: list[ViewRecord],
        staging: str,
        statements: int,
        held: Mapping[str, Lease],
        session: SparkSession,
        materializer: Materializer,
    ) -> TransactionRecord:
        before = {key: TableSource(staged[key].record, self.spark) for key in nets}
        for key, net in nets.items():
            check_conflicts(session, staged[key], net, before[key], materializer)
        with ExitStack() as stack:
            participation = Participation(self.maintainer, stack, before, nets)
            for view in concerned:
                participation.prepare(view, held[key_of(view.name)])
            parts = [
                TransactionPart(
                    staged[key].record.name,
                    "table",
                    {"version": before[key].snapshot.version, "id": before[key].snapshot.table_id},
                    nets[key].to_json(),
                )
                for key in nets
            ]
            parts += [TransactionPart(view.name, "view", before_of(view)) for view in participation.records]
            record = self.catalog.commit_transaction(held, parts, staging, statements)
            try:
                fault_point(FaultPoint.TRANSACTION_COMMITTED)
                return self._apply(record, held, session, participation)
            except Exception as error:
                raise _outstanding(record, error) from error

    def after_error(self, staging: str, error: Exception) -> TransactionRecord | None:
        """The transaction that is committed and applied in spite of the error; None if it never was committed.

        What is staged must stay unless the catalog says that nobody needs it: an error may come after the commit.
        """
        if isinstance(error, TransactionOutstanding):
            raise error
        try:
            record = self.catalog.find_transaction(staging)
        except MonusError:
            raise _in_doubt(error) from error
        if record is not None and record.is_outstanding:
            raise _outstanding(record, error) from error
        return record

    @contextmanager
    def alone_on(self, tables: Sequence[str], wait_seconds: float) -> Iterator[None]:
        """For what must not meet a transaction: with the leases of the tables, and nothing left on them."""
        deadline = time.monotonic() + wait_seconds
        while True:
            left = max(0.0, deadline - time.monotonic())
            with held_leases(self.catalog, self.spark, tables, left):
                unfinished = self._outstanding(list(tables))
                if unfinished is None:
                    yield
                    return
            self.recover(unfinished, max(0.0, deadline - time.monotonic()))

    def is_left_on(self, table: str) -> bool:
        """Whether a transaction that changes the table is committed and not yet applied."""
        return self._outstanding([table]) is not None

    # -- forward, also for whoever finds it

    def recover(self, record: TransactionRecord, wait_seconds: float) -> None:
        """Complete a committed transaction whose owner is gone; at most once, whoever tries."""
        names = [part.name for part in record.parts if self._is_there(part)]
        with held_leases(self.catalog, self.spark, names, wait_seconds) as held:
            fault_point(FaultPoint.ALL_LEASES_TAKEN)
            record = self.catalog.transaction(record.id)
            if not record.is_outstanding:
                return  # somebody else was quicker
            logger.warning("Completing the transaction %s, which was committed but not applied", record.id)
            record = replace(record, parts=tuple(part for part in record.parts if self._is_there(part)))
            with self.maintainer.sessions.session({}) as session, ExitStack() as stack:
                try:
                    self._apply(record, held, session, Participation(self.maintainer, stack, {}, {}))
                except Exception as error:
                    raise _blocked(record, error) from error

    def settle(self, record: TransactionRecord) -> bool:
        """Complete it if nobody is at it; whether that was done. Readers see the state before until then."""
        for part in record.parts:
            holder = self.catalog.holder(part.name)
            if holder is not None and not holder.owner.is_dead():
                return False
        try:
            self.recover(record, 0.0)
        except (ViewBusy, LeaseLost, TransactionBlocked, StorageUnavailable):
            logger.warning("The transaction %s could not be completed yet", record.id, exc_info=True)
            return False
        return True

    def _apply(
        self,
        record: TransactionRecord,
        held: Mapping[str, Lease],
        session: SparkSession,
        participation: Participation,
    ) -> TransactionRecord:
        reached: dict[str, Reached] = {}
        for part in record.tables:
            reached[key_of(part.name)] = self._commit_table(record, part, session)
            fault_point(FaultPoint.TABLE_COMMITTED)
        self.catalog.record_reached(held, record, reached)
        fault_point(FaultPoint.VERSIONS_RECORDED)
        versions = {key: found.version for key, found in reached.items()}
        wanted = {key_of(part.name) for part in record.views}
        for name in self.catalog.dependency_order():
            if key_of(name) in wanted:
                participation.maintain(name, held[key_of(name)], versions)
                fault_point(FaultPoint.VIEW_MAINTAINED)
        self.catalog.end_transaction(held, record)
        fault_point(FaultPoint.TRANSACTION_APPLIED)
        if record.staging is not None:
            remove_folder(self.spark, record.staging)
            fault_point(FaultPoint.STAGING_DROPPED)
        return self.catalog.transaction(record.id)

    def _commit_table(self, record: TransactionRecord, part: TransactionPart, session: SparkSession) -> Reached:
        """One commit with this number, whoever makes it; it may be there already."""
        table = DeltaTable(session, self.catalog.table(part.name).location)
        assert part.number is not None
        number = TxnNumber(f"monus-{self._warehouse}-{key_of(part.name)}-{part.before['id']}", part.number)
        net, note = Net.from_json(part.staged), part.note
        metadata = json.dumps({"monus": 1, "transaction": record.id})
        for attempt in range(COMMIT_ATTEMPTS):
            version = landed(table, number.app_id, number.version, part.before["version"])
            if version is not None:
                return Reached(version, note)
            snapshot = table.snapshot()
            columns = [Column(f.name, f.dataType.simpleString()) for f in snapshot.schema.fields]
            deletes = None if net.deletes is None else leaving(read_rows(session, columns, net.deletes))
            try:
                done = commit_change(
                    table, snapshot, net.adds, deletes, number, metadata,
                    identity=identity_key, replace_all=part.before["version"] if net.replaces_all else None,
                )  # fmt: skip
                if done.version is None:
                    raise SourceInvalid(
                        f"The log of '{part.name}' has a number of this warehouse that it never gave.",
                        "The table's folder was copied or put back; DROP TABLE and attach it again.",
                        table=part.name,
                    )
                if done.missing:
                    note = OUTSIDE
                    logger.warning(
                        "%s: %d rows of '%s' that transaction %s takes away were removed by another writer meanwhile",
                        OUTSIDE, done.missing, part.name, record.id,
                    )  # fmt: skip
            except (ViewBusy, LeaseLost):
                if attempt == COMMIT_ATTEMPTS - 1:
                    raise
                logger.info("%s: another writer came in between; the commit is tried again", part.name, exc_info=True)
                time.sleep(PAUSE)
        raise AssertionError("unreachable")

    def _concerned(self, staged: Mapping[str, StagedTable], nets: Mapping[str, Net]) -> list[ViewRecord]:
        return concerned_views(self.catalog, [staged[key].record.name for key in nets])

    def _outstanding(self, names: list[str]) -> TransactionRecord | None:
        """A committed transaction that was left on one of these, which are ours now."""
        keys = {key_of(name) for name in names}
        for record in self.catalog.ledger().outstanding:
            if any(key_of(part.name) in keys for part in record.parts):
                return record
        return None

    def _is_there(self, part: TransactionPart) -> bool:
        find = self.catalog.find_table if part.kind == "table" else self.catalog.find_view
        return find(part.name) is not None


def _names(records: list[ViewRecord]) -> list[str]:
    return [record.name for record in records]


def _outstanding(record: TransactionRecord, error: Exception) -> TransactionOutstanding:
    message, hint = _told(error)
    return TransactionOutstanding(
        f"The transaction is committed, but could not be applied to all of its tables yet: {message}",
        f"Nothing is lost: whoever next uses one of its tables completes it, and until then they are read as before "
        f"it. Do not run it again. {hint}",
        transaction=record.id,
    )


def _in_doubt(error: Exception) -> TransactionOutstanding:
    message, hint = _told(error)
    return TransactionOutstanding(
        f"Whether the transaction is committed is not known, because the catalog cannot be asked: {message}",
        f"If it is, whoever next uses one of its tables completes it. Look at them before you run it again. {hint}",
    )


def _blocked(record: TransactionRecord, error: Exception) -> TransactionBlocked:
    message, hint = _told(error)
    tables = ", ".join(f"'{part.name}'" for part in record.tables)
    return TransactionBlocked(
        f"An earlier transaction on {tables} is committed, and cannot be completed yet: {message}",
        f"Nothing was written now. {hint}",
        transaction=record.id,
    )


def _told(error: Exception) -> tuple[str, str]:
    return (error.message, error.hint) if isinstance(error, MonusError) else (spark_message(error), "")

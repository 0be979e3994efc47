"""Refresh, propagate and partial refresh of one view: Figure 3 of Colby et al. on Delta Lake.

The state of a view is INV_C: PAST(log, Q) = (table ∸ ∇pending) ⊎ Δpending. `propagate` moves the log
into the pending change, `partial_refresh` folds the pending change into the table, `refresh` does
both in one commit; without a pending change it is refresh_BL.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from monus.algebra.scalars import Column
from monus.catalog.catalog import Catalog
from monus.catalog.leases import Lease
from monus.catalog.records import RefreshRecord, SourceRecord, Strategy, ViewRecord, key_of
from monus.compiler.materialize import Materializer
from monus.compiler.relations import Leaf
from monus.errors import (
    LeaseLost,
    MonusError,
    RefreshFailed,
    SourceHistoryLost,
    SourceRecreated,
    SourceSchemaChanged,
    ViewUnusable,
)
from monus.frontend.definition import spark_message
from monus.maintenance.commit_metadata import commit_metadata
from monus.maintenance.derive import Deriver, StoredView, ViewChange
from monus.maintenance.fault_points import FaultPoint, fault_point
from monus.maintenance.fold import (
    Target,
    choose_way,
    consolidated_change,
    fold,
    in_few_files,
    signed,
    stored_and_pending,
)
from monus.maintenance.layout import BATCH, OWN_TABLE, WEIGHT, pending_path
from monus.maintenance.lease import held_lease
from monus.maintenance.operation import Board, Operation, Running
from monus.maintenance.planner import ChangeFact, Facts, RefreshPlan, plan_refresh
from monus.maintenance.plans import Plans
from monus.maintenance.protocol import Outcome, commit, prepare
from monus.maintenance.sessions import Jobs, SessionPool
from monus.maintenance.sources import (
    BYTES_PER_ROW,
    NO_CHANGE,
    Source,
    SourceChange,
    TableSource,
    ViewSource,
    check_schema,
    published,
    read_batches,
)
from monus.maintenance.vectors import from_json, is_behind, numbers, to_json
from monus.maintenance.view_plan import ViewPlan
from monus.store.apply import overwrite
from monus.store.delta_table import DeltaTable
from monus.store.log import commits
from monus.store.replace_rows import add, can_retract, read_with_positions

logger = logging.getLogger(__name__)

ATTEMPTS = 3
FROM_VIEW = "What the changed rows join with was read from the view itself."


class Maintainer:
    def __init__(self, spark: SparkSession, catalog: Catalog, plans: Plans) -> None:
        self.spark = spark
        self.catalog = catalog
        self.plans = plans
        self.sessions = SessionPool(spark)
        self._board = Board()

    # -- operations

    def refresh(
        self, name: str, full: bool = False, pinned: Mapping[str, Source] | None = None, wait_seconds: float = 60.0
    ) -> RefreshRecord:
        operation = Operation("refresh", self.catalog.view(name))
        before = operation.record
        opened: dict[str, Source] = {}
        if not full and _is_settled(before):
            opened = self.sources(before, pinned)
            quick = self._nothing_to_do(operation, opened)
            if quick is not None:
                return quick

        def work(lease: Lease) -> RefreshRecord:
            # What was opened before the lease will do, unless another owner has refreshed the view meanwhile.
            is_as_before = operation.record.vector == before.vector and not _has_pending(operation.record)
            return self._refresh(operation, lease, full, opened if opened and is_as_before else pinned)

        return self._guarded(operation, work, wait_seconds)

    def fill(self, name: str, lease: Lease) -> RefreshRecord:
        """The first refresh of a view, by whoever creates it and holds its lease."""
        operation = Operation("refresh", self.catalog.view(name))
        return self._attempt(operation, lease, lambda lease: self._refresh(operation, lease, False, None))

    def propagate(self, name: str) -> RefreshRecord:
        operation = Operation("propagate", self.catalog.view(name))
        return self._guarded(operation, lambda lease: self._propagate(operation, lease))

    def partial_refresh(self, name: str) -> RefreshRecord:
        operation = Operation("partial_refresh", self.catalog.view(name))
        return self._guarded(operation, lambda lease: self._partial_refresh(operation, lease))

    def plan(self, name: str, full: bool = False) -> RefreshPlan:
        """What `refresh` would do, without doing it."""
        record = self.catalog.view(name)
        if not record.usable and not full:
            raise unusable(record)
        sources = self.sources(record)
        plan = self.plans.of(record, sources)
        changes, lost = self._changes(record, plan, sources, record.pending_vector)
        return plan_refresh(self._facts(record, plan, sources, changes, lost, full))

    def cancel(self, name: str) -> bool:
        """Stop the operation that runs on the view in this process; its old state stays."""
        return self._board.cancel(name)

    def sources(self, record: ViewRecord, pinned: Mapping[str, Source] | None = None) -> dict[str, Source]:
        """The sources at their present states, or at those that were pinned before."""
        found: dict[str, Source] = {}
        vector, used = from_json(record.vector), record.definition.get("reads", {})
        reached = from_json(record.pending_vector)
        for source in self.catalog.sources(record.name):
            known = None if pinned is None else pinned.get(source.name)
            if known is None or is_behind(known.state, reached.get(source.name)):
                known = self.open_source(source)  # another process has been quicker: never back to what was pinned
            found[source.name] = known
        for name, opened in found.items():
            if opened.state != vector.get(name):  # where no version is new, no column is
                check_schema(opened, used.get(key_of(name), {}), record.name)
        return found

    def open_source(self, source: SourceRecord) -> Source:
        if source.kind == "view":
            return ViewSource(self.catalog.view(source.name), self.spark, self.catalog)
        return TableSource(self.catalog.table(source.name), self.spark)

    # -- refresh

    def _nothing_to_do(self, operation: Operation, sources: Mapping[str, Source]) -> RefreshRecord | None:
        """The path that matters most: no source has a new version. No lease, no session, no job."""
        record = operation.record
        if record.definition.get("may_change"):
            return None  # it reads the clock, or what no version tells about
        vector = from_json(record.vector)
        if {name: source.state for name, source in sources.items()} != vector:
            return None
        if self.catalog.outstanding_intent(record.name) is not None:
            return None
        if DeltaTable(self.spark, record.location).version() != record.version:
            return None  # somebody wrote to the view's table: under the lease it is seen what
        found = operation.describe("none", "NO_CHANGE", "No source has changed.", (numbers(vector), numbers(vector)))
        self.catalog.record_refresh(found)
        return found

    def _refresh(
        self, operation: Operation, lease: Lease, full: bool, pinned: Mapping[str, Source] | None
    ) -> RefreshRecord:
        record = operation.record
        if not record.usable and not full:
            raise unusable(record)
        sources = self.sources(record, pinned)
        plan = self.plans.of(record, sources)
        changes, lost = self._changes(record, plan, sources, record.pending_vector)
        decision = plan_refresh(self._facts(record, plan, sources, changes, lost, full))
        if decision.kind in ("none", "vector"):
            return self._move_vector(operation, lease, sources, decision)
        with self._running_jobs(operation) as (session, jobs):
            if decision.kind == "full":
                return self._full(operation, lease, plan, sources, decision, session, jobs)
            return self._incremental(operation, lease, plan, sources, changes, decision, session, jobs)

    def _changes(
        self, record: ViewRecord, plan: ViewPlan, sources: Mapping[str, Source], since: Mapping[str, Any]
    ) -> tuple[dict[str, SourceChange], MonusError | None]:
        vector = from_json(since)
        changes: dict[str, SourceChange] = {}
        for name, source in sources.items():
            if name not in vector:
                changes[name] = NO_CHANGE
                continue
            try:
                changes[name] = source.change_since(vector[name])
            except (SourceHistoryLost, SourceRecreated, SourceSchemaChanged) as error:
                return changes, error  # a column that the view reads is still the same: `sources` has looked
        return changes, None

    def _facts(
        self,
        record: ViewRecord,
        plan: ViewPlan,
        sources: Mapping[str, Source],
        changes: Mapping[str, SourceChange],
        lost: MonusError | None,
        full: bool,
    ) -> Facts:
        return Facts(
            record.name,
            record.mode,
            full,
            record.batch > 0,
            _has_pending(record),
            plan.reasons,
            from_json(record.vector),
            {name: source.state for name, source in sources.items()},
            tuple(ChangeFact(name, change.kind, change.rows) for name, change in changes.items()),
            lost,
            plan.may_change,
        )

    def _move_vector(
        self, operation: Operation, lease: Lease, sources: Mapping[str, Source], decision: RefreshPlan
    ) -> RefreshRecord:
        target = to_json({name: source.state for name, source in sources.items()})
        found = operation.describe(
            "none", decision.code, decision.reason, (decision.from_versions, decision.to_versions)
        )
        self.catalog.publish_vector_only(lease, vector=target, pending_vector=target, refresh=found)
        return found

    def _incremental(
        self,
        operation: Operation,
        lease: Lease,
        plan: ViewPlan,
        sources: Mapping[str, Source],
        changes: Mapping[str, SourceChange],
        decision: RefreshPlan,
        session: SparkSession,
        jobs: Jobs,
    ) -> RefreshRecord:
        record = operation.record
        materializer = Materializer(session, on_run=lambda _: jobs.check())
        try:
            target = self._target(record, plan, session)
            pending = self._pending(record, session)
            deriver = Deriver(session, plan, sources, materializer)
            derived = deriver.change(changes, self._view(target, pending, materializer, folds=True))
            operation.rows_read.update(deriver.rows_read)
            whole = derived
            if pending is not None:
                union = derived.data.unionByName(pending)
                whole = consolidated_change(union, target.columns, materializer)
            elif derived.from_view and derived.places is None:
                whole = consolidated_change(derived.data, target.columns, materializer)
            state = to_json({name: source.state for name, source in sources.items()})
            vectors = (decision.from_versions, decision.to_versions)
            if whole.is_empty and derived.is_empty and pending is None:
                reason = "What changed does not change the view."
                found = operation.describe("none", "NO_EFFECT", reason, vectors, jobs=jobs.count())
                self.catalog.publish_vector_only(lease, vector=state, pending_vector=state, refresh=found)
                return found
            code, reason = decision.code, decision.reason
            if derived.regrouped:
                code, reason = "REGROUPED", "Affected groups were computed from the tables, the others were left alone."
            if derived.from_view:
                code, reason = "FROM_VIEW", FROM_VIEW
            return self._fold(
                operation, lease, target, derived, whole, state, (code, reason), vectors, jobs, materializer
            )
        finally:
            materializer.release()

    def _fold(
        self,
        operation: Operation,
        lease: Lease,
        target: Target,
        derived: ViewChange,
        whole: ViewChange,
        state: Mapping[str, Any],
        why: tuple[str, str],
        vectors: tuple[Mapping[str, int], Mapping[str, int]],
        jobs: Jobs,
        materializer: Materializer,
    ) -> RefreshRecord:
        """One commit; the batch goes first, for the views that read this one."""
        record = operation.record
        is_read = bool(self.catalog.dependants(record.name))
        takes_vectors = not whole.is_empty and can_retract(target.table, target.snapshot)
        way = choose_way(whole, target.snapshot.size_in_bytes, _rows(target), takes_vectors)
        outcome = Outcome(state, state, folds=True, has_batch=is_read)
        strategy: Strategy = way
        done: list[RefreshRecord] = []

        def write(number: Any) -> int | None:
            jobs.check()
            if is_read and not derived.is_empty:
                self._append_batch(record, derived, number.version, target.table.spark)
                operation.commits += 1
            has_rows = is_read and not derived.is_empty
            metadata = commit_metadata(
                self.catalog, record, state, number.version, operation.name, is_read, has_rows, is_full=False
            )
            operation.commits += 1
            if way == "none":
                return add(target.table, target.snapshot, None, number, metadata)
            return fold(way, target, whole, materializer, number, metadata)

        def describe(number: int) -> RefreshRecord:
            change = (whole.inserted, whole.deleted)
            done.append(operation.describe(strategy, *why, vectors, change, jobs.count()))
            return done[0]

        commit(self.catalog, lease, record, target.table, operation.name, outcome, write, describe)
        return done[0]

    # -- full

    def _full(
        self,
        operation: Operation,
        lease: Lease,
        plan: ViewPlan,
        sources: Mapping[str, Source],
        decision: RefreshPlan,
        session: SparkSession,
        jobs: Jobs,
    ) -> RefreshRecord:
        record = operation.record
        session.conf.set("spark.sql.adaptive.enabled", "true")
        materializer = Materializer(session, on_run=lambda _: jobs.check())
        try:
            state = to_json({name: source.state for name, source in sources.items()})
            if plan.query is None:
                plan = replace(plan, frame=self.plans.pinned_frame(session, record, sources))
            data = Deriver(session, plan, sources, materializer).full()
            target = self._target(record, plan, session)
            replaced = target.table.rows(target.snapshot) or 0
            # A view that was grouped when it was made, and now can only be computed in full, loses its stored sums.
            kept = [c.name for c in target.columns if c.name in data.columns]
            is_reshaped = len(kept) < len(target.columns)
            data = data.select(*(F.col(_quoted(name)) for name in kept))
            is_read = bool(self.catalog.dependants(record.name)) and record.batch > 0 and record.usable
            is_read = is_read and not is_reshaped  # rows of two shapes have no difference: readers are computed anew
            difference = None
            if is_read:
                data = materializer.keep(data)
                difference = self._difference(record, target, data, session, materializer)
            vectors = (decision.from_versions, decision.to_versions)
            outcome = Outcome(state, state, folds=True, has_batch=difference is not None, is_full=True)
            done: list[RefreshRecord] = []

            def write(number: Any) -> int | None:
                jobs.check()
                if difference is not None and not difference.is_empty:
                    self._append_batch(record, difference, number.version, session)
                    operation.commits += 1
                operation.commits += 1
                has_rows = difference is not None and not difference.is_empty
                has_batch = difference is not None
                metadata = commit_metadata(
                    self.catalog, record, state, number.version, operation.name, has_batch, has_rows, is_full=True
                )
                return overwrite(
                    target.table, data, number, metadata, replace_schema=is_reshaped or _was_reshaped(target)
                )

            def describe(number: int) -> RefreshRecord:
                change = (_written_rows(target.table), replaced)
                done.append(operation.describe("full", decision.code, decision.reason, vectors, change, jobs.count()))
                return done[0]

            self._accept_new_sources(sources)
            commit(self.catalog, lease, record, target.table, operation.name, outcome, write, describe)
            return done[0]
        finally:
            session.conf.set("spark.sql.adaptive.enabled", "false")
            materializer.release()

    def _difference(
        self, record: ViewRecord, target: Target, new: DataFrame, session: SparkSession, materializer: Materializer
    ) -> ViewChange:
        """The change that a full refresh makes, so that views over this one can go on incrementally."""
        old = self._stored(target, self._pending(record, session), materializer).data
        return consolidated_change(signed(new, 1).unionByName(signed(old, -1)), target.columns, materializer)

    def _accept_new_sources(self, sources: Mapping[str, Source]) -> None:
        """A table that was dropped and made again is the one that the view reads from now on."""
        for source in sources.values():
            if isinstance(source, TableSource) and source.record.table_id != source.snapshot.table_id:
                self.catalog.update_table(replace(source.record, table_id=source.snapshot.table_id))

    # -- propagate and partial refresh

    def _propagate(self, operation: Operation, lease: Lease) -> RefreshRecord:
        record = operation.record
        if not record.usable or record.batch == 0:
            raise unusable(record)
        sources = self.sources(record)
        plan = self.plans.of(record, sources)
        changes, lost = self._changes(record, plan, sources, record.pending_vector)
        before = from_json(record.pending_vector)
        vectors = (numbers(before), numbers({name: s.state for name, s in sources.items()}))
        if lost is not None:
            raise lost
        if plan.reasons:
            reason = plan.reasons[0]
            sentence = f"{reason.operator}: {reason.sentence} Only refresh can bring the view up to date."
            return self._recorded(operation.describe("none", reason.code, sentence, vectors))
        state = to_json({name: source.state for name, source in sources.items()})
        with self._running_jobs(operation) as (session, jobs):
            materializer = Materializer(session, on_run=lambda _: jobs.check())
            try:
                target = self._target(record, plan, session)
                pending = self._pending(record, session)
                deriver = Deriver(session, plan, sources, materializer)
                change = deriver.change(changes, self._view(target, pending, materializer))
                operation.rows_read.update(deriver.rows_read)
                if change.is_empty:
                    found = operation.describe(
                        "none", "NO_EFFECT", "The view does not change.", vectors, jobs=jobs.count()
                    )
                    vector = state if pending is None else record.vector
                    self.catalog.publish_vector_only(lease, vector=vector, pending_vector=state, refresh=found)
                    return found
                outcome = Outcome(record.vector, state, folds=False, has_batch=True)
                done: list[RefreshRecord] = []

                def write(number: Any) -> int | None:
                    jobs.check()
                    operation.commits += 1
                    return self._append_batch(record, change, number.version, session)

                def describe(number: int) -> RefreshRecord:
                    rows = (change.inserted, change.deleted)
                    reason = "The change was added to the pending change."
                    if change.from_view:
                        reason += f" {FROM_VIEW}"
                    done.append(operation.describe("append", "PROPAGATED", reason, vectors, rows, jobs.count()))
                    return done[0]

                commit(self.catalog, lease, record, target.table, operation.name, outcome, write, describe)
                return done[0]
            finally:
                materializer.release()

    def _partial_refresh(self, operation: Operation, lease: Lease) -> RefreshRecord:
        record = operation.record
        if not record.usable or record.batch == 0:
            raise unusable(record)
        vectors = (numbers(from_json(record.vector)), numbers(from_json(record.pending_vector)))
        if not _has_pending(record):
            return self._recorded(operation.describe("none", "NOTHING_PENDING", "Nothing is pending.", vectors))
        plan = self.plans.of(record)
        with self._running_jobs(operation) as (session, jobs):
            materializer = Materializer(session, on_run=lambda _: jobs.check())
            try:
                target = self._target(record, plan, session)
                pending = self._pending(record, session)
                assert pending is not None
                whole = consolidated_change(pending, target.columns, materializer)
                nothing = ViewChange(pending.where("false"), 0, 0)
                why = ("FOLDED", "The pending change was folded into the view's table.")
                return self._fold(
                    operation, lease, target, nothing, whole, record.pending_vector, why, vectors, jobs, materializer
                )
            finally:
                materializer.release()

    # -- shared

    def _guarded(self, operation: Operation, work: Any, wait_seconds: float = 60.0) -> RefreshRecord:
        """Under the lease; an owner that lost it begins again, a few times."""
        for attempt in range(ATTEMPTS):
            with held_lease(self.catalog, self.spark, operation.record.name, wait_seconds) as lease:
                try:
                    return self._attempt(operation, lease, work)
                except LeaseLost:
                    if attempt == ATTEMPTS - 1:
                        raise
                    logger.info("%s: the %s begins again", operation.record.name, operation.name, exc_info=True)
        raise AssertionError("unreachable")

    def _attempt(self, operation: Operation, lease: Lease, work: Any) -> RefreshRecord:
        """After settling what was left; a failure is recorded and leaves the old state."""
        operation.record = prepare(self.catalog, lease, self.spark)
        try:
            found: RefreshRecord = work(lease)
            return found
        except LeaseLost:
            raise
        except BaseException as error:
            self._record_failure(operation, error)
            if isinstance(error, MonusError) or not isinstance(error, Exception):
                raise
            message = spark_message(error)
            raise RefreshFailed(
                f"The {operation.name} of '{operation.record.name}' failed: {message}",
                "The view is as it was before; correct the data or the query.",
                view=operation.record.name,
                spark=message,
            ) from error

    def _record_failure(self, operation: Operation, error: BaseException) -> None:
        code = error.code if isinstance(error, MonusError) else type(error).__name__
        vector = numbers(from_json(operation.record.vector))
        text = str(error).split("\n")[0]
        try:
            self._recorded(operation.describe("none", code, text, (vector, vector), error=text))
        except MonusError:  # the first error is the one to tell
            logger.exception("%s: the failure could not be recorded", operation.record.name)

    def _recorded(self, record: RefreshRecord) -> RefreshRecord:
        self.catalog.record_refresh(record)
        return record

    def _running_jobs(self, operation: Operation) -> Running:
        return Running(self._board, self.sessions, operation)

    def _target(self, record: ViewRecord, plan: ViewPlan, session: SparkSession) -> Target:
        snapshot = published(session, record, seen=True)  # `prepare` has just looked
        columns = tuple(Column(f.name, f.dataType.simpleString()) for f in snapshot.schema.fields)
        return Target(record.name, DeltaTable(session, record.location), snapshot, columns, plan.keys)

    def _view(
        self, target: Target, pending: DataFrame | None, materializer: Materializer, folds: bool = False
    ) -> StoredView:
        read = partial(self._stored, target, pending, materializer)
        is_placed = folds and pending is None and can_retract(target.table, target.snapshot)
        return StoredView(_rows(target), read, partial(_placed, target) if is_placed else read)

    def _stored(self, target: Target, pending: DataFrame | None, materializer: Materializer) -> Leaf:
        """The view's table, with what is pending."""
        rows = stored_and_pending(target, target.table.read_listed(target.snapshot), pending, materializer)
        return Leaf(rows, _rows(target))

    def _pending(self, record: ViewRecord, session: SparkSession) -> DataFrame | None:
        """The rows of the batches that are propagated and not yet folded."""
        if not _has_pending(record):
            return None
        batches = self.catalog.batches(record.name, record.pending_from - 1, record.batch)
        return read_batches(session, record, [batch for batch in batches if batch.has_rows])

    def _append_batch(self, record: ViewRecord, change: ViewChange, number: int, session: SparkSession) -> int | None:
        data = in_few_files(change.data, change)
        table = DeltaTable(session, pending_path(record.location))
        snapshot = table.snapshot_if_any()
        if snapshot is None:
            fields = [StructField(f.name, f.dataType, True) for f in data.schema.fields if f.name != WEIGHT]
            fields += [StructField(WEIGHT, LongType()), StructField(BATCH, LongType())]
            snapshot = table.create(StructType(fields), partition_by=[BATCH], properties=OWN_TABLE)
        rows = data.selectExpr("*", f"{number}L AS {BATCH}")
        version = add(table, snapshot, rows)
        fault_point(FaultPoint.BATCH_APPENDED)
        return version


def unusable(record: ViewRecord) -> ViewUnusable:
    reason = record.unusable_reason
    why = reason.sentence if reason is not None else "It was never filled."
    return ViewUnusable(
        f"The view '{record.name}' cannot be used: {why}",
        f"Compute it anew: REFRESH MATERIALIZED VIEW {record.name} FULL.",
        view=record.name,
    )


def _placed(target: Target) -> Leaf:
    """The view's table, with the place of each row."""
    return Leaf(read_with_positions(target.table, target.snapshot), _rows(target))


def _was_reshaped(target: Target) -> bool:
    """Whether somebody else gave the view's table other columns."""
    now = [(f.name, f.dataType.simpleString()) for f in target.table.snapshot().schema.fields]
    return now != [(c.name, c.type) for c in target.columns]


def _is_settled(record: ViewRecord) -> bool:
    """Whether the view is all that its vector says, so that only the sources can make work."""
    return record.batch > 0 and record.usable and not _has_pending(record)


def _has_pending(record: ViewRecord) -> bool:
    return record.pending_from <= record.batch


def _rows(target: Target) -> float:
    return max(1.0, target.snapshot.size_in_bytes / BYTES_PER_ROW)


def _written_rows(table: DeltaTable) -> int:
    head = table.version()
    adds = [file for commit_ in commits(table, head - 1, head) for file in commit_.adds]
    return sum(file.num_records or 0 for file in adds)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

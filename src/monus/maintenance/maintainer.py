"""Refresh, propagate and partial refresh of one view: Figure 3 of Colby et al. on Delta Lake.

The state of a view is INV_C: PAST(log, Q) = (table ∸ ∇pending) ⊎ Δpending. `propagate` moves the log
into the pending change, `partial_refresh` folds the pending change into the table, `refresh` does
both in one commit; without a pending change it is refresh_BL.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.catalog.leases import Lease
from monus.catalog.records import RefreshRecord, State, ViewRecord, key_of
from monus.compiler.materialize import Materializer
from monus.errors import (
    LeaseLost,
    MonusError,
    RefreshFailed,
    SourceHistoryLost,
    SourceRecreated,
    SourceSchemaChanged,
    StorageUnavailable,
)
from monus.frontend.definition import spark_message
from monus.maintenance.applying import Applying, Vectors, has_pending, unusable
from monus.maintenance.concerned import is_differential, is_immediate, is_lazy
from monus.maintenance.derive import Deriver, ViewChange
from monus.maintenance.fault_points import FaultPoint, fault_point
from monus.maintenance.fold import (
    consolidated_change,
)
from monus.maintenance.lease import held_lease
from monus.maintenance.operation import Board, Operation, Running
from monus.maintenance.pins import Settle
from monus.maintenance.pins import pinned as pin
from monus.maintenance.planner import ChangeFact, Facts, RefreshPlan, plan_refresh
from monus.maintenance.plans import Plans
from monus.maintenance.protocol import prepare
from monus.maintenance.sessions import Jobs, SessionPool
from monus.maintenance.sources import (
    NO_CHANGE,
    Source,
    SourceChange,
    check_schema,
)
from monus.maintenance.vectors import from_json, is_behind, numbers, to_json
from monus.maintenance.view_plan import ViewPlan
from monus.store.delta_table import DeltaTable

logger = logging.getLogger(__name__)

ATTEMPTS = 3
FROM_VIEW = "What the changed rows join with was read from the view itself."


class Maintainer:
    def __init__(self, spark: SparkSession, catalog: Catalog, plans: Plans) -> None:
        self.spark = spark
        self.catalog = catalog
        self.plans = plans
        self.applying = Applying(catalog, plans)
        self.settle: Settle | None = None
        """What is to be done about an outstanding transaction whose process died."""
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
            is_as_before = operation.record.vector == before.vector and not has_pending(operation.record)
            return self._refresh(operation, lease, full, opened if opened and is_as_before else pinned)

        return self._followed(self._guarded(operation, work, wait_seconds))

    def fill(self, name: str, lease: Lease) -> RefreshRecord:
        """The first refresh of a view, by whoever creates it and holds its lease."""
        operation = Operation("refresh", self.catalog.view(name))
        return self._attempt(operation, lease, lambda lease: self._refresh(operation, lease, False, None))

    def propagate(self, name: str) -> RefreshRecord:
        operation = Operation("propagate", self.catalog.view(name))
        return self._guarded(operation, lambda lease: self._propagate(operation, lease))

    def partial_refresh(self, name: str) -> RefreshRecord:
        operation = Operation("partial_refresh", self.catalog.view(name))
        return self._followed(self._guarded(operation, lambda lease: self._partial_refresh(operation, lease)))

    def refresh_held(self, name: str, lease: Lease, sources: Mapping[str, Source]) -> RefreshRecord:
        """`refresh` to these states, by whoever holds the lease."""
        operation = Operation("refresh", self.catalog.view(name))
        return self._attempt(operation, lease, lambda lease: self._refresh(operation, lease, False, sources))

    def propagate_held(self, name: str, lease: Lease, sources: Mapping[str, Source]) -> RefreshRecord:
        """`propagate` up to these states, by whoever holds the lease."""
        operation = Operation("propagate", self.catalog.view(name))
        return self._attempt(operation, lease, lambda lease: self._propagate(operation, lease, sources))

    def _followed(self, done: RefreshRecord) -> RefreshRecord:
        """What reads a deferred view and is kept up to date follows it: there is no transaction to be part of."""
        for name in self.catalog.dependants(done.view) if done.strategy != "none" else []:
            try:
                record = self.catalog.view(name)
                if is_differential(record):
                    self.propagate(name)
                elif is_immediate(record):
                    self.refresh(name)
            except MonusError:  # it is in the history of that view; whoever reads it next tries again
                logger.exception("%s could not follow %s", name, done.view)
        return done

    def plan(self, name: str, full: bool = False) -> RefreshPlan:
        """What `refresh` would do, without doing it."""
        record = self.catalog.view(name)
        if not record.usable and not full:
            raise unusable(record)
        sources = self.sources(record)
        plan = self.plans.of(record, sources)
        changes, lost = self._changes(record, plan, sources, record.pending_vector)
        return plan_refresh(self._facts(record, plan, sources, changes, lost, full))

    def jobs_of_others(self, thread: int) -> int:
        """How many jobs run in this Spark that no operation of this thread has started."""
        tracker = self.spark.sparkContext.statusTracker()
        ours = [jobs.group for jobs in list(self._board.running.values()) if jobs.thread == thread]
        known = {number for group in ours for number in tracker.getJobIdsForGroup(group)}
        return len(set(tracker.getActiveJobsIds()) - known)

    def cancel(self, name: str, thread: int | None = None) -> bool:
        """Stop the operation that runs on the view in this process, or in this thread; its old state stays."""
        return self._board.cancel(name, thread)

    def sources(self, record: ViewRecord, pinned: Mapping[str, Source] | None = None) -> dict[str, Source]:
        """The sources at their present states, or at those that were pinned before."""
        found: dict[str, Source] = {}
        vector, used = from_json(record.vector), record.definition.get("reads", {})
        reached = from_json(record.pending_vector)
        wanted = self.catalog.sources(record.name)
        for source in wanted:
            known = None if pinned is None else pinned.get(source.name)
            # Another process may have been quicker: never back to what was pinned.
            if known is not None and not is_behind(known.state, reached.get(source.name)):
                found[source.name] = known
        found |= pin(self.spark, self.catalog, [s for s in wanted if s.name not in found], self.settle)
        found = {source.name: found[source.name] for source in wanted}
        for name, opened in found.items():
            if opened.state != vector.get(name):  # where no version is new, no column is
                check_schema(opened, used.get(key_of(name), {}), record.name)
        return found

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
        if is_lazy(record) and self.catalog.tasks(record.name):
            self.catalog.forget_tasks(record.name)
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
        if decision.kind == "incremental" and all(change.is_empty for change in changes.values()):
            state = to_json({name: source.state for name, source in sources.items()})
            vectors = (decision.from_versions, decision.to_versions)
            return self._fold_pending(operation, lease, plan, state, vectors)
        with self.running_jobs(operation) as (session, jobs):
            if decision.kind == "full":
                return self.applying.full(operation, lease, plan, sources, decision, session, jobs)
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
            has_pending(record),
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
        fault_point(FaultPoint.VECTOR_PUBLISHED)
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
            target = self.applying.target(record, plan, session)
            pending = self.applying.pending(record, session)
            deriver = Deriver(session, plan, sources, materializer)
            derived = deriver.change(changes, self.applying.view(target, pending, materializer, folds=True))
            operation.rows_read.update(deriver.rows_read)
            whole = self.applying.whole(derived, pending, target, materializer)
            state = to_json({name: source.state for name, source in sources.items()})
            vectors = (decision.from_versions, decision.to_versions)
            if whole.is_empty and derived.is_empty and pending is None:
                reason = "What changed does not change the view."
                found = operation.describe("none", "NO_EFFECT", reason, vectors, jobs=jobs.count())
                self.catalog.publish_vector_only(lease, vector=state, pending_vector=state, refresh=found)
                fault_point(FaultPoint.VECTOR_PUBLISHED)
                return found
            code, reason = decision.code, decision.reason
            if derived.regrouped:
                code, reason = "REGROUPED", "Affected groups were computed from the tables, the others were left alone."
            if derived.from_view:
                code, reason = "FROM_VIEW", FROM_VIEW
            return self.applying.fold(
                operation, lease, target, derived, whole, state, (code, reason), vectors, jobs, materializer
            )
        finally:
            materializer.release()

    # -- propagate and partial refresh

    def _propagate(
        self, operation: Operation, lease: Lease, pinned: Mapping[str, Source] | None = None
    ) -> RefreshRecord:
        record = operation.record
        if not record.usable or record.batch == 0:
            raise unusable(record)
        sources = self.sources(record, pinned)
        plan = self.plans.of(record, sources)
        changes, lost = self._changes(record, plan, sources, record.pending_vector)
        before = from_json(record.pending_vector)
        vectors = (numbers(before), numbers({name: s.state for name, s in sources.items()}))
        if lost is not None:
            raise lost
        if before == {name: s.state for name, s in sources.items()} and not record.definition.get("may_change"):
            return operation.describe("none", "NO_CHANGE", "No source has changed.", vectors)
        if plan.reasons:
            reason = plan.reasons[0]
            sentence = f"{reason.operator}: {reason.sentence} Only refresh can bring the view up to date."
            return self._recorded(operation.describe("none", reason.code, sentence, vectors))
        state = to_json({name: source.state for name, source in sources.items()})
        with self.running_jobs(operation) as (session, jobs):
            materializer = Materializer(session, on_run=lambda _: jobs.check())
            try:
                target = self.applying.target(record, plan, session)
                pending = self.applying.pending(record, session)
                deriver = Deriver(session, plan, sources, materializer)
                change = deriver.change(changes, self.applying.view(target, pending, materializer))
                operation.rows_read.update(deriver.rows_read)
                if change.is_empty:
                    found = operation.describe(
                        "none", "NO_EFFECT", "The view does not change.", vectors, jobs=jobs.count()
                    )
                    vector = state if pending is None else record.vector
                    self.catalog.publish_vector_only(lease, vector=vector, pending_vector=state, refresh=found)
                    fault_point(FaultPoint.VECTOR_PUBLISHED)
                    return found
                reason = "The change was added to the pending change."
                if change.from_view:
                    reason += f" {FROM_VIEW}"
                return self.applying.keep(operation, lease, target, change, state, reason, vectors, jobs)
            finally:
                materializer.release()

    def _partial_refresh(self, operation: Operation, lease: Lease) -> RefreshRecord:
        record = operation.record
        if not record.usable or record.batch == 0:
            raise unusable(record)
        vectors = (numbers(from_json(record.vector)), numbers(from_json(record.pending_vector)))
        if not has_pending(record):
            return self._recorded(operation.describe("none", "NOTHING_PENDING", "Nothing is pending.", vectors))
        return self._fold_pending(operation, lease, self.plans.of(record), record.pending_vector, vectors)

    def _fold_pending(
        self, operation: Operation, lease: Lease, plan: ViewPlan, state: State, vectors: Vectors
    ) -> RefreshRecord:
        """refresh_DT: nothing is computed, what is pending is applied; `state` is the one that it leads to."""
        with self.running_jobs(operation) as (session, jobs):
            materializer = Materializer(session, on_run=lambda _: jobs.check())
            try:
                target = self.applying.target(operation.record, plan, session)
                pending = self.applying.pending(operation.record, session)
                assert pending is not None
                whole = consolidated_change(pending, target.columns, materializer)
                nothing = ViewChange(pending.where("false"), 0, 0)
                why = ("FOLDED", "The pending change was folded into the view's table.")
                return self.applying.fold(
                    operation, lease, target, nothing, whole, state, why, vectors, jobs, materializer
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
            if isinstance(error, StorageUnavailable):
                raise error.while_doing(f"The {operation.name} of '{operation.record.name}'") from error
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

    def running_jobs(self, operation: Operation) -> Running:
        return Running(self._board, self.sessions, operation)


def _is_settled(record: ViewRecord) -> bool:
    """Whether the view is all that its vector says, so that only the sources can make work."""
    return record.batch > 0 and record.usable and not has_pending(record)

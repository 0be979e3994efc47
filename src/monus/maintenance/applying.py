"""How what was derived gets to where the view is kept: its table, or the pending change beside it.

Each of these is one operation of the protocol: intent, at most one batch, at most one commit, publication.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from monus.algebra.scalars import Column
from monus.catalog.catalog import Catalog
from monus.catalog.leases import Lease
from monus.catalog.records import RefreshRecord, State, Strategy, ViewRecord
from monus.compiler.materialize import Materializer
from monus.compiler.relations import Leaf
from monus.errors import ViewUnusable
from monus.frontend.jvm import quoted
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
from monus.maintenance.operation import Operation
from monus.maintenance.planner import RefreshPlan
from monus.maintenance.plans import Plans
from monus.maintenance.protocol import Outcome, commit
from monus.maintenance.sessions import Jobs
from monus.maintenance.sources import BYTES_PER_ROW, Source, TableSource, published, read_batches
from monus.maintenance.vectors import to_json
from monus.maintenance.view_plan import ViewPlan
from monus.store.apply import overwrite
from monus.store.delta_table import DeltaTable
from monus.store.log import commits
from monus.store.replace_rows import add, can_retract, read_with_positions

NETS_TO_NOTHING = "What changed, together with what was pending, does not change the view."
Vectors = tuple[Mapping[str, int], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Applying:
    catalog: Catalog
    plans: Plans

    # -- what is stored

    def target(self, record: ViewRecord, plan: ViewPlan, session: SparkSession) -> Target:
        snapshot = published(session, record, seen=True)  # `prepare` has just looked
        columns = tuple(Column(f.name, f.dataType.simpleString()) for f in snapshot.schema.fields)
        return Target(record.name, DeltaTable(session, record.location), snapshot, columns, plan.keys)

    def view(
        self, target: Target, pending: DataFrame | None, materializer: Materializer, folds: bool = False
    ) -> StoredView:
        read = partial(self.stored, target, pending, materializer)
        is_placed = folds and pending is None and can_retract(target.table, target.snapshot)
        return StoredView(_rows(target), read, partial(_placed, target) if is_placed else read)

    def stored(self, target: Target, pending: DataFrame | None, materializer: Materializer) -> Leaf:
        """The view's table, with what is pending."""
        rows = stored_and_pending(target, target.table.read_listed(target.snapshot), pending, materializer)
        return Leaf(rows, _rows(target))

    def pending(self, record: ViewRecord, session: SparkSession) -> DataFrame | None:
        """The rows of the batches that are propagated and not yet folded."""
        if not has_pending(record):
            return None
        batches = self.catalog.batches(record.name, record.pending_from - 1, record.batch)
        return read_batches(session, record, [batch for batch in batches if batch.has_rows])

    def whole(
        self, derived: ViewChange, pending: DataFrame | None, target: Target, materializer: Materializer
    ) -> ViewChange:
        """What is to be folded into the table: the change, after what is pending."""
        if pending is not None:
            return consolidated_change(derived.data.unionByName(pending), target.columns, materializer)
        if derived.from_view and derived.places is None:
            return consolidated_change(derived.data, target.columns, materializer)
        return derived

    # -- operations

    def fold(
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
        if whole.is_empty and (derived.is_empty or not is_read):
            nothing = operation.describe("none", "NO_EFFECT", NETS_TO_NOTHING, vectors, jobs=jobs.count())
            self.catalog.publish_vector_only(lease, vector=state, pending_vector=state, refresh=nothing, folds=True)
            fault_point(FaultPoint.VECTOR_PUBLISHED)
            return nothing
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

    def keep(
        self,
        operation: Operation,
        lease: Lease,
        target: Target,
        change: ViewChange,
        state: State,
        reason: str,
        vectors: Vectors,
        jobs: Jobs,
    ) -> RefreshRecord:
        """Propagate's part: the change is added to the pending change, and the table is left alone."""
        record = operation.record
        outcome = Outcome(record.vector, state, folds=False, has_batch=True)
        done: list[RefreshRecord] = []

        def write(number: Any) -> int | None:
            jobs.check()
            operation.commits += 1
            return self._append_batch(record, change, number.version, target.table.spark)

        def describe(number: int) -> RefreshRecord:
            rows = (change.inserted, change.deleted)
            done.append(operation.describe("append", "PROPAGATED", reason, vectors, rows, jobs.count()))
            return done[0]

        commit(self.catalog, lease, record, target.table, operation.name, outcome, write, describe)
        return done[0]

    def full(
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
            target = self.target(record, plan, session)
            replaced = target.table.rows(target.snapshot) or 0
            # A view that was grouped when it was made, and now can only be computed in full, loses its stored sums.
            kept = [c.name for c in target.columns if c.name in data.columns]
            is_reshaped = len(kept) < len(target.columns)
            data = data.select(*(F.col(quoted(name)) for name in kept))
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
        old = self.stored(target, self.pending(record, session), materializer).data
        return consolidated_change(signed(new, 1).unionByName(signed(old, -1)), target.columns, materializer)

    def _accept_new_sources(self, sources: Mapping[str, Source]) -> None:
        """A table that was dropped and made again is the one that the view reads from now on."""
        for source in sources.values():
            if isinstance(source, TableSource) and source.record.table_id != source.snapshot.table_id:
                self.catalog.update_table(replace(source.record, table_id=source.snapshot.table_id))

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


def has_pending(record: ViewRecord) -> bool:
    return record.pending_from <= record.batch


def _placed(target: Target) -> Leaf:
    """The view's table, with the place of each row."""
    return Leaf(read_with_positions(target.table, target.snapshot), _rows(target))


def _was_reshaped(target: Target) -> bool:
    """Whether somebody else gave the view's table other columns."""
    now = [(f.name, f.dataType.simpleString()) for f in target.table.snapshot().schema.fields]
    return now != [(c.name, c.type) for c in target.columns]


def _rows(target: Target) -> float:
    return max(1.0, target.snapshot.size_in_bytes / BYTES_PER_ROW)


def _written_rows(table: DeltaTable) -> int:
    head = table.version()
    adds = [file for commit_ in commits(table, head - 1, head) for file in commit_.adds]
    return sum(file.num_records or 0 for file in adds)

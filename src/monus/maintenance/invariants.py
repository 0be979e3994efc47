"""`verify`: Figure 1 of Colby et al. as code. The invariant that a view is under, recomputed from its sources.

*Now* is as far as transactions of this warehouse have led: what others have written since is found when the view is
next read or refreshed, and is in the log until then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from monus.algebra.relations import WEIGHT, Aggregate, Measure
from monus.algebra.scalars import Column
from monus.analysis.shape import exposed
from monus.catalog.records import ViewRecord
from monus.compiler.materialize import Materializer
from monus.compiler.relations import Compiler, Leaf
from monus.compiler.state_columns import SCALE
from monus.frontend.definition import Definition
from monus.frontend.jvm import frame_of, quoted
from monus.maintenance.applying import has_pending, unusable
from monus.maintenance.fold import consolidated_change, signed
from monus.maintenance.maintainer import Maintainer
from monus.maintenance.sources import Source, TableSource, published, visible_rows
from monus.maintenance.vectors import SourceState, TableState, Vector, from_json
from monus.maintenance.verify import Check, Scale, Verification, check, copies
from monus.maintenance.view_plan import ViewPlan
from monus.sql.policy import Every, Immediate, Lazy, OnDemand, OnQuery, Policy, parse_policy
from monus.store.delta_table import DeltaTable


@dataclass(slots=True)
class PastSource:
    """A source as it was at the view's vector."""

    source: Source
    state: SourceState

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def schema(self) -> StructType:
        return self.source.schema

    def read(self, spark: SparkSession) -> DataFrame:
        return self.source.read_at(spark, self.state)


@dataclass(slots=True)
class _Stored:
    """What is stored of a view, and its query at any state of its sources."""

    maintainer: Maintainer
    record: ViewRecord
    session: SparkSession
    sources: dict[str, Source]
    materializer: Materializer

    def table(self) -> DataFrame:
        """MV."""
        return visible_rows(self.session, self.record)

    def merged(self) -> DataFrame:
        """(MV ∸ ∇MV) ⊎ ΔMV."""
        pending = self._pending()
        if pending is None:
            return self.table()
        names = [F.col(quoted(c.name)) for c in self.record.columns]
        columns = tuple(Column(c.name, c.type) for c in self.record.columns)
        whole = signed(self.table(), 1).unionByName(pending.select(*names, F.col(WEIGHT)))
        found = consolidated_change(whole, columns, self.materializer).data.where(F.col(WEIGHT) > 0)
        return copies(found, names, F.col(WEIGHT))

    def query(self, state: Vector) -> DataFrame:
        """Q, computed by Spark alone from its text: nothing of the derivation is trusted."""
        past = {n: PastSource(source, state[n]) for n, source in self.sources.items()}
        return self.maintainer.plans.pinned_frame(self.session, self.record, past)

    def holds(self, name: str, stored: DataFrame, state: Vector) -> Check:
        past = {n: PastSource(source, state[n]) for n, source in self.sources.items()}
        scale = _scale(self.maintainer.plans.of(self.record, self.sources), past, self.session)
        return check(name, stored, self.query(state), scale)

    def pending_is_within(self) -> Check:
        """∇MV ⊆ MV, on all columns, those that do not show too."""
        table = DeltaTable(self.session, self.record.location)
        snapshot = published(self.session, self.record)
        pending = self._pending()
        return _within("∇MV ⊆ MV", table.read(snapshot), pending, -1, self.materializer)

    def log_is_within(self, since: Vector) -> list[Check]:
        """▲R ⊆ R, for every source that has changed."""
        found = []
        for name, source in self.sources.items():
            change = source.change_since(since[name])
            if not change.is_empty:
                rows = source.read_change(self.session, change)
                found.append(_within(f"▲R ⊆ R of {name}", source.read(self.session), rows, 1, self.materializer))
        return found

    def known(self, since: Vector) -> dict[str, SourceState]:
        """The newest state that transactions of this warehouse have led to; others may have written since."""
        found = dict(since)
        for name, source in self.sources.items():
            state = since[name]
            if isinstance(source, TableSource) and isinstance(state, TableState):
                made = [
                    part.reached or 0
                    for record in self.maintainer.catalog.transactions(name, 1)
                    for part in record.tables
                    if part.name == name and part.before.get("id") == state.id and not record.is_outstanding
                ]
                found[name] = TableState(state.id, max([state.version, *made]))
        return found

    def _pending(self) -> DataFrame | None:
        return self.maintainer.applying.pending(self.record, self.session)


def inv_im(stored: _Stored) -> list[Check]:
    """Q ≡ MV."""
    return [stored.holds("INV_IM", stored.table(), stored.known(from_json(stored.record.vector)))]


def inv_bl(stored: _Stored) -> list[Check]:
    """PAST(L, Q) ≡ MV, and ▲R ⊆ R."""
    vector = from_json(stored.record.vector)
    return [stored.holds("INV_BL", stored.table(), vector), *stored.log_is_within(vector)]


def inv_dt(stored: _Stored) -> list[Check]:
    """Q ≡ (MV ∸ ∇MV) ⊎ ΔMV, and ∇MV ⊆ MV."""
    state = stored.known(from_json(stored.record.pending_vector))
    return [stored.holds("INV_DT", stored.merged(), state), stored.pending_is_within()]


def inv_c(stored: _Stored) -> list[Check]:
    """PAST(L, Q) ≡ (MV ∸ ∇MV) ⊎ ΔMV, and ∇MV ⊆ MV, and ▲R ⊆ R."""
    vector = from_json(stored.record.pending_vector)
    merged = stored.holds("INV_C", stored.merged(), vector)
    return [merged, stored.pending_is_within(), *stored.log_is_within(vector)]


def invariant_of(policy: Policy) -> Callable[[_Stored], list[Check]]:
    """The invariant that a view is under, by Figure 1."""
    match policy:
        case Immediate():
            return inv_im
        case OnDemand("LOG") | OnQuery(partial=False) | Lazy():
            return inv_bl
        case OnDemand("DIFFERENTIAL"):
            return inv_dt
        case OnDemand() | OnQuery() | Every():
            return inv_c
        case _:
            assert_never(policy)


def verify_view(maintainer: Maintainer, name: str) -> Verification:
    """The view's invariant, and the guarantee that is under each: the table equals the query at the view's vector."""
    record = maintainer.catalog.view(name)
    if record.batch == 0:
        raise unusable(record)
    sources = maintainer.sources(record)
    definition = Definition.from_json(record.definition)
    invariant = invariant_of(parse_policy(record.policy))
    with maintainer.sessions.session({**definition.settings, "spark.sql.adaptive.enabled": "true"}) as session:
        materializer = Materializer(session)
        stored = _Stored(maintainer, record, session, sources, materializer)
        try:
            checks = invariant(stored)
            if invariant is not inv_bl and (has_pending(record) or record.vector != record.pending_vector):
                checks.append(stored.holds("MV ≡ Q at its vector", stored.table(), from_json(record.vector)))
        finally:
            materializer.release()  # rows that differ are computed again for whoever looks at them
    wrong = next((each for each in checks if not each.ok), checks[0])
    return Verification(
        record.name, all(each.ok for each in checks), wrong.missing, wrong.extra, record.vector,
        invariant.__name__.upper(), tuple(checks),
    )  # fmt: skip


def _within(name: str, rows: DataFrame, change: DataFrame | None, side: int, materializer: Materializer) -> Check:
    """Whether what the change has on one side (−1: ∇, 1: Δ) is among the rows, as often as it says."""
    columns = tuple(Column(f.name, f.dataType.simpleString()) for f in rows.schema.fields)
    names = [F.col(quoted(c.name)) for c in columns]
    nothing = rows.where("false")
    if change is None:
        return Check(name, True, nothing, nothing)
    part = consolidated_change(change.select(*names, F.col(WEIGHT)), columns, materializer).data
    wanted = part.where(F.col(WEIGHT) * side > 0).select(*names, (-F.abs(F.col(WEIGHT))).alias(WEIGHT))
    left = consolidated_change(signed(rows, 1).unionByName(wanted), columns, materializer).data
    missing = copies(left.where(F.col(WEIGHT) < 0), names, -F.col(WEIGHT))
    return Check(name, missing.isEmpty(), missing, nothing)


def _scale(plan: ViewPlan, past: Mapping[str, PastSource], session: SparkSession) -> Scale | None:
    """The largest absolute input of every group, where floating-point measures are grouped by visible keys."""
    shape = plan.shape
    if shape is None:
        return None
    shown = exposed(shape)
    floats = [m for m in shape.aggregate.measures if m.type in ("float", "double") and m.args]
    if not floats or any(key.name not in shown for key in shape.aggregate.keys):
        return None
    scales = tuple(Measure(f"__scale{i}", SCALE, m.args[:1], "double", filter=m.filter) for i, m in enumerate(floats))
    aggregate = Aggregate(shape.aggregate.keys, scales, shape.aggregate.child)

    def table(name: str) -> Leaf:
        constant = plan.constants.get(name)
        return Leaf(past[name].read(session) if constant is None else frame_of(session, constant), 1.0)

    frame = Compiler(session, table, table, Materializer(session)).compile(aggregate)
    columns = [frame.column(s.name) for s in scales]
    largest = columns[0] if len(columns) == 1 else F.greatest(*columns)
    keys = [key.name for key in shape.aggregate.keys]
    data = frame.data.select(*(frame.column(key) for key in keys), largest)
    return Scale(tuple(shown[key] for key in keys), data)

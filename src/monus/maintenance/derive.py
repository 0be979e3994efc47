"""The change of a view from the changes of its sources, computed in the post-update state.

Figure 3 of Colby et al., refresh_BL: the log is the changes of the sources since the view's vector,
and what is stored is the view at that vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.algebra.relations import Relation, is_empty
from monus.compiler.frames import Frame, exported, fresh, renamed
from monus.compiler.groups import NEW, OLD, GroupCompiler
from monus.compiler.materialize import Materializer
from monus.compiler.multiplicity import consolidated, expanded
from monus.compiler.relations import Compiler, Leaf
from monus.delta.group_state import above_stored, regroup_query
from monus.delta.signed import differentiate
from monus.frontend.jvm import frame_of
from monus.maintenance.from_view import FromView, change_from_view
from monus.maintenance.layout import WEIGHT
from monus.maintenance.plans import same_path
from monus.maintenance.sources import Source, SourceChange
from monus.maintenance.view_plan import ViewPlan
from monus.rewrite.order_joins import order_joins
from monus.rewrite.push_restriction import push_restriction

ONE_TASK_ROWS = 20_000
JOINED_AGAIN_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class ViewChange:
    """A consolidated change of a view's table, all its columns and `__w`; rows are known.

    For a grouped view every affected group has at most one row of weight −1 and one of weight 1. A change that was
    read from the view (`from_view`) has equal rows apart; `places` tells where those that leave are in its table.
    """

    data: DataFrame
    inserted: int
    deleted: int
    regrouped: bool = False
    from_view: bool = False
    places: DataFrame | None = None

    @property
    def is_empty(self) -> bool:
        return self.inserted == 0 and self.deleted == 0


@dataclass(frozen=True, slots=True)
class StoredView:
    """The view as it is stored, with what is pending: about how many rows it has, and how to read them.

    `read_placed` gives each row with its place in the table, where that is to be had.
    """

    rows: float
    read: Callable[[], Leaf]
    read_placed: Callable[[], Leaf]


def optimize(relation: Relation) -> Relation:
    return order_joins(push_restriction(relation))


@dataclass(slots=True)
class Deriver:
    """One derivation: a session, the view's plan, and its sources at their pinned states."""

    spark: SparkSession
    plan: ViewPlan
    sources: Mapping[str, Source]
    materializer: Materializer

    def full(self) -> DataFrame:
        """The rows of the view's table, computed from the sources."""
        if self.plan.query is None:
            return self.plan.frame
        frame = self._compiler({}).compile(self.plan.stored())
        return exported(expanded(frame))

    def change(self, changes: Mapping[str, SourceChange], stored: StoredView) -> ViewChange:
        """What the changes of the sources do to the view, which they are to be applied to."""
        held = {name: leaf for name, leaf in self._held(changes).items() if leaf.rows > 0}
        if not held:
            return ViewChange(stored.read().data.where("false").withColumn(WEIGHT, F.lit(1).cast("bigint")), 0, 0)
        compiler = self._compiler(held)
        changed = frozenset(held)
        if self.plan.shape is None or self.plan.layout is None:
            assert self.plan.query is not None
            found = change_from_view(compiler, self.plan.query, changed, stored.rows, stored.read_placed)
            if found is not None:
                return self._from_view(found)
            return self._bag(compiler, optimize(differentiate(self.plan.query, changed)))
        return self._groups(compiler, changed, stored.read())

    @property
    def rows_read(self) -> dict[str, int]:
        """How many rows of each source were read, those of its change included."""
        scanned = self.materializer.scanned
        return {
            name: sum(n for path, n in scanned.items() if same_path(path, source.record.location))
            for name, source in self.sources.items()
        }

    def _held(self, changes: Mapping[str, SourceChange]) -> dict[str, Leaf]:
        """The logs: only the columns that the view reads, consolidated, so that what cancels is gone."""
        held = {}
        for name, change in changes.items():
            if change.is_empty:
                continue
            source = self.sources[name]
            schema = self.plan.columns_of(name)
            data = source.read_change(self.spark, change)
            if change.rows <= ONE_TASK_ROWS:
                data = data.coalesce(1)  # in one task it is consolidated without a shuffle
            columns = {column.name: fresh() for column in schema}
            weight = fresh("w")
            rows_of = renamed(data, [*columns.items(), (WEIGHT, weight)])
            frame = Frame(rows_of, columns, schema, weight, change.rows, 1.0)
            if not change.insert_only:
                frame = consolidated(frame)
            frame, rows = self.materializer.hold(frame, f"the change of {name}")
            held[name] = Leaf(exported(frame), float(rows))
        return held

    def _from_view(self, found: FromView) -> ViewChange:
        """Few rows are joined again where they are used; of many, Spark must know the number to plan with."""
        frame, inserted = found.change, found.inserted
        if inserted is None or found.deleted > JOINED_AGAIN_ROWS:
            frame, _ = self.materializer.hold(frame, "the change of the view")
        data = exported(frame)
        if inserted is None:
            inserted, _ = self.materializer.signed_totals(data.select(WEIGHT))
        return ViewChange(data, inserted, found.deleted, from_view=True, places=found.places)

    def _bag(self, compiler: Compiler, change: Relation) -> ViewChange:
        if is_empty(change):
            return self._counted(compiler.compile(change))
        return self._counted(consolidated(compiler.compile(change)))

    def _groups(self, compiler: Compiler, changed: frozenset[str], stored: Leaf) -> ViewChange:
        shape, layout = self.plan.shape, self.plan.layout
        assert shape is not None and layout is not None
        groups = GroupCompiler(
            shape,
            layout,
            stored,
            lambda keys: optimize(regroup_query(shape, layout, keys)),
            lambda relation: above_stored(shape, layout, relation, carried=(OLD,)),
            compiler,
            self.materializer,
        )
        change = optimize(differentiate(shape.aggregate.child, changed))
        found = groups.regroup(change) if layout.must_regroup else groups.merge(change)
        old, new = (
            found.data.where(F.col(side).isNotNull()).select(f"{side}.*", F.lit(weight).cast("bigint").alias(WEIGHT))
            for side, weight in ((OLD, -1), (NEW, 1))
        )
        inserted, deleted = self.materializer.present(found.data, NEW, OLD)
        return ViewChange(old.union(new), inserted, deleted, found.recomputed)

    def _counted(self, frame: Frame) -> ViewChange:
        held, _ = self.materializer.hold(frame, "the change of the view") if not frame.known_empty else (frame, 0)
        data = exported(held)
        return ViewChange(data, *self.materializer.signed_totals(data.select(WEIGHT)))

    def _compiler(self, held: Mapping[str, Leaf]) -> Compiler:
        leaves: dict[str, Leaf] = {}

        def table(name: str) -> Leaf:
            if name in self.plan.constants:
                return Leaf(frame_of(self.spark, self.plan.constants[name]), 1.0)
            if name not in leaves:
                source = self.sources[name]
                data = source.read_listed(self.spark) if held else source.read(self.spark)
                leaves[name] = Leaf(data, source.rows(), source.extent)
            return leaves[name]

        return Compiler(self.spark, table, lambda name: held[name], self.materializer)

"""The change of a grouped view, from its stored groups.

*Merge*: Σf(old) is stored, Σf(change) is computed from the change alone. *Regroup*: the affected
groups are computed anew from the tables restricted to them. Either way the result has one row per
affected group, with its old and its new row side by side.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from monus.algebra.groups import EXTREMES, Grouped, Layout, State
from monus.algebra.relations import Affected, Relation, Table, schema_of
from monus.algebra.scalars import Column as AlgebraColumn
from monus.algebra.scalars import Schema, type_of
from monus.compiler.frames import Frame, all_of, fresh
from monus.compiler.identity import identity_key
from monus.compiler.materialize import Materializer
from monus.compiler.multiplicity import consolidated
from monus.compiler.relations import BROADCAST_ROWS, Compiler, Leaf
from monus.compiler.scalars import Scope
from monus.compiler.state_columns import finished, merged, must_recompute, needs_unit_weights, sum_over_change

OLD, NEW = "__old", "__new"
GROUPS = "__groups"
SMALL_VIEW_ROWS = 20_000  # so many stored groups are sent to every task: cheaper than a job to find those needed


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Affected groups whose row changed: columns `__old` and `__new` are structs, NULL where there is none."""

    data: DataFrame
    rows: int
    recomputed: bool


@dataclass(slots=True)
class GroupCompiler:
    """`stored` is the view's table as it is.

    `stored_query` gives the query for the table's rows of some groups (all columns, hidden ones too),
    `above` the operators over the aggregate for a relation of groups that also carries `__old`.
    """

    shape: Grouped
    layout: Layout
    stored: Leaf
    stored_query: Callable[[Relation], Relation]
    above: Callable[[Relation], Relation]
    compiler: Compiler
    materializer: Materializer

    def regroup(self, change: Relation) -> GroupChange:
        """Every affected group, computed from the tables."""
        held = self._hold(change)
        if held.known_empty:
            return self._nothing()
        return self._side_by_side(self._new_groups(_leaf_of(held)), recomputed=True)

    def merge(self, change: Relation) -> GroupChange:
        """Every affected group from its stored sums; those whose sums do not tell are recomputed."""
        sums = self._sums(self.compiler.compile(change))
        if self.stored.rows > SMALL_VIEW_ROWS:
            # Known sums tell which of the many stored groups are to be read.
            sums, rows = self.materializer.hold(sums, "the change of every affected group")
            if rows == 0:
                return self._nothing()
        groups = self._merged(sums)
        if self.materializer.has_true(groups, "__lost"):
            lost = groups.where(F.col("__lost"))
            keys = [AlgebraColumn(key.name, _type(self.shape, key.name)) for key in self.shape.aggregate.keys]
            flagged = lost.select(*(F.col(_q(c.name)) for c in keys))
            return self._with_recomputed(groups, flagged, tuple(keys))
        return self._finish(groups, recomputed=False)

    # -- merging

    def _sums(self, frame: Frame) -> Frame:
        """Σf(change) per affected group, with the extremes of what came and what left."""
        if any(state.measure.function in EXTREMES for state in self.layout.states):
            # A row that one term of the change adds and another takes away was never there: no extreme came.
            frame = consolidated(frame)
        if any(needs_unit_weights([state.argument]) for state in self.layout.states):
            frame = _unit_weights(frame)
        scope = Scope(frame)
        weight = frame.weight_column()
        keys = {key.name: fresh("k") for key in self.shape.aggregate.keys}
        grouped = [scope.column(k.scalar).alias(keys[k.name]) for k in self.shape.aggregate.keys]
        sums = [F.sum(weight).alias(_d("count"))]
        for state in self.layout.states:
            measure = state.measure
            args = [scope.column(arg) for arg in measure.args]
            types = [type_of(arg, frame.schema) for arg in measure.args]
            condition = None if measure.filter is None else scope.column(measure.filter)
            if measure.function in EXTREMES:
                pick = F.min if measure.function == "min" else F.max
                value = args[0] if condition is None else F.when(condition, args[0])
                sums.append(pick(F.when(weight > 0, value)).alias(_d(state.parts[0].column, "came")))
                sums.append(pick(F.when(weight < 0, value)).alias(_d(state.parts[0].column, "left")))
                continue
            for part in state.parts:
                sums.append(sum_over_change(part, args, types, condition, weight).alias(_d(part.column)))
        data = frame.data.groupBy(*grouped).agg(*sums)
        if not grouped:  # a global sum over no rows is one row: it must not look like a change
            data = data.where(F.col(_d("count")).isNotNull())
        schema = tuple(AlgebraColumn(n, _type(self.shape, n)) for n in keys)
        rows = frame.rows
        if not keys:
            rows = 1.0
        elif frame.fraction < 0.5:  # most of the input was there before, and so were most groups
            rows = min(rows, max(1_000.0, 2.0 * self.stored.rows))
        return replace(frame, data=data, columns=keys, schema=schema, weight=None, total=rows, fraction=1.0)

    def _merged(self, sums: Frame) -> DataFrame:
        """One row per affected group: keys, new sums, `__old`, and whether a sum was lost."""
        grouped = self._beside_old_rows(sums)
        keys = [F.col(physical).alias(name) for name, physical in sums.columns.items()]
        values: list[Column] = [*keys, F.col(OLD), self._new_count().alias("__count")]
        losses: list[Column] = []
        for state in self.layout.states:
            if state.measure.function in EXTREMES:
                value, lost = _new_extreme(state)
                value = F.when(self._new_count() > 0, value)  # a global aggregate keeps its row over no rows
                values.append(value.alias(_new(state.parts[0].column)))
                losses.append(lost)
                continue
            for part in state.parts:
                values.append(merged(part, _old(part.column), F.col(_d(part.column))).alias(_new(part.column)))
        data = grouped.select(*values, *(loss.alias(f"__lost{i}") for i, loss in enumerate(losses)))
        any_lost: Column = F.lit(False)
        for i in range(len(losses)):
            any_lost = any_lost | F.coalesce(F.col(f"__lost{i}"), F.lit(False))
        for state in self.layout.states:
            found = must_recompute(state, {p.column: _new(p.column) for p in state.parts})
            if found is not None:
                any_lost = any_lost | F.coalesce(found, F.lit(False))
        data = data.select("*", (any_lost & (F.col("__count") > 0)).alias("__lost"))
        frame = Frame(data, {name: name for name in data.columns}, (), None, sums.total, sums.fraction)
        held, _ = self.materializer.hold(frame, "the merged groups")
        return held.data

    def _beside_old_rows(self, sums: Frame) -> DataFrame:
        """The changed sums with the stored row of their group as `__old`, NULL for a new group."""
        if self.stored.rows > SMALL_VIEW_ROWS:
            old = self._old_rows(sums.data, list(sums.columns.values()))
        else:
            old = self._stored_rows(list(sums.columns.values()))
        again = {name: fresh("k") for name in sums.columns.values()}
        side = old.select(*(F.col(n).alias(a) for n, a in again.items()), F.col(OLD))
        if sums.rows <= BROADCAST_ROWS:
            side = F.broadcast(side)
        if not again:
            return sums.data.join(side, how="left")
        return sums.data.join(side, all_of([F.col(n).eqNullSafe(F.col(a)) for n, a in again.items()]), "left")

    def _new_count(self) -> Column:
        return F.coalesce(_old("__count"), F.lit(0).cast("bigint")) + F.col(_d("count"))

    def _finish(self, groups: DataFrame, recomputed: bool) -> GroupChange:
        """The new rows: measures from their sums, and the operators above them."""
        counts = [p for s in self.layout.states for p in s.parts if p.sum == "count"]
        decimals = [F.col(_new(p.column)).cast("decimal(20,0)").alias(f"{_new(p.column)}_d") for p in counts]
        has_average = any(state.measure.function in ("avg", "mean") for state in self.layout.states)
        data = groups.select("*", *decimals) if has_average else groups
        frame = Frame(data, {name: name for name in data.columns}, ())
        keys = [key.name for key in self.shape.aggregate.keys]
        selected = [F.col(_q(name)) for name in keys]
        columns = [AlgebraColumn(name, _type(self.shape, name)) for name in keys]
        for state in self.layout.states:
            value = finished(frame, state, {p.column: _new(p.column) for p in state.parts})
            selected.append(value.cast(state.measure.type).alias(state.measure.name))
            columns.append(AlgebraColumn(state.measure.name, state.measure.type))
            for part in state.parts:
                if not part.own:
                    selected.append(F.col(_new(part.column)).alias(part.column))
                    columns.append(AlgebraColumn(part.column, part.type))
        columns += [AlgebraColumn("__count", "bigint"), AlgebraColumn(OLD, "struct")]  # nothing looks into it
        finished_groups = data.select(*selected, F.col("__count"), F.col(OLD))
        new = self._compile_over(finished_groups, self.above(Table(GROUPS, tuple(columns))))
        is_there = F.lit(True) if not keys else new.column("__count") > 0
        row = F.when(is_there, self._row(new))
        return self._changed(new.data.select(new.column(OLD).alias(OLD), row.alias(NEW)), recomputed)

    def _with_recomputed(self, groups: DataFrame, flagged: DataFrame, keys: Schema) -> GroupChange:
        """Merged groups, and those with a lost sum computed from the tables."""
        merged_part = self._finish(groups.where(~F.col("__lost")), recomputed=True)
        lost = groups.where(F.col("__lost")).count()
        leaf = Leaf(flagged, float(lost))
        new = self._new_groups((Table("__flagged", keys), leaf))
        again = self._side_by_side(new, recomputed=True)
        return GroupChange(merged_part.data.union(again.data), merged_part.rows + again.rows, True)

    # -- recomputing

    def _hold(self, change: Relation) -> Frame:
        keys = Affected(self.shape.aggregate.keys, change) if self.shape.aggregate.keys else change
        frame = self.compiler.compile(keys)
        return self.materializer.hold(frame, "the affected groups")[0]

    def _new_groups(self, affected: tuple[Table, Leaf]) -> tuple[Frame, Leaf, Schema]:
        """The stored query over the input restricted to the affected groups."""
        keys, leaf = affected
        compiler = self._compiler_with({keys.name: leaf})
        return compiler.compile(self.stored_query(keys)), leaf, schema_of(keys)

    def _side_by_side(self, new: tuple[Frame, Leaf, Schema], recomputed: bool) -> GroupChange:
        frame, leaf, schema = new
        stored_keys = list(self.layout.stored_keys)
        names = [fresh("k") for _ in stored_keys]
        affected = leaf.data.select(
            *(F.col(_q(c.name)).alias(n) for c, n in zip(schema[: len(names)], names, strict=True))
        )
        old = self._old_rows(affected, names)
        row_type = old.schema[OLD].dataType
        keys = [frame.column(k).alias(n) for k, n in zip(stored_keys, names, strict=True)]
        fresh_rows = frame.data.select(*keys, F.lit(None).cast(row_type).alias(OLD), self._row(frame).alias(NEW))
        both = fresh_rows.union(old.select(*names, F.col(OLD), F.lit(None).cast(fresh_rows.schema[NEW].dataType)))
        firsts = [F.first(F.col(side), ignorenulls=True).alias(side) for side in (OLD, NEW)]
        grouped = both.groupBy(*names).agg(*firsts) if names else both.agg(*firsts)
        return self._changed(grouped.select(OLD, NEW), recomputed)

    # -- shared

    def _old_rows(self, affected: DataFrame, names: list[str]) -> DataFrame:
        """The stored rows of the affected groups: their keys as `names`, and `__old`."""
        rows = self._stored_rows(names)
        if not names:
            return rows
        again = {name: fresh("k") for name in names}
        keyed = affected.select(*(F.col(n).alias(a) for n, a in again.items()))
        return rows.join(
            F.broadcast(keyed), all_of([F.col(n).eqNullSafe(F.col(a)) for n, a in again.items()]), "left_semi"
        )

    def _stored_rows(self, names: list[str]) -> DataFrame:
        """All stored rows: their keys as `names`, and `__old`."""
        stored_keys = [F.col(_q(k)).alias(n) for k, n in zip(self.layout.stored_keys, names, strict=True)]
        row = F.struct(*(F.col(_q(c.name)) for c in self.layout.columns)).alias(OLD)
        return self.stored.data.select(*stored_keys, row)

    def _row(self, frame: Frame) -> Column:
        return F.struct(*(frame.column(c.name).alias(c.name) for c in self.layout.columns))

    def _changed(self, sides: DataFrame, recomputed: bool) -> GroupChange:
        """Only groups whose row is not what it was, by binary identity."""
        same = [
            identity_key(F.col(OLD)[c.name], c.type).eqNullSafe(identity_key(F.col(NEW)[c.name], c.type))
            for c in self.layout.columns
        ]
        both = F.col(OLD).isNotNull() & F.col(NEW).isNotNull()
        neither = F.col(OLD).isNull() & F.col(NEW).isNull()
        data = sides.where(~neither & ~(both & all_of(same)))
        frame = Frame(data, {OLD: OLD, NEW: NEW}, (), None, max(self.stored.rows, 1.0), 0.0)
        held, rows = self.materializer.hold(frame, "the changed groups")
        return GroupChange(held.data, rows, recomputed)

    def _nothing(self) -> GroupChange:
        row = F.struct(*(F.lit(None).cast(c.type).alias(c.name) for c in self.layout.columns))
        empty = self.compiler.spark.range(0).select(row.alias(OLD), row.alias(NEW))
        return GroupChange(empty, 0, False)

    def _compile_over(self, groups: DataFrame, relation: Relation) -> Frame:
        return self._compiler_with({GROUPS: Leaf(groups, 0.0)}).compile(relation)

    def _compiler_with(self, leaves: dict[str, Leaf]) -> Compiler:
        tables = self.compiler.table
        return replace(self.compiler, table=lambda name: leaves[name] if name in leaves else tables(name))


def _leaf_of(held: Frame) -> tuple[Table, Leaf]:
    """The held keys as a table of their own, named by the algebra."""
    data = held.data.select(*(F.col(physical).alias(name) for name, physical in held.columns.items()))
    return Table(GROUPS, held.schema), Leaf(data, held.rows)


def _new_extreme(state: State) -> tuple[Column, Column]:
    """The new MIN or MAX, and whether it left without another one coming that is at least as extreme."""
    name = state.parts[0].column
    old, came, left = _old(name), F.col(_d(name, "came")), F.col(_d(name, "left"))
    best = F.least if state.measure.function == "min" else F.greatest
    is_better = (came <= old) if state.measure.function == "min" else (came >= old)
    gone = left.isNotNull() & ((left <= old) if state.measure.function == "min" else (left >= old))
    lost = F.coalesce(gone, F.lit(False)) & ~F.coalesce(is_better, F.lit(False))
    return best(old, came), lost


def _unit_weights(frame: Frame) -> Frame:
    """Every row once per copy, with weight 1 or −1."""
    weight = fresh("w")
    copies = F.explode(
        F.array_repeat(F.signum(frame.weight_column()).cast("bigint"), F.abs(frame.weight_column()).cast("int"))
    )
    return replace(frame, data=frame.data.select(*frame.all_columns(), copies.alias(weight)), weight=weight)


def _type(shape: Grouped, name: str) -> str:
    return next(column.type for column in schema_of(shape.aggregate) if column.name == name)


def _q(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _d(column: str, what: str = "change") -> str:
    return f"__{what}_of_{_plain(column)}"


def _new(column: str) -> str:
    return f"__new_of_{_plain(column)}"


def _plain(name: str) -> str:
    """A name that needs no quotes, different for different names."""
    return re.sub(r"\W", lambda found: f"_{ord(found[0]):x}_", name)


def _old(column: str) -> Column:
    return F.col(OLD)[column]

"""Relations as DataFrames, bags and signed bags alike.

A frame has a weight column exactly if its relation is a signed bag; linear operators carry it
along, joins multiply it, and operators that need plain rows expand it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.algebra.relations import (
    WEIGHT,
    Affected,
    Aggregate,
    Change,
    Distinct,
    Empty,
    Except,
    Intersect,
    Join,
    Max,
    Min,
    Monus,
    Named,
    Negate,
    Product,
    Project,
    Recount,
    Relation,
    Restrict,
    Rows,
    Select,
    Shared,
    Table,
    UnionAll,
    names_of,
    schema_of,
)
from monus.algebra.scalars import Ref, Scalar, Schema
from monus.compiler.frames import Extent, Frame, all_of, empty_frame, fresh, renamed, renew
from monus.compiler.materialize import Materializer
from monus.compiler.measures import measure_column
from monus.compiler.multiplicity import combine, expanded, recount
from monus.compiler.prune import key_pairs, prune_by
from monus.compiler.scalars import Scope

BROADCAST_ROWS = 500_000
TINY_TABLE_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Leaf:
    """A stored table or a change: its rows, and how many there are or may be."""

    data: DataFrame
    rows: float
    extent: Callable[[str], Extent | None] | None = None
    """Least and greatest value of a column, where that is known."""


@dataclass(slots=True)
class Compiler:
    """`table` and `change` give the leaves by name; a change has a column `__w`."""

    spark: SparkSession
    table: Callable[[str], Leaf]
    change: Callable[[str], Leaf]
    materializer: Materializer
    _held: dict[Relation, Frame] = field(default_factory=dict)

    def compile(self, relation: Relation) -> Frame:
        match relation:
            case Empty(schema):
                return empty_frame(self.spark, schema)
            case Rows(schema, rows):
                return self._rows(schema, rows)
            case Table(name, schema):
                leaf = self.table(name)
                frame = _leaf(leaf.data, schema, None, leaf.rows)
                return frame if leaf.extent is None else replace(frame, extent=_of_columns(leaf.extent, frame.columns))
            case Change(name, schema):
                return self._change(name, schema)
            case Select(predicate, child):
                frame = self.compile(child)
                return replace(frame, data=frame.data.where(Scope(frame).column(predicate)))
            case Project(outputs, child):
                return self._project(outputs, self.compile(child), schema_of(relation))
            case UnionAll(left, right):
                return self._union(self.compile(left), self.compile(right))
            case Negate(child):
                frame = self.compile(child)
                weight = fresh("w")
                data = frame.data.select(*frame.all_columns(), (-frame.weight_column()).alias(weight))
                return replace(frame, data=data, weight=weight)
            case Product(left, right):
                return self._join(None, self.compile(left), self.compile(right))
            case Join(condition, left, right):
                return self._join(condition, self.compile(left), self.compile(right))
            case Distinct() | Monus() | Min() | Max() | Except() | Intersect():
                return self._multiplicity(relation)
            case Recount():
                return self._recount(relation)
            case Restrict(keys, child, by):
                return self._restrict(keys, self.compile(child), self.compile(by))
            case Affected(keys, child):
                frame = self.compile(child)
                # Duplicates stay: a semi-join does not mind them, and removing them costs a shuffle.
                return replace(self._project(keys, replace(frame, weight=None), schema_of(relation)), weight=None)
            case Aggregate():
                return self._aggregate(relation)
            case Shared(child):
                return self._shared(child)
            case _:
                assert_never(relation)

    def _rows(self, schema: Schema, rows: tuple[tuple[Any, ...], ...]) -> Frame:
        ddl = ", ".join(f"`{i}` {column.type}" for i, column in enumerate(schema))
        data = self.spark.createDataFrame(list(rows), ddl)
        columns = {column.name: fresh() for column in schema}
        return Frame(data.toDF(*columns.values()), columns, schema, total=float(len(rows)))

    def _change(self, name: str, schema: Schema) -> Frame:
        leaf = self.change(name)
        total = max(self.table(name).rows, leaf.rows, 1.0)
        frame = _leaf(leaf.data, schema, WEIGHT, total)
        return replace(frame, fraction=leaf.rows / total, known_empty=leaf.rows == 0)

    def _project(self, outputs: tuple[Named, ...], frame: Frame, schema: Schema) -> Frame:
        if all(isinstance(output.scalar, Ref) for output in outputs):
            names = [output.scalar.name for output in outputs if isinstance(output.scalar, Ref)]
            if len(set(names)) == len(names):
                columns = {o.name: frame.columns[n] for o, n in zip(outputs, names, strict=True)}
                kept = [*columns.values(), *([] if frame.weight is None else [frame.weight])]
                data = renamed(frame.data, [(column, column) for column in kept])
                return replace(frame, data=data, columns=columns, schema=schema)
        scope = Scope(frame)
        columns = {output.name: fresh() for output in outputs}
        selected = [scope.column(o.scalar).alias(columns[o.name]) for o in outputs]
        if frame.weight is not None:
            selected.append(F.col(frame.weight))
        return replace(frame, data=frame.data.select(*selected), columns=columns, schema=schema)

    def _union(self, left: Frame, right: Frame) -> Frame:
        if right.known_empty:
            return left
        if left.known_empty:
            columns = dict(zip(left.columns, right.columns.values(), strict=True))
            return replace(right, columns=columns, schema=left.schema)
        columns = {name: fresh() for name in left.columns}
        signed = left.weight is not None or right.weight is not None
        weight = fresh("w") if signed else None
        parts = []
        for frame in (left, right):
            row: list[tuple[str | None, str]] = list(zip(frame.columns.values(), columns.values(), strict=True))
            parts.append(renamed(frame.data, [*row, (frame.weight, weight)] if weight else row))
        total = max(left.total, right.total)
        fraction = (left.rows + right.rows) / total if total else 0.0
        return Frame(parts[0].union(parts[1]), columns, left.schema, weight, total, fraction)

    def _join(self, condition: Scalar | None, left: Frame, right: Frame) -> Frame:
        schema = left.schema + right.schema
        if left.known_empty or right.known_empty:
            return empty_frame(self.spark, schema)
        columns = {**left.columns, **right.columns}
        total = max(left.total, right.total) if condition is not None else left.total * right.total
        joined = Frame(left.data, columns, schema, None, total, left.fraction * right.fraction)
        if condition is not None:
            left, right = _pruned(left, right, key_pairs(condition, left, right))
        a, b = _with_broadcast(left, right)
        on = None if condition is None else Scope(joined, right.data).column(condition)
        data = a.crossJoin(b) if on is None else a.join(b, on, "inner")
        if left.weight is not None and right.weight is not None:
            weight = fresh("w")
            product = (F.col(left.weight) * F.col(right.weight)).alias(weight)
            data = data.select(*(F.col(c) for c in columns.values()), product)
            return replace(joined, data=data, weight=weight)
        return replace(joined, data=data, weight=left.weight or right.weight)

    def _multiplicity(self, relation: Distinct | Monus | Min | Max | Except | Intersect) -> Frame:
        if isinstance(relation, Distinct):
            frame = self.compile(relation.child)
            return (
                replace(frame, data=frame.data.distinct()) if frame.weight is None else combine("distinct", frame, None)
            )
        left, right = self.compile(relation.left), self.compile(relation.right)
        if left.weight is None and right.weight is None and not isinstance(relation, Max):
            match relation:
                case Monus():
                    data = left.data.exceptAll(right.data)
                case Min():
                    data = left.data.intersectAll(right.data)
                case Except():
                    data = left.data.subtract(right.data)
                case _:
                    data = left.data.intersect(right.data)
            return replace(left, data=data)
        return combine(type(relation).__name__.lower(), left, right)

    def _recount(self, relation: Recount) -> Frame:
        new = [self.compile(relation.left)]
        change = [self.compile(relation.left_change)]
        if relation.right is not None and relation.right_change is not None:
            new.append(self.compile(relation.right))
            change.append(self.compile(relation.right_change))
        if all(frame.known_empty for frame in change):
            return empty_frame(self.spark, new[0].schema)
        return recount(relation.operator, new, change)

    def _restrict(self, keys: tuple[str, ...], child: Frame, by: Frame) -> Frame:
        if by.known_empty or child.known_empty:
            return empty_frame(self.spark, child.schema)
        pairs = list(zip(keys, by.columns, strict=True))
        inside = prune_by(child, by, pairs, null_safe=True)
        if inside is not None:
            child = replace(child, data=child.data.where(inside))
        matches = [child.column(k).eqNullSafe(F.col(c)) for k, c in zip(keys, by.columns.values(), strict=True)]
        keyed = F.broadcast(by.data) if by.rows <= BROADCAST_ROWS else by.data
        fraction = child.fraction * min(1.0, by.rows / max(child.total, 1.0))
        return replace(child, data=child.data.join(keyed, all_of(matches), "left_semi"), fraction=fraction)

    def _aggregate(self, relation: Aggregate) -> Frame:
        frame = expanded(self.compile(relation.child))
        scope = Scope(frame)
        columns = {column.name: fresh() for column in schema_of(relation)}
        keys = [scope.column(key.scalar).alias(columns[key.name]) for key in relation.keys]
        measures = [measure_column(scope, m).alias(columns[m.name]) for m in relation.measures]
        if not relation.keys:
            data = frame.data.agg(*measures)
        elif measures:
            data = frame.data.groupBy(*keys).agg(*measures)
        else:
            data = frame.data.select(*keys).distinct()
        return Frame(data, columns, schema_of(relation), None, frame.total, frame.fraction)

    def _shared(self, child: Relation) -> Frame:
        if child not in self._held:
            frame = self.compile(child)
            if not frame.known_empty:
                frame, _ = self.materializer.hold(frame, f"a shared part over {', '.join(names_of(child))}")
            self._held[child] = frame
        return renew(self._held[child])


def _leaf(data: DataFrame, schema: Schema, weight: str | None, rows: float) -> Frame:
    columns = {column.name: fresh() for column in schema}
    pairs = list(columns.items())
    if weight is None:
        return Frame(renamed(data, pairs), columns, schema, None, rows)
    name = fresh("w")
    return Frame(renamed(data, [*pairs, (weight, name)]), columns, schema, name, rows)


def _of_columns(extent: Callable[[str], Extent | None], columns: Mapping[str, str]) -> Callable[[str], Extent | None]:
    """Asked by the DataFrame's names, which stay with a column wherever it goes."""
    names = {physical: name for name, physical in columns.items()}
    return lambda physical: extent(names[physical]) if physical in names else None


def _pruned(left: Frame, right: Frame, pairs: list[tuple[str, str]]) -> tuple[Frame, Frame]:
    """The larger side cut to the files that can hold partners of the smaller one."""
    if right.fraction < 1.0 and right.rows < left.rows:
        inside = prune_by(left, right, pairs)
        return (left, right) if inside is None else (replace(left, data=left.data.where(inside)), right)
    if left.fraction < 1.0 and left.rows < right.rows:
        inside = prune_by(right, left, [(b, a) for a, b in pairs])
        return (left, right) if inside is None else (left, replace(right, data=right.data.where(inside)))
    return left, right


def _with_broadcast(left: Frame, right: Frame) -> tuple[DataFrame, DataFrame]:
    """A side that a change bounds is sent to every task if it is small: Spark does not know its size.

    A table that is smaller still is sent instead. Between whole tables the choice is Spark's.
    """
    if left.fraction >= 1.0 and right.fraction >= 1.0:
        return left.data, right.data
    small = [f for f in (left, right) if f.rows <= (BROADCAST_ROWS if f.fraction < 1.0 else TINY_TABLE_ROWS)]
    if not small:
        return left.data, right.data
    if min(small, key=lambda f: f.rows) is left:
        return F.broadcast(left.data), right.data
    return left.data, F.broadcast(right.data)

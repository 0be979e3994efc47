"""Random tables, updates and queries over the algebra, for Hypothesis.

Three tables with integers and strings, duplicates and NULLs; R and T share column names, so that joins
must rename, and bag operators meet inputs with different names. Queries go to depth 4 over all operators,
self-joins and repeated parts included; `with_aggregates` adds γ, which the papers' functions do not cover.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

from hypothesis import strategies as st

from monus.algebra.derived import with_names
from monus.algebra.interpret_scalars import Row
from monus.algebra.interpreter import Bag
from monus.algebra.relations import (
    Aggregate,
    Distinct,
    Empty,
    Except,
    Intersect,
    Join,
    Max,
    Measure,
    Min,
    Monus,
    Named,
    Product,
    Project,
    Relation,
    Rows,
    Select,
    Table,
    UnionAll,
    names_of,
    schema_of,
)
from monus.algebra.scalars import (
    COMPARISONS,
    TRUE,
    And,
    Column,
    Compare,
    IsNull,
    Literal,
    Not,
    Opaque,
    Or,
    Ref,
    Scalar,
    Schema,
)

TABLES: Mapping[str, Table] = {
    "R": Table("R", (Column("a", "int"), Column("b", "int"))),
    "S": Table("S", (Column("c", "int"), Column("d", "string"))),
    "T": Table("T", (Column("a", "int"),)),
}
# A value that stands twice is drawn twice as often: where all is NULL nothing joins, and nothing is tested.
VALUES: Mapping[str, tuple[Any, ...]] = {"int": (0, 1, 0, 1, 2, None), "string": ("x", "y", "x", None)}
_COPIES = st.sampled_from([1, 1, 2, 3])
# Products of products of products only cost time: the rules see two inputs at a time.
PRODUCTS = 3


@dataclass(frozen=True)
class Step:
    """A state of the tables and a weakly minimal update of them: ∇ ⊆ R for every table R."""

    before: Mapping[str, Bag]
    deleted: Mapping[str, Bag]
    inserted: Mapping[str, Bag]

    @property
    def after(self) -> dict[str, Bag]:
        return {name: plus(self.before[name], minus(self.inserted[name], self.deleted[name])) for name in self.before}

    @property
    def changes(self) -> dict[str, Bag]:
        return {name: minus(self.inserted[name], self.deleted[name]) for name in self.before}

    @property
    def changed(self) -> frozenset[str]:
        return frozenset(name for name in self.before if self.deleted[name] or self.inserted[name])


def plus(left: Bag, right: Bag) -> Bag:
    """The signed sum, without zeros."""
    return Counter({row: n for row in left.keys() | right.keys() if (n := left[row] + right[row])})


def minus(left: Bag, right: Bag) -> Bag:
    """The signed difference, without zeros."""
    return Counter({row: n for row in left.keys() | right.keys() if (n := left[row] - right[row])})


@cache
def rows_of(schema: Schema) -> st.SearchStrategy[Row]:
    # One draw for a row rather than one for each of its values: drawing takes most of the time.
    return st.sampled_from(list(product(*(VALUES[column.type] for column in schema))))


@st.composite
def bags_of(draw: st.DrawFn, schema: Schema, size: int = 4) -> Bag:
    """Bags of up to `size` rows, many of them more than once."""
    least = draw(st.sampled_from(range(size + 1)))
    return _bag(draw(st.lists(st.tuples(rows_of(schema), _COPIES), min_size=least, max_size=size)))


def _bag(rows: list[tuple[Row, int]]) -> Bag:
    return Counter(row for row, copies in rows for _ in range(copies))


@st.composite
def sub_bags(draw: st.DrawFn, bag: Bag) -> Bag:
    copies = sorted(bag.elements(), key=repr)
    return Counter(draw(st.lists(st.sampled_from(copies), max_size=4))) & bag if copies else Counter()


@st.composite
def updates_of(draw: st.DrawFn, bag: Bag, schema: Schema) -> tuple[Bag, Bag]:
    """A weakly minimal (∇, Δ); now and then empty, so that tables that do not change occur."""
    if not draw(st.sampled_from([True, True, False])):
        return Counter(), Counter()
    # What comes in is often there already: only then do the rules with ∸ and × have anything to cancel.
    known = draw(st.lists(st.sampled_from(sorted(bag, key=repr)), max_size=2)) if bag else []
    return draw(sub_bags(bag)), draw(bags_of(schema, 2)) + Counter(known)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    before, deleted, inserted = {}, {}, {}
    for name, table in TABLES.items():
        before[name] = draw(bags_of(table.schema))
        deleted[name], inserted[name] = draw(updates_of(before[name], table.schema))
    return Step(before, deleted, inserted)


@st.composite
def following(draw: st.DrawFn, step: Step) -> Step:
    """An update of the state that the step led to."""
    deleted, inserted = {}, {}
    for name, bag in step.after.items():
        deleted[name], inserted[name] = draw(updates_of(bag, TABLES[name].schema))
    return Step(step.after, deleted, inserted)


_WIDTHS = st.sampled_from([("int",), ("int",), ("int", "int"), ("int", "string"), ("string",), ("int", "int", "int")])

_DEPTHS = st.sampled_from([1, 2, 3, 3, 4, 4])


@st.composite
def queries(draw: st.DrawFn, with_aggregates: bool = False) -> Relation:
    return _Generator(draw, with_aggregates).query(draw(_WIDTHS), draw(_DEPTHS))


class _Generator:
    """Draws one query from the top down, for wanted column types."""

    def __init__(self, draw: st.DrawFn, with_aggregates: bool) -> None:
        self._draw = draw
        self._products = PRODUCTS
        self._operators = [
            self._leaf, self._select, self._project, self._distinct, self._bag_operator, self._bag_operator,
            self._product, self._join, self._repeated,
        ] + [self._aggregate] * (2 * with_aggregates)  # fmt: skip

    def query(self, types: tuple[str, ...], depth: int) -> Relation:
        if depth == 0:
            return self._leaf(types, depth)
        return self._draw(st.sampled_from(self._operators))(types, depth)

    def _one_of(self, *kinds: str) -> str:
        return self._draw(st.sampled_from(kinds))

    def _leaf(self, types: tuple[str, ...], depth: int) -> Relation:
        kind = self._one_of("table", *["table"] * 14, "rows", "rows", "empty")
        if kind == "empty":
            return Empty(_columns(types))
        if kind == "rows":
            return Rows(_columns(types), tuple(self._draw(st.lists(rows_of(_columns(types)), max_size=2))))
        table = self._draw(st.sampled_from(list(TABLES.values())))
        own = tuple(column.type for column in table.schema)
        return table if own == types else self._reshape(table, types)

    def _select(self, types: tuple[str, ...], depth: int) -> Relation:
        child = self.query(types, depth - 1)
        return Select(self._predicate(schema_of(child)), child)

    def _project(self, types: tuple[str, ...], depth: int) -> Relation:
        return self._reshape(self.query(self._draw(_WIDTHS), depth - 1), types)

    def _distinct(self, types: tuple[str, ...], depth: int) -> Relation:
        return Distinct(self.query(types, depth - 1))

    def _bag_operator(self, types: tuple[str, ...], depth: int) -> Relation:
        operator = self._draw(st.sampled_from([UnionAll, UnionAll, Monus, Monus, Min, Max, Except, Intersect]))
        return operator(self.query(types, depth - 1), self.query(types, depth - 1))

    def _repeated(self, types: tuple[str, ...], depth: int) -> Relation:
        """The same part on both sides, where changes of one side and the other meet."""
        part = self.query(types, depth - 1)
        operator = self._draw(st.sampled_from([UnionAll, Monus, Min, Max, Except, Intersect]))
        return operator(part, Select(self._predicate(schema_of(part)), part))

    def _product(self, types: tuple[str, ...], depth: int) -> Relation:
        if len(types) == 1:
            types = (*types, "int")
            sides = self._sides(types, depth)
            return self._distinct(types[:1], depth) if sides is None else self._reshape(Product(*sides), types[:1])
        sides = self._sides(types, depth)
        return self._distinct(types, depth) if sides is None else Product(*sides)

    def _join(self, types: tuple[str, ...], depth: int) -> Relation:
        """A join that is wider than wanted, then projected."""
        sides = self._sides(("int", *types), depth)
        if sides is None:
            return self._distinct(types, depth)
        left, right = sides
        condition = self._condition(schema_of(left), schema_of(right))
        return self._reshape(Join(condition, left, right), types)

    def _sides(self, types: tuple[str, ...], depth: int) -> tuple[Relation, Relation] | None:
        if self._products == 0 or len(types) < 2:
            return None
        self._products -= 1
        cut = self._draw(st.sampled_from(range(1, len(types))))
        left, right = self.query(types[:cut], depth - 1), self.query(types[cut:], depth - 1)
        return left, _without_names_of(left, right)

    def _aggregate(self, types: tuple[str, ...], depth: int) -> Relation:
        child = self.query(self._draw(_WIDTHS), depth - 1)
        keys, measures = [], []
        for position, wanted in enumerate(types):
            name = f"g{position}"
            if wanted != "int" or self._draw(st.booleans()):
                keys.append(Named(name, self._scalar(schema_of(child), wanted)))
            else:
                measures.append(self._measure(name, schema_of(child)))
        grouped = Aggregate(tuple(keys), tuple(measures), child)
        return self._reordered(grouped, types)

    def _reordered(self, grouped: Relation, types: tuple[str, ...]) -> Relation:
        """Keys come first in an aggregate; the wanted order comes back by name."""
        wanted = tuple(f"g{position}" for position in range(len(types)))
        return grouped if names_of(grouped) == wanted else Project(tuple(Named(n, Ref(n)) for n in wanted), grouped)

    def _measure(self, name: str, schema: Schema) -> Measure:
        condition = self._predicate(schema) if self._one_of("no", "no", "no", "filter") == "filter" else None
        function = self._draw(st.sampled_from(["count", "count(*)", "sum", "min", "max", "avg", "var_pop", "stddev"]))
        if function == "count(*)":
            return Measure(name, "count", (), "int", filter=condition)
        # The interpreter is dynamically typed: a double where an integer is wanted harms nobody here.
        arg = self._scalar(schema, "int")
        return Measure(name, function, (arg,), "int", distinct=self._draw(st.booleans()), filter=condition)

    def _reshape(self, child: Relation, types: tuple[str, ...]) -> Relation:
        schema = schema_of(child)
        return Project(tuple(Named(f"p{i}", self._scalar(schema, wanted)) for i, wanted in enumerate(types)), child)

    def _scalar(self, schema: Schema, wanted: str) -> Scalar:
        refs: list[Scalar] = [Ref(column.name) for column in schema if column.type == wanted]
        kind = self._one_of("column", "column", "column", "column", "opaque", "literal")
        if refs and kind == "opaque" and wanted == "int":
            return _increment(self._draw(st.sampled_from(refs)))
        if refs and kind != "literal":
            return self._draw(st.sampled_from(refs))
        return Literal(self._draw(st.sampled_from(VALUES[wanted])), wanted)

    def _condition(self, left: Schema, right: Schema) -> Scalar:
        pairs = [(a, b) for a in left for b in right if a.type == b.type]
        if not pairs or self._one_of("pair", "pair", "pair", "any") == "any":
            return self._predicate(left + right)
        a, b = self._draw(st.sampled_from(pairs))
        return Compare(self._draw(st.sampled_from(["=", "=", "<=>", "<"])), Ref(a.name), Ref(b.name))

    def _predicate(self, schema: Schema) -> Scalar:
        kind = self._one_of("comparison", "comparison", "or", "or", "true", "and", "not", "null")
        if kind == "and":
            return And(self._comparison(schema), self._comparison(schema))
        if kind == "or":
            return Or(self._comparison(schema), self._comparison(schema))
        if kind == "not":
            return Not(self._comparison(schema))
        if kind == "null":
            return IsNull(Ref(self._draw(st.sampled_from(schema)).name))
        return TRUE if kind == "true" else self._comparison(schema)

    def _comparison(self, schema: Schema) -> Scalar:
        column = self._draw(st.sampled_from(schema))
        op = self._draw(st.sampled_from((*COMPARISONS, "<>", "<=", ">=")))
        return Compare(op, Ref(column.name), self._scalar(schema, column.type))


def _columns(types: tuple[str, ...]) -> Schema:
    return tuple(Column(f"v{i}", wanted) for i, wanted in enumerate(types))


def _without_names_of(left: Relation, right: Relation) -> Relation:
    taken, names = list(names_of(left)), []
    for name in names_of(right):
        while name in taken:
            name += "#2"
        taken.append(name)
        names.append(name)
    return with_names(right, tuple(names))


def _increment(scalar: Scalar) -> Opaque:
    return Opaque("n + 1", "int", ("n",), (scalar,), handle=lambda n: None if n is None else (n + 1) % 3)

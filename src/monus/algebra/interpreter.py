"""The reference interpreter: what every relation means, over bags as `Counter`s of tuples.

A multiplicity is any integer but zero. The linear operators are linear over it; the others are
functions of the multiplicities of a row, f(l, r), with f(0, 0) = 0. Slow and plain on purpose: it is
what the derivation rules are tested against. Rows are equal as Python's tuples are, so −0.0 is 0.0 here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, assert_never

from monus.algebra.interpret_aggregates import group_function
from monus.algebra.interpret_scalars import Row, one_nan, row_function
from monus.algebra.relations import (
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
)
from monus.algebra.scalars import Schema
from monus.errors import AlgebraInvalid

Bag: TypeAlias = Counter[Row]
State: TypeAlias = Mapping[str, Bag]

_NO_CHANGES: State = {}

# How often a row occurs in the result, from how often it occurs in the left and the right input.
MULTIPLICITY: Mapping[str, Callable[[int, int], int]] = {
    "distinct": lambda n, m: int(n > 0),
    "monus": lambda n, m: max(0, n - m),
    "min": lambda n, m: max(0, min(n, m)),
    "max": lambda n, m: max(0, n, m),
    "except": lambda n, m: int(n > 0 >= m),
    "intersect": lambda n, m: int(n > 0 and m > 0),
}


def evaluate(relation: Relation, state: State, changes: State = _NO_CHANGES) -> Bag:
    """The bag that the relation denotes, given the tables in `state` and their `changes`."""
    return Counter(_Evaluation(state, changes).bag(relation))


class _Evaluation:
    """One evaluation: a node that occurs in several places is evaluated once.

    Derived expressions share their parts, and written out they are exponentially larger.
    """

    def __init__(self, state: State, changes: State) -> None:
        self._state = state
        self._changes = changes
        # The node is kept beside its bag: the identity of an object is only its own while it lives.
        self._known: dict[int, tuple[Relation, Bag]] = {}

    def bag(self, relation: Relation) -> Bag:
        known = self._known.get(id(relation))
        if known is None:
            known = (relation, self._compute(relation))
            self._known[id(relation)] = known
        return known[1]

    def _compute(self, relation: Relation) -> Bag:
        match relation:
            case Empty():
                return Counter()
            case Rows(schema, rows):
                return _read(((row, 1) for row in rows), schema)
            case Table(name, schema):
                return _read(_look_up(self._state, name, "table").items(), schema)
            case Change(name, schema):
                return _read(_look_up(self._changes, name, "change of the table").items(), schema)
            case Select(predicate, child):
                keeps = row_function(predicate, names_of(child))
                return _collect((row, n) for row, n in self.bag(child).items() if keeps(row) is True)
            case Project():
                names = names_of(relation.child)
                outputs = [row_function(output.scalar, names) for output in relation.outputs]
                below = self.bag(relation.child).items()
                return _collect((tuple(output(row) for output in outputs), n) for row, n in below)
            case UnionAll(left, right):
                return _collect([*self.bag(left).items(), *self.bag(right).items()])
            case Negate(child):
                return _collect((row, -n) for row, n in self.bag(child).items())
            case Shared(child):
                return self.bag(child)
            case Distinct(child):
                return _per_row("distinct", self.bag(child), Counter())
            case Monus(left, right):
                return _per_row("monus", self.bag(left), self.bag(right))
            case Min(left, right):
                return _per_row("min", self.bag(left), self.bag(right))
            case Max(left, right):
                return _per_row("max", self.bag(left), self.bag(right))
            case Except(left, right):
                return _per_row("except", self.bag(left), self.bag(right))
            case Intersect(left, right):
                return _per_row("intersect", self.bag(left), self.bag(right))
            case Product(left, right):
                return _product(self.bag(left), self.bag(right))
            case Join(condition, left, right):
                joins = row_function(condition, names_of(left) + names_of(right))
                pairs = _product(self.bag(left), self.bag(right)).items()
                return _collect((row, n) for row, n in pairs if joins(row) is True)
            case Restrict(keys, child, by):
                return self._restrict(keys, child, by)
            case Affected():
                return self._affected(relation)
            case Recount():
                return self._recount(relation)
            case Aggregate():
                return self._aggregate(relation)
            case _:
                assert_never(relation)

    def _restrict(self, keys: tuple[str, ...], child: Relation, by: Relation) -> Bag:
        names = names_of(child)
        positions = [names.index(key) for key in keys]
        wanted = self.bag(by).keys()
        rows = self.bag(child).items()
        return _collect((row, n) for row, n in rows if tuple(row[position] for position in positions) in wanted)

    def _affected(self, relation: Affected) -> Bag:
        names = names_of(relation.child)
        keys = [row_function(key.scalar, names) for key in relation.keys]
        return Counter({tuple(one_nan(key(row)) for key in keys): 1 for row in self.bag(relation.child)})

    def _recount(self, relation: Recount) -> Bag:
        count = MULTIPLICITY.get(relation.operator)
        if count is None:
            known = ", ".join(MULTIPLICITY)
            raise AlgebraInvalid(f"'{relation.operator}' cannot be recounted.", f"Use one of {known}.")
        left, left_change = self.bag(relation.left), self.bag(relation.left_change)
        right = Counter[Row]() if relation.right is None else self.bag(relation.right)
        right_change = Counter[Row]() if relation.right_change is None else self.bag(relation.right_change)

        def difference(row: Row) -> int:
            n, m = left.get(row, 0), right.get(row, 0)
            return count(n, m) - count(n - left_change.get(row, 0), m - right_change.get(row, 0))

        return _collect((row, difference(row)) for row in left_change.keys() | right_change.keys())

    def _aggregate(self, relation: Aggregate) -> Bag:
        names = names_of(relation.child)
        keys = [row_function(key.scalar, names) for key in relation.keys]
        measures = [group_function(measure, names) for measure in relation.measures]
        groups: dict[Row, list[tuple[Row, int]]] = {} if relation.keys else {(): []}
        for row, n in self.bag(relation.child).items():
            if n < 0:
                raise AlgebraInvalid(
                    f"An aggregate has no meaning over {n} copies of {row!r}.",
                    "Aggregate the states before and after a change, not the change itself.",
                )
            groups.setdefault(tuple(one_nan(key(row)) for key in keys), []).append((row, n))
        return Counter({key + tuple(measure(rows) for measure in measures): 1 for key, rows in groups.items()})


def _look_up(bags: State, name: str, what: str) -> Bag:
    if name not in bags:
        raise AlgebraInvalid(f"There is no {what} '{name}' to evaluate.", f"There is: {', '.join(bags) or 'none'}.")
    return bags[name]


def _read(rows: Iterable[tuple[Row, int]], schema: Schema) -> Bag:
    if any(column.type in ("float", "double") for column in schema):
        rows = ((tuple(one_nan(value) for value in row), n) for row, n in rows)
    return _collect(rows)


def _collect(rows: Iterable[tuple[Row, int]]) -> Bag:
    """The sum of all multiplicities per row; Counter's own + and − would drop the negative ones."""
    result: Bag = Counter()
    for row, n in rows:
        result[row] += n
    return Counter({row: n for row, n in result.items() if n})


def _per_row(operator: str, left: Bag, right: Bag) -> Bag:
    count = MULTIPLICITY[operator]
    return _collect((row, count(left.get(row, 0), right.get(row, 0))) for row in left.keys() | right.keys())


def _product(left: Bag, right: Bag) -> Bag:
    # Concatenation of rows of fixed width is one to one, so that no two pairs can meet.
    return Counter({a + b: n * m for a, n in left.items() for b, m in right.items()})

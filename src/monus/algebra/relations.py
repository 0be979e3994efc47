"""Relations: the operators of the bag algebra, over rows with an integer multiplicity.

A stored table is a bag (multiplicities are positive); a change is a signed bag (they may be
negative). The linear operators mean the same over both; `Negate` and `Change` only make sense over
signed bags. Names of output columns are unique within a relation; binary bag operators match their
inputs by position and take the names of the left one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, assert_never

from monus.algebra.scalars import Column, Ref, Scalar, Schema, columns_read, type_of
from monus.errors import AlgebraInvalid

WEIGHT = "__w"


@dataclass(frozen=True, slots=True)
class Named:
    """A computed column."""

    name: str
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Measure:
    """One aggregate: `function` is Spark's name in lower case; COUNT(*) has no arguments.

    `handle` is Spark's aggregate expression, where there is one: it is what computes functions
    that no rule looks into. It knows its inputs as `params`, which are now bound to `bound`.
    """

    name: str
    function: str
    args: tuple[Scalar, ...]
    type: str
    distinct: bool = False
    filter: Scalar | None = None
    params: tuple[str, ...] = ()
    bound: tuple[Scalar, ...] = ()
    handle: Any = field(compare=False, repr=False, default=None)


def scalars_of(measure: Measure) -> tuple[Scalar, ...]:
    """Everything that the measure reads."""
    return (*measure.args, *measure.bound, *(() if measure.filter is None else (measure.filter,)))


@dataclass(frozen=True, slots=True)
class Empty:
    """φ"""

    schema: Schema


@dataclass(frozen=True, slots=True)
class Rows:
    """Literal rows."""

    schema: Schema
    rows: tuple[tuple[Any, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.schema) for row in self.rows):
            raise AlgebraInvalid(f"A literal row does not have {len(self.schema)} values.")


@dataclass(frozen=True, slots=True)
class Table:
    """A base table, or a view that is read like one, in the present state."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Change:
    """The signed change of a table between two states."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Select:
    """σ: keeps the rows for which the predicate is true (not false, not unknown)."""

    predicate: Scalar
    child: Relation

    def __post_init__(self) -> None:
        _check_reads(self.predicate, schema_of(self.child))


@dataclass(frozen=True, slots=True)
class Project:
    """Π with computed columns; keeps duplicates."""

    outputs: tuple[Named, ...]
    child: Relation

    def __post_init__(self) -> None:
        for output in self.outputs:
            _check_reads(output.scalar, schema_of(self.child))
        _check_unique(tuple(output.name for output in self.outputs))


@dataclass(frozen=True, slots=True)
class Distinct:
    """ε"""

    child: Relation


@dataclass(frozen=True, slots=True)
class UnionAll:
    """⊎"""

    left: Relation
    right: Relation

    def __post_init__(self) -> None:
        _check_same_width(self.left, self.right)


@dataclass(frozen=True, slots=True)
class Monus:
    """∸, SQL's EXCEPT ALL: max(0, n − m) copies."""

    left: Relation
    right: Relation

    def __post_init__(self) -> None:
        _check_same_width(self.left, self.right)


@dataclass(frozen=True, slots=True)
class Min:
    """INTERSECT ALL: min(n, m) copies. Derived: L ∸ (L ∸ R)."""

    left: Relation
    right: Relation

    def __post_init__(self) -> None:
        _check_same_width(self.left, self.right)


@dataclass(frozen=True, slots=True)
class Max:
    """max(n, m) copies. Derived: L ⊎ (R ∸ L)."""

    left: Relation
    right: Relation

    def __post_init__(self) -> None:
        _check_same_width(self.left, self.right)


@dataclass(frozen=True, slots=True)
class Except:
    """SQL's EXCEPT: one copy of what is left and not right. Derived: ε(L) ∸ R."""

    left: Relation
    right: Relation

    def __post_init__(self) -> None:
        _check_same_width(self.left, self.right)


@dataclass(frozen=True, slots=True)
class Intersect:
    """SQL's INTERSECT: one copy of what is on both sides. Derived: ε(L) min ε(R)."""

    left: Relation
    right: Relation

    def __post_init__(self) -> None:
        _check_same_width(self.left, self.right)


@dataclass(frozen=True, slots=True)
class Product:
    """×"""

    left: Relation
    right: Relation

    def __post_init__(self) -> None:
        _check_unique(names_of(self.left) + names_of(self.right))


@dataclass(frozen=True, slots=True)
class Join:
    """⋈: σ_condition(left × right)."""

    condition: Scalar
    left: Relation
    right: Relation

    def __post_init__(self) -> None:
        _check_unique(names_of(self.left) + names_of(self.right))
        _check_reads(self.condition, schema_of(self.left) + schema_of(self.right))


@dataclass(frozen=True, slots=True)
class Aggregate:
    """γ: grouped by `keys`; without keys it is global and always has one row."""

    keys: tuple[Named, ...]
    measures: tuple[Measure, ...]
    child: Relation

    def __post_init__(self) -> None:
        for key in self.keys:
            _check_reads(key.scalar, schema_of(self.child))
        for measure in self.measures:
            for scalar in scalars_of(measure):
                _check_reads(scalar, schema_of(self.child))
        _check_unique(tuple(k.name for k in self.keys) + tuple(m.name for m in self.measures))


@dataclass(frozen=True, slots=True)
class Negate:
    """The same rows with the opposite multiplicities; only over signed bags."""

    child: Relation


@dataclass(frozen=True, slots=True)
class Restrict:
    """child ⋉ by: the rows whose `keys` occur in `by` (by position), NULL matching NULL.

    `by` has no negative multiplicities, and those that it has do not matter.
    """

    keys: tuple[str, ...]
    child: Relation
    by: Relation

    def __post_init__(self) -> None:
        if len(self.keys) != len(schema_of(self.by)):
            raise AlgebraInvalid(f"A restriction by {len(self.keys)} keys has {len(schema_of(self.by))} key columns.")
        for name in self.keys:
            if name not in names_of(self.child):
                raise AlgebraInvalid(f"There is no column '{name}' to restrict by.")


@dataclass(frozen=True, slots=True)
class Affected:
    """K: the distinct values of `keys` over the rows of a change, whatever their sign.

    Signs are not added up: a row that leaves a group and one that enters it affect the group.
    """

    keys: tuple[Named, ...]
    child: Relation

    def __post_init__(self) -> None:
        for key in self.keys:
            _check_reads(key.scalar, schema_of(self.child))
        _check_unique(tuple(key.name for key in self.keys))


@dataclass(frozen=True, slots=True)
class Recount:
    """The change of a multiplicity operator (`distinct`, `monus`, `min`, `max`, `except`, `intersect`).

    Per row: f(l, r) − f(l − δl, r − δr), from the new counts and their changes in one pass;
    `distinct` has no right side.
    """

    operator: str
    left: Relation
    left_change: Relation
    right: Relation | None = None
    right_change: Relation | None = None


@dataclass(frozen=True, slots=True)
class Shared:
    """A result that is small and used more than once: evaluated once."""

    child: Relation


Relation: TypeAlias = (
    Empty | Rows | Table | Change | Select | Project | Distinct | UnionAll | Monus | Min | Max | Except | Intersect
    | Product | Join | Aggregate | Negate | Restrict | Affected | Recount | Shared
)  # fmt: skip


def schema_of(relation: Relation) -> Schema:
    match relation:
        case Empty() | Rows() | Table() | Change():
            return relation.schema
        case Select() | Distinct() | Negate() | Restrict() | Shared():
            return schema_of(relation.child)
        case Project():
            below = schema_of(relation.child)
            return tuple(Column(o.name, type_of(o.scalar, below)) for o in relation.outputs)
        case Affected():
            below = schema_of(relation.child)
            return tuple(Column(k.name, type_of(k.scalar, below)) for k in relation.keys)
        case UnionAll() | Monus() | Min() | Max() | Except() | Intersect() | Recount():
            return schema_of(relation.left)
        case Product() | Join():
            return schema_of(relation.left) + schema_of(relation.right)
        case Aggregate():
            below = schema_of(relation.child)
            keys = tuple(Column(k.name, type_of(k.scalar, below)) for k in relation.keys)
            return keys + tuple(Column(m.name, m.type) for m in relation.measures)
        case _:
            assert_never(relation)


def names_of(relation: Relation) -> tuple[str, ...]:
    return tuple(column.name for column in schema_of(relation))


def children(relation: Relation) -> tuple[Relation, ...]:
    match relation:
        case Empty() | Rows() | Table() | Change():
            return ()
        case Select() | Project() | Distinct() | Aggregate() | Negate() | Affected() | Shared():
            return (relation.child,)
        case UnionAll() | Monus() | Min() | Max() | Except() | Intersect() | Product() | Join():
            return (relation.left, relation.right)
        case Restrict():
            return (relation.child, relation.by)
        case Recount():
            parts = (relation.left, relation.left_change, relation.right, relation.right_change)
            return tuple(part for part in parts if part is not None)
        case _:
            assert_never(relation)


def with_children(relation: Relation, new: tuple[Relation, ...]) -> Relation:
    """The same operator over other inputs."""
    match relation:
        case Empty() | Rows() | Table() | Change():
            return relation
        case Select() | Project() | Distinct() | Aggregate() | Negate() | Affected() | Shared():
            return replace(relation, child=new[0])
        case UnionAll() | Monus() | Min() | Max() | Except() | Intersect() | Product() | Join():
            return replace(relation, left=new[0], right=new[1])
        case Restrict():
            return replace(relation, child=new[0], by=new[1])
        case Recount():
            return Recount(relation.operator, *new)
        case _:
            assert_never(relation)


def transform_up(relation: Relation, rule: Callable[[Relation], Relation]) -> Relation:
    """Applies the rule to every node, inputs first."""
    below = children(relation)
    new = tuple(transform_up(child, rule) for child in below)
    changed = any(a is not b for a, b in zip(below, new, strict=True))
    return rule(with_children(relation, new) if changed else relation)


def walk(relation: Relation) -> Iterator[Relation]:
    """Every node, the root first."""
    yield relation
    for child in children(relation):
        yield from walk(child)


def tables_of(relation: Relation) -> frozenset[str]:
    return frozenset(node.name for node in walk(relation) if isinstance(node, Table))


def is_empty(relation: Relation) -> bool:
    return isinstance(relation, Empty) or (isinstance(relation, Rows) and not relation.rows)


def _check_reads(scalar: Scalar, schema: Schema) -> None:
    missing = columns_read(scalar) - {column.name for column in schema}
    if missing:
        known = ", ".join(column.name for column in schema)
        raise AlgebraInvalid(f"There is no column {', '.join(sorted(missing))} in ({known}).")


def _check_unique(names: tuple[str, ...]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise AlgebraInvalid(f"The column name {', '.join(twice)} is there twice.", "Rename one of them.")


def _check_same_width(left: Relation, right: Relation) -> None:
    if len(schema_of(left)) != len(schema_of(right)):
        raise AlgebraInvalid(f"{len(schema_of(left))} columns cannot be matched with {len(schema_of(right))}.")


def refs_to(relation: Relation) -> tuple[Named, ...]:
    """All columns of the relation under their own names, for a projection that adds to them."""
    return tuple(Named(name, Ref(name)) for name in names_of(relation))


def renamed(relation: Relation, names: tuple[str, ...]) -> Relation:
    """The same rows with columns renamed by position."""
    own = names_of(relation)
    return (
        relation
        if own == names
        else Project(tuple(Named(n, Ref(o)) for n, o in zip(names, own, strict=True)), relation)
    )

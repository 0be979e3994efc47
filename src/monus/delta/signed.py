"""The signed form, which the engine runs: the change of a query as one expression over signed bags.

    evaluate(differentiate(Q, changed), new state, changes) = Q(new) − Q(old)

Evaluated in the post-update state (paper 000, section 4): `Table` is the new state, `Change` what
led to it, and an old state is new − change. Linear operators: the same operator over the change.
Bilinear: Δ(E ⋈ F) = ΔE ⋈ F_old ⊎ E_new ⋈ ΔF. By key: op(new ⋉ K) − op(old ⋉ K), where K are the
keys that the change touches.
"""

from __future__ import annotations

from typing import assert_never

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
    is_empty,
    names_of,
    refs_to,
    renamed,
    schema_of,
    with_children,
)
from monus.algebra.scalars import Ref
from monus.errors import AlgebraInvalid


def differentiate(query: Relation, changed: frozenset[str]) -> Relation:
    """The change of the query, given which tables changed; `Empty` if it cannot have changed."""
    match query:
        case Empty() | Rows():
            return Empty(schema_of(query))
        case Table(name, schema):
            return Change(name, schema) if name in changed else Empty(schema)
        case Select() | Project():
            change = differentiate(query.child, changed)
            return Empty(schema_of(query)) if is_empty(change) else with_children(query, (change,))
        case UnionAll(left, right):
            return add(differentiate(left, changed), differentiate(right, changed))
        case Product(left, right) | Join(_, left, right):
            return _bilinear(query, left, right, changed)
        case Distinct(child):
            return _recount("distinct", child, None, changed)
        case Monus(left, right):
            return _recount("monus", left, right, changed)
        case Min(left, right):
            return _recount("min", left, right, changed)
        case Max(left, right):
            return _recount("max", left, right, changed)
        case Except(left, right):
            return _recount("except", left, right, changed)
        case Intersect(left, right):
            return _recount("intersect", left, right, changed)
        case Aggregate():
            return _regroup(query, changed)
        case Change() | Negate() | Restrict() | Affected() | Recount() | Shared():
            raise AlgebraInvalid(f"{type(query).__name__} is part of a change, not of a query.")
        case _:
            assert_never(query)


def add(left: Relation, right: Relation) -> Relation:
    """left ⊎ right, without φ; the names are those of the left one."""
    if is_empty(right):
        return left
    return renamed(right, names_of(left)) if is_empty(left) else UnionAll(left, right)


def old(new: Relation, change: Relation) -> Relation:
    """The state before the change, by compensation."""
    return new if is_empty(change) else UnionAll(new, Negate(change))


def _bilinear(query: Product | Join, left: Relation, right: Relation, changed: frozenset[str]) -> Relation:
    left_change, right_change = differentiate(left, changed), differentiate(right, changed)
    first = second = Empty(schema_of(query))
    if not is_empty(left_change):
        first = with_children(query, (left_change, old(right, right_change)))
    if not is_empty(right_change):
        second = with_children(query, (left, right_change))
    return add(first, second)


def _recount(operator: str, left: Relation, right: Relation | None, changed: frozenset[str]) -> Relation:
    """All copies of a row are one group: its new multiplicity and its change tell the old one."""
    left_change = differentiate(left, changed)
    right_change = None if right is None else differentiate(right, changed)
    if is_empty(left_change) and (right_change is None or is_empty(right_change)):
        return Empty(schema_of(left))
    left_change = _shared(left_change)
    affected = Empty(schema_of(left)) if is_empty(left_change) else Affected(refs_to(left_change), left_change)
    if right is None or right_change is None:
        return Recount(operator, Restrict(names_of(left), left, affected), left_change)
    right_change = _shared(right_change)
    if not is_empty(right_change):
        affected = add(affected, Affected(refs_to(right_change), right_change))
    affected = Shared(affected)
    return Recount(
        operator,
        Restrict(names_of(left), left, affected),
        left_change,
        Restrict(names_of(right), right, affected),
        right_change,
    )


def _regroup(query: Aggregate, changed: frozenset[str]) -> Relation:
    change = differentiate(query.child, changed)
    if is_empty(change):
        return Empty(schema_of(query))
    change = _shared(change)
    new = query.child
    if query.keys:
        query, new, change = with_key_columns(query, new, change)
        new = Shared(Restrict(key_columns(query), new, affected_groups(query, change)))
    after = with_children(query, (new,))
    before = with_children(query, (old(new, change),))
    return UnionAll(after, Negate(before))


def with_key_columns(query: Aggregate, *inputs: Relation) -> tuple[Aggregate, Relation, Relation]:
    """Keys that are expressions are projected first, so that a restriction can name them."""
    if all(isinstance(key.scalar, Ref) for key in query.keys):
        return query, inputs[0], inputs[1]
    computed = tuple(
        Named(f"__key{i}", key.scalar) for i, key in enumerate(query.keys) if not isinstance(key.scalar, Ref)
    )
    by_position = {key.scalar: Ref(name.name) for key, name in zip(_computed(query), computed, strict=True)}
    keys = tuple(Named(k.name, k.scalar if isinstance(k.scalar, Ref) else by_position[k.scalar]) for k in query.keys)
    new, change = (Project(refs_to(each) + computed, each) for each in inputs)
    return Aggregate(keys, query.measures, new), new, change


def key_columns(query: Aggregate) -> tuple[str, ...]:
    """The input columns that are grouped by, once keys are plain columns."""
    return tuple(key.scalar.name for key in query.keys if isinstance(key.scalar, Ref))


def affected_groups(query: Aggregate, change: Relation) -> Relation:
    return Affected(query.keys, change)


def _computed(query: Aggregate) -> list[Named]:
    return [key for key in query.keys if not isinstance(key.scalar, Ref)]


def _shared(change: Relation) -> Relation:
    return change if isinstance(change, Change) or is_empty(change) else Shared(change)

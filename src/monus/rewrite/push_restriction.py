"""(σ_p E) ⋉ K = σ_p(E ⋉ K), and so on down to the tables.

Exact for every operator that treats rows with equal keys alike; where a key is computed, or the
keys come from both sides of a join, the parts that can be pushed are, and the whole restriction
stays on top. Without this, maintenance reads more than recomputation does.
"""

from __future__ import annotations

from monus.algebra.relations import (
    Affected,
    Aggregate,
    Distinct,
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
    Relation,
    Restrict,
    Select,
    UnionAll,
    names_of,
    transform_up,
    with_children,
)
from monus.algebra.scalars import Ref


def push_restriction(relation: Relation) -> Relation:
    """Every restriction in the expression, as far down as it goes."""
    return transform_up(relation, lambda node: _push(node) if isinstance(node, Restrict) else node)


def _push(restrict: Restrict) -> Relation:
    keys, child, by = restrict.keys, restrict.child, restrict.by
    match child:
        case Select() | Negate() | Distinct():
            return with_children(child, (_push(Restrict(keys, child.child, by)),))
        case Project():
            sources = {output.name: output.scalar for output in child.outputs}
            plain = {name: scalar.name for name in keys if isinstance(scalar := sources[name], Ref)}
            return _through(restrict, plain)
        case Aggregate():
            sources = {key.name: key.scalar for key in child.keys}
            plain = {n: s.name for n in keys if n in sources and isinstance(s := sources[n], Ref)}
            return _through(restrict, plain)
        case (
            UnionAll(left, right)
            | Monus(left, right)
            | Min(left, right)
            | Max(left, right)
            | Except(left, right)
            | Intersect(left, right)
        ):
            position = {name: i for i, name in enumerate(names_of(left))}
            right_keys = tuple(names_of(right)[position[name]] for name in keys)
            return with_children(child, (_push(Restrict(keys, left, by)), _push(Restrict(right_keys, right, by))))
        case Join(_, left, right) | Product(left, right):
            inputs = tuple(_push_part(side, keys, by) for side in (left, right))
            below = with_children(child, inputs)
            one_sided = any(set(keys) <= set(names_of(side)) for side in (left, right))
            return below if one_sided else Restrict(keys, below, by)
        case _:
            return restrict


def _push_part(side: Relation, keys: tuple[str, ...], by: Relation) -> Relation:
    mine = tuple(name for name in keys if name in names_of(side))
    return _push(Restrict(mine, side, _part(by, keys, mine))) if mine else side


def _part(by: Relation, keys: tuple[str, ...], some: tuple[str, ...]) -> Relation:
    """K projected on some of its columns, again without duplicates."""
    if some == keys:
        return by
    columns = dict(zip(keys, names_of(by), strict=True))
    return Affected(tuple(Named(columns[name], Ref(columns[name])) for name in some), by)


def _through(restrict: Restrict, plain: dict[str, str]) -> Relation:
    """Below an operator whose output columns `plain` are columns of its input under another name."""
    child = restrict.child
    assert isinstance(child, Project | Aggregate)
    some = tuple(name for name in restrict.keys if name in plain)
    if not some or len({plain[name] for name in some}) < len(some):
        return restrict
    part = _part(restrict.by, restrict.keys, some)
    below = with_children(child, (_push(Restrict(tuple(plain[name] for name in some), child.child, part)),))
    return below if some == restrict.keys else Restrict(restrict.keys, below, restrict.by)

"""(A ⋈ B) ⋈ ΔC = Π((ΔC ⋈ B) ⋈ A): a join that holds a change begins with it.

Inner joins commute and associate over signed bags, and σ_p(A × B) = A ⋈_p B, so the order is free;
written order would join the large tables first, and `FROM A, B, C WHERE …` would be a product. The
projection restores the order of the columns.
"""

from __future__ import annotations

from monus.algebra.relations import (
    Change,
    Join,
    Named,
    Product,
    Project,
    Relation,
    Restrict,
    Select,
    Shared,
    children,
    names_of,
    walk,
    with_children,
)
from monus.algebra.scalars import Compare, Ref, Scalar, columns_read, conjunction, conjuncts


def order_joins(relation: Relation) -> Relation:
    """Every cluster of inner joins with a change among its inputs, begun with the change."""
    leaves, conditions = _cluster(relation)
    if len(leaves) > 1:
        return _ordered(relation, [order_joins(leaf) for leaf in leaves], conditions)
    return with_children(relation, tuple(order_joins(child) for child in children(relation)))


def is_small(relation: Relation) -> bool:
    """Whether the expression is bounded by a change: it reads one, or is restricted by one."""
    match relation:
        case Change() | Shared():
            return True
        case Join() | Product():
            return any(is_small(child) for child in children(relation))
        case Restrict():
            return True
        case _:
            below = children(relation)
            return bool(below) and all(is_small(child) for child in below)


def _cluster(relation: Relation) -> tuple[list[Relation], list[Scalar]]:
    """The inputs and conditions of the inner joins at the top; one input if there are none.

    A projection between two joins that only drops columns is looked through, unless what it drops
    has the name of a column elsewhere.
    """
    leaves, conditions = _flatten(relation, through=True)
    names = [name for leaf in leaves for name in names_of(leaf)]
    return (leaves, conditions) if len(set(names)) == len(names) else _flatten(relation, through=False)


def _flatten(relation: Relation, through: bool) -> tuple[list[Relation], list[Scalar]]:
    match relation:
        case Join(condition, left, right):
            (a, p), (b, q) = _flatten(left, through), _flatten(right, through)
            return a + b, [*p, *q, *conjuncts(condition)]
        case Product(left, right):
            (a, p), (b, q) = _flatten(left, through), _flatten(right, through)
            return a + b, p + q
        case Select(predicate, child):
            leaves, conditions = _flatten(child, through)
            return (leaves, [*conditions, *conjuncts(predicate)]) if len(leaves) > 1 else ([relation], [])
        case Project(outputs, child) if through and all(o.scalar == Ref(o.name) for o in outputs):
            leaves, conditions = _flatten(child, through)
            return (leaves, conditions) if len(leaves) > 1 else ([relation], [])
        case _:
            return [relation], []


def _ordered(original: Relation, leaves: list[Relation], conditions: list[Scalar]) -> Relation:
    small = [leaf for leaf in leaves if is_small(leaf)]
    if small:
        first = min(small, key=lambda leaf: (not _is_change(leaf), leaves.index(leaf)))
    else:
        first = leaves[0]
    rest = [leaf for leaf in leaves if leaf is not first]
    left, open_conditions = first, list(conditions)
    while rest:
        right = _next(left, rest, open_conditions, bool(small))
        rest = [leaf for leaf in rest if leaf is not right]
        known = set(names_of(left)) | set(names_of(right))
        now = tuple(c for c in open_conditions if columns_read(c) <= known)
        open_conditions = [c for c in open_conditions if not columns_read(c) <= known]
        left = Join(conjunction(now), left, right) if now else Product(left, right)
    names = names_of(original)
    return left if names_of(left) == names else Project(tuple(Named(n, Ref(n)) for n in names), left)


def _next(left: Relation, rest: list[Relation], conditions: list[Scalar], reorder: bool) -> Relation:
    """The next input: connected by an equality if there is one, small ones first, else as written."""
    if not reorder:
        return rest[0]
    known = set(names_of(left))

    def rank(leaf: Relation) -> tuple[bool, bool]:
        connected = any(_connects(c, known, set(names_of(leaf))) for c in conditions)
        return (not connected, not is_small(leaf))

    return min(rest, key=rank)


def _connects(condition: Scalar, left: set[str], right: set[str]) -> bool:
    if not isinstance(condition, Compare) or condition.op not in ("=", "<=>"):
        return False
    a, b = columns_read(condition.left), columns_read(condition.right)
    return bool(a and b) and ((a <= left and b <= right) or (b <= left and a <= right))


def _is_change(relation: Relation) -> bool:
    return any(isinstance(node, Change) for node in walk(relation))

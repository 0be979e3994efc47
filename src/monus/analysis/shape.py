"""How a view is stored, which follows from the top of its query.

*Grouped*: projections and selections over γ (or ε, which is γ without measures): one row per group,
found again by its keys. *Bag*: everything else: rows without a key.
"""

from __future__ import annotations

from monus.algebra.groups import Grouped
from monus.algebra.relations import (
    Aggregate,
    Distinct,
    Project,
    Relation,
    Select,
    names_of,
    refs_to,
    with_children,
)
from monus.algebra.scalars import Ref


def grouped(query: Relation) -> Grouped | None:
    """The query as a grouped view, if it is one."""
    above: list[Project | Select] = []
    while isinstance(query, Project | Select):
        above.append(query)
        query = query.child
    match query:
        case Aggregate():
            return Grouped(query, tuple(above))
        case Distinct(child):
            return Grouped(Aggregate(refs_to(child), (), child), tuple(above))
        case _:
            return None


def put_above(above: tuple[Project | Select, ...], below: Relation) -> Relation:
    """The operators over another input."""
    for node in reversed(above):
        below = with_children(node, (below,))
    return below


def exposed(shape: Grouped) -> dict[str, str]:
    """Which columns of the aggregate are visible as they are, and under which name."""
    seen = {name: name for name in names_of(shape.aggregate)}
    for node in reversed(shape.above):
        if isinstance(node, Project):
            passed = {o.scalar.name: o.name for o in reversed(node.outputs) if isinstance(o.scalar, Ref)}
            seen = {inner: passed[outer] for inner, outer in seen.items() if outer in passed}
    return seen

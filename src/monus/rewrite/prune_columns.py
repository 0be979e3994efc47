"""Π_A(E) = Π_A(E narrowed to what is read): tables are read with the columns that matter.

A change that touches only other columns then disappears when it is consolidated. Duplicates are
kept, so narrowing below linear operators and aggregates is exact; below ε, ∸, min, max, EXCEPT and
INTERSECT every column counts.
"""

from __future__ import annotations

from dataclasses import replace

from monus.algebra.relations import (
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
    Product,
    Project,
    Relation,
    Rows,
    Select,
    Table,
    UnionAll,
    children,
    names_of,
    scalars_of,
    with_children,
)
from monus.algebra.scalars import Ref, columns_read


def prune_columns(query: Relation) -> Relation:
    """The same query over tables with only the columns that it reads."""
    return _narrow(query, frozenset(names_of(query)))


def _narrow(query: Relation, needed: frozenset[str]) -> Relation:
    """The query with at least the needed columns, in their order, and as few others as possible."""
    match query:
        case Table(_, schema) | Change(_, schema) | Empty(schema):
            kept = tuple(column for column in schema if column.name in needed)
            return replace(query, schema=kept or schema[:1])
        case Rows(schema, rows):
            at = [i for i, column in enumerate(schema) if column.name in needed] or [0]
            return Rows(tuple(schema[i] for i in at), tuple(tuple(row[i] for i in at) for row in rows))
        case Select(predicate, child):
            below = Select(predicate, _narrow(child, needed | columns_read(predicate)))
            return _exactly(below, query, needed)
        case Project(outputs, child):
            kept_outputs = tuple(o for o in outputs if o.name in needed) or outputs[:1]
            reads = frozenset[str]().union(*(columns_read(o.scalar) for o in kept_outputs))
            return Project(kept_outputs, _narrow(child, reads))
        case Join(condition, left, right):
            reads = needed | columns_read(condition)
            below = Join(condition, _side(left, reads), _side(right, reads))
            return _exactly(below, query, needed)
        case Product(left, right):
            return _exactly(Product(_side(left, needed), _side(right, needed)), query, needed)
        case UnionAll(left, right):
            keep = [i for i, name in enumerate(names_of(left)) if name in needed] or [0]
            return UnionAll(_only(left, keep), _only(right, keep))
        case Aggregate(keys, measures, child):
            kept_measures = tuple(m for m in measures if m.name in needed)
            scalars = [k.scalar for k in keys] + [s for m in kept_measures for s in scalars_of(m)]
            reads = frozenset[str]().union(*(columns_read(s) for s in scalars))
            return Aggregate(keys, kept_measures, _narrow(child, reads))
        case Distinct() | Monus() | Min() | Max() | Except() | Intersect():
            whole = tuple(_narrow(child, frozenset(names_of(child))) for child in children(query))
            return _exactly(with_children(query, whole), query, needed)
        case _:
            return query


def _side(side: Relation, reads: frozenset[str]) -> Relation:
    return _narrow(side, reads & frozenset(names_of(side)))


def _only(side: Relation, keep: list[int]) -> Relation:
    names = names_of(side)
    chosen = tuple(names[i] for i in keep)
    below = _narrow(side, frozenset(chosen))
    return below if names_of(below) == chosen else Project(tuple(Named(n, Ref(n)) for n in chosen), below)


def _exactly(below: Relation, original: Relation, needed: frozenset[str]) -> Relation:
    """Drops what only the operator itself read, so that positions above stay right."""
    wanted = tuple(name for name in names_of(original) if name in needed)
    if not wanted or names_of(below) == wanted:
        return below
    return Project(tuple(Named(n, Ref(n)) for n in wanted), below)

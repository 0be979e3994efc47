"""parse(to_text(r)) == r, in both layouts, for every node, any name and any value."""

from __future__ import annotations

import math
from datetime import time, timedelta, timezone
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from monus.algebra.relations import (
    Affected,
    Aggregate,
    Change,
    Distinct,
    Empty,
    Join,
    Measure,
    Named,
    Negate,
    Product,
    Recount,
    Relation,
    Restrict,
    Rows,
    Select,
    Shared,
    Table,
    UnionAll,
    names_of,
    renamed,
)
from monus.algebra.scalars import (
    COMPARISONS,
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
)
from monus.algebra.text import handles_of, parse, to_text
from monus.delta.figure2 import pre_update
from monus.delta.states import transaction_on
from tests.property.strategies import TABLES, queries

NAMES = st.one_of(
    st.sampled_from(["a", "custId#2", "AND", "min", "rows", "x y", "`", "Δ", "NULL", "DISTINCT", "X", "φ", "both"]),
    st.text(max_size=4),
)
TYPES = st.one_of(
    st.sampled_from(["int", "string", "decimal(10,2)", "struct<a:int,b:array<string>>", "timestamp_ntz", "NULL"]),
    st.text(max_size=4),
)
OFFSETS = st.integers(-1000, 1000).map(lambda minutes: timezone(timedelta(minutes=minutes)))
SIMPLE: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    # One NaN, because tuples that hold different ones are different to Python.
    st.floats(allow_nan=False),
    st.just(math.nan),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=OFFSETS),
    st.times(),
    st.timedeltas(),
)


VALUES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=2),
    ),
    max_leaves=4,
)


def scalars(names: tuple[str, ...]) -> st.SearchStrategy[Scalar]:
    literals: st.SearchStrategy[Scalar] = st.builds(Literal, VALUES, TYPES)
    leaves = st.one_of(st.sampled_from(names).map(Ref), literals) if names else literals

    def deeper(inner: st.SearchStrategy[Scalar]) -> st.SearchStrategy[Scalar]:
        bindings = st.lists(st.tuples(NAMES, inner), max_size=2)
        return st.one_of(
            st.builds(Compare, st.sampled_from(COMPARISONS), inner, inner),
            st.builds(And, inner, inner),
            st.builds(Or, inner, inner),
            st.builds(Not, inner),
            st.builds(IsNull, inner),
            st.builds(
                lambda text, type_, bound: Opaque(text, type_, tuple(p for p, _ in bound), tuple(a for _, a in bound)),
                st.text(max_size=5),
                TYPES,
                bindings,
            ),
        )

    return st.recursive(leaves, deeper, max_leaves=5)


@st.composite
def relations(draw: st.DrawFn, depth: int = 2) -> Relation:
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        columns = draw(st.lists(st.builds(Column, NAMES, TYPES), max_size=3, unique_by=lambda column: column.name))
        leaf = draw(st.sampled_from([Empty, Table, Change, Rows]))
        if leaf is Empty:
            return Empty(tuple(columns))
        if leaf is Rows:
            return Rows(tuple(columns), tuple(draw(st.lists(st.tuples(*[VALUES] * len(columns)), max_size=2))))
        return leaf(draw(NAMES), tuple(columns))
    child = draw(relations(depth - 1))
    names = names_of(child)
    operator = draw(st.sampled_from(range(9)))
    if operator == 0:
        return Select(draw(scalars(names)), child)
    if operator == 1:
        return draw(st.sampled_from([Distinct, Negate, Shared]))(child)
    if operator == 2:
        return UnionAll(child, Shared(child))
    if operator == 3:
        return Restrict(names, child, child)
    if operator == 4:
        return draw(st.sampled_from([Recount("distinct", child, child), Recount("min", child, child, child, child)]))
    other = renamed(child, tuple(f"{position}·{name}" for position, name in enumerate(names)))
    if operator == 5 and not set(names_of(other)) & set(names):
        return Product(child, other)
    if operator == 6 and not set(names_of(other)) & set(names):
        return Join(draw(scalars(names + names_of(other))), child, other)
    keys = draw(st.lists(st.builds(Named, NAMES, scalars(names)), max_size=2, unique_by=lambda key: key.name))
    if operator == 7:
        return Affected(tuple(keys), child)
    params = tuple(draw(st.lists(NAMES, max_size=2)))
    measure = Measure(
        draw(NAMES.filter(lambda name: name not in {key.name for key in keys})),
        draw(NAMES),
        tuple(draw(st.lists(scalars(names), max_size=2))),
        draw(TYPES),
        draw(st.booleans()),
        draw(st.none() | scalars(names)),
        params,
        tuple(draw(scalars(names)) for _ in params),
    )
    return Aggregate(tuple(keys), (measure,), child)


def shown(relation: Relation) -> str:
    """Python takes 1, 1.0 and TRUE for equal but shows them differently; `fold` is nothing that SQL knows."""
    return repr(relation).replace(", fold=1", "")


@given(relations())
@example(Select(Literal((), ""), Empty(())))  # a type without a name was taken for one that need not be said
@example(Select(Literal(time(0, 0, fold=1), "int"), Empty(())))
def test_any_relation_survives_both_layouts(relation: Relation) -> None:
    for text in (to_text(relation), to_text(relation, indent=True)):
        parsed = parse(text)
        assert shown(parsed) == shown(relation)
        assert parsed == relation


@given(queries(with_aggregates=True))
def test_a_query_survives_with_its_handles(query: Relation) -> None:
    handles = handles_of(query)
    parsed = parse(to_text(query), handles)
    assert parsed == query
    assert handles_of(parsed) == handles


@given(queries())
def test_a_derived_change_survives(query: Relation) -> None:
    update = pre_update(transaction_on(TABLES.values()), query)
    text = to_text(update.deleted)
    if len(text) < 5000:
        assert parse(text) == update.deleted

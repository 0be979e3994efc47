"""Every rewrite gives an equal relation: of queries, and of the changes that the engine derives from them."""

from __future__ import annotations

from hypothesis import given

from monus.algebra.interpreter import evaluate
from monus.algebra.relations import (
    Aggregate,
    Change,
    Join,
    Product,
    Project,
    Relation,
    Restrict,
    Table,
    names_of,
    refs_to,
    transform_up,
    walk,
)
from monus.delta.signed import differentiate
from monus.rewrite.order_joins import is_small, order_joins
from monus.rewrite.prune_columns import prune_columns
from monus.rewrite.push_restriction import push_restriction
from tests.property.strategies import TABLES, Step, queries, steps


@given(queries(with_aggregates=True), steps())
def test_narrowed_tables_do_not_change_a_query(query: Relation, step: Step) -> None:
    pruned = prune_columns(query)
    assert names_of(pruned) == names_of(query)
    assert evaluate(over_whole_tables(pruned), step.after) == evaluate(query, step.after)


@given(queries(with_aggregates=True), steps())
def test_what_the_engine_runs_is_the_derived_change(query: Relation, step: Step) -> None:
    """The order in which `maintenance` applies them: narrowed, derived, restricted, ordered."""
    change = differentiate(prune_columns(query), step.changed)
    expected = evaluate(differentiate(query, step.changed), step.after, step.changes)
    pushed = push_restriction(change)
    ordered = order_joins(pushed)
    assert names_of(ordered) == names_of(change)
    assert evaluate(over_whole_tables(pushed), step.after, step.changes) == expected
    assert evaluate(over_whole_tables(ordered), step.after, step.changes) == expected


@given(queries(with_aggregates=True), steps())
def test_a_join_with_a_change_begins_with_it(query: Relation, step: Step) -> None:
    ordered = order_joins(push_restriction(differentiate(query, step.changed)))
    for node in walk(ordered):
        if isinstance(node, Join | Product) and is_small(node.right):
            assert is_small(node.left)


@given(queries(with_aggregates=True))
def test_ordering_keeps_what_stands_between_joins(query: Relation) -> None:
    kept = (Aggregate, Restrict)
    count = [sum(isinstance(node, kept) for node in walk(each)) for each in (query, order_joins(query))]
    assert count[0] == count[1]


def over_whole_tables(relation: Relation) -> Relation:
    """The states of these tests have all columns, and the interpreter knows columns by position."""

    def widen(node: Relation) -> Relation:
        if isinstance(node, Table | Change) and node.schema != TABLES[node.name].schema:
            return Project(refs_to(node), type(node)(node.name, TABLES[node.name].schema))
        return node

    return transform_up(relation, widen)

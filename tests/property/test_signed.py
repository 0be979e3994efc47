"""The signed form is Figure 2's net effect and is what recomputation gives."""

from __future__ import annotations

from hypothesis import given

from monus.algebra.interpreter import evaluate
from monus.algebra.relations import Relation
from monus.delta.figure2 import post_update
from monus.delta.signed import differentiate
from monus.delta.states import log_of
from tests.property.strategies import TABLES, Step, minus, queries, steps
from tests.property.test_figure2 import after

L = log_of(TABLES.values())


@given(queries(with_aggregates=True), steps())
def test_the_signed_form_is_what_recomputation_gives(query: Relation, step: Step) -> None:
    change = differentiate(query, step.changed)
    assert evaluate(change, step.after, step.changes) == net(query, step)


@given(queries(), steps())
def test_the_signed_form_is_the_net_effect_of_figure_2(query: Relation, step: Step) -> None:
    update, state = post_update(L, query), after(step)
    figure_2 = minus(evaluate(update.inserted, state), evaluate(update.deleted, state))
    signed = evaluate(differentiate(query, step.changed), step.after, step.changes)
    assert signed == figure_2 == net(query, step)


@given(queries(with_aggregates=True), steps())
def test_tables_that_are_said_to_have_changed_need_not_have(query: Relation, step: Step) -> None:
    change = differentiate(query, frozenset(TABLES))
    assert evaluate(change, step.after, step.changes) == net(query, step)


def net(query: Relation, step: Step) -> object:
    return minus(evaluate(query, step.after), evaluate(query, step.before))

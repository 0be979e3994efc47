"""The strongly minimal functions: correct, within the old value, and nothing both deleted and inserted."""

from __future__ import annotations

from hypothesis import given

from monus.algebra.interpreter import Bag, evaluate
from monus.algebra.relations import Relation, Table
from monus.delta.states import Update, apply, transaction_on
from monus.delta.strongly_minimal import patch_minimality, strongly_minimal
from tests.property.strategies import TABLES, Step, bags_of, minus, queries, steps

UPDATES = transaction_on(TABLES.values()).updates
COLUMN = TABLES["T"].schema


@given(queries(), steps())
def test_the_functions_are_right_and_strongly_minimal(query: Relation, step: Step) -> None:
    state = dict(step.before)
    for name, change in step.changes.items():
        # What is deleted and inserted again is neither: the part of the change with each sign.
        state[f"∇{name}"], state[f"Δ{name}"] = -change, +change
    old, new = evaluate(query, step.before), evaluate(query, step.after)
    update = strongly_minimal(UPDATES, query)
    deleted, inserted = evaluate(update.deleted, state), evaluate(update.inserted, state)
    assert (old - deleted) + inserted == new
    assert deleted <= old
    assert not deleted & inserted
    # Strong minimality leaves no choice: the update is the net change.
    assert minus(inserted, deleted) == minus(new, old)


@given(bags_of(COLUMN), bags_of(COLUMN), bags_of(COLUMN))
def test_the_patch_makes_any_update_strongly_minimal(old: Bag, deleted: Bag, inserted: Bag) -> None:
    state = {"O": old, "D": deleted, "I": inserted}
    table, update = Table("O", COLUMN), Update(Table("D", COLUMN), Table("I", COLUMN))
    patched = patch_minimality(table, update)
    assert evaluate(apply(patched, table), state) == evaluate(apply(update, table), state)
    assert evaluate(patched.deleted, state) <= old
    assert not evaluate(patched.deleted, state) & evaluate(patched.inserted, state)

"""Theorem 2, Lemmas 1 and 3, and the duality of past and future, over random queries and transactions."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from monus.algebra.derived import union_all
from monus.algebra.interpreter import Bag, evaluate
from monus.algebra.relations import Relation, Table
from monus.delta.figure2 import ADD, DEL, post_update, pre_update
from monus.delta.states import (
    Update,
    apply,
    cancel,
    compose,
    extend,
    future,
    log_of,
    past,
    transaction_on,
)
from tests.property.strategies import TABLES, Step, bags_of, following, queries, steps, sub_bags

T = transaction_on(TABLES.values())
L = log_of(TABLES.values())


def before(step: Step) -> dict[str, Bag]:
    """The state before the transaction, with the bags of the transaction beside the tables."""
    return {
        **step.before,
        **{f"∇{name}": bag for name, bag in step.deleted.items()},
        **{f"Δ{name}": bag for name, bag in step.inserted.items()},
    }


def after(step: Step) -> dict[str, Bag]:
    """The state after the transaction, with the bags of the log beside the tables."""
    return {
        **step.after,
        **{f"▼{name}": bag for name, bag in step.deleted.items()},
        **{f"▲{name}": bag for name, bag in step.inserted.items()},
    }


def is_within(part: Bag, whole: Bag) -> bool:
    return all(n <= whole[row] for row, n in part.items())


@given(queries(), steps())
def test_theorem_2_in_the_state_before(query: Relation, step: Step) -> None:
    state, old, new = before(step), evaluate(query, step.before), evaluate(query, step.after)
    update = pre_update(T, query)
    assert evaluate(future(T, query), state) == new
    assert evaluate(apply(update, query), state) == new
    assert is_within(evaluate(update.deleted, state), old)


@given(queries(), steps())
def test_theorem_2_in_the_state_after(query: Relation, step: Step) -> None:
    state, old, new = after(step), evaluate(query, step.before), evaluate(query, step.after)
    update = post_update(L, query)
    assert evaluate(past(L, query), state) == old
    assert evaluate(apply(update, past(L, query)), state) == new
    assert is_within(evaluate(update.inserted, state), new)


@given(queries(), steps())
def test_past_and_future_are_dual(query: Relation, step: Step) -> None:
    """The functions for L are those for the transaction that undoes it, with their roles exchanged."""
    state = after(step)
    undo = {name: Update(update.inserted, update.deleted) for name, update in L.updates.items()}
    forward = post_update(L, query)
    assert evaluate(forward.deleted, state) == evaluate(ADD(undo, query), state)
    assert evaluate(forward.inserted, state) == evaluate(DEL(undo, query), state)
    # Both forms lead from the old value to the same new one, each in its own state.
    old = evaluate(query, step.before)
    assert applied(old, pre_update(T, query), before(step)) == applied(old, forward, state)


def applied(value: Bag, update: Update, state: dict[str, Bag]) -> Bag:
    return (value - evaluate(update.deleted, state)) + evaluate(update.inserted, state)


COLUMN = TABLES["T"].schema
OLD, NEW, D1, I1, D2, I2 = (Table(name, COLUMN) for name in ("O", "N", "D1", "I1", "D2", "I2"))


@given(bags_of(COLUMN), bags_of(COLUMN), bags_of(COLUMN))
def test_lemma_1_cancellation(old: Bag, deleted: Bag, inserted: Bag) -> None:
    """N ≡ (O ∸ D) ⊎ I implies O ≡ (N ∸ I) ⊎ (O min D), for any D."""
    state = {"O": old, "D1": deleted, "I1": inserted, "N": (old - deleted) + inserted}
    update = Update(D1, I1)
    assert evaluate(apply(update, OLD), state) == state["N"]
    assert evaluate(apply(cancel(OLD, update), NEW), state) == old


@given(st.data(), bags_of(COLUMN), bags_of(COLUMN), bags_of(COLUMN))
def test_lemma_3_composition(data: st.DataObject, old: Bag, first: Bag, second: Bag) -> None:
    deleted = data.draw(sub_bags(old))
    between = (old - deleted) + first
    state = {"O": old, "D1": deleted, "I1": first, "D2": data.draw(sub_bags(between)), "I2": second}
    composed = compose(Update(D1, I1), Update(D2, I2))
    in_sequence = apply(Update(D2, I2), apply(Update(D1, I1), OLD))
    assert evaluate(apply(composed, OLD), state) == evaluate(in_sequence, state)
    assert is_within(evaluate(composed.deleted, state), old)


@given(st.data(), queries(), steps())
def test_a_log_that_is_extended_reaches_back_over_both_transactions(
    data: st.DataObject, query: Relation, first: Step
) -> None:
    second = data.draw(following(first))
    log = extend(L, T)
    state = {**after(first), **before(second), **second.after}
    assert evaluate(past(log, query), state) == evaluate(query, first.before)
    for name, update in log.updates.items():
        assert is_within(evaluate(update.inserted, state), second.after[name])
    update = post_update(log, query)
    old, new = evaluate(query, first.before), evaluate(query, second.after)
    assert applied(old, update, state) == new


@given(queries())
def test_nothing_changes_without_an_update(query: Relation) -> None:
    state: dict[str, Bag] = {name: Counter() for name in TABLES}
    update = pre_update(transaction_on(()), query)
    assert evaluate(union_all(update.deleted, update.inserted), state) == Counter()

"""Each rule by itself, over nothing but tables, in all three forms.

Random queries are often empty, and share their examples among all rules; here every rule has its own.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from monus.algebra.derived import with_names
from monus.algebra.interpreter import evaluate
from monus.algebra.relations import (
    Distinct,
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
    Select,
    UnionAll,
)
from monus.algebra.scalars import Compare, Literal, Ref
from monus.delta.figure2 import post_update, pre_update
from monus.delta.signed import differentiate
from monus.delta.states import log_of, transaction_on
from monus.delta.strongly_minimal import strongly_minimal
from tests.property.strategies import TABLES, Step, minus, steps
from tests.property.test_figure2 import after, applied, before, is_within

R, S, T = (TABLES[name] for name in "RST")
AGAIN = with_names(R, ("a#2", "b#2"))
OTHER = Project((Named("t", Ref("b")),), R)
TRANSACTION, LOG = transaction_on(TABLES.values()), log_of(TABLES.values())

QUERIES: dict[str, Relation] = {
    "select": Select(Compare("=", Ref("a"), Literal(1, "int")), R),
    "project": OTHER,
    "distinct": Distinct(T),
    "distinct project": Distinct(OTHER),
    "product": Product(with_names(T, ("t",)), R),
    "product of strings": Product(R, S),
    "self product": Product(R, AGAIN),
    "self join": Join(Compare("=", Ref("a"), Ref("a#2")), R, AGAIN),
    **{operator.__name__: operator(T, OTHER) for operator in (UnionAll, Monus, Min, Max, Except, Intersect)},
    "self monus": Monus(R, AGAIN),
    "reversed monus": Monus(OTHER, T),
}


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=max(1, settings().max_examples // 3))
@given(step=steps())
def test_each_operator_in_all_forms(name: str, step: Step) -> None:
    query = QUERIES[name]
    old, new = evaluate(query, step.before), evaluate(query, step.after)

    future = pre_update(TRANSACTION, query)
    assert applied(old, future, before(step)) == new
    assert is_within(evaluate(future.deleted, before(step)), old)

    past = post_update(LOG, query)
    assert applied(old, past, after(step)) == new
    assert is_within(evaluate(past.inserted, after(step)), new)

    net = before(step)
    for table, change in step.changes.items():
        net[f"∇{table}"], net[f"Δ{table}"] = -change, +change
    update = strongly_minimal(TRANSACTION.updates, query)
    assert evaluate(update.deleted, net) == -minus(new, old)
    assert evaluate(update.inserted, net) == +minus(new, old)

    assert evaluate(differentiate(query, step.changed), step.after, step.changes) == minus(new, old)

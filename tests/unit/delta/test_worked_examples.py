"""Examples 1.1, 1.2 and 1.3 of Colby et al., and the state bug that they are about."""

from __future__ import annotations

from collections import Counter

from monus.algebra.interpreter import Bag, evaluate
from monus.algebra.relations import Join, Min, Monus, Named, Project, Relation, Table, UnionAll
from monus.algebra.scalars import Column, Compare, Literal, Ref, conjunction
from monus.algebra.text import to_text
from monus.delta.figure2 import post_update, pre_update
from monus.delta.states import Transaction, Update, future, log_of, past, transaction_on


def table(name: str, *columns: str, of: str = "string") -> Table:
    return Table(name, tuple(Column(column, of) for column in columns))


def bag(*rows: tuple[object, ...]) -> Bag:
    return Counter(rows)


def applied(value: Bag, update: Update, state: dict[str, Bag]) -> Bag:
    return (value - evaluate(update.deleted, state)) + evaluate(update.inserted, state)


# -- Example 1.1: the sales of highly valued customers

CUSTOMER = table("customer", "custId", "name", "address", "score")
SALES = table("sales", "s_custId", "itemNo", "quantity", "salesPrice", of="int")
VIEW = Project(
    tuple(Named(name, Ref(name)) for name in ("custId", "name", "score", "itemNo", "quantity")),
    Join(
        conjunction(
            (
                Compare("=", Ref("custId"), Ref("s_custId")),
                Compare("<>", Ref("quantity"), Literal(0, "int")),
                Compare("=", Ref("score"), Literal("High", "string")),
            )
        ),
        CUSTOMER,
        SALES,
    ),
)
ANN, BOB = (1, "Ann", "Elm St", "High"), (2, "Bob", "Oak St", "Low")
BEFORE = {
    "customer": bag(ANN, BOB),
    "sales": bag((1, 10, 1, 5), (1, 10, 1, 5), (2, 10, 2, 5), (1, 11, 0, 7)),
}
DELETED = {"customer": bag(BOB), "sales": bag((1, 10, 1, 5))}
INSERTED = {"customer": bag((2, "Bob", "Oak St", "High")), "sales": bag((2, 12, 3, 9), (1, 12, 1, 9), (1, 12, 1, 9))}
AFTER = {name: (BEFORE[name] - DELETED[name]) + INSERTED[name] for name in BEFORE}


def test_example_1_1_in_both_states() -> None:
    old = bag((1, "Ann", "High", 10, 1), (1, "Ann", "High", 10, 1))
    new = bag(
        (1, "Ann", "High", 10, 1),
        (1, "Ann", "High", 12, 1),
        (1, "Ann", "High", 12, 1),
        (2, "Bob", "High", 10, 2),
        (2, "Bob", "High", 12, 3),
    )
    assert (evaluate(VIEW, BEFORE), evaluate(VIEW, AFTER)) == (old, new)

    transaction, log = transaction_on((CUSTOMER, SALES)), log_of((CUSTOMER, SALES))
    pre = {**BEFORE, **prefixed("∇", DELETED), **prefixed("Δ", INSERTED)}
    post = {**AFTER, **prefixed("▼", DELETED), **prefixed("▲", INSERTED)}
    assert evaluate(future(transaction, VIEW), pre) == new
    assert evaluate(past(log, VIEW), post) == old
    assert applied(old, pre_update(transaction, VIEW), pre) == new
    assert applied(old, post_update(log, VIEW), post) == new


def test_a_table_that_does_not_change_leaves_no_trace() -> None:
    """Only sales change: one term is left of the three of Figure 2, and nothing is deleted."""
    insertions = Transaction({"sales": Update(deleted=EMPTY_SALES, inserted=Table("new_sales", SALES.schema))})
    update = pre_update(insertions, VIEW)
    assert to_text(update.deleted, schemas=False) == "φ"
    assert to_text(update.inserted, schemas=False) == (
        "Π[custId, name, score, itemNo, quantity]"
        "(σ[custId = s_custId AND quantity <> 0 AND score = 'High'](customer × new_sales))"
    )


def prefixed(sign: str, bags: dict[str, Bag]) -> dict[str, Bag]:
    return {sign + name: rows for name, rows in bags.items()}


EMPTY_SALES = pre_update(Transaction({}), SALES).deleted

# -- Example 1.2: wrong multiplicities

R, S = table("R", "A", "B"), table("S", "B2", "C")
U = Project((Named("A", Ref("A")),), Join(Compare("=", Ref("B"), Ref("B2")), R, S))
R_BEFORE, R_NEW = bag(("a1", "b1")), bag(("a1", "b2"))
S_BEFORE, S_NEW = bag(("b1", "c1"), ("b1", "c2"), ("b2", "c1")), bag(("b2", "c2"))
INSERTIONS = {"∇R": bag(), "ΔR": R_NEW, "∇S": bag(), "ΔS": S_NEW}


def test_example_1_2_before_the_update() -> None:
    state = {"R": R_BEFORE, "S": S_BEFORE, **INSERTIONS}
    update = pre_update(transaction_on((R, S)), U)
    assert evaluate(U, state) == bag(("a1",), ("a1",))
    assert evaluate(update.inserted, state) == bag(("a1",), ("a1",))
    assert evaluate(update.deleted, state) == bag()


def test_example_1_2_the_form_for_before_is_wrong_after() -> None:
    state = {"R": R_BEFORE + R_NEW, "S": S_BEFORE + S_NEW, **INSERTIONS}
    wrong = evaluate(pre_update(transaction_on((R, S)), U).inserted, state)
    assert wrong == Counter({("a1",): 4})


def test_example_1_2_the_form_for_after_is_right() -> None:
    state = {"R": R_BEFORE + R_NEW, "S": S_BEFORE + S_NEW, "▼R": bag(), "▲R": R_NEW, "▼S": bag(), "▲S": S_NEW}
    update = post_update(log_of((R, S)), U)
    assert evaluate(update.inserted, state) == bag(("a1",), ("a1",))
    assert evaluate(update.deleted, state) == bag()


# -- Example 1.3: a row that should have gone stays

P, Q = table("P", "x"), table("Q", "x")
DIFFERENCE = Monus(P, Q)
MOVE = {"∇P": bag(("b",)), "ΔP": bag(), "∇Q": bag(), "ΔQ": bag(("b",))}
EARLIER = {"P": bag(("a",), ("b",), ("c",)), "Q": bag(("c",), ("d",))}
LATER = {"P": bag(("a",), ("c",)), "Q": bag(("b",), ("c",), ("d",))}


def papers_deletions() -> Relation:
    """∇MU = (∇R − S) ∪ (ΔS ∩ R), as the earlier algorithms had it."""
    removed, added = Table("∇P", P.schema), Table("ΔQ", Q.schema)
    return UnionAll(Monus(removed, Q), Min(added, P))


def test_example_1_3_before_the_update() -> None:
    state = {**EARLIER, **MOVE}
    update = pre_update(transaction_on((P, Q)), DIFFERENCE)
    assert evaluate(DIFFERENCE, EARLIER) == bag(("a",), ("b",))
    assert evaluate(update.deleted, state) == bag(("b",))
    assert applied(bag(("a",), ("b",)), update, state) == bag(("a",))
    assert set(evaluate(papers_deletions(), state)) == {("b",)}


def test_example_1_3_the_form_for_before_misses_the_row_after() -> None:
    state = {**LATER, **MOVE}
    assert evaluate(papers_deletions(), state) == bag()
    assert evaluate(pre_update(transaction_on((P, Q)), DIFFERENCE).deleted, state) == bag()


def test_example_1_3_the_form_for_after_is_right() -> None:
    state = {**LATER, "▼P": bag(("b",)), "▲P": bag(), "▼Q": bag(), "▲Q": bag(("b",))}
    update = post_update(log_of((P, Q)), DIFFERENCE)
    assert evaluate(update.deleted, state) == bag(("b",))
    assert applied(bag(("a",), ("b",)), update, state) == bag(("a",))

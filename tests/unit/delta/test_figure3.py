"""The lines of Figure 3 as text, and Examples 1.1 to 1.3 carried through every scenario, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from monus.algebra.interpreter import Bag, State, evaluate
from monus.algebra.relations import Monus, Project, Relation, Rows, Table, tables_of
from monus.algebra.text import to_text
from monus.delta.figure2 import pre_update
from monus.delta.figure3 import (
    INV_BL,
    INV_C,
    INV_DT,
    INV_IM,
    Assignments,
    Composition,
    Equivalence,
    View,
    compose_strongly,
    execute,
    holds,
    makesafe_BL,
    makesafe_C,
    makesafe_DT,
    makesafe_IM,
    minimal_log,
    minimal_pending,
    partial_refresh_C,
    propagate_C,
    refresh_BL,
    refresh_C,
    refresh_DT,
    simple,
    strongly_minimal_pending,
    together,
)
from monus.delta.states import Transaction, Update, compose, transaction_on
from monus.errors import AlgebraInvalid
from tests.unit.delta import test_worked_examples as worked

bag = worked.bag

WITH_A_LOG, WITH_A_PENDING_CHANGE = ("BL", "C"), ("DT", "C")


def update(table: Table, deleted: Bag, inserted: Bag) -> Update:
    return Update(*(Rows(table.schema, tuple(rows.elements())) for rows in (deleted, inserted)))


@dataclass(frozen=True)
class Example:
    view: View
    state: State
    transactions: tuple[Transaction, ...]
    stored: tuple[Bag, ...]  # the value of the view at the beginning and after each transaction


# The second transaction of each takes back some of what the first did, so that they meet when they are composed.
EXAMPLES = {
    "1.1": Example(
        View("MV", worked.VIEW),
        worked.BEFORE,
        (
            Transaction(
                {
                    "customer": update(worked.CUSTOMER, worked.DELETED["customer"], worked.INSERTED["customer"]),
                    "sales": update(worked.SALES, worked.DELETED["sales"], worked.INSERTED["sales"]),
                }
            ),
            Transaction(
                {"sales": update(worked.SALES, bag((1, 12, 1, 9), (1, 10, 1, 5)), bag((1, 10, 1, 5), (1, 10, 1, 5)))}
            ),
        ),
        (
            bag((1, "Ann", "High", 10, 1), (1, "Ann", "High", 10, 1)),
            bag(
                (1, "Ann", "High", 10, 1),
                (1, "Ann", "High", 12, 1),
                (1, "Ann", "High", 12, 1),
                (2, "Bob", "High", 10, 2),
                (2, "Bob", "High", 12, 3),
            ),
            bag(
                (1, "Ann", "High", 10, 1),
                (1, "Ann", "High", 10, 1),
                (1, "Ann", "High", 12, 1),
                (2, "Bob", "High", 10, 2),
                (2, "Bob", "High", 12, 3),
            ),
        ),
    ),
    "1.2": Example(
        View("MU", worked.U),
        {"R": worked.R_BEFORE, "S": worked.S_BEFORE},
        (
            Transaction(
                {"R": update(worked.R, bag(), bag(("a1", "b2"))), "S": update(worked.S, bag(), bag(("b2", "c2")))}
            ),
            Transaction(
                {"R": update(worked.R, bag(("a1", "b1")), bag()), "S": update(worked.S, bag(("b2", "c1")), bag())}
            ),
        ),
        (bag(("a1",), ("a1",)), bag(("a1",), ("a1",), ("a1",), ("a1",)), bag(("a1",))),
    ),
    "1.3": Example(
        View("MU", worked.DIFFERENCE),
        worked.EARLIER,
        (
            Transaction({"P": update(worked.P, bag(("b",)), bag()), "Q": update(worked.Q, bag(), bag(("b",)))}),
            Transaction({"P": update(worked.P, bag(), bag(("b",))), "Q": update(worked.Q, bag(("b",)), bag())}),
        ),
        (bag(("a",), ("b",)), bag(("a",)), bag(("a",), ("b",))),
    ),
}


def invariants(scenario: str, view: View, composition: Composition) -> Iterator[Equivalence]:
    yield {"IM": INV_IM, "BL": INV_BL, "DT": INV_DT, "C": INV_C}[scenario](view)
    if scenario in WITH_A_LOG:
        yield from minimal_log(view)
    if scenario in WITH_A_PENDING_CHANGE:
        yield minimal_pending(view)
        if composition is compose_strongly:
            yield strongly_minimal_pending(view)


class Run:
    """One example under one scenario, which is looked at after every step."""

    def __init__(self, example: Example, scenario: str, composition: Composition = compose) -> None:
        self.view = example.view
        internal = {f"{sign}{self.view.name}": bag() for sign in "∇Δ"}
        internal |= {f"{sign}{name}": bag() for name in tables_of(self.view.query) for sign in "▼▲"}
        stored = evaluate(self.view.query, example.state)
        self.state: Mapping[str, Bag] = {**example.state, **internal, self.view.name: stored}
        self._invariants = list(invariants(scenario, self.view, composition))
        self._check()

    def __call__(self, step: Assignments) -> None:
        self.state = execute(step, self.state)
        self._check()

    def commit(self, step: Assignments, transaction: Transaction) -> None:
        """A transaction that was made safe, which must do to the tables what the transaction does."""
        after = execute(simple(transaction), self.state)
        self(step)
        assert all(self.state[name] == after[name] for name in tables_of(self.view.query))

    @property
    def stored(self) -> Bag:
        return self.state[self.view.name]

    @property
    def pending(self) -> tuple[Bag, Bag]:
        return self.state[f"∇{self.view.name}"], self.state[f"Δ{self.view.name}"]

    def _check(self) -> None:
        for formula in self._invariants:
            assert holds(formula, self.state)


@pytest.mark.parametrize("name", EXAMPLES)
def test_immediate(name: str) -> None:
    example = EXAMPLES[name]
    run = Run(example, "IM")
    assert run.stored == example.stored[0]
    for transaction, stored in zip(example.transactions, example.stored[1:], strict=True):
        run.commit(makesafe_IM(transaction, run.view), transaction)
        assert run.stored == stored


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("often", [True, False], ids=["after each", "after both"])
def test_with_a_log(name: str, often: bool) -> None:
    example = EXAMPLES[name]
    run = Run(example, "BL")
    for transaction, stored in zip(example.transactions, example.stored[1:], strict=True):
        before = run.stored
        run.commit(makesafe_BL(transaction, run.view), transaction)
        assert run.stored == before
        if often:
            run(refresh_BL(run.view))
            assert run.stored == stored
    run(refresh_BL(run.view))
    assert run.stored == example.stored[-1]


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("composition", [compose, compose_strongly])
@pytest.mark.parametrize("often", [True, False], ids=["after each", "after both"])
def test_with_a_pending_change(name: str, composition: Composition, often: bool) -> None:
    example = EXAMPLES[name]
    run = Run(example, "DT", composition)
    for transaction, stored in zip(example.transactions, example.stored[1:], strict=True):
        before = run.stored
        run.commit(makesafe_DT(transaction, run.view, composition), transaction)
        assert run.stored == before
        if often:
            run(refresh_DT(run.view))
            assert run.stored == stored
    run(refresh_DT(run.view))
    assert run.stored == example.stored[-1]
    assert run.pending == (bag(), bag())


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("composition", [compose, compose_strongly])
@pytest.mark.parametrize("propagate_first", [True, False])
def test_combined(name: str, composition: Composition, propagate_first: bool) -> None:
    """Propagated after the first transaction, applied after the second, and brought up to date at the end."""
    example = EXAMPLES[name]
    run = Run(example, "C", composition)
    first, second = example.transactions
    run.commit(makesafe_C(first, run.view), first)
    run(propagate_C(run.view, composition))
    assert holds(INV_DT(run.view), run.state)
    assert run.stored == example.stored[0]
    run.commit(makesafe_C(second, run.view), second)
    assert run.stored == example.stored[0]
    run(partial_refresh_C(run.view))
    assert holds(INV_BL(run.view), run.state)
    assert run.stored == example.stored[1]
    for step in refresh_C(run.view, propagate_first, composition):
        run(step)
    assert holds(INV_IM(run.view), run.state)
    assert run.stored == example.stored[2]


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("propagate_first", [True, False])
def test_both_orders_of_a_combined_refresh_over_both_transactions(name: str, propagate_first: bool) -> None:
    """With one transaction in the pending change and one in the log, each order has both to apply."""
    example = EXAMPLES[name]
    run = Run(example, "C")
    first, second = example.transactions
    run.commit(makesafe_C(first, run.view), first)
    run(propagate_C(run.view))
    run.commit(makesafe_C(second, run.view), second)
    for step in refresh_C(run.view, propagate_first):
        run(step)
    assert run.stored == example.stored[2]
    assert run.pending == (bag(), bag())


def test_what_is_taken_back_is_not_applied() -> None:
    """Example 1.3 there and back: the weakly minimal pending change deletes b and inserts it, the net change is φ."""
    for composition, pending in ((compose, bag(("b",))), (compose_strongly, bag())):
        run = Run(EXAMPLES["1.3"], "C", composition)
        for transaction in EXAMPLES["1.3"].transactions:
            run.commit(makesafe_C(transaction, run.view), transaction)
            run(propagate_C(run.view, composition))
        assert run.pending == (pending, pending)


@pytest.mark.parametrize(("name", "wrong"), [("1.2", bag(*[("a1",)] * 6)), ("1.3", bag(("a",), ("b",)))])
def test_the_state_bug(name: str, wrong: Bag) -> None:
    """The refresh that evaluates the form for before after the transaction: this is what refresh_BL is there for."""
    example = EXAMPLES[name]
    run = Run(example, "BL")
    transaction = example.transactions[0]
    run.commit(makesafe_BL(transaction, run.view), transaction)
    buggy = pre_update(transaction, run.view.query)
    stored = (run.stored - evaluate(buggy.deleted, run.state)) + evaluate(buggy.inserted, run.state)
    assert stored == wrong != example.stored[1]
    assert not holds(INV_IM(run.view), {**run.state, run.view.name: stored})


def test_a_transaction_that_is_not_weakly_minimal_spoils_the_log() -> None:
    """It deletes what is not there: the log says that it was, and undoing the log would put it there."""
    view = View("MU", worked.DIFFERENCE)
    state = Run(EXAMPLES["1.3"], "BL").state
    deletes_z = Transaction({"P": update(worked.P, bag(("z",)), bag())})
    after = execute(makesafe_BL(deletes_z, view), state)
    assert after["P"] == state["P"]
    assert not holds(INV_BL(view), after)


# -- The figure as text

X, Y = Table("X", worked.P.schema), Table("Y", worked.P.schema)
T, DIFF = transaction_on((X, Y)), View("MV", Monus(X, Y))


def text(relation: Relation) -> str:
    return to_text(relation, schemas=False).replace("`", "")


def lines(transaction: Assignments) -> dict[str, str]:
    return {name: text(query) for name, query in transaction.items()}


OF_T = {"X": "((X ∸ ∇X) ⊎ ΔX)", "Y": "((Y ∸ ∇Y) ⊎ ΔY)"}
EMPTY_LOG = {"▼X": "φ", "▲X": "φ", "▼Y": "φ", "▲Y": "φ"}
DELETED_BY_T, INSERTED_BY_T = (
    text(part) for part in (pre_update(T, DIFF.query).deleted, pre_update(T, DIFF.query).inserted)
)
DELETED_BY_L, INSERTED_BY_L = (
    "(((▼X ⊎ ▲Y) ∸ (Y ∸ X)) ∸ ((▲X ⊎ ▼Y) ∸ (X ∸ Y)))",
    "((▲X ⊎ ▼Y) min (X ∸ Y))",
)


def test_the_lines_of_figure_3() -> None:
    assert lines(makesafe_IM(T, DIFF)) == {"MV": f"((MV ∸ {DELETED_BY_T}) ⊎ {INSERTED_BY_T})", **OF_T}
    assert lines(makesafe_BL(T, DIFF)) == {
        "▼X": "(▼X ⊎ (∇X ∸ ▲X))",
        "▲X": "((▲X ∸ ∇X) ⊎ ΔX)",
        "▼Y": "(▼Y ⊎ (∇Y ∸ ▲Y))",
        "▲Y": "((▲Y ∸ ∇Y) ⊎ ΔY)",
        **OF_T,
    }
    assert lines(refresh_BL(DIFF)) == {"MV": f"((MV ∸ {DELETED_BY_L}) ⊎ {INSERTED_BY_L})", **EMPTY_LOG}
    assert lines(makesafe_DT(T, DIFF)) == {
        "∇MV": f"(∇MV ⊎ ({DELETED_BY_T} ∸ ΔMV))",
        "ΔMV": f"((ΔMV ∸ {DELETED_BY_T}) ⊎ {INSERTED_BY_T})",
        **OF_T,
    }
    assert lines(refresh_DT(DIFF)) == {"MV": "((MV ∸ ∇MV) ⊎ ΔMV)", "∇MV": "φ", "ΔMV": "φ"}
    assert lines(propagate_C(DIFF)) == {
        "∇MV": f"(∇MV ⊎ ({DELETED_BY_L} ∸ ΔMV))",
        "ΔMV": f"((ΔMV ∸ {DELETED_BY_L}) ⊎ {INSERTED_BY_L})",
        **EMPTY_LOG,
    }
    assert makesafe_C(T, DIFF) == makesafe_BL(T, DIFF)
    assert partial_refresh_C(DIFF) == refresh_DT(DIFF)
    assert refresh_C(DIFF) == (propagate_C(DIFF), partial_refresh_C(DIFF))
    assert refresh_C(DIFF, propagate_first=False) == (partial_refresh_C(DIFF), refresh_BL(DIFF))


def test_the_invariants_of_figure_1() -> None:
    past = "(((X ∸ ▲X) ⊎ ▼X) ∸ ((Y ∸ ▲Y) ⊎ ▼Y))"
    both = [tuple(map(text, formula)) for formula in (INV_IM(DIFF), INV_BL(DIFF), INV_DT(DIFF), INV_C(DIFF))]
    assert both == [
        ("(X ∸ Y)", "MV"),
        (past, "MV"),
        ("(X ∸ Y)", "((MV ∸ ∇MV) ⊎ ΔMV)"),
        (past, "((MV ∸ ∇MV) ⊎ ΔMV)"),
    ]
    assert [text(formula.left) for formula in minimal_log(DIFF)] == ["(▲X ∸ X)", "(▲Y ∸ Y)"]
    assert text(minimal_pending(DIFF).left) == "(∇MV ∸ MV)"
    assert text(strongly_minimal_pending(DIFF).left) == "(∇MV min ΔMV)"


def test_a_table_that_the_view_does_not_read_is_written_but_not_logged() -> None:
    beside = transaction_on((X, Table("Z", worked.P.schema)))
    assert lines(makesafe_BL(beside, View("MV", Project((), X)))) == {
        "▼X": "(▼X ⊎ (∇X ∸ ▲X))",
        "▲X": "((▲X ∸ ∇X) ⊎ ΔX)",
        "X": "((X ∸ ∇X) ⊎ ΔX)",
        "Z": "((Z ∸ ∇Z) ⊎ ΔZ)",
    }


def test_operations_at_the_same_time_do_not_see_each_other() -> None:
    state = {"X": bag(("x",)), "Y": bag(("y",))}
    assert execute(together({"X": Y}, {"Y": X}), state) == {"X": state["Y"], "Y": state["X"]}
    with pytest.raises(AlgebraInvalid, match="X would be assigned twice"):
        together({"X": Y}, {"X": X})

"""Theorem 5, Lemma 4 and Remark 1 of Colby et al., and strong minimality, over random queries and operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monus.algebra.derived import with_names
from monus.algebra.interpret_scalars import Row
from monus.algebra.interpreter import Bag, evaluate
from monus.algebra.relations import (
    Join,
    Named,
    Product,
    Project,
    Relation,
    Select,
    Table,
    UnionAll,
    names_of,
    schema_of,
    tables_of,
)
from monus.algebra.scalars import COMPARISONS, Compare, Literal, Ref
from monus.delta.figure2 import post_update, pre_update
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
)
from monus.delta.states import Update, apply, compose, log_of, past, transaction_on
from tests.property.strategies import TABLES, bags_of, queries, rows_of, sub_bags, updates_of

T = transaction_on(TABLES.values())
State = Mapping[str, Bag]


@dataclass(frozen=True)
class Operation:
    """Steps, one after the other, and what they lead to."""

    steps: Callable[[View], tuple[Assignments, ...]]
    leads_to: Callable[[View], Equivalence]
    is_transaction: bool = False


@dataclass(frozen=True)
class Scenario:
    """An invariant and the operations that are there under it, as the Hoare triples of Theorem 5 say it."""

    invariant: Callable[[View], Equivalence]
    operations: tuple[Operation, ...]
    has_log: bool = False
    has_pending: bool = False
    is_strong: bool = False

    def invariants(self, view: View) -> list[Equivalence]:
        formulas = [self.invariant(view)]
        if self.has_log:
            formulas += minimal_log(view)
        if self.has_pending:
            formulas.append(minimal_pending(view))
        if self.is_strong:
            formulas.append(strongly_minimal_pending(view))
        return formulas


def differential(composition: Composition) -> Scenario:
    operations = (
        Operation(lambda view: (makesafe_DT(T, view, composition),), INV_DT, is_transaction=True),
        Operation(lambda view: (refresh_DT(view),), INV_IM),
    )
    return Scenario(INV_DT, operations, has_pending=True, is_strong=composition is compose_strongly)


def combined(composition: Composition) -> Scenario:
    operations = (
        Operation(lambda view: (makesafe_C(T, view),), INV_C, is_transaction=True),
        Operation(lambda view: (propagate_C(view, composition),), INV_DT),
        Operation(lambda view: (partial_refresh_C(view),), INV_BL),
        Operation(lambda view: refresh_C(view, True, composition), INV_IM),
        Operation(lambda view: refresh_C(view, False), INV_IM),
    )
    return Scenario(INV_C, operations, has_log=True, has_pending=True, is_strong=composition is compose_strongly)


IMMEDIATE = Scenario(INV_IM, (Operation(lambda view: (makesafe_IM(T, view),), INV_IM, is_transaction=True),))
BASE_LOG = Scenario(
    INV_BL,
    (
        Operation(lambda view: (makesafe_BL(T, view),), INV_BL, is_transaction=True),
        Operation(lambda view: (refresh_BL(view),), INV_IM),
    ),
    has_log=True,
)
SCENARIOS = {
    "IM": IMMEDIATE,
    "BL": BASE_LOG,
    "DT": differential(compose),
    "DT, strongly": differential(compose_strongly),
    "C": combined(compose),
    "C, strongly": combined(compose_strongly),
}


@st.composite
def starting(draw: st.DrawFn, scenario: Scenario, view: View) -> State:
    """Any state in which the scenario's invariants hold, whatever led to it."""
    state = {name: draw(bags_of(table.schema)) for name, table in TABLES.items()}
    for table in view.tables:
        inserted = draw(sub_bags(state[table.name])) if scenario.has_log else Counter()
        state[f"▼{table.name}"] = draw(bags_of(table.schema, 2)) if scenario.has_log else Counter()
        state[f"▲{table.name}"] = inserted
    wanted = evaluate(scenario.invariant(view).left, state)
    if not scenario.has_pending:
        return {**state, "MV": wanted}
    stored = draw(sub_bags(wanted)) + draw(bags_of(view.stored.schema, 2))
    # Whatever is there before and after may be deleted and inserted again, unless minimality is strong.
    again = Counter() if scenario.is_strong else draw(sub_bags(stored & wanted))
    return {**state, "MV": stored, "∇MV": (stored - wanted) + again, "ΔMV": (wanted - stored) + again}


@st.composite
def with_transaction(draw: st.DrawFn, state: State) -> State:
    """The state with the bags of a weakly minimal transaction beside the tables."""
    bags = {}
    for name, table in TABLES.items():
        bags[f"∇{name}"], bags[f"Δ{name}"] = draw(updates_of(state[name], table.schema))
    return {**state, **bags}


# There are six times as many examples as of other properties.
@settings(max_examples=settings().max_examples * 3 // 4)
@pytest.mark.parametrize("name", SCENARIOS)
@given(st.data(), queries())
def test_theorem_5(name: str, data: st.DataObject, query: Relation) -> None:
    scenario, view = SCENARIOS[name], View("MV", query)
    invariants = scenario.invariants(view)
    state = data.draw(starting(scenario, view))
    assert all(holds(formula, state) for formula in invariants)
    for _ in range(data.draw(st.sampled_from([1, 2, 2, 3]))):
        operation = data.draw(st.sampled_from(scenario.operations))
        tables = state
        if operation.is_transaction:
            state = data.draw(with_transaction(state))
            tables = execute(simple(T), state)
        for step in operation.steps(view):
            state = execute(step, state)
            assert all(holds(formula, state) for formula in invariants)
        assert holds(operation.leads_to(view), state)
        assert all(state[table] == tables[table] for table in TABLES)


@settings(max_examples=settings().max_examples * 3 // 4)
@given(st.data(), queries())
def test_a_strongly_minimal_pending_change_is_the_net_change(data: st.DataObject, query: Relation) -> None:
    scenario, view = SCENARIOS["C, strongly"], View("MV", query)
    state = execute(propagate_C(view, compose_strongly), data.draw(starting(scenario, view)))
    new = evaluate(query, state)
    assert (state["∇MV"], state["ΔMV"]) == (state["MV"] - new, new - state["MV"])


# -- Lemma 4

# Any query that reads all tables.
R, S, THIRD = (Project((), table) for table in TABLES.values())
ALL = View("MV", UnionAll(R, UnionAll(S, THIRD)))


@given(st.data())
def test_lemma_4_the_log_is_extended(data: st.DataObject) -> None:
    """It leads back to where it led before the transaction, and ▲R ⊆ R is kept: with no invariant of a view."""
    state = data.draw(with_transaction(data.draw(starting(BASE_LOG, ALL))))
    tables = [past(ALL.log, table) for table in TABLES.values()]
    earlier = [evaluate(table, state) for table in tables]
    state = execute(makesafe_BL(T, ALL), state)
    assert [evaluate(table, state) for table in tables] == earlier
    assert all(holds(formula, state) for formula in minimal_log(ALL))


# -- Section 5.3

COLUMN = TABLES["T"].schema
OLD, D1, I1, D2, I2 = (Table(name, COLUMN) for name in ("O", "D1", "I1", "D2", "I2"))
FIRST, SECOND = Update(D1, I1), Update(D2, I2)


@given(st.data(), bags_of(COLUMN), bags_of(COLUMN), bags_of(COLUMN))
def test_strongly_minimal_composition(data: st.DataObject, old: Bag, inserted: Bag, again: Bag) -> None:
    """Given what Lemma 3 asks for and no more: the effect of both, as the net change."""
    deleted = data.draw(sub_bags(old))
    between = (old - deleted) + inserted
    state = {"O": old, "D1": deleted, "I1": inserted, "D2": data.draw(sub_bags(between)), "I2": again}
    new = evaluate(apply(SECOND, apply(FIRST, OLD)), state)
    both = compose_strongly(FIRST, SECOND)
    assert evaluate(apply(both, OLD), state) == new
    assert (evaluate(both.deleted, state), evaluate(both.inserted, state)) == (old - new, new - old)
    # The short form, where both are strongly minimal.
    strong = {**state, "D1": old - between, "I1": between - old, "D2": between - new, "I2": new - between}
    assert evaluate(both.deleted, strong) == (strong["D1"] - strong["I2"]) + (strong["D2"] - strong["I1"])
    assert evaluate(both.inserted, strong) == (strong["I1"] - strong["D2"]) + (strong["I2"] - strong["D1"])


# -- Remark 1


@st.composite
def spj_queries(draw: st.DrawFn) -> Relation:
    """Select, project and join, every table at most once."""
    names = draw(st.permutations(list(TABLES)))[: draw(st.sampled_from([1, 2, 2, 3]))]
    query = _part(draw, names[0])
    for name in names[1:]:
        right = _part(draw, name)
        pairs = [(a, b) for a in schema_of(query) for b in schema_of(right) if a.type == b.type]
        if pairs and draw(st.sampled_from([True, True, False])):
            left_column, right_column = draw(st.sampled_from(pairs))
            op = draw(st.sampled_from(COMPARISONS))
            query = Join(Compare(op, Ref(left_column.name), Ref(right_column.name)), query, right)
        else:
            query = Product(query, right)
    kept = draw(st.lists(st.sampled_from(names_of(query)), min_size=1, unique=True))
    return Project(tuple(Named(name, Ref(name)) for name in kept), query)


def _part(draw: st.DrawFn, name: str) -> Relation:
    """One table under names of its own, perhaps selected from."""
    table = renamed_columns(TABLES[name], name)
    column, value = schema_of(table)[0], draw(rows_of(schema_of(table)))[0]
    selected = Select(Compare("<>", Ref(column.name), Literal(value, column.type)), table)
    return draw(st.sampled_from([table, selected]))


def renamed_columns(table: Table, prefix: str) -> Relation:
    return with_names(table, tuple(f"{prefix}.{column}" for column in names_of(table)))


def after_one_transaction(before: State, deleted: State, inserted: State) -> State:
    """The state after a transaction; its bags and its log stand beside the tables."""
    state = {name: (bag - deleted[name]) + inserted[name] for name, bag in before.items()}
    for name in before:
        state[f"∇{name}"] = state[f"▼{name}"] = deleted[name]
        state[f"Δ{name}"] = state[f"▲{name}"] = inserted[name]
    return state


def both_forms(query: Relation, changed: Sequence[str], state: State) -> tuple[list[Bag], list[Bag]]:
    """∇(T, Q) and Δ(T, Q), then ▼(L, Q) and ▲(L, Q): all in the state after the transaction."""
    tables = [TABLES[name] for name in changed]
    before, after = pre_update(transaction_on(tables), query), post_update(log_of(tables), query)
    forms = [[evaluate(part, state) for part in (form.deleted, form.inserted)] for form in (before, after)]
    return forms[0], forms[1]


@given(st.data(), spj_queries())
def test_remark_1(data: st.DataObject, query: Relation) -> None:
    """One transaction on one table, no self-join: both forms are the same in the state after the transaction."""
    changed = data.draw(st.sampled_from(sorted(tables_of(query))))
    before = {name: data.draw(bags_of(table.schema)) for name, table in TABLES.items()}
    nothing = {name: Counter[Row]() for name in TABLES}
    deleted = {**nothing, changed: data.draw(sub_bags(before[changed]))}
    inserted = {**nothing, changed: data.draw(bags_of(TABLES[changed].schema, 2))}
    before_form, after_form = both_forms(query, [changed], after_one_transaction(before, deleted, inserted))
    assert before_form == after_form


@pytest.mark.parametrize(
    ("query", "changed"),
    [
        (Product(renamed_columns(TABLES["R"], "R"), renamed_columns(TABLES["T"], "T")), ["R", "T"]),
        (Product(renamed_columns(TABLES["T"], "T"), renamed_columns(TABLES["T"], "again")), ["T"]),
    ],
    ids=["two tables", "self-join"],
)
def test_remark_1_goes_no_further(query: Relation, changed: list[str]) -> None:
    """Where two tables change, or one that occurs twice, the form for before counts pairs of new rows twice over."""
    before: State = {"R": Counter(), "T": Counter()}
    new: State = {"R": Counter({(0, 0): 1}), "T": Counter({(0,): 1})}
    state = after_one_transaction(before, before, new)
    before_form, after_form = both_forms(query, changed, state)
    (row,) = evaluate(query, state)
    assert after_form == [Counter(), Counter({row: 1})]
    assert before_form == [Counter(), Counter({row: 3})]

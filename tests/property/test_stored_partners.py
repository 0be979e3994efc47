"""Partners read from the view give the change that recomputation gives, whenever the rule's condition holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from monus.algebra.interpret_scalars import Row
from monus.algebra.interpreter import Bag, evaluate
from monus.algebra.relations import Join, Named, Project, Relation, Select, Table, names_of, schema_of
from monus.algebra.scalars import And, Column, Compare, Literal, Opaque, Or, Ref, Scalar
from monus.delta.stored_partners import stored_partners
from tests.property import strategies
from tests.property.strategies import minus, plus, queries, rows_of, steps

ROWS = Table("L", (Column("k", "int"), Column("x", "int"), Column("y", "string")))
OTHERS = (
    Table("E", (Column("e", "int"), Column("f", "int"))),
    Table("F", (Column("g", "int"), Column("h", "string"))),
)


@dataclass(frozen=True)
class Step:
    """L changes: rows that are alone with their key, most of the time, leave or get other values."""

    before: dict[str, Bag]
    change: Bag

    @property
    def after(self) -> dict[str, Bag]:
        return {**self.before, "L": plus(self.before["L"], self.change)}


@st.composite
def dimension_steps(draw: st.DrawFn) -> Step:
    rows = draw(st.lists(rows_of(ROWS.schema), min_size=1, max_size=5, unique_by=lambda row: row[0]))
    bag = Counter(rows + draw(st.sampled_from([[], [], [], [], [], rows[:1]])))
    leaving = draw(st.lists(st.sampled_from(rows), min_size=1, max_size=3, unique=True))
    coming = [(row[0], *draw(rows_of(ROWS.schema[1:]))) for row in leaving for _ in range(draw(st.integers(0, 2)))]
    others = {table.name: Counter(draw(st.lists(rows_of(table.schema), max_size=4))) for table in OTHERS}
    return Step({"L": bag, **others}, minus(Counter(coming), Counter(leaving)))


@st.composite
def joins(draw: st.DrawFn) -> Relation:
    """L joined with one or two others, in any order, under any condition and projection."""
    inputs = draw(st.permutations([ROWS, *OTHERS[: draw(st.integers(1, 2))]]))
    query: Relation = inputs[0]
    for other in inputs[1:]:
        query = Join(draw(conditions(query, other)), query, other)
    if draw(st.booleans()):
        query = Select(draw(conditions(query, query)), query)
    names = draw(st.lists(st.sampled_from(names_of(query)), min_size=1, unique=True))
    names += [name for name in ("k", "x", "y") if name not in names and draw(st.integers(0, 9))]
    outputs = [Named(f"o{i}", Ref(name)) for i, name in enumerate(names)]
    integers = [column.name for column in schema_of(query) if column.type == "int"]
    if draw(st.integers(0, 3)) == 0:
        pair = draw(st.lists(st.sampled_from(integers), min_size=2, max_size=2))
        outputs.append(Named("sum", added(*pair)))
    return Project(tuple(outputs), query)


@st.composite
def conditions(draw: st.DrawFn, left: Relation, right: Relation) -> Scalar:
    pairs = [(a, b) for a in schema_of(left) for b in schema_of(right) if a.type == b.type]
    pairs += [(a, b) for a, b in pairs if "k" in (a.name, b.name)] * 4
    a, b = draw(st.sampled_from(pairs))
    equal = Compare(draw(st.sampled_from(["=", "=", "=", "<=>", "<"])), Ref(a.name), Ref(b.name))
    name = draw(st.sampled_from([c.name for c in schema_of(left) if c.type == "int"]))
    own = Compare(draw(st.sampled_from(["<", "<>", ">="])), Ref(name), Literal(draw(st.integers(0, 2)), "int"))
    return draw(st.sampled_from([equal, equal, equal, And(equal, own), Or(equal, own)]))


def added(left: str, right: str) -> Scalar:
    return Opaque(
        "a + b", "int", ("a", "b"), (Ref(left), Ref(right)), lambda a, b: None if a is None or b is None else a + b
    )


def test_partners_read_from_the_view_give_the_change() -> None:
    held = []

    @given(joins(), dimension_steps())
    def check(query: Relation, step: Step) -> None:
        held.append(is_checked(query, step.before, step.after, {"L": step.change}, frozenset({"L"})))

    check()
    assert sum(held) > len(held) / 5, "the rule's condition hardly ever held: nothing was tested"


@given(queries(with_aggregates=True), steps())
def test_so_they_do_for_any_query_of_that_form(query: Relation, step: strategies.Step) -> None:
    is_checked(query, step.before, step.after, step.changes, step.changed)


def is_checked(
    query: Relation,
    before: Mapping[str, Bag],
    after: Mapping[str, Bag],
    changes: Mapping[str, Bag],
    changed: frozenset[str],
) -> bool:
    """Whether the rule could be used; if it could, what it gives is compared."""
    partners = stored_partners(query, changed)
    if partners is None:
        return False
    delta = partners.changed(changed)
    rows = evaluate(delta, after, changes)
    weights: dict[Row, list[int]] = {}
    for row, weight in rows.items():
        weights.setdefault(row[: len(partners.keys)], []).append(weight)
    at = [names_of(partners.rows).index(key) for key, _ in partners.keys]
    behind = Counter({key: -sum(found) for key, found in weights.items()})
    for row, copies in evaluate(partners.behind(delta), after, changes).items():
        behind[tuple(row[i] for i in at)] += copies
    if not rows or any(behind[key] != 1 for key in weights):
        return False
    view, old, new = Table("V", schema_of(query)), evaluate(query, before), evaluate(query, after)
    state = {**after, "V": old}
    stored = partners.stored(view, delta)
    assert evaluate(partners.change(stored, delta), state, changes) == minus(new, old)
    assert evaluate(partners.change(view, delta), state, changes) == minus(new, old)
    if all(any(weight < 0 for weight in found) for found in weights.values()):
        # What leaves is then just what the view holds for the keys, whose places are known when it is read.
        assert evaluate(stored, state, changes) == -minus(new, old)
    return True

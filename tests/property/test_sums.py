"""Merged sums are the sums of the merged bag, and agree with the interpreter's aggregates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monus.algebra.interpreter import Bag, evaluate
from monus.algebra.relations import Aggregate, Measure, Table
from monus.algebra.scalars import Column, Ref
from monus.delta.sums import FUNCTIONS_OF_SUMS, Known, MustRecompute, merge, merge_maximum, merge_minimum, sums_of
from tests.property.strategies import Counter, sub_bags

TABLE = Table("T", (Column("a", "int"),))
ROWS = st.tuples(st.none() | st.integers(-3, 3))
BAGS = st.lists(ROWS, max_size=6).map(Counter)


def aggregate(function: str, bag: Bag) -> object:
    query = Aggregate((), (Measure("m", function, (Ref("a"),), "int"),), TABLE)
    (row,) = evaluate(query, {"T": bag})
    return row[0]


def values(bag: Bag) -> Counter[int | None]:
    return Counter({value: n for (value,), n in bag.items()})


@given(st.data(), BAGS, BAGS, st.sampled_from(sorted(FUNCTIONS_OF_SUMS)))
def test_sums_are_merged(data: st.DataObject, old: Bag, inserted: Bag, name: str) -> None:
    deleted = data.draw(sub_bags(old))
    new, function = (old - deleted) + inserted, FUNCTIONS_OF_SUMS[name]
    parts = (sums_of(function, values(bag)) for bag in (old, deleted, inserted))
    merged = merge(*parts)
    assert merged == sums_of(function, values(new))
    result = function.finish(merged)
    assert aggregate(name, new) == (None if result is None else pytest.approx(float(result)))


@given(st.data(), BAGS, BAGS, st.sampled_from([("min", merge_minimum), ("max", merge_maximum)]))
def test_extremes_are_merged_or_recomputed(data: st.DataObject, old: Bag, inserted: Bag, case: object) -> None:
    name, merge_extreme = case  # type: ignore[misc]
    deleted = data.draw(sub_bags(old))
    before, after = aggregate(name, old), aggregate(name, (old - deleted) + inserted)
    outcome = merge_extreme(before, values(deleted), values(inserted))
    if isinstance(outcome, MustRecompute):
        assert before in values(deleted)
    else:
        assert outcome == Known(after)

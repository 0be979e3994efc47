"""Each aggregate of the slides, before and after an update, without looking at what did not change."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from monus.delta.sums import (
    COUNT_ROWS,
    FUNCTIONS_OF_SUMS,
    FunctionOfSums,
    Known,
    MustRecompute,
    merge,
    merge_maximum,
    merge_minimum,
    sums_of,
)

OLD = Counter({1: 2, 4: 1, None: 1})
DELETED, INSERTED = Counter({4: 1}), Counter({7: 1, None: 2})


@pytest.mark.parametrize(
    ("function", "before", "after"),
    [
        (FUNCTIONS_OF_SUMS["sum"], 6, 9),
        (FUNCTIONS_OF_SUMS["count"], 3, 3),
        (COUNT_ROWS, 4, 6),
        (FUNCTIONS_OF_SUMS["avg"], 2, 3),
        (FUNCTIONS_OF_SUMS["var_pop"], 2, 8),
        (FUNCTIONS_OF_SUMS["var_samp"], 3, 12),
        (FUNCTIONS_OF_SUMS["variance"], 3, 12),
        (FUNCTIONS_OF_SUMS["stddev_pop"], 2**0.5, 8**0.5),
        (FUNCTIONS_OF_SUMS["stddev_samp"], 3**0.5, 12**0.5),
        (FUNCTIONS_OF_SUMS["stddev"], 3**0.5, 12**0.5),
    ],
)
def test_functions_of_sums(function: FunctionOfSums, before: float, after: float) -> None:
    sums = sums_of(function, OLD)
    assert function.finish(sums) == before
    merged = merge(sums, sums_of(function, DELETED), sums_of(function, INSERTED))
    assert function.finish(merged) == after


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS_OF_SUMS) - {"count"}))
def test_no_values_give_null(name: str) -> None:
    function = FUNCTIONS_OF_SUMS[name]
    everything = sums_of(function, OLD)
    assert function.finish(merge(everything, everything, sums_of(function, Counter()))) is None


def test_one_value_has_no_sample_variance() -> None:
    assert FUNCTIONS_OF_SUMS["var_samp"].finish((Fraction(1), Fraction(5), Fraction(25))) is None
    assert FUNCTIONS_OF_SUMS["var_pop"].finish((Fraction(1), Fraction(5), Fraction(25))) == 0


NONE: Counter[int | None] = Counter()


@pytest.mark.parametrize(
    ("current", "deleted", "inserted", "outcome"),
    [
        (3, NONE, Counter([5]), Known(3)),  # an insertion that is no new minimum
        (3, NONE, Counter([2]), Known(2)),  # an insertion that is
        (3, Counter([5]), NONE, Known(3)),  # another value is deleted
        (3, Counter([3]), NONE, MustRecompute()),  # the minimum is deleted
        (3, Counter([3]), Counter([4]), MustRecompute()),  # and what comes in may not be the next one
        (3, Counter([3]), Counter([2]), Known(2)),  # and a new minimum comes in
        (3, Counter([3]), Counter([3]), Known(3)),  # and comes back
        (None, NONE, Counter([None, 4]), Known(4)),  # there was none
        (None, Counter([None]), NONE, Known(None)),
        (3, Counter([None]), Counter([None]), Known(3)),  # NULLs are no values
    ],
)
def test_the_minimum(
    current: int | None, deleted: Counter[int | None], inserted: Counter[int | None], outcome: Known | MustRecompute
) -> None:
    assert merge_minimum(current, deleted, inserted) == outcome

    def mirrored(values: Counter[int | None]) -> Counter[int | None]:
        return Counter({None if value is None else -value: n for value, n in values.items()})

    expected = outcome if isinstance(outcome, MustRecompute) or outcome.value is None else Known(-outcome.value)
    assert merge_maximum(None if current is None else -current, mirrored(deleted), mirrored(inserted)) == expected

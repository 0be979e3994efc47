"""Aggregates that can be maintained from what they were (Griffin and Libkin, section on aggregates).

An aggregate φ(Σf₁, …, Σfₙ) is a function of sums over the rows, and under a weakly minimal update

    Σf((R ∸ ∇R) ⊎ ΔR) = Σf(R) − Σf(∇R) + Σf(ΔR)

so that merging the sums never looks at R. MIN and MAX are not functions of sums: they must be
recomputed when the present extreme is deleted and nothing at least as extreme is inserted.
NULLs (None) count for COUNT(*) only. Sums are exact fractions here; rounding is left to φ.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

Number: TypeAlias = int | float | Decimal | Fraction
Values: TypeAlias = Counter[Any]
Sums: TypeAlias = tuple[Fraction, ...]
Term: TypeAlias = Callable[[Any], Fraction]


@dataclass(frozen=True, slots=True)
class FunctionOfSums:
    """φ(Σf₁, …, Σfₙ): `terms` are the fᵢ, `finish` is φ."""

    terms: tuple[Term, ...]
    finish: Callable[[Sums], Fraction | float | None]


def sums_of(function: FunctionOfSums, values: Values) -> Sums:
    """(Σf₁, …, Σfₙ) over the values, each as often as it occurs."""
    return tuple(sum((term(v) * n for v, n in values.items()), start=Fraction(0)) for term in function.terms)


def merge(sums: Sums, deleted: Sums, inserted: Sums) -> Sums:
    """The sums after an update, from the sums before and those of ∇ and Δ."""
    return tuple(s - d + i for s, d, i in zip(sums, deleted, inserted, strict=True))


def _every_row(value: Any) -> Fraction:
    return Fraction(1)


def _one(value: Any) -> Fraction:
    return Fraction(value is not None)


def _value(value: Number | None) -> Fraction:
    return Fraction(0 if value is None else value)


def _square(value: Number | None) -> Fraction:
    return _value(value) ** 2


def _sum(sums: Sums) -> Fraction | None:
    count, total = sums
    return total if count else None


def _average(sums: Sums) -> Fraction | None:
    count, total = sums
    return total / count if count else None


def _variance(sums: Sums, freedom: int) -> Fraction | None:
    count, total, squares = sums
    return (squares - total**2 / count) / (count - freedom) if count > freedom else None


def _deviation(sums: Sums, freedom: int) -> float | None:
    variance = _variance(sums, freedom)
    return None if variance is None else math.sqrt(variance)


SUM = FunctionOfSums((_one, _value), _sum)
COUNT = FunctionOfSums((_one,), lambda sums: sums[0])
COUNT_ROWS = FunctionOfSums((_every_row,), lambda sums: sums[0])
AVG = FunctionOfSums((_one, _value), _average)
VAR_POP = FunctionOfSums((_one, _value, _square), lambda sums: _variance(sums, 0))
VAR_SAMP = FunctionOfSums((_one, _value, _square), lambda sums: _variance(sums, 1))
STDDEV_POP = FunctionOfSums((_one, _value, _square), lambda sums: _deviation(sums, 0))
STDDEV_SAMP = FunctionOfSums((_one, _value, _square), lambda sums: _deviation(sums, 1))

FUNCTIONS_OF_SUMS: Mapping[str, FunctionOfSums] = {
    "sum": SUM,
    "count": COUNT,
    "avg": AVG,
    "var_pop": VAR_POP,
    "var_samp": VAR_SAMP,
    "variance": VAR_SAMP,
    "stddev_pop": STDDEV_POP,
    "stddev_samp": STDDEV_SAMP,
    "stddev": STDDEV_SAMP,
}


@dataclass(frozen=True, slots=True)
class Known:
    """The extreme after the update; None where there are no values."""

    value: Any


@dataclass(frozen=True, slots=True)
class MustRecompute:
    """The extreme left and what remains is not known."""


def merge_minimum(current: Any, deleted: Values, inserted: Values) -> Known | MustRecompute:
    """MIN after a weakly minimal update; `current` is None where there are no values."""
    return _merge_extreme(min, current, deleted, inserted)


def merge_maximum(current: Any, deleted: Values, inserted: Values) -> Known | MustRecompute:
    """MAX after a weakly minimal update; `current` is None where there are no values."""
    return _merge_extreme(max, current, deleted, inserted)


def _merge_extreme(
    best: Callable[[list[Any]], Any], current: Any, deleted: Values, inserted: Values
) -> Known | MustRecompute:
    entering = [value for value, n in inserted.items() if n > 0 and value is not None]
    candidate = best(entering) if entering else None
    if current is None:
        return Known(candidate)
    if deleted.get(current, 0) > 0 and (candidate is None or best([candidate, current]) != candidate):
        return MustRecompute()
    return Known(current if candidate is None else best([current, candidate]))

"""The reference meaning of aggregates: a measure becomes a function of the rows of one group.

NULLs are left out, and only COUNT gives something other than NULL for no values. Sums are exact, so
that the order of the rows never shows: integers and decimals as they are, floating point rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cmp_to_key
from typing import Any, TypeAlias

from monus.algebra.interpret_scalars import Row, compare, one_nan, row_function
from monus.algebra.relations import Measure
from monus.errors import AlgebraInvalid

GroupFunction: TypeAlias = Callable[[Iterable[tuple[Row, int]]], Any]

_WIDE = Context(prec=120)
_ORDER = cmp_to_key(compare)


def group_function(measure: Measure, names: tuple[str, ...]) -> GroupFunction:
    """From the rows of a group with their multiplicities to the measure's value."""
    args = tuple(row_function(arg, names) for arg in measure.args)
    condition = None if measure.filter is None else row_function(measure.filter, names)

    def evaluate(group: Iterable[tuple[Row, int]]) -> Any:
        inputs: list[Row] = []
        for row, copies in group:
            if condition is None or condition(row) is True:
                inputs.extend([tuple(one_nan(arg(row)) for arg in args)] * copies)
        return one_nan(_apply(measure, list(dict.fromkeys(inputs)) if measure.distinct else inputs))

    return evaluate


def _apply(measure: Measure, inputs: list[Row]) -> Any:
    if measure.function == "count":
        return sum(1 for values in inputs if None not in values)
    of_values = _FUNCTIONS.get(measure.function)
    if of_values is None:
        if not callable(measure.handle):
            raise AlgebraInvalid(
                f"The aggregate '{measure.function}' cannot be evaluated without Spark.",
                "Give the measure a Python function as handle.",
            )
        return measure.handle(inputs)
    if len(measure.args) != 1:
        raise AlgebraInvalid(f"'{measure.function}' takes one argument, not {len(measure.args)}.")
    values = [value for (value,) in inputs if value is not None]
    return of_values(values) if values else None


def _sum(values: list[Any]) -> Any:
    if any(isinstance(value, float) for value in values):
        if all(math.isfinite(value) for value in values):
            return math.fsum(values)
        return sum(float(value) for value in values)
    with localcontext(_WIDE):
        return sum(values[1:], start=values[0])


def _average(values: list[Any]) -> Any:
    total = _sum(values)
    if isinstance(total, Decimal):
        with localcontext(_WIDE):
            return total / len(values)
    if isinstance(total, float) and not math.isfinite(total):
        return total
    return float(Fraction(total) / len(values))


def _variance(values: list[Any], freedom: int) -> float | None:
    if len(values) <= freedom:
        return None
    if any(not math.isfinite(value) for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact, start=Fraction(0)) / len(exact)
    return float(sum(((value - mean) ** 2 for value in exact), start=Fraction(0)) / (len(exact) - freedom))


def _var_pop(values: list[Any]) -> float | None:
    return _variance(values, 0)


def _var_samp(values: list[Any]) -> float | None:
    return _variance(values, 1)


def _stddev_pop(values: list[Any]) -> float | None:
    return _root(_variance(values, 0))


def _stddev_samp(values: list[Any]) -> float | None:
    return _root(_variance(values, 1))


def _root(variance: float | None) -> float | None:
    return None if variance is None else math.sqrt(variance)


def _min(values: list[Any]) -> Any:
    return min(values, key=_ORDER)


def _max(values: list[Any]) -> Any:
    return max(values, key=_ORDER)


_FUNCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": _sum,
    "avg": _average,
    "mean": _average,
    "min": _min,
    "max": _max,
    "bool_and": all,
    "every": all,
    "bool_or": any,
    "some": any,
    "any": any,
    "var_pop": _var_pop,
    "var_samp": _var_samp,
    "variance": _var_samp,
    "stddev_pop": _stddev_pop,
    "stddev_samp": _stddev_samp,
    "stddev": _stddev_samp,
    "std": _stddev_samp,
}

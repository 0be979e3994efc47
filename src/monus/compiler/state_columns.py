"""The stored sums of a measure as Columns: over plain rows, over a change, merged, and finished.

All arithmetic is exact or gives NULL where it would overflow; a NULL where rows were counted tells
that the group must be recomputed.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from monus.algebra.groups import BOOLEANS, EXTREMES, MOMENTS, Part, State, scale_of
from monus.algebra.relations import Measure
from monus.compiler.frames import Frame
from monus.compiler.scalars import Scope, column_of

SCALE = "scale"  # the largest absolute input: what the error of a floating-point sum is measured by
UNIT_DIGITS = 27  # a decimal of more digits times a weight would not fit 38: its rows are repeated instead


def sum_over_rows(function: str, args: list[Column], types: list[str], condition: Column | None) -> Column:
    """Σf over plain rows, for the first computation of a view's table."""
    if function == "count":
        present = _present(args, condition)
        return F.count(F.lit(1)) if present is None else F.count(F.when(present, True))
    if function == SCALE:
        size = F.abs(args[0].cast("double"))
        return F.max(_where(F.when(size < float("inf"), size), condition))
    return F.try_sum(_where(_summand(function, args[0], types[0]), condition))


def sum_over_change(
    part: Part, args: list[Column], types: list[str], condition: Column | None, weight: Column
) -> Column:
    """Σf over a change: every summand times its weight."""
    if part.sum == "count":
        present = _present(args, condition)
        counted = weight if present is None else F.when(present, weight).otherwise(F.lit(0).cast("bigint"))
        return F.sum(counted)
    assert part.sum is not None
    summand = _where(_summand(part.sum, args[0], types[0]), condition)
    if part.sum == "true":
        return F.sum(F.coalesce(summand, F.lit(0).cast("bigint")) * weight)
    exact = summand.cast("decimal(20,0)") if part.type == "bigint" else summand
    return F.coalesce(F.try_sum(exact * weight.cast("decimal(10,0)")), F.lit(0)).try_cast(_wide(part.type))


def needs_unit_weights(types: list[str]) -> bool:
    """Whether an argument has too many digits to be multiplied by a weight."""
    return any(t.startswith("decimal") and int(t[8:].split(",")[0]) > UNIT_DIGITS for t in types)


def merged(part: Part, old: Column, change: Column) -> Column:
    """Σf(new) = Σf(old) + Σf(change)."""
    zero = F.lit(0).cast(_wide(part.type))
    return F.try_add(F.coalesce(old.cast(_wide(part.type)), zero), F.coalesce(change, zero)).try_cast(part.type)


def finished(frame: Frame, state: State, values: dict[str, str]) -> Column:
    """φ(Σf₁, …): the measure from its stored sums; `values` names the frame's columns of the parts.

    The frame also has every count as a decimal, under the same name with `_d` behind it.
    """
    measure = state.measure
    parts = [F.col(values[part.column]) for part in state.parts]
    match measure.function:
        case "count" | "count_if":
            return parts[0]
        case "sum":
            return F.when(parts[1] > 0, parts[0])
        case "avg" | "mean":
            return F.when(
                parts[1] > 0, _average(frame, measure, values[state.parts[0].column], values[state.parts[1].column])
            )
        case function if function in EXTREMES:
            return parts[0]
        case function if function in BOOLEANS:
            holds = parts[0] == parts[1] if function in ("bool_and", "every") else parts[0] > 0
            return F.when(parts[1] > 0, holds)
        case _:
            is_legacy = frame.data.sparkSession.conf.get("spark.sql.legacy.statisticalAggregate", "false") == "true"
            return _moment(measure, parts, scale_of(state.argument), of_one=float("nan") if is_legacy else None)


def _summand(function: str, arg: Column, type_name: str) -> Column:
    match function:
        case "true":
            return F.when(arg, F.lit(1).cast("bigint")).otherwise(F.lit(0).cast("bigint"))
        case "unscaled":
            return _unscaled(arg, type_name)
        case "square":
            return (
                _unscaled(arg, type_name).cast("decimal(19,0)") * _unscaled(arg, type_name).cast("decimal(19,0)")
            ).cast("decimal(38,0)")
        case _:
            return arg


def _unscaled(arg: Column, type_name: str) -> Column:
    """The value in units of its last digit, so that squares stay whole."""
    scale = scale_of(type_name)
    return (arg * F.lit(10**scale).cast(f"decimal({scale + 1},0)")).cast("decimal(27,0)")


def _average(frame: Frame, measure: Measure, total: str, count: str) -> Column:
    if not measure.type.startswith("decimal"):
        return F.col(total).cast("double") / F.col(count).cast("double")
    # The very division that Spark's own AVG ends with: its rounding cannot be had in SQL.
    jvm: Any = frame.data.sparkSession._jvm
    scope = Scope(frame)
    precision, scale = measure.type[8:-1].split(",")
    result = jvm.org.apache.spark.sql.types.DecimalType(int(precision), int(scale))
    division = jvm.org.apache.spark.sql.catalyst.expressions.DecimalDivideWithOverflowCheck
    return column_of(frame, division(scope.physical(total), scope.physical(f"{count}_d"), result, None, True))


def _moment(measure: Measure, parts: list[Column], scale: int, of_one: float | None) -> Column:
    """(n·Σx² − (Σx)²) / n², or over n·(n − 1) for a sample, in whole numbers until the last division.

    `of_one` is what a sample of one value gives, which is one of Spark's settings.
    """
    total, squares, count = parts
    whole = F.try_subtract(
        F.try_multiply(squares, count.cast("decimal(19,0)")),
        F.try_multiply(total.try_cast("decimal(19,0)"), total.try_cast("decimal(19,0)")),
    )
    is_population = measure.function.endswith("_pop")
    divisor = count * (count if is_population else count - 1)
    unit = 10.0 ** (2 * scale)
    variance = whole.cast("double") / divisor.cast("double") / F.lit(unit)
    value = F.sqrt(variance) if measure.function.startswith("st") else variance
    return F.when(count > (0 if is_population else 1), value).when(count == 1, F.lit(of_one).cast("double"))


def must_recompute(state: State, values: dict[str, str]) -> Column | None:
    """Whether a sum of this measure is lost although rows were counted."""
    if state.measure.function in (*EXTREMES, *BOOLEANS, "count", "count_if"):
        return None
    count = F.col(values[state.parts[-1].column])
    lost = [F.col(values[part.column]).isNull() for part in state.parts[:-1]]
    if state.measure.function in MOMENTS:
        total, squares = (F.col(values[part.column]) for part in state.parts[:2])
        lost.append(F.try_multiply(squares, count.cast("decimal(19,0)")).isNull())
        lost.append(total.try_cast("decimal(19,0)").isNull())
    any_lost = lost[0]
    for each in lost[1:]:
        any_lost = any_lost | each
    return (count > 0) & any_lost


def _where(value: Column, condition: Column | None) -> Column:
    return value if condition is None else F.when(condition, value)


def _present(args: list[Column], condition: Column | None) -> Column | None:
    """A row counts if no argument is NULL and the FILTER holds."""
    result = condition
    for arg in args:
        result = arg.isNotNull() if result is None else result & arg.isNotNull()
    return result


def _wide(type_name: str) -> str:
    """Where a sum is added up: bigint sums in decimals, which do not wrap around."""
    return "decimal(38,0)" if type_name == "bigint" else type_name

"""The reference meaning of scalars: a scalar over named columns becomes a function of a row.

NULL is None and logic is three-valued. NaN equals NaN and is larger than every other number, as in
Spark.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias, assert_never

from monus.algebra.scalars import And, Compare, ComparisonOp, IsNull, Literal, Not, Opaque, Or, Ref, Scalar
from monus.errors import AlgebraInvalid

Row: TypeAlias = tuple[Any, ...]
RowFunction: TypeAlias = Callable[[Row], Any]


def row_function(scalar: Scalar, names: tuple[str, ...]) -> RowFunction:
    match scalar:
        case Ref(name):
            if name not in names:
                raise AlgebraInvalid(f"There is no column '{name}' in ({', '.join(names)}).")
            position = names.index(name)
            return lambda row: row[position]
        case Literal():
            value = one_nan(scalar.value)
            return lambda row: value
        case Compare(op, left, right):
            return _comparison(op, row_function(left, names), row_function(right, names))
        case And(left, right):
            return _and(row_function(left, names), row_function(right, names))
        case Or(left, right):
            return _or(row_function(left, names), row_function(right, names))
        case Not(operand):
            return _not(row_function(operand, names))
        case IsNull(operand):
            inner = row_function(operand, names)
            return lambda row: inner(row) is None
        case Opaque():
            return _opaque(scalar, names)
        case _:
            assert_never(scalar)


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1 for two values that are not NULL."""
    left_is_nan, right_is_nan = left != left, right != right
    if left_is_nan or right_is_nan:
        return int(left_is_nan) - int(right_is_nan)
    try:
        return int(left > right) - int(left < right)
    except TypeError as error:
        raise AlgebraInvalid(f"{left!r} cannot be compared with {right!r}.", "Cast one of them.") from error


def one_nan(value: Any) -> Any:
    """Python's NaNs differ from each other as dictionary keys; rows that are equal must be one key."""
    return math.nan if value != value else value


def _comparison(op: ComparisonOp, left: RowFunction, right: RowFunction) -> RowFunction:
    def evaluate(row: Row) -> bool | None:
        a, b = left(row), right(row)
        if a is None or b is None:
            return (a is None and b is None) if op == "<=>" else None
        order = compare(a, b)
        match op:
            case "=" | "<=>":
                return order == 0
            case "<>":
                return order != 0
            case "<":
                return order < 0
            case "<=":
                return order <= 0
            case ">":
                return order > 0
            case ">=":
                return order >= 0
            case _:
                assert_never(op)

    return evaluate


def _and(left: RowFunction, right: RowFunction) -> RowFunction:
    def evaluate(row: Row) -> bool | None:
        a = left(row)
        if a is False:
            return False
        b = right(row)
        if b is False:
            return False
        return None if a is None or b is None else True

    return evaluate


def _or(left: RowFunction, right: RowFunction) -> RowFunction:
    def evaluate(row: Row) -> bool | None:
        a = left(row)
        if a is True:
            return True
        b = right(row)
        if b is True:
            return True
        return None if a is None or b is None else False

    return evaluate


def _not(operand: RowFunction) -> RowFunction:
    def evaluate(row: Row) -> bool | None:
        a = operand(row)
        return None if a is None else not a

    return evaluate


def _opaque(scalar: Opaque, names: tuple[str, ...]) -> RowFunction:
    handle = scalar.handle
    if not callable(handle):
        raise AlgebraInvalid(
            f"'{scalar.text}' cannot be evaluated without Spark.", "Give the expression a Python function as handle."
        )
    args = tuple(row_function(arg, names) for arg in scalar.args)
    return lambda row: one_nan(handle(*(arg(row) for arg in args)))

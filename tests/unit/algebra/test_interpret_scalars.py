from __future__ import annotations

import math

import pytest

from monus.algebra.interpret_scalars import row_function
from monus.algebra.scalars import COMPARISONS, And, Compare, IsNull, Literal, Not, Or, Ref, Scalar
from monus.errors import AlgebraInvalid

T, F, N = (Literal(value, "boolean") for value in (True, False, None))


def value(scalar: Scalar) -> object:
    return row_function(scalar, ())(())


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (T, T, True, True),
        (T, F, False, True),
        (T, N, None, True),
        (F, F, False, False),
        (F, N, False, None),
        (N, N, None, None),
    ],
)
def test_three_valued_logic(left: Scalar, right: Scalar, both: bool | None, either: bool | None) -> None:
    assert value(And(left, right)) is value(And(right, left)) is both
    assert value(Or(left, right)) is value(Or(right, left)) is either


def test_not_and_is_null() -> None:
    assert [value(Not(scalar)) for scalar in (T, F, N)] == [False, True, None]
    assert [value(IsNull(scalar)) for scalar in (T, N)] == [False, True]


@pytest.mark.parametrize(
    ("left", "right", "true"),
    [
        (1, 2, {"<>", "<", "<="}),
        (2, 2, {"=", "<=", ">=", "<=>"}),
        (3, 2, {"<>", ">", ">="}),
        (math.nan, math.nan, {"=", "<=", ">=", "<=>"}),
        (math.nan, math.inf, {"<>", ">", ">="}),
        ("a", "b", {"<>", "<", "<="}),
    ],
)
def test_comparisons(left: object, right: object, true: set[str]) -> None:
    assert {op for op in COMPARISONS if value(Compare(op, Literal(left, "t"), Literal(right, "t")))} == true


def test_only_the_null_safe_comparison_knows_null() -> None:
    null, one = Literal(None, "int"), Literal(1, "int")
    assert {value(Compare(op, null, one)) for op in COMPARISONS if op != "<=>"} == {None}
    assert value(Compare("<=>", null, null)) is True
    assert value(Compare("<=>", null, one)) is False


def test_columns_are_found_by_name() -> None:
    assert row_function(Ref("b"), ("a", "b"))((1, 2)) == 2
    with pytest.raises(AlgebraInvalid, match="no column 'c'"):
        row_function(Ref("c"), ("a", "b"))


def test_values_that_cannot_be_compared() -> None:
    with pytest.raises(AlgebraInvalid, match="cannot be compared"):
        value(Compare("<", Literal(1, "int"), Literal("a", "string")))

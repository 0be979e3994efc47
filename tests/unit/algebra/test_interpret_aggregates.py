from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from monus.algebra.interpreter import evaluate
from monus.algebra.relations import Aggregate, Measure, Named, Table
from monus.algebra.scalars import Column, Compare, Literal, Ref
from monus.errors import AlgebraInvalid

R = Table("R", (Column("k", "string"), Column("v", "int")))


def one(function: str, values: list[Any], **more: Any) -> Any:
    measure = Measure("m", function, (Ref("v"),), "int", **more)
    (row,) = evaluate(Aggregate((), (measure,), R), {"R": Counter(("k", value) for value in values)})
    return row[0]


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("sum", [1, 1, None, 3], 5),
        ("sum", [None], None),
        ("sum", [Decimal("0.10"), Decimal("0.20")], Decimal("0.30")),
        ("sum", [1e16, 1.0, -1e16], 1.0),
        ("sum", [math.inf, 1.0], math.inf),
        ("count", [1, 1, None, 3], 3),
        ("count", [], 0),
        ("avg", [1, 2, None], 1.5),
        ("avg", [Decimal("1"), Decimal("2")], Decimal("1.5")),
        ("avg", [], None),
        ("min", [2, None, 1, 1], 1),
        ("max", [2, None, 1], 2),
        ("max", [1.0, math.nan], math.nan),
        ("min", [], None),
        ("bool_and", [True, None], True),
        ("every", [True, False], False),
        ("bool_or", [False, None], False),
        ("some", [False, True], True),
        ("any", [], None),
        ("var_pop", [1, 3], 1.0),
        ("var_samp", [1, 3], 2.0),
        ("variance", [1], None),
        ("var_pop", [1], 0.0),
        ("stddev_pop", [1, 3], 1.0),
        ("stddev_samp", [1, 3], math.sqrt(2)),
        ("stddev", [1, None], None),
        ("stddev_pop", [], None),
        ("var_pop", [math.inf, 1.0], math.nan),
    ],
)
def test_each_function(function: str, values: list[Any], expected: Any) -> None:
    result = one(function, values)
    assert result is expected or result == expected
    assert type(result) is type(expected)


def test_distinct_and_filter() -> None:
    assert one("count", [1, 1, 2, None], distinct=True) == 2
    assert one("sum", [1, 1, 2], distinct=True) == 3
    above = Compare(">", Ref("v"), Literal(1, "int"))
    assert one("sum", [1, 2, 3, None], filter=above) == 5
    assert one("count", [1], filter=above) == 0


def test_count_of_rows_and_of_several_columns() -> None:
    state = {"R": Counter({("x", 1): 2, (None, 1): 1, ("y", None): 3})}
    measures = (
        Measure("rows", "count", (), "bigint"),
        Measure("both", "count", (Ref("k"), Ref("v")), "bigint"),
        Measure("pairs", "count", (Ref("k"), Ref("v")), "bigint", distinct=True),
        Measure("ones", "count", (Literal(1, "int"),), "bigint"),
    )
    assert evaluate(Aggregate((), measures, R), state) == Counter({(6, 2, 1, 6): 1})


def test_groups_with_null_keys() -> None:
    state = {"R": Counter({("x", 1): 2, (None, 1): 1, (None, 2): 1})}
    query = Aggregate((Named("k", Ref("k")),), (Measure("s", "sum", (Ref("v"),), "bigint"),), R)
    assert evaluate(query, state) == Counter({("x", 2): 1, (None, 3): 1})


def test_nothing_to_group() -> None:
    """A global aggregate has one row even then, a grouped one has none."""
    measures = (Measure("n", "count", (), "bigint"), Measure("s", "sum", (Ref("v"),), "bigint"))
    assert evaluate(Aggregate((), measures, R), {"R": Counter()}) == Counter({(0, None): 1})
    assert evaluate(Aggregate((Named("k", Ref("k")),), measures, R), {"R": Counter()}) == Counter()


def test_any_other_function_is_its_handle_over_all_copies() -> None:
    assert one("my_sum", [1, 1, None], handle=lambda rows: len(rows)) == 3
    with pytest.raises(AlgebraInvalid, match="'my_sum' cannot be evaluated without Spark"):
        one("my_sum", [1])


def test_a_signed_bag_cannot_be_aggregated() -> None:
    query = Aggregate((), (Measure("n", "count", (), "bigint"),), R)
    with pytest.raises(AlgebraInvalid, match="-1 copies"):
        evaluate(query, {"R": Counter({("x", 1): -1})})


def test_a_function_of_one_argument() -> None:
    with pytest.raises(AlgebraInvalid, match="takes one argument, not 2"):
        evaluate(Aggregate((), (Measure("s", "sum", (Ref("v"), Ref("v")), "int"),), R), {"R": Counter()})

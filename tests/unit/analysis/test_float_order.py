"""Which aggregates keep a query from being derived: those of floating point that other operators read."""

from __future__ import annotations

import pytest

from monus.algebra.relations import Aggregate, Distinct, Join, Measure, Named, Relation, Table
from monus.algebra.scalars import Column, Compare, Ref
from monus.analysis.float_order import float_below
from monus.analysis.shape import grouped

TABLE = Table("t", (Column("k", "int"), Column("i", "int"), Column("d", "double"), Column("n", "decimal(10,2)")))


def aggregate(function: str, column: str, kind: str) -> Aggregate:
    return Aggregate((Named("key", Ref("k")),), (Measure("value", function, (Ref(column),), kind),), TABLE)


def codes(query: Relation) -> list[str]:
    return [f"{reason.code} {reason.operator}" for reason in float_below(query, grouped(query))]


@pytest.mark.parametrize(
    ("function", "column", "kind", "expected"),
    [
        ("sum", "d", "double", ["FLOAT_AGGREGATE sum"]),
        ("max", "d", "double", ["FLOAT_AGGREGATE max"]),  # −0.0 or 0.0, whichever came first
        ("stddev", "i", "double", ["FLOAT_AGGREGATE stddev"]),
        ("collect_list", "d", "array<double>", ["FLOAT_AGGREGATE collect_list"]),
        ("avg", "i", "double", []),
        ("avg", "n", "decimal(14,6)", []),
        ("sum", "n", "decimal(20,2)", []),
        ("count", "d", "bigint", []),
        ("max", "i", "struct<double_entry:int,float:int>", []),
        ("max", "i", "struct<a:int,b:array<double>>", ["FLOAT_AGGREGATE max"]),
    ],
)
def test_an_aggregate_that_others_read(function: str, column: str, kind: str, expected: list[str]) -> None:
    inner = aggregate(function, column, kind)
    assert codes(Distinct(inner)) == expected
    assert codes(Join(Compare("=", Ref("key"), Ref("k")), inner, TABLE)) == expected


def test_at_the_top_the_stored_value_is_read() -> None:
    assert codes(aggregate("sum", "d", "double")) == []

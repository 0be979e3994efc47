"""The oracle says no when it must: rows are compared as a bag, by identity, floating-point digits by their inputs."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from monus.maintenance.verify import Scale, check

CASES: dict[str, tuple[str, str, int, int]] = {
    # stored, expected, how many rows are missing and extra
    "equal": ("VALUES (1, 'a'), (1, 'a'), (NULL, 'b')", "VALUES (NULL, 'b'), (1, 'a'), (1, 'a')", 0, 0),
    "a copy too few": ("VALUES (1, 'a')", "VALUES (1, 'a'), (1, 'a')", 1, 0),
    "two copies too many": ("VALUES (1, 'a'), (1, 'a'), (1, 'a')", "VALUES (1, 'a')", 0, 2),
    "another value": ("VALUES (1, 'a')", "VALUES (1, 'b')", 1, 1),
    "null is a value": ("VALUES (1, CAST(NULL AS STRING))", "VALUES (1, '')", 1, 1),
    "nothing stored": ("SELECT 1, 'a' WHERE false", "VALUES (1, 'a')", 1, 0),
    "last digits": ("VALUES (1, 0.1D + 0.2D)", "VALUES (1, 0.3D)", 0, 0),
    "more than last digits": ("VALUES (1, 0.3000001D)", "VALUES (1, 0.3D)", 1, 1),
    "digits of another row": ("VALUES (1, 0.3D), (2, 0.5D)", "VALUES (2, 0.3D), (1, 0.5D)", 2, 2),
    "nan": ("VALUES (1, double('NaN'))", "VALUES (1, double('NaN'))", 0, 0),
    "nan is no number": ("VALUES (1, double('NaN'))", "VALUES (1, 1D)", 1, 1),
    "infinity is no number": ("VALUES (1, double('Infinity'))", "VALUES (1, 1D)", 1, 1),
    "infinities differ": ("VALUES (1, double('Infinity'))", "VALUES (1, double('-Infinity'))", 1, 1),
    "infinity": ("VALUES (1, double('Infinity'))", "VALUES (1, double('Infinity'))", 0, 0),
    "order of a map": ("SELECT 1, map('a', 1, 'b', 2)", "SELECT 1, map('b', 2, 'a', 1)", 0, 0),
    "value in a map": ("SELECT 1, map('a', 1)", "SELECT 1, map('a', 2)", 1, 1),
    "in a struct": ("SELECT 1, struct(array(1, 2))", "SELECT 1, struct(array(2, 1))", 1, 1),
    "decimal": ("VALUES (1, 1.10BD)", "VALUES (1, 1.20BD)", 1, 1),
}


def rows(spark: SparkSession, text: str) -> DataFrame:
    return spark.sql(text).toDF("k", "v")


@pytest.mark.parametrize("name", CASES)
def test_what_differs_is_told(spark: SparkSession, name: str) -> None:
    stored, expected, missing, extra = CASES[name]
    found = check("v", rows(spark, stored), rows(spark, expected))
    assert found.ok == (missing == extra == 0)
    assert (found.missing.count(), found.extra.count()) == (missing, extra)


def test_digits_are_measured_by_the_inputs_of_the_group(spark: SparkSession) -> None:
    """(1e16 + 1) − 1e16 is 0 or 1, depending on the order: of inputs of that size both are right."""
    stored, expected = rows(spark, "VALUES (1, 0D), (2, 0D)"), rows(spark, "VALUES (1, 1D), (2, 1D)")
    scale = Scale(("k",), spark.sql("SELECT * FROM VALUES (1, 1e16D), (2, 1D) AS t (k, s)"))
    found = check("v", stored, expected, scale)
    assert not found.ok
    assert [row.k for row in found.extra.collect()] == [2]
    boundless = Scale(("k",), spark.sql("SELECT * FROM VALUES (1, double('NaN')), (2, double('Infinity')) AS t (k, s)"))
    assert not check("v", stored, expected, boundless).ok

"""Where a join must not be maintained from its own rows, or only with care: what a cold reading found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import monus
from tests.spark.limits import LIMITS, MERGE, low_limits

MERGE_LIMITS = tuple(name for name in LIMITS if name.endswith(MERGE))
PAYS = "monus.maintenance.from_view.PAYS"


@pytest.fixture
def small(spark: SparkSession, tmp_path: Path) -> Iterator[monus.Warehouse]:
    opened = monus.connect(tmp_path / "warehouse", spark=spark)
    yield opened
    for name in reversed(opened._catalog.dependency_order()):
        opened.drop_view(name)
    for name in opened.tables():
        opened.sql(f"DROP TABLE {name}")
    opened.close()


def checked(warehouse: monus.Warehouse, *changes: str) -> list[str]:
    """The codes of the views' refreshes after these changes, every view verified."""
    for change in changes:
        warehouse.sql(change)
    with low_limits(PAYS, *MERGE_LIMITS):
        done = warehouse.refresh()
    for refresh in done:
        assert warehouse.view(refresh.view).verify().ok, refresh
    return [refresh.code for refresh in done]


def test_an_input_that_is_a_query_of_its_own(small: monus.Warehouse) -> None:
    """Its derived change has rows that never were, in pairs that cancel."""
    small.sql("CREATE TABLE a AS SELECT 1 AS k, 'c1' AS c, 10 AS ref")
    small.sql("CREATE TABLE b AS SELECT 10 AS id, 'x' AS name")
    small.sql("CREATE TABLE c (k INT, c STRING, name STRING)")
    small.sql("CREATE TABLE facts AS SELECT 1 AS k, id AS x FROM range(3)")
    small.create_view(
        "over_union",
        """SELECT d.k, d.c, d.name, f.x
           FROM (SELECT a.k, a.c, b.name FROM a JOIN b ON a.ref = b.id UNION ALL SELECT k, c, name FROM c) d
           JOIN facts f ON d.k = f.k""",
    )
    small.create_view(
        "over_groups", "SELECT d.k, d.m, f.x FROM (SELECT k, max(ref) m FROM a GROUP BY k) d JOIN facts f USING (k)"
    )
    checked(small, "UPDATE a SET c = 'c2'", "UPDATE b SET name = 'y'")
    checked(small, "INSERT INTO a VALUES (1, 'c3', 5)", "DELETE FROM b")


def test_several_rows_of_a_key_are_deleted(small: monus.Warehouse) -> None:
    small.sql("CREATE TABLE dims AS SELECT id % 3 AS k, id AS name FROM range(12)")
    small.sql("CREATE TABLE facts AS SELECT id % 4 AS k, id AS x FROM range(8)")
    small.create_view("joined", "SELECT d.k, d.name, f.x FROM dims d JOIN facts f ON d.k = f.k")
    assert checked(small, "DELETE FROM dims WHERE k = 1 OR name < 5") == ["INCREMENTAL"]


def test_outputs_over_outputs(small: monus.Warehouse) -> None:
    small.sql("CREATE TABLE dims AS SELECT id AS k, concat('n', id) AS name FROM range(5)")
    small.sql("CREATE TABLE facts AS SELECT id % 4 AS k, id AS x FROM range(8)")
    small.create_view(
        "aliased",
        """SELECT * FROM (
               SELECT d.k, d.name, upper(d.name) AS u, length(u) AS l, concat(name, one) AS c, f.x
               FROM (SELECT k, name, 'x' AS one FROM dims) d JOIN facts f ON d.k = f.k)
           WHERE length(u) > 1 AND l < 9""",
    )
    small.create_view(
        "filtered", "SELECT * FROM (SELECT d.k, name, x FROM dims d JOIN facts f ON d.k = f.k) WHERE length(name) = 2"
    )
    checked(small, "UPDATE dims SET name = 'longer' WHERE k = 2", "DELETE FROM dims WHERE k = 3")
    checked(small, "UPDATE dims SET name = 'ab' WHERE k = 2")


def test_what_fails_for_a_row_without_partners(small: monus.Warehouse) -> None:
    """The query never divides by the zero of a row that joins with nothing."""
    small.sql("CREATE TABLE dims AS SELECT id AS k, id + 1 AS d, id AS note FROM range(5)")
    small.sql("CREATE TABLE facts AS SELECT id % 3 AS k, id AS x FROM range(8)")
    small.create_view(
        "divided",
        "SELECT d.k, d.d, d.note, 100 DIV d.d AS r, f.x FROM dims d JOIN facts f ON d.k = f.k",
    )
    checked(small, "UPDATE dims SET d = 0 WHERE k = 4")
    assert checked(small, "UPDATE dims SET note = 9 WHERE k = 1") == ["FROM_VIEW"]


def test_keys_that_are_no_text(small: monus.Warehouse) -> None:
    small.sql("CREATE TABLE dims AS SELECT CAST(X'FF' AS STRING) AS k, 1 AS v")
    small.sql(
        "CREATE TABLE facts AS SELECT CAST(X'FF' AS STRING) AS k, 1 AS x UNION ALL SELECT CAST(X'FE' AS STRING), 2"
    )
    small.create_view("joined", "SELECT d.k, d.v, f.x FROM dims d JOIN facts f ON d.k = f.k")
    assert checked(small, "UPDATE dims SET k = CAST(X'FE' AS STRING)") == ["INCREMENTAL"]


def test_far_more_partners_than_expected(small: monus.Warehouse) -> None:
    """All of the view belongs to one row: it is not held by the driver."""
    small.sql("CREATE TABLE dims AS SELECT id AS k, 'a' AS name FROM range(2000)")
    small.sql("CREATE TABLE facts AS SELECT 7L AS k, id AS x FROM range(3000)")
    small.create_view("joined", "SELECT d.k, d.name, f.x FROM dims d JOIN facts f ON d.k = f.k")
    assert checked(small, "UPDATE dims SET name = 'b' WHERE k = 7") == ["INCREMENTAL"]

"""Views whose answer may change although no Delta table does, and changes of what a view does not read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import monus
from tests.spark.limits import LIMITS, MERGE, low_limits

MERGE_LIMITS = tuple(name for name in LIMITS if name.endswith(MERGE))


@pytest.fixture
def wh(spark: SparkSession, tmp_path: Path) -> Iterator[monus.Warehouse]:
    opened = monus.connect(tmp_path / "warehouse", spark=spark)
    yield opened
    for name in reversed(opened._catalog.dependency_order()):
        opened.drop_view(name)
    for name in opened.tables():
        opened.sql(f"DROP TABLE {name}")
    opened.close()


def test_files_of_another_format_are_read_at_every_refresh(
    wh: monus.Warehouse, spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "parquet")
    spark.range(3).write.parquet(path)
    view = wh.create_view("ids", f"SELECT id FROM parquet.`{path}`")
    spark.range(3, 5).write.mode("append").parquet(path)
    assert not view.status().fresh and "SOURCE_NOT_DELTA" in view.status().reason
    done = view.refresh()
    assert isinstance(done, monus.Refresh)
    assert (done.strategy, done.code) == ("full", "SOURCE_NOT_DELTA")
    assert view.table().count() == 5


def test_the_clock_moves_although_no_table_does(wh: monus.Warehouse) -> None:
    """Also where another operator is the first reason that is met."""
    wh.sql("CREATE TABLE t AS SELECT 1 AS a")
    for name, query in {
        "now": "SELECT a, current_timestamp() AS at FROM t",
        "below": "SELECT x.a, y.at FROM t x LEFT JOIN (SELECT a, now() AS at FROM t) y ON x.a = y.a",
    }.items():
        view = wh.create_view(name, query)
        before = view.table().collect()
        done = view.refresh()
        assert isinstance(done, monus.Refresh)
        assert (done.strategy, done.code) == ("full", "READS_CLOCK")
        assert view.table().collect()[0]["at"] > before[0]["at"]
        assert not view.status().fresh
    still = wh.create_view("still", "SELECT a, 1 AS b FROM t LIMIT 1")
    done = still.refresh()
    assert isinstance(done, monus.Refresh)
    assert (done.strategy, done.code) == ("none", "NO_CHANGE")
    assert still.status().fresh


def test_a_column_that_is_not_read_changes_its_type(wh: monus.Warehouse, spark: SparkSession) -> None:
    wh.sql("CREATE TABLE t AS SELECT 1 AS a, 2 AS note")
    view = wh.create_view("v", "SELECT a FROM t")
    location = wh._catalog.table("t").location
    rows = spark.sql("SELECT 5 AS a, 'text' AS note")
    rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(location)
    done = view.refresh()
    assert isinstance(done, monus.Refresh)
    assert done.code == "SOURCE_SCHEMA_CHANGED" and "note" in done.reason
    assert view.verify().ok
    wh.sql("INSERT INTO t VALUES (6, 'more')")
    done = view.refresh()
    assert isinstance(done, monus.Refresh) and done.incremental
    assert view.verify().ok


def test_the_meaning_of_quotes_is_kept(wh: monus.Warehouse, spark: SparkSession) -> None:
    wh.sql("CREATE TABLE t AS SELECT 1 AS a")
    name = "spark.sql.ansi.doubleQuotedIdentifiers"
    spark.conf.set(name, "true")
    try:
        view = wh.create_view("v", 'SELECT "a" AS x FROM t')
    finally:
        spark.conf.unset(name)
    wh.sql("INSERT INTO t VALUES (2)")
    view.refresh()
    assert sorted(row.x for row in view.table().collect()) == [1, 2]
    assert view.verify().ok


@pytest.mark.parametrize("clause", ["PARTITIONED BY (k)", "CLUSTER BY (k)"])
@pytest.mark.parametrize(
    "query",
    ["SELECT k, x FROM t WHERE x <> 3", "SELECT k, sum(x) AS x, count(*) AS n FROM t GROUP BY k"],
    ids=["bag", "groups"],
)
def test_laid_out_tables_are_maintained_by_every_way(wh: monus.Warehouse, clause: str, query: str) -> None:
    wh.sql("CREATE TABLE t AS SELECT id % 4 AS k, id AS x FROM range(20)")
    wh.sql(f"CREATE MATERIALIZED VIEW v {clause} AS {query}")
    view = wh.view("v")
    for limits in ((), MERGE_LIMITS, (*MERGE_LIMITS, "monus.store.listing.MOST_FILES")):
        with low_limits(*limits):
            wh.sql("INSERT INTO t VALUES (1, 7), (9, 1), (NULL, 4)")
            view.propagate()
            view.partial_refresh()
            assert view.verify().ok
            wh.sql("DELETE FROM t WHERE k = 2 OR k IS NULL")
            wh.sql("UPDATE t SET k = k + 1 WHERE x % 5 = 1")
            done = view.refresh()
            assert isinstance(done, monus.Refresh) and done.incremental
            assert view.verify().ok

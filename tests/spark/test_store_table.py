"""Snapshots of a Delta table: cheap, pinned, and gone with a typed error."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from monus.errors import NameExists, SourceHistoryLost, SourceInvalid
from monus.store.apply import append
from monus.store.delta_table import DeltaTable, resolve
from monus.store.log import commits
from tests.spark.conftest import JobCount

Counter = Callable[[], AbstractContextManager[JobCount]]
SCHEMA = StructType().add("a", "integer").add("b", "string")


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> DeltaTable:
    table = DeltaTable(spark, str(tmp_path / "t"))
    table.create(SCHEMA, properties={"delta.enableDeletionVectors": "true"}, comment="a test")
    return table


def add_range(table: DeltaTable, start: int, end: int) -> None:
    rows = table.spark.range(start, end).selectExpr("CAST(id AS INT) AS a", "CONCAT('b', id) AS b")
    append(table, rows.coalesce(1))


def test_the_head_costs_no_job_and_a_read_is_pinned(table: DeltaTable, job_counter: Counter) -> None:
    add_range(table, 0, 10)
    with job_counter() as count:
        snapshot = table.snapshot()
        assert (snapshot.version, snapshot.files) == (1, 1)
        assert snapshot.size_in_bytes > 0
        assert snapshot.schema == SCHEMA
        assert [commit.operation for commit in commits(table, -1, 1)] == ["CREATE TABLE", "WRITE"]
        pinned = table.read(snapshot)
    assert count.jobs == 0
    add_range(table, 10, 20)
    assert pinned.count() == 10
    assert table.read(snapshot).count() == 10
    # Pruning by statistics: one of the two files is read.
    one = table.read(table.snapshot()).where("a = 15")
    assert [row.b for row in one.collect()] == ["b15"]
    scan = one._jdf.queryExecution().executedPlan().collectLeaves().head()
    scans = scan.executedPlan().collectLeaves().head() if "Adaptive" in scan.nodeName() else scan
    assert scans.metrics().apply("numFiles").value() == 1
    # Deletion vectors: the file stays, the row is gone.
    table.spark.sql(f"DELETE FROM delta.`{table.path}` WHERE a = 15")
    after = table.snapshot()
    assert commits(table, 2, 3)[0].adds[0].dv is not None
    assert table.read(after).count() == 19
    assert table.read_version(2).count() == 20
    assert table.read_version(3).count() == 19


def test_another_session_sees_the_same(table: DeltaTable) -> None:
    add_range(DeltaTable(table.spark.newSession(), table.path), 0, 3)
    assert table.read(table.snapshot()).count() == 3


def test_lost_history_is_a_typed_error(table: DeltaTable) -> None:
    add_range(table, 0, 3)
    with pytest.raises(SourceHistoryLost):
        table.read_version(9)
    (Path(table.path) / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(SourceHistoryLost, match="version 0"):
        commits(table, -1, 1)


def test_a_table_that_was_recreated_has_another_id(table: DeltaTable) -> None:
    before = table.snapshot().table_id
    with pytest.raises(NameExists):
        table.create(SCHEMA)
    shutil.rmtree(table.path)
    assert not table.exists()
    with pytest.raises(SourceInvalid):
        table.snapshot()
    assert table.create(SCHEMA).table_id != before


def test_any_column_name_can_be_created(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaTable(spark, str(tmp_path / "with space"))
    schema = StructType.fromDDL("`count(1)` BIGINT, s STRUCT<`x y`: INT>, p INT")
    snapshot = table.create(schema, partition_by=["p"])
    assert [field.name for field in snapshot.schema.fields] == ["count(1)", "s", "p"]
    assert snapshot.metadata.partition_columns == ("p",)
    assert resolve(spark, table.path) == f"file:{table.path}"


def test_resolve(spark: SparkSession, table: DeltaTable) -> None:
    spark.sql(f"CREATE TABLE resolve_me USING DELTA LOCATION '{table.path}'")
    spark.sql("CREATE TEMPORARY VIEW not_a_table AS SELECT 1 AS x")
    try:
        forms = [table.path, f"file:{table.path}", f"delta.`{table.path}`", "resolve_me", "default.`resolve_me`"]
        assert {resolve(spark, form) for form in forms} == {f"file:{table.path}"}
        for wrong in ("not_a_table", "no_such_table", "/no/such/path", f"{table.path}/_delta_log"):
            with pytest.raises(SourceInvalid):
                resolve(spark, wrong)
    finally:
        spark.sql("DROP TABLE resolve_me")
        spark.catalog.dropTempView("not_a_table")

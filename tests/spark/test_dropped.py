"""What was dropped goes with its files, whoever dies meanwhile, and its name is free again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import monus
from monus.maintenance.fault_points import FaultPoint
from tests.spark.crashes import bury_owners, crash, reopen, rows_of

QUERY = "SELECT k FROM t"


def made(folder: Path, spark: SparkSession) -> monus.Warehouse:
    wh = monus.connect(folder, spark=spark)
    wh.sql("CREATE TABLE t (k INT)")
    wh.sql("INSERT INTO t VALUES (1)")
    wh.sql("CREATE TABLE old AS SELECT 7 AS x")
    wh.create_view("v", QUERY)
    return wh


def folders(wh: monus.Warehouse) -> list[str]:
    return sorted(str(path.relative_to(wh.root)) for path in wh.root.glob("*/*") if path.is_dir())


@pytest.mark.parametrize("point", [FaultPoint.TABLE_FORGOTTEN, FaultPoint.FOLDERS_REMOVED])
def test_a_table(spark: SparkSession, warehouse_path: Path, point: FaultPoint) -> None:
    wh = made(warehouse_path, spark)
    assert crash(wh, point, lambda: wh.sql("DROP TABLE old"))
    with reopen(warehouse_path, spark) as wh:
        assert (folders(wh), wh._catalog.dropped()) == (["tables/t", "views/v"], {})
        wh.sql("CREATE TABLE old (y STRING)")
        assert rows_of(wh.table("old")) == []


@pytest.mark.parametrize(
    "act",
    [lambda wh: wh.drop_view("v"), lambda wh: wh.create_view("v", "SELECT k + 1 AS k FROM t", replace=True)],
    ids=["drop", "replace"],
)
def test_a_view(spark: SparkSession, warehouse_path: Path, act: Callable[[monus.Warehouse], object]) -> None:
    wh = made(warehouse_path, spark)
    assert crash(wh, FaultPoint.FOLDERS_REMOVED, lambda: act(wh))
    with reopen(warehouse_path, spark) as wh:
        left = [folder for folder in folders(wh) if folder.startswith(("views", "pending"))]
        assert (len(left), wh._catalog.dropped()) == (len(wh.views()), {})
        if not wh.views():
            wh.create_view("v", QUERY)
        assert wh.view("v").verify().ok


def test_a_process_that_lives_removes_what_another_one_left(spark: SparkSession, warehouse_path: Path) -> None:
    """CREATE TABLE finds the folder of the table that was dropped."""
    with made(warehouse_path, spark) as wh:
        other = monus.connect(warehouse_path, spark=spark)
        assert crash(other, FaultPoint.TABLE_FORGOTTEN, lambda: other.sql("DROP TABLE old"))
        bury_owners(warehouse_path)
        wh.sql("CREATE TABLE old (y STRING)")
        assert (rows_of(wh.table("old")), wh._catalog.dropped()) == ([], {})


def test_the_folder_of_a_view_that_was_renamed_is_not_the_table_s(spark: SparkSession, warehouse_path: Path) -> None:
    """The view keeps its folders under the former name, which a table may have."""
    with made(warehouse_path, spark) as wh:
        wh.sql("INSERT INTO t VALUES (2)")
        wh.view("v").propagate()
        wh.sql("ALTER MATERIALIZED VIEW v RENAME TO w")
        wh.sql("CREATE TABLE v (k INT)")
        wh.sql("DROP TABLE v")
        wh.view("w").partial_refresh()
        assert rows_of(wh.table("w")) == [(1,), (2,)]
        assert wh.view("w").verify().ok

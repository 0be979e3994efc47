"""Rows in and out of a table by one commit each: what is there afterwards, what it costs, and who may come between."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from monus.errors import LeaseLost, ViewBusy
from monus.frontend.jvm import active
from monus.store.apply import TxnNumber, append
from monus.store.delta_table import DeltaTable
from monus.store.listing import listed_files
from monus.store.log import landed
from monus.store.replace_rows import (
    FILE,
    ROW,
    RowsMissing,
    add,
    can_retract,
    read_with_positions,
    replace_all,
    retract,
)
from monus.store.session import maintenance_session
from tests.spark.conftest import JobCount
from tests.spark.limits import low_limits

Jobs = Callable[[], AbstractContextManager[JobCount]]
APP = "monus:test"
SCHEMA = "a INT, `b c` STRING"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    session = maintenance_session(spark, {"spark.sql.shuffle.partitions": "2"})
    with active(session):
        yield session


@pytest.fixture
def table(session: SparkSession, tmp_path: Path) -> DeltaTable:
    table = DeltaTable(session, str(tmp_path / "a table"))
    table.create(StructType.fromDDL(SCHEMA), properties={"delta.enableDeletionVectors": "true"})
    add(table, table.snapshot(), frame(table, (1, "x"), (1, "x"), (2, "y"), (None, None)), TxnNumber(APP, 1), "{}")
    return table


def frame(table: DeltaTable, *rows: tuple[object, ...]) -> DataFrame:
    return table.spark.createDataFrame(list(rows), SCHEMA).coalesce(1)


def contents(table: DeltaTable) -> list[tuple[object, ...]]:
    """By plain Delta."""
    return sorted(map(tuple, table.spark.read.format("delta").load(table.path).collect()), key=str)


def places(table: DeltaTable, condition: str, limit: int = 1000) -> DataFrame:
    rows = read_with_positions(table, table.snapshot()).where(condition)
    return rows.select(FILE, ROW).orderBy(ROW).limit(limit)


def test_rows_come_and_go(table: DeltaTable, job_counter: Jobs) -> None:
    with job_counter() as added:
        assert add(table, table.snapshot(), frame(table, (3, "z")), TxnNumber(APP, 2), '{"n": 2}') == 2
    with job_counter() as retracted:
        one = places(table, "a = 1", limit=1)
        version = retract(table, table.snapshot(), one, 1, frame(table, (4, "new")), TxnNumber(APP, 3), "{}")
    assert version == 3
    assert contents(table) == [(1, "x"), (2, "y"), (3, "z"), (4, "new"), (None, None)]
    assert [tuple(row) for row in table.read_listed(table.snapshot()).where("a = 1").collect()] == [(1, "x")]
    # From a file that has a deletion vector, and all that is left of another.
    more = places(table, "a = 1 OR a = 3 OR a IS NULL")
    assert retract(table, table.snapshot(), more, 3, None, TxnNumber(APP, 4), "{}") == 4
    assert contents(table) == [(2, "y"), (4, "new")]
    with job_counter() as replaced:
        snapshot = table.snapshot()
        rows = table.read_listed(snapshot).withColumn("a", F.col("a") + 1)
        assert replace_all(table, snapshot, rows, TxnNumber(APP, 5), "{}") == 5
    assert contents(table) == [(3, "y"), (5, "new")]
    assert [landed(table, APP, number, 0) for number in (2, 3, 4, 5, 6)] == [2, 3, 4, 5, None]
    assert added.jobs == 1
    assert replaced.jobs == 1
    assert retracted.jobs <= 4


def test_a_number_is_used_once(table: DeltaTable) -> None:
    snapshot, before = table.snapshot(), contents(table)
    rows = frame(table, (9, "again"))
    assert add(table, snapshot, rows, TxnNumber(APP, 1), "{}") is None
    assert replace_all(table, snapshot, rows, TxnNumber(APP, 1), "{}") is None
    assert retract(table, snapshot, places(table, "a = 2"), 1, rows, TxnNumber(APP, 1), "{}") is None
    assert contents(table) == before
    assert add(table, snapshot, None, TxnNumber(APP, 7), "{}") == 2  # only the number
    assert append(table, rows, TxnNumber(APP, 7)) is None  # and Delta's own writer knows it
    assert contents(table) == before


def test_rows_that_are_not_there_are_noticed(table: DeltaTable) -> None:
    before = contents(table)
    with pytest.raises(RowsMissing):
        retract(table, table.snapshot(), places(table, "a = 2"), 2, frame(table, (9, "n")), TxnNumber(APP, 2), "{}")
    assert contents(table) == before
    assert landed(table, APP, 2, 0) is None


@pytest.mark.parametrize("number", [TxnNumber(APP, 2), TxnNumber(APP, 5), None])
def test_who_comes_in_between_is_a_conflict(table: DeltaTable, number: TxnNumber | None) -> None:
    """A rival with our number, one that fences us off with a higher one, and a stranger."""
    snapshot, gone = table.snapshot(), places(table, "a = 2")
    rival = DeltaTable(table.spark, table.path)
    if number is None:
        replace_all(rival, rival.snapshot(), frame(table, (8, "stranger")), TxnNumber("else", 1), "{}")
    else:
        append(rival, frame(table).where("false"), number)
    before = contents(table)
    expected = ViewBusy if number is None else LeaseLost
    with pytest.raises(expected):
        retract(table, snapshot, gone, 1, None, TxnNumber(APP, 2), "{}")
    with pytest.raises(expected):
        replace_all(table, snapshot, frame(table, (9, "ours")), TxnNumber(APP, 2), "{}")
    assert contents(table) == before


def test_files_are_known_without_a_job(table: DeltaTable, job_counter: Jobs) -> None:
    for number in range(2, 6):
        gone = places(table, "a = 1", limit=1) if number < 4 else None
        if gone is not None:
            retract(table, table.snapshot(), gone, 1, frame(table, (number, "r")), TxnNumber(APP, number), "{}")
        else:
            append(table, frame(table, (number, "appended")))
        with job_counter() as count:
            files = listed_files(table, table.snapshot().jvm)
        expected = {f.path() for f in table.snapshot().jvm.allFiles().collect()}
        assert files is not None and {files.apply(i).path() for i in range(files.size())} == expected
        assert count.jobs == 0
    table.spark.sql(f"OPTIMIZE delta.`{table.path}`")
    table.spark.sql(f"DELETE FROM delta.`{table.path}` WHERE a = 5")
    listed = sorted(map(tuple, table.read_listed(table.snapshot()).collect()), key=str)
    assert listed == contents(table) == [(2, "r"), (2, "y"), (3, "r"), (4, "appended"), (None, None)]
    with low_limits("monus.store.listing.MOST_FILES"):
        assert listed_files(table, table.snapshot().jvm) is None
        assert sorted(map(tuple, table.read_listed(table.snapshot()).collect()), key=str) == contents(table)
        assert not can_retract(table, table.snapshot())


def test_a_table_made_anew_at_the_same_place(session: SparkSession, tmp_path: Path) -> None:
    """Its files are not those of the one before."""
    for text in ("first", "second"):
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        table = DeltaTable(session, str(tmp_path / "t"))
        table.create(StructType.fromDDL(SCHEMA), properties={"delta.enableDeletionVectors": "false"})
        append(table, frame(table, (1, text)))
        assert [row[1] for row in table.read_listed(table.snapshot()).collect()] == [text]
        assert not can_retract(table, table.snapshot())

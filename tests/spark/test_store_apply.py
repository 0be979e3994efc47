"""Each way to apply a change is one commit, happens once, and costs a known number of Spark jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from monus.errors import LeaseLost, MonusError, ViewBusy
from monus.store.apply import TxnNumber, append, merge_bag, merge_keyed, overwrite
from monus.store.delta_table import DeltaTable
from monus.store.log import commits, foreign_commits, landed
from monus.store.session import maintenance_session
from monus.store.upkeep import delete_partitions, optimize, vacuum
from tests.spark.conftest import JobCount

Jobs = Callable[[], AbstractContextManager[JobCount]]
APP = "monus:test"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return maintenance_session(spark, {"spark.sql.shuffle.partitions": "2"})


@pytest.fixture
def table(session: SparkSession, tmp_path: Path) -> DeltaTable:
    table = DeltaTable(session, str(tmp_path / "t"))
    table.create(StructType.fromDDL("a INT, `b c` STRING"))
    return table


def frame(table: DeltaTable, *rows: tuple[object, ...], columns: str = "a INT, `b c` STRING") -> DataFrame:
    return table.spark.createDataFrame(list(rows), columns).coalesce(1)


def contents(table: DeltaTable) -> list[tuple[object, ...]]:
    return sorted(map(tuple, table.read(table.snapshot()).collect()), key=str)


def test_append_and_overwrite(table: DeltaTable, job_counter: Jobs) -> None:
    rows = frame(table, (1, "x"), (2, "y"))
    with job_counter() as plain:
        assert append(table, rows, metadata='{"batch": 1}') == 1
    with job_counter() as numbered:
        assert append(table, rows, TxnNumber(APP, 1)) == 2
    assert append(table, rows, TxnNumber(APP, 1)) is None
    assert (landed(table, APP, 1, 0), landed(table, APP, 2, 0)) == (2, None)
    assert [commit.user_metadata for commit in foreign_commits(table, APP, 0, 2)] == ['{"batch": 1}']
    # The new content may be derived from the table itself.
    head = table.snapshot()
    with job_counter() as rewritten:
        assert overwrite(table, table.read(head).where("a = 1"), TxnNumber(APP, 2), "m", based_on=head) == 3
    assert contents(table) == [(1, "x"), (1, "x")]
    with pytest.raises(LeaseLost, match="derived from 2"):
        overwrite(table, table.read(head), TxnNumber(APP, 3), based_on=head)
    assert (plain.jobs, numbered.jobs, rewritten.jobs) == (1, 2, 3)


def test_merge_keyed(table: DeltaTable, job_counter: Jobs) -> None:
    append(table, frame(table, (1, "x"), (2, "y"), (3, "z"), (None, "n")))
    actions = frame(
        table,
        (1, "new", False),
        (2, None, True),
        (None, "null key", False),
        (50, "inserted", False),
        (51, "not there", True),
        columns="a INT, `b c` STRING, __delete BOOLEAN",
    )
    with job_counter() as count:
        assert merge_keyed(table, actions, ["a"], TxnNumber(APP, 1), '{"n": 1}') == 2
    assert contents(table) == [(1, "new"), (3, "z"), (50, "inserted"), (None, "null key")]
    (commit,) = commits(table, 1, 2)
    assert (commit.txns, commit.user_metadata) == ({APP: 1}, '{"n": 1}')
    with job_counter() as skipped:
        assert merge_keyed(table, actions, ["a"], TxnNumber(APP, 1)) is None
    # Nothing to do: the number is recorded all the same.
    assert merge_keyed(table, actions.where("a = 51"), ["a"], TxnNumber(APP, 2), restrict="target.a > 3") == 3
    assert landed(table, APP, 2, 2) == 3
    assert (count.jobs, skipped.jobs) == (6, 0)
    assert table.spark.conf.get("spark.databricks.delta.write.txnAppId", None) is None


def test_merge_bag(table: DeltaTable, job_counter: Jobs) -> None:
    append(table, frame(table, (1, "x"), (1, "x"), (3, "z"), (None, None), (None, None)))
    with job_counter() as count:
        version = merge_bag(
            table,
            kills=frame(table, (1, "x"), (None, None), (9, "not there")),
            inserts=frame(table, (1, "x"), (7, "s"), (7, "s")),
            identity=[("target.a", "source.a"), ("target.`b c`", "source.`b c`")],
            number=TxnNumber(APP, 1),
        )
    assert version == 2
    assert contents(table) == [(1, "x"), (3, "z"), (7, "s"), (7, "s")]
    assert count.jobs == 6


def test_writers_in_each_others_way(table: DeltaTable, spark: SparkSession) -> None:
    append(table, frame(table, (1, "x")))
    other = DeltaTable(spark.newSession(), table.path)
    slow = other.spark.range(1).selectExpr(
        "CAST(id AS INT) AS a", "java_method('java.lang.Thread', 'sleep', CAST(2000 AS BIGINT)) AS `b c`"
    )
    errors: list[MonusError] = []

    def overwrite_slowly(number: TxnNumber | None) -> None:
        try:
            overwrite(other, slow.coalesce(1), number)
        except MonusError as error:
            errors.append(error)

    for number in (TxnNumber(APP, 5), None):
        thread = threading.Thread(target=overwrite_slowly, args=(number,))
        thread.start()
        time.sleep(1)
        append(table, frame(table, (2, "y")), number)
        thread.join()
    assert [type(error) for error in errors] == [LeaseLost, ViewBusy]
    assert len(contents(table)) == 3


def test_upkeep(session: SparkSession, tmp_path: Path, job_counter: Jobs) -> None:
    table = DeltaTable(session, str(tmp_path / "pending"))
    table.create(StructType.fromDDL("a INT, batch BIGINT"), partition_by=["batch"])
    for batch in (1, 1, 2, 3):
        append(table, frame(table, (batch, batch), columns="a INT, batch BIGINT"))
    assert optimize(table) == 5
    assert optimize(table) is None
    with job_counter() as count:
        assert delete_partitions(table, "batch", [1, 2]) == 6
    (commit,) = commits(table, 5, 6)
    assert (len(commit.adds), len(commit.removes)) == (0, 2)
    assert contents(table) == [(3, 3)]
    assert count.jobs <= 6
    assert delete_partitions(table, "batch", []) is None
    # What version 4 needs stays, although no retention is asked for.
    assert vacuum(table, 4, min_retention_hours=0) == pytest.approx(2)
    assert table.read_version(4).count() == 4
    assert vacuum(table, 4) == pytest.approx(168)

"""What each kind of refresh costs, in Spark jobs and commits: it must not creep.

Small tables, so the numbers are those of the mechanism; a change of them is a decision, not an accident.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import monus
from tests.spark.limits import LIMITS, MERGE, low_limits

MERGE_LIMITS = tuple(name for name in LIMITS if name.endswith(MERGE))
AGGREGATE = "SELECT k, count(*) AS n, sum(x) AS total, max(x) AS top FROM costs GROUP BY k"
BAG = "SELECT k, x + 1 AS y FROM costs WHERE x IS NOT NULL"
Counter = Callable[[], AbstractContextManager[Any]]


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[monus.Warehouse]:
    folder: Path = tmp_path_factory.mktemp("costs")
    opened = monus.connect(folder / "warehouse", spark=spark)
    opened.sql("CREATE TABLE costs (k INT, x BIGINT, note STRING)")
    opened.sql("INSERT INTO costs SELECT id % 10, id, 'a' FROM range(100)")
    opened.create_view("by_key", AGGREGATE)
    opened.create_view("rows", BAG)
    yield opened
    for name in ("by_key", "rows"):
        opened.drop_view(name)
    opened.sql("DROP TABLE costs")
    opened.close()


def refreshed(warehouse: monus.Warehouse, name: str) -> monus.Refresh:
    done = warehouse.view(name).refresh()
    assert isinstance(done, monus.Refresh)
    assert warehouse.view(name).verify().ok
    return done


def test_no_change_costs_no_job(warehouse: monus.Warehouse, job_counter: Counter) -> None:
    for name in ("by_key", "rows"):
        with job_counter() as count:
            done = warehouse.view(name).refresh()
        assert isinstance(done, monus.Refresh)
        assert (done.strategy, done.code, done.commits, done.spark_jobs) == ("none", "NO_CHANGE", 0, 0)
        assert count.jobs == 0


def test_compaction_of_a_source_is_no_work(warehouse: monus.Warehouse, job_counter: Counter) -> None:
    warehouse.sql("INSERT INTO costs VALUES (1, 1, 'b')")
    warehouse.refresh()
    warehouse.spark.sql("OPTIMIZE costs").collect()
    for name in ("by_key", "rows"):
        with job_counter() as count:
            done = warehouse.view(name).refresh()
        assert isinstance(done, monus.Refresh)
        assert (done.strategy, done.code, done.commits, count.jobs) == ("none", "NO_ROWS_CHANGED", 0, 0)


def test_changes_that_cancel_out_make_no_commit(warehouse: monus.Warehouse) -> None:
    warehouse.sql("UPDATE costs SET x = x + 1")
    warehouse.sql("UPDATE costs SET x = x - 1")
    for name in ("by_key", "rows"):
        before = warehouse._catalog.view(name).version
        done = refreshed(warehouse, name)
        assert (done.strategy, done.code, done.commits) == ("none", "NO_EFFECT", 0)
        assert warehouse._catalog.view(name).version == before


def test_a_column_that_is_not_read_does_not_matter(warehouse: monus.Warehouse) -> None:
    warehouse.sql("UPDATE costs SET note = 'c'")
    for name in ("by_key", "rows"):
        done = refreshed(warehouse, name)
        assert (done.strategy, done.code, done.commits) == ("none", "NO_EFFECT", 0)


@pytest.mark.parametrize(
    ("name", "statement", "strategy", "jobs"),
    [
        ("rows", "INSERT INTO costs VALUES (1, 500, 'd')", "append", 3),
        ("by_key", "INSERT INTO costs VALUES (77, 500, 'd')", "append", 4),
        ("rows", "UPDATE costs SET x = x + 1000 WHERE x = 5", "rewrite", 6),
        ("by_key", "UPDATE costs SET x = x + 1000 WHERE x = 7", "rewrite", 5),
    ],
)
def test_jobs_and_commits(warehouse: monus.Warehouse, name: str, statement: str, strategy: str, jobs: int) -> None:
    warehouse.refresh()
    warehouse.sql(statement)
    done = refreshed(warehouse, name)
    assert (done.strategy, done.commits, done.incremental) == (strategy, 1, True)
    assert done.spark_jobs <= jobs


@pytest.mark.parametrize(("way", "most_jobs"), [("deletion vectors", 7), ("MERGE", 21)])
def test_merge_is_taken_for_large_views(warehouse: monus.Warehouse, way: str, most_jobs: int) -> None:
    """MERGE only where the files of the table are many, or it takes no deletion vectors."""
    more_files = ("monus.store.listing.MOST_FILES",) if way == "MERGE" else ()
    warehouse.refresh()
    warehouse.sql("UPDATE costs SET x = x + 1 WHERE k = 3")
    warehouse.sql("INSERT INTO costs SELECT k, x, note FROM costs WHERE k = 5")
    warehouse.sql("DELETE FROM costs WHERE k = 4")
    with low_limits(*MERGE_LIMITS, *more_files):
        for name in ("by_key", "rows"):
            done = refreshed(warehouse, name)
            assert (done.strategy, done.commits) == ("merge", 1)
            assert done.spark_jobs <= most_jobs
            head = warehouse.spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first()
            assert head is not None and (head["operation"] == "MERGE") == (way == "MERGE")


def test_propagate_is_one_append(warehouse: monus.Warehouse) -> None:
    warehouse.refresh()
    warehouse.sql("UPDATE costs SET x = x + 1 WHERE k = 5")
    view = warehouse.view("by_key")
    done = view.propagate()
    assert (done.operation, done.strategy, done.commits) == ("propagate", "append", 1)
    assert done.spark_jobs <= 7
    assert view.verify().ok
    folded = view.partial_refresh()
    assert (folded.strategy, folded.code, folded.commits) == ("rewrite", "FOLDED", 1)
    assert folded.spark_jobs <= 4
    assert view.verify().ok
    assert view.status().fresh


def test_full_is_one_commit(warehouse: monus.Warehouse) -> None:
    warehouse.refresh()
    warehouse.sql("DELETE FROM costs WHERE k = 9")
    done = warehouse.view("by_key").refresh(full=True)
    assert isinstance(done, monus.Refresh)
    assert (done.strategy, done.incremental, done.code, done.commits) == ("full", False, "REQUESTED", 1)
    assert done.rows_deleted == done.rows_inserted + 1 > 1
    assert done.to_versions["costs"] == done.from_versions["costs"] + 1
    assert warehouse.view("by_key").history(1) == [done]
    assert done.spark_jobs <= 10
    assert warehouse.view("by_key").verify().ok


def test_values_are_not_looked_at_one_by_one(
    warehouse: monus.Warehouse, monkeypatch: pytest.MonkeyPatch, job_counter: Counter
) -> None:
    """A statement of many values asks the JVM as often as one of two; and it is Spark's own statement, no job more."""
    client, asked = warehouse.spark.sparkContext._gateway._gateway_client, []  # type: ignore[union-attr]
    send = client.send_command

    def counted(command: str, *rest: Any, **more: Any) -> Any:
        if not command.startswith("m\n"):  # what Python has let go of
            asked.append(command)
        return send(command, *rest, **more)

    monkeypatch.setattr(client, "send_command", counted)

    def cost(rows: int) -> tuple[int, int]:
        text = f"INSERT INTO costs VALUES {', '.join(['(1, 2, NULL)'] * rows)}"
        warehouse.sql(text)
        asked.clear()
        with job_counter() as count:
            warehouse.sql(text)
        return len(asked), count.jobs

    (few, _), (many, jobs) = cost(2), cost(300)
    assert many == few < 300
    with job_counter() as count:
        warehouse.spark.sql("INSERT INTO costs VALUES (1, 2, NULL)")
    assert jobs == count.jobs
    refreshed(warehouse, "by_key")

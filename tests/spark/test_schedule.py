"""The scheduler with what it is made for: Spark, and the maintainer of a warehouse."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import monus
from monus.catalog.owners import Owner
from monus.maintenance.fault_points import FaultPoint
from monus.maintenance.schedule import Scheduler, first_ticks, no_jobs_running
from monus.sql.policy import parse_policy
from tests.spark.crashes import crash, reopen

START = datetime(2026, 1, 1, tzinfo=UTC)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def test_whether_jobs_run(spark: SparkSession) -> None:
    wait_until(partial(no_jobs_running, spark))

    def work() -> None:
        spark.sparkContext.setJobGroup("slow", "longer than any test", interruptOnCancel=True)
        try:
            spark.range(10**13).selectExpr("sum(id)").collect()
        except Py4JJavaError:
            return  # it was cancelled

    thread = threading.Thread(target=work)
    thread.start()
    try:
        wait_until(lambda: not no_jobs_running(spark))
    finally:
        spark.sparkContext.cancelJobGroup("slow")
        thread.join()
    wait_until(partial(no_jobs_running, spark))


def made(wh: monus.Warehouse, policy: str) -> monus.View:
    """A view with this policy since START."""
    wh.sql("CREATE TABLE sales (k INT, q INT)")
    wh.sql("INSERT INTO sales VALUES (1, 1), (2, 5)")
    view = wh.create_view("v", "SELECT k, sum(q) AS q FROM sales GROUP BY k")
    lease = wh._catalog.acquire("v", Owner.here(), 60)
    wh._catalog.set_policy(lease, policy, *first_ticks(parse_policy(policy), START))
    wh._catalog.release(lease)
    return view


def rows(view: monus.View) -> list[tuple[int, ...]]:
    return sorted(tuple(row) for row in view.table().collect())


def test_policy_2_on_a_real_view(spark: SparkSession, warehouse_path: Path) -> None:
    with monus.connect(warehouse_path, spark=spark) as wh:
        view = made(wh, "EVERY 1 DAY PARTIAL PROPAGATE EVERY 1 HOUR")
        scheduler = Scheduler(wh._catalog, wh._maintainer, lambda: False)
        wh.sql("INSERT INTO sales VALUES (1, 10)")
        (done,) = scheduler.run_due(START + timedelta(hours=1))
        assert (done.view, done.operation, done.strategy) == ("v", "propagate", "append")
        assert rows(view) == [(1, 1), (2, 5)]
        wh.sql("INSERT INTO sales VALUES (3, 7)")
        made_up_for = scheduler.run_due(START + timedelta(days=1))
        assert [done.operation for done in made_up_for] == ["propagate", "partial_refresh"]
        assert rows(view) == [(1, 11), (2, 5), (3, 7)]
        assert scheduler.run_due(START + timedelta(days=1)) == []
        assert view.verify().ok and view.status().fresh


def test_policy_1_on_a_real_view(spark: SparkSession, warehouse_path: Path) -> None:
    with monus.connect(warehouse_path, spark=spark) as wh:
        view = made(wh, "EVERY 1 DAY PROPAGATE EVERY 1 HOUR")
        wh.sql("INSERT INTO sales VALUES (1, 10)")
        (done,) = wh.run_due(START + timedelta(hours=1))
        assert (done.operation, rows(view)) == ("propagate", [(1, 1), (2, 5)])
        wh.sql("INSERT INTO sales VALUES (3, 7)")
        (done,) = wh.run_due(START + timedelta(days=1))
        assert (done.operation, rows(view)) == ("refresh", [(1, 11), (2, 5), (3, 7)])
        assert wh.run_due(START + timedelta(days=1)) == []
        assert view.verify().ok and view.status().fresh


def test_a_process_that_dies_when_it_has_claimed_a_tick(spark: SparkSession, warehouse_path: Path) -> None:
    """The tick is lost, as that of a refresh that fails: the next one makes up for it."""
    wh = monus.connect(warehouse_path, spark=spark)
    made(wh, "EVERY 1 HOUR")
    wh.sql("INSERT INTO sales VALUES (3, 7)")
    assert crash(wh, FaultPoint.TICK_CLAIMED, lambda: wh.run_due(START + timedelta(hours=1)))
    with reopen(warehouse_path, spark) as wh:
        assert rows(wh.view("v")) == [(1, 1), (2, 5)]
        (done,) = wh.run_due(START + timedelta(hours=2))
        assert done.incremental and rows(wh.view("v")) == [(1, 1), (2, 5), (3, 7)]
        assert wh.view("v").verify().ok


def test_the_thread_of_a_warehouse(spark: SparkSession, warehouse_path: Path) -> None:
    with monus.connect(warehouse_path, spark=spark) as wh:
        view = made(wh, "EVERY 1 SECOND PARTIAL PROPAGATE EVERY 1 SECOND")
        with wh.maintenance(seconds=0.1):
            wh.sql("INSERT INTO sales VALUES (3, 7)")
            wait_until(lambda: (3, 7) in rows(view))
        assert view.verify().ok
        assert [done.error for done in view.history() if done.error is not None] == []


def test_propagated_when_idle_only_what_there_is(spark: SparkSession, warehouse_path: Path) -> None:
    with monus.connect(warehouse_path, spark=spark) as wh:
        view = made(wh, "EVERY 1 DAY PROPAGATE WHEN IDLE")
        scheduler = Scheduler(wh._catalog, wh._maintainer, lambda: True)
        wh.sql("INSERT INTO sales VALUES (3, 7)")
        for _ in range(3):
            scheduler.run_due(START)
        assert [done.operation for done in view.history()] == ["propagate", "refresh"]


def test_in_a_thread_of_its_own(spark: SparkSession, warehouse_path: Path) -> None:
    with monus.connect(warehouse_path, spark=spark) as wh:
        view = made(wh, "EVERY 1 SECOND PROPAGATE WHEN IDLE")
        scheduler = Scheduler(wh._catalog, wh._maintainer, partial(no_jobs_running, spark))
        with scheduler.running(seconds=0.1):
            for k in (3, 4):
                wh.sql(f"INSERT INTO sales VALUES ({k}, 1)")
                wait_until(lambda k=k: (k, 1) in rows(view))  # type: ignore[misc]
        assert view.verify().ok
        assert [done.error for done in view.history() if done.error is not None] == []

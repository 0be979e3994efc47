"""Lazy maintenance (Zhou et al.): a commit leaves a task, and the manager or the first query does it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import monus
from monus.errors import PointUnreachable, StatementInvalid
from monus.maintenance.manager import BURST, Manager
from tests.spark.crashes import is_right, rows_of

Counter = Callable[[], AbstractContextManager[Any]]
ROOT = Path(__file__).parents[2]
COUNTED = "SELECT t.g, count(*) AS n, sum(x) AS s FROM t JOIN u ON t.g = u.g GROUP BY t.g"
FILTERED = "SELECT k, x FROM t WHERE x > 100"


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[monus.Warehouse]:
    with monus.connect(tmp_path_factory.mktemp("lazy") / "warehouse", spark=spark) as wh:
        wh.sql("CREATE TABLE t (k INT, g INT, x INT, note STRING)")
        wh.sql("CREATE TABLE u (g INT, w INT)")
        wh.sql("INSERT INTO t VALUES (1, 1, 10, 'a'), (2, 1, 200, 'b'), (3, 2, 300, NULL), (3, 2, 300, NULL)")
        wh.sql("INSERT INTO u VALUES (1, 1), (2, 1)")
        wh.create_view("counted", COUNTED, refresh="lazy")
        wh.create_view("filtered", FILTERED, refresh="LAZY")
        yield wh


@pytest.fixture
def wh(made: monus.Warehouse) -> Iterator[monus.Warehouse]:
    """Nothing waits, and after the test every view that it made is gone and the two are right."""
    a_round(made)
    yield made
    for name in reversed(made._catalog.dependency_order()):
        if name not in BOTH:
            made.drop_view(name)
    a_round(made)
    assert made.tasks() == []
    for name in BOTH:
        assert is_right(made, name)


BOTH = ["counted", "filtered"]


def manager(wh: monus.Warehouse, is_idle: Callable[[], bool] = lambda: True) -> Manager:
    return Manager(wh.spark, wh._catalog, wh._maintainer, is_idle)


def a_round(wh: monus.Warehouse, is_idle: Callable[[], bool] = lambda: True) -> list[str]:
    """The views that were maintained."""
    return sorted(done.view for done in manager(wh, is_idle).work(threading.Event()))


def operations(wh: monus.Warehouse) -> dict[str, int]:
    return {name: len(wh.view(name).history()) for name in BOTH}


def waiting(wh: monus.Warehouse) -> dict[str, int]:
    return {name: len(wh.view(name).tasks()) for name in wh.views() if wh.view(name).tasks()}


def rows(wh: monus.Warehouse, query: str) -> list[tuple[Any, ...]]:
    return rows_of(wh.sql(query))


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_commit_leaves_tasks_and_the_manager_does_them(wh: monus.Warehouse) -> None:
    before = operations(wh)
    wh.sql("INSERT INTO t VALUES (4, 2, 400, 'c')")
    with wh.transaction() as tx:
        tx.sql("UPDATE t SET x = x + 1 WHERE k = 1")
        tx.sql("INSERT INTO u VALUES (2, 9)")
        assert rows_of(tx.sql("SELECT * FROM counted")) == rows_of(tx.sql(COUNTED))
    wh.sql("DELETE FROM t WHERE k = 2")
    assert waiting(wh) == {"counted": 3, "filtered": 3}
    assert [sorted(task.changed) for task in wh.view("counted").tasks()] == [["t"], ["t", "u"], ["t"]]
    sequences = [task.sequence for task in wh.tasks()]
    assert sequences == sorted(sequences)
    assert not wh.view("counted").status().fresh
    assert a_round(wh) == BOTH
    assert waiting(wh) == {}
    assert operations(wh) == {name: count + 1 for name, count in before.items()}  # one job for three transactions
    for name in BOTH:
        assert is_right(wh, name)
        assert wh.view(name).verify().ok
    assert a_round(wh) == []


def test_the_oldest_task_is_done_first(wh: monus.Warehouse) -> None:
    wh.sql("INSERT INTO u VALUES (1, 5)")
    wh.sql("INSERT INTO t VALUES (4, 2, 400, 'c')")
    assert manager(wh).waiting() == ["counted", "filtered"]
    wh.table("counted")
    wh.sql("INSERT INTO t VALUES (4, 2, 400, 'c')")
    assert manager(wh).waiting() == ["filtered", "counted"]


def test_a_transaction_that_is_rolled_back_leaves_nothing(wh: monus.Warehouse) -> None:
    with wh.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (4, 2, 400, 'c')")
        assert rows_of(tx.sql("SELECT * FROM filtered")) == rows_of(tx.sql(FILTERED))
        tx.rollback()
    assert wh.tasks() == []
    assert wh.view("filtered").status().fresh


def test_a_query_does_what_it_needs_and_no_more(wh: monus.Warehouse) -> None:
    before = operations(wh)
    wh.sql("INSERT INTO t VALUES (40, 2, 400, 'c')")
    assert rows(wh, "SELECT k, x FROM filtered") == rows(wh, FILTERED)
    assert waiting(wh) == {"counted": 1}
    wh.sql("CREATE TEMPORARY VIEW shown AS SELECT s FROM counted")
    shown = rows(wh, "SELECT * FROM shown WHERE s IN (SELECT s FROM counted)")
    assert shown == rows(wh, f"SELECT s FROM ({COUNTED})")
    assert waiting(wh) == {}
    assert operations(wh) == {name: count + 1 for name, count in before.items()}
    wh.spark.catalog.dropTempView("shown")


def test_updates_of_columns_that_a_view_does_not_read(wh: monus.Warehouse, job_counter: Counter) -> None:
    wh.sql("UPDATE t SET note = 'z'")
    wh.sql("UPDATE t AS a SET a.note = 'y' WHERE a.x > 10")
    assert waiting(wh) == {}
    assert wh.view("counted").status().fresh
    before = operations(wh)
    with job_counter() as count:
        assert a_round(wh) == []
        wh.table("counted")
    assert count.jobs == 0
    assert operations(wh) == before
    wh.sql("UPDATE t SET note = 'x', X = 11 WHERE k = 1")
    assert waiting(wh) == {"counted": 1, "filtered": 1}
    wh.sql("UPDATE t SET note = 'w'")
    wh.sql("UPDATE t SET k = 7 WHERE k = 1")  # `counted` does not read k
    assert waiting(wh) == {"counted": 1, "filtered": 2}
    assert a_round(wh) == BOTH
    for name in BOTH:
        assert wh.view(name).status().fresh
        assert wh.view(name).verify().ok


def test_an_update_that_is_not_alone_is_looked_at(wh: monus.Warehouse) -> None:
    """Rows that come before an UPDATE of another column, and after the look at the table, count."""
    run = wh._queries.execute

    def after_another(plan: Any, writes_to: str | None = None) -> Any:
        wh._queries.execute = run  # type: ignore[method-assign]
        wh.spark.sql(f"INSERT INTO delta.`{wh._catalog.table('t').location}` VALUES (90, 1, 9000, 'n')")
        return run(plan, writes_to)

    wh._queries.execute = after_another  # type: ignore[method-assign]
    wh.sql("UPDATE t SET note = 'z'")
    assert waiting(wh) == {"counted": 1, "filtered": 1}
    assert rows(wh, "SELECT * FROM filtered") == rows(wh, FILTERED)


def test_names_that_stand_for_other_columns(wh: monus.Warehouse) -> None:
    """Through a view of Spark that swaps two columns the right one is set, and the right views know of it."""
    wh.sql("INSERT INTO t VALUES (70, 1, 7000, 'n')")
    a_round(wh)
    wh.sql("CREATE TEMPORARY VIEW swapped AS SELECT k AS g, g AS k, x, note FROM t")
    wh.sql("UPDATE swapped SET k = 2 WHERE x = 7000")
    wh.spark.catalog.dropTempView("swapped")
    assert rows(wh, "SELECT k, g, x FROM t WHERE x = 7000") == [(70, 2, 7000)]
    assert waiting(wh) == {"counted": 1, "filtered": 1}
    assert rows(wh, "SELECT * FROM counted") == rows(wh, COUNTED)


def test_an_update_of_no_row_is_not_taken_for_what_others_wrote(wh: monus.Warehouse) -> None:
    """Another thread of the session writes while an UPDATE runs that finds nothing and makes no commit."""
    run = wh._queries.execute

    def before_another(plan: Any, writes_to: str | None = None) -> Any:
        wh._queries.execute = run  # type: ignore[method-assign]
        result = run(plan, writes_to)
        wh.spark.sql(f"UPDATE delta.`{wh._catalog.table('t').location}` SET x = x + 5")
        return result

    wh._queries.execute = before_another  # type: ignore[method-assign]
    wh.sql("UPDATE t SET note = 'z' WHERE k = -1")
    assert waiting(wh) == {"counted": 1, "filtered": 1}
    assert rows(wh, "SELECT * FROM filtered") == rows(wh, FILTERED)


def test_a_query_that_is_not_understood_may_read_any_column(wh: monus.Warehouse) -> None:
    mixed = "(TABLE u UNION ALL SELECT k, x FROM t) AS v(k, w)"
    wh.create_view("numbered", f"SELECT k, row_number() OVER (ORDER BY k, w) AS n FROM {mixed}", refresh="LAZY")
    wh.sql("UPDATE u SET w = 8")
    assert waiting(wh) == {"numbered": 1}


def test_a_task_that_comes_late(wh: monus.Warehouse) -> None:
    """Somebody has brought the view there before the statement is recorded."""
    record = wh._catalog.record_statement

    def late(*words: Any) -> None:
        wh.table("filtered")
        record(*words)

    wh._catalog.record_statement = late  # type: ignore[method-assign]
    try:
        wh.sql("INSERT INTO t VALUES (4, 2, 400, 'c')")
    finally:
        wh._catalog.record_statement = record  # type: ignore[method-assign]
    assert waiting(wh) == {"counted": 1}


def test_a_generated_column_follows_another(wh: monus.Warehouse) -> None:
    wh.sql("CREATE TABLE made (a INT, b INT GENERATED ALWAYS AS (a + 1))")
    wh.sql("INSERT INTO made (a) VALUES (1)")
    wh.create_view("of_made", "SELECT b FROM made", refresh="LAZY")
    wh.sql("UPDATE made SET a = 5")
    assert waiting(wh) == {"of_made": 1}
    assert rows(wh, "SELECT * FROM of_made") == [(6,)]


def test_what_others_write_is_found_by_the_manager(wh: monus.Warehouse) -> None:
    path = wh._catalog.table("t").location
    wh.spark.sql(f"INSERT INTO delta.`{path}` VALUES (9, 1, 900, 'q')")
    assert waiting(wh) == {}
    assert a_round(wh) == BOTH
    assert is_right(wh, "counted")
    wh.spark.sql(f"DELETE FROM delta.`{path}` WHERE k = 9")
    for _ in range(2):
        manager(wh).see_others()
    (task,) = wh.view("counted").tasks()
    assert task.transaction is None
    assert a_round(wh) == BOTH


def test_views_over_views(wh: monus.Warehouse) -> None:
    wh.create_view("deferred", "SELECT g, x FROM t", refresh="ON DEMAND")
    wh.create_view("over", "SELECT n, count(*) AS c FROM counted GROUP BY n", refresh="LAZY")
    wh.create_view("over_deferred", "SELECT max(x) AS m FROM deferred", refresh="LAZY")
    wh.sql("INSERT INTO t VALUES (41, 2, 9400, 'c')")
    assert waiting(wh) == {"counted": 1, "filtered": 1}
    assert a_round(wh) == BOTH
    assert waiting(wh) == {"over": 1}
    wh.view("deferred").refresh()
    assert waiting(wh) == {"over": 1, "over_deferred": 1}
    assert a_round(wh) == ["over", "over_deferred"]
    assert waiting(wh) == {}
    for name in ("counted", "over", "over_deferred"):
        assert is_right(wh, name)
    wh.sql("DELETE FROM t WHERE k = 41")
    assert rows(wh, "SELECT * FROM over") == rows(wh, f"SELECT n, count(*) FROM ({COUNTED}) GROUP BY n")
    assert waiting(wh) == {"filtered": 1}


def test_a_busy_system_is_left_alone(wh: monus.Warehouse) -> None:
    wh.sql("INSERT INTO t VALUES (4, 2, 400, 'c')")
    assert a_round(wh, lambda: False) == []
    answers = iter([True, True, False])  # busy again after the first view
    assert len(a_round(wh, lambda: next(answers))) == 1
    assert len(waiting(wh)) == 1


def test_it_gives_way_to_a_burst_of_queries(wh: monus.Warehouse) -> None:
    """Nothing is lost: the task stays, and a later round does it."""
    slow = "aggregate(sequence(1, 2000), 0L, (sum, y) -> sum + y * id % 7) >= 0"
    wh.sql("CREATE TABLE many (id BIGINT)")
    wh.create_view("slow", f"SELECT count(*) AS n FROM many WHERE {slow}", refresh="LAZY")
    wh.sql("INSERT INTO many SELECT id FROM range(2000000)")  # minutes of work
    found, done = manager(wh), list[Any]()
    maintainer = threading.Thread(target=lambda: done.extend(found.work(threading.Event())))
    maintainer.start()
    wait_until(lambda: "slow" in wh._maintainer._board.running)
    queries = [
        threading.Thread(target=lambda: wh.spark.range(20_000).where(slow).agg({"id": "max"}).collect())
        for _ in range(BURST)
    ]
    for query in queries:
        query.start()
    maintainer.join(120)
    for query in queries:
        query.join()
    assert not maintainer.is_alive() and done == []
    assert waiting(wh) == {"slow": 1}
    assert "REFRESH_CANCELLED" in str(wh.view("slow").history(1)[0].error)
    wh.sql("DELETE FROM many WHERE id >= 10")
    assert a_round(wh) == ["slow"]
    assert rows(wh, "SELECT * FROM slow") == [(10,)]


def test_a_view_is_brought_to_a_point(wh: monus.Warehouse) -> None:
    view, stored = wh.view("filtered"), wh._catalog.view("filtered")
    at = stored.vector["t"]["version"]
    for k in (51, 52, 53):
        wh.sql(f"INSERT INTO t VALUES ({k}, 1, 500, 'p')")
        moment = datetime.now(UTC)
        time.sleep(0.05)
    view.refresh(to={"T": at + 1})
    found = {row.k for row in wh.spark.read.format("delta").load(stored.location).collect()}
    assert found & {51, 52, 53} == {51}
    assert len(view.tasks()) == 2
    assert view.verify().ok
    for wrong in ({"t": at}, {"t": at + 99}, {"nobody": 1}, {"t": "7"}, "yesterday"):
        with pytest.raises(PointUnreachable):
            view.refresh(to=wrong)  # type: ignore[arg-type]
    with pytest.raises(StatementInvalid):
        view.refresh(full=True, to={"t": at + 2})
    view.refresh(to=moment)
    assert view.status().fresh
    assert view.tasks() == []
    view.refresh(to={})
    assert view.verify().ok


def test_a_point_has_all_of_a_transaction(wh: monus.Warehouse) -> None:
    view, before = wh.view("counted"), wh._catalog.view("counted").vector
    with wh.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (4, 2, 400, 'c')")
        tx.sql("INSERT INTO u VALUES (2, 9)")
    at = {name: before[name]["version"] for name in ("t", "u")}
    with pytest.raises(PointUnreachable, match="part of it"):
        view.refresh(to={"t": at["t"] + 1})
    committed = wh.view("counted").tasks()[0].created_at
    view.refresh(to=committed)  # before its commits
    assert wh._catalog.view("counted").vector == before
    view.refresh(to={name: version + 1 for name, version in at.items()})
    assert view.status().fresh


def test_tasks_go_with_their_view_and_its_policy(wh: monus.Warehouse) -> None:
    wh.create_view("more", FILTERED, refresh="LAZY")
    wh.sql("INSERT INTO t VALUES (4, 2, 400, 'c')")
    assert waiting(wh) == {"counted": 1, "filtered": 1, "more": 1}
    wh.view("filtered").alter("ON DEMAND USING LOG")
    wh.drop_view("more")
    assert waiting(wh) == {"counted": 1}
    wh.view("filtered").alter("LAZY")
    assert waiting(wh) == {"counted": 1, "filtered": 1}
    assert a_round(wh) == BOTH


def test_a_view_that_fails_is_left_alone_for_a_while(wh: monus.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monus.maintenance.manager.FIRST_PAUSE", 1000.0)
    wh.create_view("divided", "SELECT k, 100 / x AS d FROM t", refresh="LAZY")
    wh.sql("INSERT INTO t VALUES (60, 2, 0, 'c')")
    found, stop = manager(wh), threading.Event()
    assert sorted(done.view for done in found.work(stop)) == BOTH
    failures = [done for done in wh.view("divided").history() if done.error]
    assert len(failures) == 1
    found.work(stop)
    assert [done for done in wh.view("divided").history() if done.error] == failures
    assert waiting(wh) == {"divided": 1}
    wh.sql("DELETE FROM t WHERE x = 0")
    assert rows(wh, "SELECT d FROM divided") == rows(wh, "SELECT 100 / x FROM t")


def test_a_lazy_commit_costs_no_job_however_many_views_there_are(wh: monus.Warehouse, job_counter: Counter) -> None:
    wh.sql("CREATE TABLE few (k INT)")  # Delta writes a checkpoint with each tenth commit

    def jobs(run: Callable[[str], Any]) -> int:
        with job_counter() as count:
            run("INSERT INTO few VALUES (4)")
        return int(count.jobs)

    plain = jobs(wh.spark.sql)
    for name in ("one", "two"):
        wh.create_view(name, "SELECT count(*) AS n FROM few", refresh="LAZY")
        assert jobs(wh.sql) == plain
    assert waiting(wh) == {"one": 2, "two": 1}


def test_in_a_thread_of_its_own(wh: monus.Warehouse) -> None:
    with wh.maintenance(0.1, busy_cpu=1):  # other tests may keep the machine busy
        wh.sql("INSERT INTO t VALUES (4, 2, 400, 'c')")
        wait_until(lambda: not wh.tasks())


@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGINT])
def test_a_process_of_its_own(wh: monus.Warehouse, ended_by: signal.Signals) -> None:
    """`monus run`, ended as a service is."""
    wh.sql("INSERT INTO t VALUES (4, 2, 400, 'c')")
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; from monus.cli import main; sys.exit(main())", "run", str(wh.root),
         "--seconds", "0.2", "--busy-cpu", "1"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ),
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline().startswith("Maintaining")
        wait_until(lambda: not wh.tasks())
        process.send_signal(ended_by)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, errors


@pytest.mark.parametrize(
    ("words", "said"), [(["run"], "folder"), (["run", "x", "--seconds", "0"], "above zero"), (["walk"], "run")]
)
def test_wrong_words_on_the_command_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    from monus.cli import main

    with pytest.raises(SystemExit):
        main(words)
    assert said in capsys.readouterr().err

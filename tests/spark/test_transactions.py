"""Transactions as a user meets them: all or nothing, their own snapshot, first committer wins."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import monus
from monus.errors import (
    AssertionViolated,
    InUse,
    NameExists,
    NotSupported,
    RefreshFailed,
    TransactionClosed,
    TransactionConflict,
    TransactionRefused,
    UnknownColumn,
    UnknownTable,
    ViewBusy,
    ViewIsClosedToDml,
)
from monus.maintenance.fault_points import FaultPoint, listening
from tests.spark.conftest import JobCount
from tests.spark.crashes import rows_of


@pytest.fixture
def wh(spark: SparkSession, warehouse_path: Path) -> Iterator[monus.Warehouse]:
    wh = monus.connect(warehouse_path, spark=spark)
    wh.sql("CREATE TABLE a (k INT, v STRING)")
    wh.sql("CREATE TABLE b (k INT, w INT)")
    wh.sql("INSERT INTO a VALUES (1, 'x'), (1, 'x'), (2, 'y')")
    wh.sql("INSERT INTO b VALUES (1, 10), (2, 20)")
    yield wh
    wh.close()


def rows(wh: monus.Warehouse, table: str) -> list[tuple[object, ...]]:
    return rows_of(wh.table(table))


def versions(wh: monus.Warehouse) -> dict[str, int]:
    return {n: wh.spark.sql(f"DESCRIBE HISTORY {n}").count() for n in wh.tables()}


A = [(1, "x"), (1, "x"), (2, "y")]
B = [(1, 10), (2, 20)]


def test_nobody_sees_anything_before_it_commits(wh: monus.Warehouse) -> None:
    with wh.transaction() as tx:
        tx.sql("INSERT INTO a VALUES (3, 'z')")
        tx.sql("UPDATE b SET w = w + 1 WHERE k = 1")
        tx.sql("DELETE FROM a WHERE k = 2")
        assert rows_of(tx.sql("SELECT * FROM a")) == [(1, "x"), (1, "x"), (3, "z")]
        assert rows_of(tx.table("b")) == [(1, 11), (2, 20)]
        assert rows_of(tx.sql("SELECT a.v, b.w FROM a JOIN b USING (k)")) == [("x", 11), ("x", 11)]
        assert (rows(wh, "a"), rows(wh, "b")) == (A, B)
        assert rows_of(wh.spark.table("a")) == A
    assert rows(wh, "a") == [(1, "x"), (1, "x"), (3, "z")]
    assert rows(wh, "b") == [(1, 11), (2, 20)]
    assert not list((wh.root / "staging").glob("*"))


def test_an_error_rolls_all_of_it_back(wh: monus.Warehouse) -> None:
    before, files = versions(wh), sorted(wh.root.glob("tables/*/*.parquet"))
    with pytest.raises(ZeroDivisionError), wh.transaction() as tx:
        tx.sql("INSERT INTO a VALUES (3, 'z')")
        tx.sql("TRUNCATE TABLE b")
        raise ZeroDivisionError
    assert (rows(wh, "a"), rows(wh, "b"), versions(wh)) == (A, B, before)
    assert sorted(wh.root.glob("tables/*/*.parquet")) == files
    with pytest.raises(TransactionClosed):
        tx.sql("SELECT * FROM a")


def test_it_reads_the_snapshot_at_its_begin(wh: monus.Warehouse) -> None:
    tx = wh.transaction()
    wh.sql("INSERT INTO a VALUES (9, 'later')")
    wh.sql("DELETE FROM b WHERE k = 2")
    assert rows_of(tx.sql("SELECT * FROM a")) == A
    assert rows_of(tx.sql("SELECT * FROM b")) == B
    wh.sql("CREATE TABLE new (k INT)")
    with pytest.raises(UnknownTable, match="began"):
        tx.sql("SELECT * FROM new")
    tx.rollback()


def test_rows_are_staged_once(wh: monus.Warehouse) -> None:
    """What a statement computed stays what it is, although it could be another thing the next time."""
    with wh.transaction() as tx:
        tx.sql("INSERT INTO b SELECT 5, cast(rand() * 1000000 AS INT)")
        first = rows_of(tx.sql("SELECT * FROM b WHERE k = 5"))
        assert rows_of(tx.sql("SELECT * FROM b WHERE k = 5")) == first
    assert rows_of(wh.sql("SELECT * FROM b WHERE k = 5")) == first


def test_what_cancels_out_commits_nothing(wh: monus.Warehouse) -> None:
    before = versions(wh)
    with wh.transaction() as tx:
        tx.sql("INSERT INTO a VALUES (7, 'n')")
        tx.sql("DELETE FROM a WHERE k = 7")
        tx.sql("UPDATE b SET w = w + 1")
        tx.sql("UPDATE b SET w = w - 1")
    assert tx.record is None
    assert (rows(wh, "a"), rows(wh, "b"), versions(wh)) == (A, B, before)


def test_of_equal_rows_as_many_leave_as_are_said(wh: monus.Warehouse) -> None:
    with wh.transaction() as tx:
        tx.delete("a", "v = 'x'")
        tx.insert("a", "SELECT 1 AS k, 'x' AS v")
    assert rows(wh, "a") == [(1, "x"), (2, "y")]


def test_truncate_and_overwrite(wh: monus.Warehouse) -> None:
    with wh.transaction() as tx:
        tx.sql("INSERT INTO a VALUES (8, 'gone')")
        tx.sql("TRUNCATE TABLE a")
        tx.sql("INSERT INTO a VALUES (4, 'new')")
        tx.sql("UPDATE a SET v = 'newer'")
        tx.sql("INSERT OVERWRITE b SELECT k, w * 2 FROM b")
    assert (rows(wh, "a"), rows(wh, "b")) == ([(4, "newer")], [(1, 20), (2, 40)])


def test_simultaneous_assignment(wh: monus.Warehouse) -> None:
    """The paper's abstract transaction: every query sees the tables as they were."""
    wh.sql("CREATE TABLE c (k INT, w INT)")
    wh.sql("INSERT INTO c VALUES (7, 70)")
    with wh.transaction() as tx:
        tx.assign({"b": "SELECT * FROM c", "c": "SELECT * FROM b"})
    assert (rows(wh, "b"), rows(wh, "c")) == ([(7, 70)], B)


def test_dataframes(wh: monus.Warehouse) -> None:
    spark = wh.spark
    with wh.transaction() as tx:
        tx.insert("a", spark.createDataFrame([("z", 3)], "v STRING, K INT"))
        tx.update("b", {"w": F.col("w") * 2}, F.col("k") == 1)
        tx.update("b", {"W": "w + 1"}, "k = 2")
        tx.merge("a", spark.createDataFrame([(2, "Y"), (5, "five")], "k INT, v STRING"), "target.k = source.k",
                 update=True, insert=True)  # fmt: skip
        tx.delete("a", F.col("k") == 1)
        with pytest.raises(UnknownColumn):
            tx.update("b", {"nothing": "1"})
        with pytest.raises(UnknownColumn):
            tx.insert("a", spark.range(1).toDF("nothing"))
    assert rows(wh, "a") == [(2, "Y"), (3, "z"), (5, "five")]
    assert rows(wh, "b") == [(1, 20), (2, 21)]


def test_begin_commit_and_rollback(wh: monus.Warehouse) -> None:
    wh.sql("BEGIN TRANSACTION")
    wh.sql("INSERT INTO a VALUES (3, 'z')")
    assert rows_of(wh.sql("SELECT * FROM a WHERE k = 3")) == [(3, "z")]
    assert rows_of(wh.table("a")) == sorted([*A, (3, "z")])
    with pytest.raises(TransactionClosed, match="open already"):
        wh.sql("BEGIN TRANSACTION")
    seen: list[object] = []
    other = threading.Thread(target=lambda: seen.append(rows(wh, "a")))  # another thread is not in it
    other.start()
    other.join()
    assert seen == [A]
    wh.sql("ROLLBACK")
    assert rows(wh, "a") == A
    wh.sql("BEGIN TRANSACTION")
    wh.sql("DELETE FROM a")
    wh.sql("COMMIT")
    assert rows(wh, "a") == []


def test_first_committer_wins(wh: monus.Warehouse) -> None:
    first, second = wh.transaction(), wh.transaction()
    first.sql("UPDATE a SET v = 'first' WHERE k = 2")
    second.sql("UPDATE a SET v = 'second' WHERE k = 2")
    second.sql("INSERT INTO b VALUES (3, 30)")
    first.commit()
    with pytest.raises(TransactionConflict) as conflict:
        second.commit()
    assert conflict.value.fields["table"] == "a" and "'k': 2" in conflict.value.message
    assert rows(wh, "a") == [(1, "x"), (1, "x"), (2, "first")]
    assert rows(wh, "b") == B


def test_rows_that_do_not_overlap_do_not_conflict(wh: monus.Warehouse) -> None:
    first, second, third = wh.transaction(), wh.transaction(), wh.transaction()
    first.sql("UPDATE a SET v = 'first' WHERE k = 1")
    second.sql("DELETE FROM a WHERE k = 2")
    third.sql("INSERT INTO a VALUES (3, 'z')")
    for transaction in (first, second, third):
        transaction.commit()
    assert rows(wh, "a") == [(1, "first"), (1, "first"), (3, "z")]


def test_all_rows_of_a_table_conflict_with_any_change(wh: monus.Warehouse) -> None:
    transaction = wh.transaction()
    transaction.sql("TRUNCATE TABLE b")
    wh.sql("INSERT INTO b VALUES (3, 30)")
    with pytest.raises(TransactionConflict):
        transaction.commit()
    assert rows(wh, "b") == [*B, (3, 30)]


def test_a_change_by_another_writer_is_a_conflict_too(wh: monus.Warehouse) -> None:
    transaction = wh.transaction()
    transaction.sql("DELETE FROM b WHERE k = 1")
    wh.spark.sql("UPDATE b SET w = 0 WHERE k = 1")
    with pytest.raises(TransactionConflict):
        transaction.commit()
    transaction = wh.transaction()
    transaction.sql("DELETE FROM b WHERE k = 1")
    wh.spark.sql("ALTER TABLE b ADD COLUMN z INT")
    with pytest.raises(TransactionConflict, match="columns"):
        transaction.commit()


def test_the_second_waits_for_the_first_but_not_for_ever(wh: monus.Warehouse) -> None:
    from monus.maintenance.fault_points import FaultPoint, listening

    waiting = wh.transaction(wait_seconds=0.2)
    waiting.sql("INSERT INTO a VALUES (4, 'w')")

    def meanwhile(point: FaultPoint) -> None:
        if point is FaultPoint.ALL_LEASES_TAKEN and not errors:
            errors.append(None)
            with pytest.raises(ViewBusy):
                waiting.commit()

    errors: list[object] = []
    with listening(meanwhile):
        wh.sql("BEGIN TRANSACTION")
        wh.sql("INSERT INTO a VALUES (3, 'z')")
        wh.sql("INSERT INTO b VALUES (3, 30)")
        wh.sql("COMMIT")
    assert errors and rows(wh, "a") == sorted([*A, (3, "z")])


def test_readers_see_all_of_a_transaction_or_nothing(wh: monus.Warehouse) -> None:
    """Between the commits of its tables they see the state before."""
    from monus.maintenance.fault_points import FaultPoint, listening

    wh.create_view("v", "SELECT a.v, b.w FROM a JOIN b USING (k)", refresh="IMMEDIATE")
    wh.create_view("q", "SELECT a.v, b.w FROM a JOIN b USING (k)", refresh="ON QUERY")
    after_intent = {
        FaultPoint.TRANSACTION_COMMITTED,
        FaultPoint.TABLE_COMMITTED,
        FaultPoint.VERSIONS_RECORDED,
        FaultPoint.VIEW_MAINTAINED,
    }
    seen: list[FaultPoint] = []
    before = [("x", 10), ("x", 10), ("y", 20)]

    def look(point: FaultPoint) -> None:
        if point in after_intent:
            seen.append(point)
            assert (rows(wh, "a"), rows(wh, "b")) == (A, B)
            assert rows_of(wh.sql("SELECT a.v, b.w FROM a JOIN b USING (k)")) == before
            assert rows_of(wh.sql("SELECT v.* FROM v")) == before
            if point is not FaultPoint.VIEW_MAINTAINED:
                assert rows_of(wh.table("q")) == before

    with listening(look), wh.transaction() as tx:
        tx.sql("UPDATE a SET v = 'z' WHERE k = 1")
        tx.sql("UPDATE b SET w = 0")
    assert set(seen) == after_intent
    after = [("y", 0), ("z", 0), ("z", 0)]
    assert rows_of(wh.sql("SELECT * FROM v")) == after
    assert rows_of(wh.table("q")) == after


def test_views_inside_a_transaction(wh: monus.Warehouse) -> None:
    """One that is kept up to date shows the transaction's own changes, a deferred one its own state."""
    query = "SELECT k, count(*) AS n FROM a GROUP BY k"
    wh.create_view("im", query, refresh="IMMEDIATE")
    wh.create_view("oq", query, refresh="ON QUERY")
    wh.create_view("bl", query)
    wh.create_view("over", "SELECT max(n) AS m FROM im", refresh="IMMEDIATE")
    old, new = [(1, 2), (2, 1)], [(1, 2), (2, 1), (3, 3)]
    with wh.transaction() as tx:
        tx.sql("INSERT INTO a VALUES (3, 'z'), (3, 'z'), (3, 'z')")
        assert rows_of(tx.sql("SELECT * FROM im")) == new
        assert rows_of(tx.sql("SELECT * FROM oq")) == new
        assert rows_of(tx.sql("SELECT * FROM over")) == [(3,)]
        assert rows_of(tx.sql("SELECT * FROM bl")) == old
        assert rows_of(tx.table("bl")) == old
        assert rows_of(tx.table("bl", fresh=True)) == new
        assert rows_of(wh.sql("SELECT * FROM im")) == old
        tx.sql("INSERT INTO b SELECT k, n FROM im WHERE k = 3")
    assert rows(wh, "b") == [*B, (3, 3)]
    assert rows_of(wh.sql("SELECT * FROM im")) == new


def test_a_deferred_view_inside_a_transaction_is_as_it_is_outside(wh: monus.Warehouse) -> None:
    """As it was refreshed or propagated, also where a view that is kept up to date reads it."""
    wh.create_view("bl", "SELECT k FROM a")
    wh.create_view("over", "SELECT count(*) AS n FROM bl", refresh="IMMEDIATE")
    wh.create_view("oqp", "SELECT k, count(*) AS n FROM a GROUP BY k", refresh="ON QUERY PARTIAL")
    wh.sql("INSERT INTO a VALUES (3, 'z')")
    wh.view("oqp").propagate()
    wh.sql("INSERT INTO a VALUES (4, 'later')")
    with wh.transaction() as tx:
        tx.sql("INSERT INTO a VALUES (5, 'own')")
        assert rows_of(tx.sql("SELECT * FROM over")) == [(3,)]
        assert rows_of(tx.table("over", fresh=True)) == [(6,)]
        assert rows_of(tx.sql("SELECT * FROM oqp")) == [(1, 2), (2, 1), (3, 1)]
        assert wh.view("oqp").status().pending  # nothing was written
    assert rows(wh, "over") == [(3,)]
    assert rows(wh, "oqp") == [(1, 2), (2, 1), (3, 1)]


def test_a_generated_column_follows_an_update(wh: monus.Warehouse) -> None:
    wh.sql("CREATE TABLE g (id INT, twice INT GENERATED ALWAYS AS (id * 2))")
    wh.sql("INSERT INTO g (id) VALUES (1), (2)")
    with wh.transaction() as tx:
        tx.update("g", {"id": "id + 10"}, "id = 1")
        assert rows_of(tx.table("g")) == [(11, 22), (2, 4)]
    assert rows(wh, "g") == [(11, 22), (2, 4)]


def test_several_inserts_of_one_statement_are_one_commit(wh: monus.Warehouse) -> None:
    wh.sql("ALTER TABLE b ADD CONSTRAINT small CHECK (w < 100)")
    with pytest.raises(monus.MonusError, match=r"small|CHECK"):
        wh.sql("FROM a INSERT INTO b SELECT k, 1 INSERT INTO b SELECT k, 1000")
    assert rows(wh, "b") == B
    wh.sql("FROM a INSERT INTO b SELECT k, 1 WHERE k = 2 INSERT INTO b SELECT k, 2 WHERE k = 2")
    assert rows(wh, "b") == sorted([*B, (2, 1), (2, 2)])


def test_a_constraint_that_came_since_the_begin(wh: monus.Warehouse) -> None:
    with pytest.raises(TransactionConflict, match="constraints"), wh.transaction() as tx:
        tx.sql("INSERT INTO b VALUES (3, -1)")
        wh.sql("ALTER TABLE b ADD CONSTRAINT positive CHECK (w > 0)")
    assert rows(wh, "b") == B


def test_rows_that_come_while_all_rows_leave(wh: monus.Warehouse) -> None:
    """An INSERT waits for nobody: between the commit of a transaction and that of its table it comes afterwards."""
    wh.create_view("im", "SELECT k, count(*) AS n FROM a GROUP BY k", refresh="IMMEDIATE")
    path, done = wh._catalog.table("a").location, list[object]()

    def come_in_between(point: FaultPoint) -> None:
        if point is FaultPoint.TRANSACTION_COMMITTED and not done:
            done.append(wh.spark.sql(f"INSERT INTO delta.`{path}` VALUES (7, 'between')"))

    with listening(come_in_between):
        wh.sql("INSERT OVERWRITE a VALUES (8, 'all')")
    assert done and rows(wh, "a") == [(7, "between"), (8, "all")]
    assert rows(wh, "im") == [(7, 1), (8, 1)]
    assert wh.view("im").verify().ok


def test_restore(wh: monus.Warehouse) -> None:
    """It is recorded as a statement is; an assertion cannot look at it before."""
    wh.create_view("im", "SELECT k, count(*) AS n FROM a GROUP BY k", refresh="IMMEDIATE")
    wh.sql("INSERT INTO a VALUES (3, 'z')")
    wh.sql("RESTORE TABLE a TO VERSION AS OF 1")
    assert rows(wh, "a") == A
    assert wh._catalog.transactions("a", 1)[0].tables[0].reached == 3
    assert rows(wh, "im") == [(1, 2), (2, 1)]
    wh.sql("CREATE ASSERTION known CHECK (NOT EXISTS (SELECT * FROM a WHERE k > 100))")
    with pytest.raises(InUse, match="known"):
        wh.sql("RESTORE TABLE a TO VERSION AS OF 2")
    assert rows(wh, "a") == A


def test_a_table_that_is_attached_by_another_name_again(wh: monus.Warehouse, tmp_path: Path) -> None:
    """Its log knows the numbers of the former name; one table has one name at a time."""
    path = str(tmp_path / "elsewhere")
    wh.spark.sql("SELECT 1 AS k").write.format("delta").save(path)
    wh.attach("first", path)
    for k in (2, 3):
        with wh.transaction() as tx:
            tx.sql(f"INSERT INTO first VALUES ({k})")
    with pytest.raises(NameExists, match="'first'"):
        wh.attach("second", path)
    with pytest.raises(NameExists, match="'first'"):
        wh.sql(f"CREATE TABLE second (k INT) LOCATION '{path}'")
    wh.sql("DROP TABLE first")
    wh.attach("second", path)
    with wh.transaction() as tx:
        tx.sql("INSERT INTO second VALUES (4)")
    assert rows(wh, "second") == [(1,), (2,), (3,), (4,)]


def test_a_table_that_was_dropped_and_made_again(wh: monus.Warehouse) -> None:
    """Its former versions say nothing about it."""
    for k in range(5):
        wh.sql(f"INSERT INTO a VALUES ({k}, 'old')")
    wh.sql("DROP TABLE a")
    wh.sql("CREATE TABLE a AS SELECT 1 AS k, 'new' AS v")
    for policy in ("IMMEDIATE", "ON DEMAND USING DIFFERENTIAL"):
        view = wh.create_view(f"v_{policy[:2]}".lower(), "SELECT k, v FROM a", refresh=policy)
        assert view.verify().ok


def test_an_error_of_the_data_in_a_fresh_read(wh: monus.Warehouse) -> None:
    wh.create_view("v", "SELECT 10 / k AS q FROM b")
    wh.sql("INSERT INTO b VALUES (0, 0)")
    with pytest.raises(RefreshFailed, match="cannot be computed now"):
        wh.table("v", fresh=True).collect()
    assert len(rows(wh, "v")) == 2


def test_what_monus_keeps_is_closed(wh: monus.Warehouse) -> None:
    wh.create_view("v", "SELECT * FROM a", refresh="IMMEDIATE")
    with wh.transaction() as tx:
        for statement in ("INSERT INTO v VALUES (1, 'x')", "DELETE FROM v", "UPDATE v SET k = 1"):
            with pytest.raises(ViewIsClosedToDml):
                tx.sql(statement)
        with pytest.raises(ViewIsClosedToDml):
            tx.insert("v", "SELECT 1 AS k, 'x' AS v")
        for statement in ("CREATE TABLE t (k INT)", "DROP TABLE a", "REFRESH MATERIALIZED VIEW v", "OPTIMIZE a"):
            with pytest.raises((NotSupported, ViewIsClosedToDml)):
                tx.sql(statement)
        with pytest.raises(UnknownTable):
            tx.insert("nowhere", "SELECT 1 AS k")
    assert rows(wh, "a") == A


def test_constraints_refuse_before_anything_is_written(wh: monus.Warehouse) -> None:
    wh.sql("ALTER TABLE b ADD CONSTRAINT small CHECK (w < 100)")
    before = versions(wh)
    with pytest.raises(monus.MonusError, match=r"small|CHECK"), wh.transaction() as tx:
        tx.sql("INSERT INTO a VALUES (3, 'z')")
        tx.sql("INSERT INTO b VALUES (3, 300)")
    with pytest.raises(monus.MonusError, match=r"small|CHECK"), wh.transaction() as tx:
        tx.sql("INSERT INTO a VALUES (3, 'z')")
        tx.sql("UPDATE b SET w = 300 WHERE k = 1")
    assert (rows(wh, "a"), rows(wh, "b"), versions(wh)) == (A, B, before)


def test_assertions(wh: monus.Warehouse) -> None:
    """A query that must stay empty: rows, sums and counts, over several tables."""
    wh.sql("CREATE ASSERTION known CHECK (NOT EXISTS (SELECT a.k FROM a WHERE a.k > 100))")
    wh.sql("CREATE ASSERTION few CHECK (NOT EXISTS (SELECT k, sum(w) AS s FROM b GROUP BY k HAVING sum(w) > 50))")
    wh.sql("CREATE ASSERTION twins CHECK (NOT EXISTS (SELECT a.v FROM a JOIN b ON a.k = b.k AND b.w < 0))")
    before = versions(wh)
    with pytest.raises(AssertionViolated) as violated:
        wh.sql("INSERT INTO a VALUES (101, 'q')")
    assert violated.value.fields == {"assertion": "known", "rows": [{"k": 101}]}
    with pytest.raises(AssertionViolated, match="few"), wh.transaction() as tx:
        tx.sql("INSERT INTO a VALUES (3, 'z')")
        tx.sql("INSERT INTO b VALUES (2, 40)")
    with pytest.raises(AssertionViolated, match="twins"), wh.transaction() as tx:
        tx.sql("INSERT INTO a VALUES (3, 'z')")
        tx.sql("INSERT INTO b VALUES (3, -1)")
    assert (rows(wh, "a"), rows(wh, "b"), versions(wh)) == (A, B, before)
    with wh.transaction() as tx:  # only the end of a transaction counts
        tx.sql("INSERT INTO a VALUES (101, 'q')")
        tx.sql("DELETE FROM a WHERE k = 101")
        tx.sql("INSERT INTO b VALUES (2, 30)")
    assert [found.name for found in wh.assertions()] == ["few", "known", "twins"]
    assert rows_of(wh.sql("SHOW ASSERTIONS").select("name")) == [("few",), ("known",), ("twins",)]
    assert wh.views() == []
    wh.sql("DROP ASSERTION known")
    wh.sql("INSERT INTO a VALUES (101, 'q')")
    assert len(rows(wh, "a")) == 4


def test_an_assertion_that_can_only_be_computed_in_full(wh: monus.Warehouse) -> None:
    """It is computed before the transaction commits, on the state that would be."""
    first = "SELECT k, v FROM a WHERE k > 100 ORDER BY k LIMIT 1"
    wh.sql(f"CREATE ASSERTION first CHECK (NOT EXISTS ({first}))")
    assert wh._plans.of(wh._catalog.view("__assertion first")).reasons
    with pytest.raises(AssertionViolated, match="first"):
        wh.sql("INSERT INTO a VALUES (101, 'q')")
    assert rows(wh, "a") == A
    wh.sql("INSERT INTO a VALUES (3, 'z')")
    assert (3, "z") in rows(wh, "a")


def test_an_assertion_over_a_view(wh: monus.Warehouse) -> None:
    """What the transaction will do to the view is known before it commits."""
    wh.create_view("counted", "SELECT k, count(*) AS n FROM a GROUP BY k", refresh="IMMEDIATE")
    wh.sql("CREATE ASSERTION few CHECK (NOT EXISTS (SELECT * FROM counted WHERE n > 2))")
    with pytest.raises(AssertionViolated, match="few"):
        wh.sql("INSERT INTO a VALUES (1, 'third')")
    assert (rows(wh, "a"), rows(wh, "counted")) == (A, [(1, 2), (2, 1)])


def test_views_over_one_that_is_computed_in_full(wh: monus.Warehouse) -> None:
    """They follow when it has been computed, and refuse nothing."""
    wh.create_view("full", "SELECT k, v FROM a ORDER BY k LIMIT 1", refresh="IMMEDIATE")
    wh.create_view("im", "SELECT v, count(*) AS n FROM full GROUP BY v", refresh="IMMEDIATE")
    wh.create_view("dt", "SELECT v FROM full", refresh="ON DEMAND USING DIFFERENTIAL")
    wh.sql("INSERT INTO a VALUES (0, 'zero')")
    assert (rows(wh, "full"), rows(wh, "im")) == ([(0, "zero")], [("zero", 1)])
    for name in ("full", "im", "dt"):
        assert wh.view(name).verify().ok
    assert rows_of(wh.table("dt", fresh=True)) == [("zero",)]


def test_an_assertion_that_somebody_violated_past_monus_can_be_mended(wh: monus.Warehouse) -> None:
    wh.sql("CREATE ASSERTION positive CHECK (NOT EXISTS (SELECT * FROM b WHERE w < 0))")
    wh.spark.sql("INSERT INTO b VALUES (5, -5)")
    with pytest.raises(AssertionViolated):
        wh.sql("INSERT INTO b VALUES (6, 60)")
    wh.sql("DELETE FROM b WHERE w < 0")
    wh.sql("INSERT INTO b VALUES (6, 60)")
    assert rows(wh, "b") == [*B, (6, 60)]


def test_a_view_whose_change_cannot_be_derived_refuses(wh: monus.Warehouse) -> None:
    """An overflow or a failing cast in the view's query is found before anything is written."""
    wh.create_view("v", "SELECT k, CAST(v AS INT) AS n FROM a WHERE k > 100", refresh="IMMEDIATE")
    before = versions(wh)
    with pytest.raises(TransactionRefused) as refused:
        wh.sql("INSERT INTO a VALUES (200, 'no number')")
    assert refused.value.fields["view"] == "v" and "CAST_INVALID" in refused.value.message
    assert (rows(wh, "a"), versions(wh)) == (A, before)
    wh.sql("INSERT INTO a VALUES (200, '5')")
    assert rows_of(wh.sql("SELECT * FROM v")) == [(200, 5)]


def test_a_plain_statement_costs_its_commit_and_no_job_more(
    wh: monus.Warehouse, job_counter: Callable[[], AbstractContextManager[JobCount]]
) -> None:
    """Log and combined views add nothing but a small SQL transaction."""
    wh.create_view("bl", "SELECT k, count(*) AS n FROM a GROUP BY k")
    wh.create_view("c", "SELECT k, count(*) AS n FROM a GROUP BY k", refresh="ON DEMAND USING COMBINED")
    wh.sql("INSERT INTO a VALUES (3, 'z')")
    with job_counter() as plain:
        wh.spark.sql("INSERT INTO a VALUES (3, 'z')")
    with job_counter() as ours:
        wh.sql("INSERT INTO a VALUES (3, 'z')")
    assert ours.jobs == plain.jobs
    assert wh._catalog.transactions("a", 1)[0].tables[0].reached == 4


def test_the_jobs_of_a_transaction(
    wh: monus.Warehouse, job_counter: Callable[[], AbstractContextManager[JobCount]]
) -> None:
    """An insert into one table with an immediate view: the rows, the change of the view, the view's commit."""
    wh.create_view("im", "SELECT k, v FROM a WHERE k > 0", refresh="IMMEDIATE")
    wh.sql("INSERT INTO a VALUES (3, 'z')")
    with job_counter() as count:
        wh.sql("INSERT INTO a VALUES (3, 'z')")
    assert count.jobs <= 4

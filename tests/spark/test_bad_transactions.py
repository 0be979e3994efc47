"""What somebody new to transactions, assertions and policies gets wrong: a clear typed error, and nothing changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import monus
from monus.errors import (
    AssertionViolated,
    DefinitionInvalid,
    InUse,
    MonusError,
    NameExists,
    NotIncremental,
    NotSupported,
    StatementInvalid,
    TransactionClosed,
    UnknownAssertion,
    UnknownColumn,
    UnknownTable,
    UnknownView,
    ViewBusy,
    ViewIsClosedToDml,
    WarehouseClosed,
)
from monus.maintenance.fault_points import FaultPoint, listening
from tests.spark.crashes import rows_of
from tests.spark.picture import refused


@pytest.fixture(scope="module")
def wh(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[monus.Warehouse]:
    wh = monus.connect(tmp_path_factory.mktemp("bad") / "wh", spark=spark)
    wh.sql("CREATE TABLE a (k INT NOT NULL, v STRING)")
    wh.sql("CREATE TABLE b (k INT, w INT)")
    wh.sql("ALTER TABLE b ADD CONSTRAINT small CHECK (w < 100)")
    wh.sql("INSERT INTO a VALUES (1, 'x'), (1, 'x'), (2, 'y')")
    wh.sql("INSERT INTO b VALUES (1, 10), (2, 20)")
    wh.sql("CREATE MATERIALIZED VIEW im REFRESH IMMEDIATE AS SELECT k, count(*) AS n FROM a GROUP BY k")
    wh.sql("CREATE MATERIALIZED VIEW c REFRESH ON DEMAND USING COMBINED AS SELECT k, w FROM b WHERE w > 0")
    wh.sql("INSERT INTO b VALUES (3, 30)")
    wh.view("c").propagate()
    wh.create_view("over_c", "SELECT k FROM c WHERE w < 0", refresh="IMMEDIATE")
    wh.create_view("one", "SELECT k FROM b WHERE w < 0 LIMIT 1", refresh="IMMEDIATE")
    wh.sql("CREATE ASSERTION known CHECK (NOT EXISTS (SELECT * FROM im WHERE k > 1000))")
    wh.sql("CREATE ASSERTION positive CHECK (NOT EXISTS (SELECT * FROM b WHERE w < 0))")
    yield wh
    wh.close()


def in_a_transaction(wh: monus.Warehouse, text: str) -> None:
    """After a statement that would change something, to be rolled back with it."""
    with wh.transaction() as tx:
        tx.sql("INSERT INTO b VALUES (9, 9)")
        tx.sql(text)


# -- BEGIN, COMMIT and ROLLBACK


@pytest.mark.parametrize("text", ["COMMIT", "ROLLBACK", "commit;"])
def test_the_end_of_a_transaction_that_never_began(wh: monus.Warehouse, text: str) -> None:
    with refused(wh, TransactionClosed, "No transaction is open"):
        wh.sql(text)


def test_begin_inside_a_transaction(wh: monus.Warehouse) -> None:
    with refused(wh, TransactionClosed, "open already"):
        wh.sql("BEGIN TRANSACTION")
        wh.sql("INSERT INTO b VALUES (9, 9)")
        try:
            wh.sql("BEGIN TRANSACTION")
        finally:
            assert len(rows_of(wh.sql("SELECT * FROM b"))) == 4  # the first goes on
            wh.sql("ROLLBACK")
    with refused(wh, NotSupported, "transaction"):
        in_a_transaction(wh, "BEGIN TRANSACTION")
    with refused(wh, StatementInvalid, "expected TRANSACTION"):
        wh.sql("BEGIN")


def test_a_transaction_that_has_ended(wh: monus.Warehouse) -> None:
    tx = wh.transaction()
    tx.sql("INSERT INTO b VALUES (9, 9)")
    tx.rollback()
    uses: list[Callable[[], object]] = [
        lambda: tx.sql("SELECT 1"), lambda: tx.insert("b", "SELECT 9 AS k, 9 AS w"), lambda: tx.delete("b"),
        lambda: tx.update("b", {"w": "1"}), lambda: tx.merge("b", "SELECT 1 AS k", "true", delete=True),
        lambda: tx.assign({"b": "SELECT 9 AS k, 9 AS w"}), lambda: tx.table("b"), tx.commit, tx.rollback,
    ]  # fmt: skip
    for use in uses:
        with refused(wh, TransactionClosed, "rolled back"):
            use()
    with refused(wh, TransactionClosed, "committed"), wh.transaction() as done:
        done.commit()
        done.commit()


# -- statements that have no place in one


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE x (k INT)",
        "CREATE TABLE x AS SELECT * FROM a",
        "DROP TABLE a",
        "ALTER TABLE a ADD COLUMNS (z INT)",
        "CREATE OR REPLACE TEMPORARY VIEW x AS SELECT * FROM a",
        "CREATE MATERIALIZED VIEW x AS SELECT * FROM a",
        "ALTER MATERIALIZED VIEW c SET REFRESH IMMEDIATE",
        "DROP MATERIALIZED VIEW c",
        "REFRESH MATERIALIZED VIEW c",
        "CREATE ASSERTION x CHECK (NOT EXISTS (SELECT * FROM a WHERE k > 100))",
        "DROP ASSERTION positive",
        "OPTIMIZE a",
        "RESTORE TABLE a TO VERSION AS OF 0",
        "INSERT OVERWRITE DIRECTORY '/tmp/nowhere' USING parquet SELECT * FROM a",
        "WITH q AS (SELECT * FROM a) INSERT OVERWRITE DIRECTORY '/tmp/nowhere' USING parquet SELECT * FROM q",
    ],
)
def test_definitions_inside_a_transaction(wh: monus.Warehouse, text: str) -> None:
    with refused(wh, NotSupported, "transaction"):
        in_a_transaction(wh, text)


def of_the_folder(wh: monus.Warehouse, folder: str) -> str:
    return f"delta.`{wh.root / folder}`"


def test_what_monus_keeps_is_closed(wh: monus.Warehouse) -> None:
    """By name and by path; an assertion has no name that a statement could use."""
    hidden = next(record for record in wh._catalog.views() if record.hidden)
    closed = ["im", "c", of_the_folder(wh, "views/c"), f"delta.`{hidden.location}`"]
    for target in closed:
        for text in (
            f"INSERT INTO {target} SELECT * FROM {target}",
            f"DELETE FROM {target}",
            f"TRUNCATE TABLE {target}",
        ):
            for run in (wh.sql, lambda text: in_a_transaction(wh, text)):
                with refused(wh, ViewIsClosedToDml, "materialized view"):
                    run(text)
    pending = of_the_folder(wh, "pending/c")
    for run in (wh.sql, lambda text: in_a_transaction(wh, text)):
        with refused(wh, ViewIsClosedToDml, "'c'"):
            run(f"DELETE FROM {pending}")
    with refused(wh, UnknownTable, "positive"):
        in_a_transaction(wh, "DELETE FROM positive")


# -- statements with mistakes, alone and in a transaction


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("INSERT INTO nowhere VALUES (1)", UnknownTable, "nowhere"),
        ("DELETE FROM nowhere", UnknownTable, "nowhere"),
        ("UPDATE nowhere SET k = 1", UnknownTable, "nowhere"),
        ("MERGE INTO nowhere USING b ON true WHEN MATCHED THEN DELETE", UnknownTable, "nowhere"),
        ("MERGE INTO b USING nowhere ON true WHEN MATCHED THEN DELETE", UnknownTable, "nowhere"),
        ("TRUNCATE TABLE nowhere", UnknownTable, "nowhere"),
        ("INSERT INTO b SELECT * FROM nowhere", UnknownTable, "nowhere"),
        ("INSERT INTO b (k, nothing) VALUES (1, 1)", UnknownColumn, "nothing"),
        ("UPDATE b SET nothing = 1", UnknownColumn, "nothing"),
        ("UPDATE b SET w = nothing", UnknownColumn, "nothing"),
        ("DELETE FROM b WHERE nothing = 1", UnknownColumn, "nothing"),
        ("INSERT INTO b VALUES (1)", StatementInvalid, "column"),
        ("INSERT INTO b VALUES (1, 2, 3)", StatementInvalid, "column"),
        ("INSERT INTO b VALUES ('one', 2)", StatementInvalid, "one"),
        ("INSERT INTO a VALUES (NULL, 'n')", StatementInvalid, "k"),
        ("UPDATE a SET k = NULL", StatementInvalid, "NOT NULL"),
        ("INSERT INTO b SELECT k, k FROM b EXCEPT ALL SELECT 1, 0", StatementInvalid, "RewriteExceptAll"),  # Spark's
        ("INSERT INTO b VALUES (1, 100)", StatementInvalid, "small"),
        ("UPDATE b SET w = w * 100", StatementInvalid, "small"),
        ("UPDATE b SET w = w / 0", StatementInvalid, "w"),
        ("DELETE FROM b WHERE 1 / (k - k) > 0", StatementInvalid, "DIVIDE_BY_ZERO"),
        ("MERGE INTO b USING a ON a.k = b.k WHEN MATCHED THEN UPDATE SET w = 1", StatementInvalid, "source"),
        ("INSRT INTO b VALUES (1, 1)", StatementInvalid, "INSRT"),
        ("INSERT INTO b VALUES (8, -8)", AssertionViolated, "positive"),
        ("SELECT * FROM nowhere", UnknownTable, "nowhere"),
        ("", StatementInvalid, ""),
    ],
)  # fmt: skip
def test_mistakes(wh: monus.Warehouse, text: str, kind: type[MonusError], said: str) -> None:
    for run in (wh.sql, lambda text: in_a_transaction(wh, text)):
        with refused(wh, kind, said):
            run(text)


@pytest.mark.parametrize("text", ["EXECUTE IMMEDIATE 'DELETE FROM a'", "BEGIN DELETE FROM a; END"])
def test_what_cannot_be_looked_into(wh: monus.Warehouse, text: str) -> None:
    with refused(wh, NotSupported, "not there yet"):
        in_a_transaction(wh, text)
    with refused(wh, NotSupported, "not there yet"):
        wh.sql(text)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda tx: tx.delete("b", "nosuch = 1"), UnknownColumn),
        (lambda tx: tx.update("b", {"w": "1"}, "nosuch = 1"), UnknownColumn),
        (lambda tx: tx.update("b", {"w": "nosuch + 1"}), UnknownColumn),
        (lambda tx: tx.update("b", {"w": "(("}), StatementInvalid),
        (lambda tx: tx.delete("b", "(("), StatementInvalid),
    ],
)
def test_mistakes_in_expressions(wh: monus.Warehouse, call: Callable[[Any], object], kind: type[MonusError]) -> None:
    with refused(wh, kind), wh.transaction() as tx:
        call(tx)


def test_a_mistake_leaves_the_transaction_open(wh: monus.Warehouse) -> None:
    """The statement did nothing; what was said before it is still there, to be committed or rolled back."""
    with wh.transaction() as tx:
        tx.sql("INSERT INTO b VALUES (9, 9)")
        with pytest.raises(UnknownColumn):
            tx.sql("UPDATE b SET nothing = 1")
        with pytest.raises(StatementInvalid):
            tx.sql("UPDATE b SET w = w / 0")
        assert len(rows_of(tx.table("b"))) == 4
        tx.sql("DELETE FROM b WHERE k = 9")
    assert len(rows_of(wh.table("b"))) == 3


# -- several at once


def test_two_threads_have_a_transaction_each(wh: monus.Warehouse) -> None:
    """The second neither is in the first nor ends it."""
    ready, go_on = threading.Event(), threading.Event()
    seen: list[object] = []

    def other() -> None:
        with pytest.raises(TransactionClosed):
            wh.sql("COMMIT")
        wh.sql("BEGIN TRANSACTION")
        wh.sql("INSERT INTO b VALUES (8, 8)")
        ready.set()
        go_on.wait(60)
        seen.append(len(rows_of(wh.sql("SELECT * FROM b"))))
        wh.sql("ROLLBACK")

    wh.sql("BEGIN TRANSACTION")
    wh.sql("INSERT INTO b VALUES (9, 9), (9, 9)")
    thread = threading.Thread(target=other)
    thread.start()
    assert ready.wait(60)
    assert len(rows_of(wh.sql("SELECT * FROM b"))) == 5
    wh.sql("ROLLBACK")
    go_on.set()
    thread.join()
    assert seen == [4]
    assert len(rows_of(wh.sql("SELECT * FROM b"))) == 3


def test_a_wait_that_is_too_long(wh: monus.Warehouse) -> None:
    """Who holds the table is told; the transaction can be run again."""
    errors: list[MonusError] = []

    def meanwhile(point: FaultPoint) -> None:
        if point is FaultPoint.ALL_LEASES_TAKEN and not errors:
            late = wh.transaction(wait_seconds=0.1)
            late.sql("INSERT INTO a VALUES (7, 'late')")
            with pytest.raises(ViewBusy, match="is being maintained by process") as busy:
                late.commit()
            errors.append(busy.value)

    with listening(meanwhile), wh.transaction() as tx:
        tx.sql("INSERT INTO a VALUES (5, 'first')")
    assert errors and "wait longer" in errors[0].hint
    assert [row for row in rows_of(wh.table("a")) if row[0] > 3] == [(5, "first")]
    wh.sql("DELETE FROM a WHERE k = 5")


# -- policies


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("ALTER MATERIALIZED VIEW c SET REFRESH SOMETIMES", StatementInvalid, "SOMETIMES"),
        ("ALTER MATERIALIZED VIEW c SET REFRESH ON DEMAND USING MAGIC", StatementInvalid, "MAGIC"),
        ("ALTER MATERIALIZED VIEW c SET REFRESH EVERY 0 MINUTES", StatementInvalid, "0"),
        ("ALTER MATERIALIZED VIEW c SET REFRESH EVERY 5 BLINKS", StatementInvalid, "BLINKS"),
        ("ALTER MATERIALIZED VIEW c SET REFRESH EVERY MINUTE", StatementInvalid, "MINUTE"),
        ("ALTER MATERIALIZED VIEW c SET REFRESH", StatementInvalid, ""),
        ("ALTER MATERIALIZED VIEW c SET MODE SOMEHOW", StatementInvalid, "SOMEHOW"),
        ("ALTER MATERIALIZED VIEW nobody SET REFRESH IMMEDIATE", UnknownView, "nobody"),
        ("ALTER MATERIALIZED VIEW a SET REFRESH IMMEDIATE", UnknownView, "a"),
        ("ALTER MATERIALIZED VIEW positive SET REFRESH ON QUERY", UnknownView, "positive"),
        ("ALTER MATERIALIZED VIEW c RENAME TO a", NameExists, "a"),
    ],
)
def test_a_wrong_policy(wh: monus.Warehouse, text: str, kind: type[MonusError], said: str) -> None:
    with refused(wh, kind, said):
        wh.sql(text)


def test_a_policy_that_the_query_does_not_allow(wh: monus.Warehouse) -> None:
    wh.create_view("anyone", "SELECT first(v) AS v FROM a", refresh="ON DEMAND")
    with refused(wh, NotIncremental, "anyone", "DIFFERENTIAL"):
        wh.sql("ALTER MATERIALIZED VIEW anyone SET REFRESH ON DEMAND USING DIFFERENTIAL")
    assert wh.view("anyone").policy == "ON DEMAND USING LOG"
    wh.drop_view("anyone")


# -- assertions


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("CREATE ASSERTION x CHECK (NOT EXISTS (SELECT * FROM b WHERE w > 5))", AssertionViolated, "'x'"),
        ("CREATE ASSERTION x CHECK (NOT EXISTS (SELECT * FROM nowhere))", UnknownTable, "nowhere"),
        ("CREATE ASSERTION x CHECK (NOT EXISTS (SELECT nothing FROM b))", UnknownColumn, "nothing"),
        ("CREATE ASSERTION x CHECK (NOT EXISTS (DELETE FROM b))", DefinitionInvalid, "query"),
        ("CREATE ASSERTION x CHECK (w > 0)", StatementInvalid, "expected NOT"),
        ("CREATE ASSERTION x CHECK (NOT EXISTS (SELECT * FROM b WHERE w < 0)", StatementInvalid, "')'"),
        ("CREATE ASSERTION positive CHECK (NOT EXISTS (SELECT * FROM b WHERE w < 0))", NameExists, "positive"),
        ("CREATE ASSERTION POSITIVE CHECK (NOT EXISTS (SELECT * FROM b WHERE w < 0))", NameExists, "POSITIVE"),
        ("CREATE ASSERTION `__x` CHECK (NOT EXISTS (SELECT * FROM b WHERE w < 0))", StatementInvalid, "__x"),
        (
            "CREATE ASSERTION x CHECK (NOT EXISTS (SELECT * FROM c WHERE w < 0))",
            NotSupported,
            "ON DEMAND USING COMBINED",
        ),
        ("CREATE ASSERTION x CHECK (NOT EXISTS (SELECT * FROM over_c))", NotSupported, "'c'"),
        ("CREATE ASSERTION x CHECK (NOT EXISTS (SELECT * FROM one))", NotSupported, "in full"),
        ("ALTER MATERIALIZED VIEW im SET REFRESH ON QUERY", InUse, "'known'"),
        ("ALTER MATERIALIZED VIEW im SET MODE FULL", InUse, "'known'"),
        ("DROP ASSERTION nobody", UnknownAssertion, "nobody"),
        ("DROP TABLE b", InUse, "positive"),
        ("SELECT * FROM positive", UnknownTable, "positive"),
    ],
)
def test_assertions(wh: monus.Warehouse, text: str, kind: type[MonusError], said: str) -> None:
    with refused(wh, kind, said):
        wh.sql(text)
    assert [found.name for found in wh.assertions()] == ["known", "positive"]


# -- a warehouse that is closed


def test_a_transaction_while_the_warehouse_closes(spark: SparkSession, wh: monus.Warehouse) -> None:
    """It is rolled back, and says so to whoever goes on with it."""
    before = rows_of(wh.table("b"))
    other = monus.connect(wh.root, spark=spark)
    tx = other.transaction()
    tx.sql("INSERT INTO b VALUES (9, 9)")
    other.sql("BEGIN TRANSACTION")
    other.sql("INSERT INTO b VALUES (9, 9)")
    began = other.open_transaction
    other.close()
    assert began is not None and not began.is_open
    uses: list[Callable[[], object]] = [
        lambda: other.sql("COMMIT"), other.transaction, other.begin, other.run_due, other.assertions,
        lambda: other.maintenance().__enter__(), lambda: other.create_assertion("x", "SELECT * FROM b WHERE w < -1"),
    ]  # fmt: skip
    for use in uses:
        with refused(wh, WarehouseClosed, "closed"):
            use()
    with refused(wh, TransactionClosed, "rolled back"):
        tx.commit()
    assert rows_of(wh.table("b")) == before
    assert files_of(wh.root / "staging") == []


def files_of(folder: Path) -> list[Path]:
    return list(folder.rglob("*")) if folder.exists() else []

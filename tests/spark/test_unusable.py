"""What cannot go on by itself: a view that was written to, or whose change could not be applied; a blocked table.

Nothing of it is silent: the view is not read until it is computed anew, and says why.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import monus
from monus.catalog.catalog import Catalog
from monus.errors import CatalogUnavailable, MonusError, TransactionBlocked, TransactionOutstanding, ViewUnusable
from monus.maintenance import applying
from monus.maintenance.fault_points import FaultPoint, listening
from tests.spark.crashes import crash, reopen, rows_of

COUNTED = "SELECT g, count(*) AS n FROM t GROUP BY g"


@pytest.fixture
def wh(spark: SparkSession, warehouse_path: Path) -> Iterator[monus.Warehouse]:
    wh = monus.connect(warehouse_path, spark=spark)
    wh.sql("CREATE TABLE t (k INT, g INT)")
    wh.sql("INSERT INTO t VALUES (1, 1), (1, 1), (2, 2)")
    wh.create_view("im", COUNTED, refresh="IMMEDIATE")
    yield wh
    wh.close()


def write_past_monus(wh: monus.Warehouse, view: str) -> None:
    wh.spark.sql(f"DELETE FROM delta.`{wh._catalog.view(view).location}` WHERE g = 1")


def change(wh: monus.Warehouse) -> None:
    with wh.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (3, 3)")
        tx.sql("DELETE FROM t WHERE k = 1")


def code_of(wh: monus.Warehouse, view: str) -> str | None:
    reason = wh._catalog.view(view).unusable_reason
    return None if reason is None else reason.code


def is_mended(wh: monus.Warehouse, view: str) -> None:
    """Refused to readers until it is computed anew; from there it goes on incrementally."""
    with pytest.raises(ViewUnusable, match=f"REFRESH MATERIALIZED VIEW {view} FULL"):
        wh.table(view)
    with pytest.raises(ViewUnusable):
        wh.sql(f"SELECT * FROM {view} VERSION AS OF 0")
    assert not wh.view(view).status().usable
    wh.sql(f"REFRESH MATERIALIZED VIEW {view} FULL")
    assert wh.view(view).verify().ok
    wh.sql("INSERT INTO t VALUES (7, 7)")
    assert wh.view(view).verify().ok
    assert wh.view(view).history(1)[0].incremental


def test_somebody_wrote_to_the_table_of_a_view(wh: monus.Warehouse, spark: SparkSession) -> None:
    """Also when whoever found that out died at once."""
    write_past_monus(wh, "im")
    assert crash(wh, FaultPoint.MARKED_UNUSABLE, lambda: wh.sql("INSERT INTO t VALUES (3, 3)"))
    with reopen(wh.root, spark) as again:
        assert code_of(again, "im") == "FOREIGN_COMMIT"
        assert rows_of(again.table("t")) == [(1, 1), (1, 1), (2, 2)]
        again.sql("INSERT INTO t VALUES (3, 3)")  # what cannot be read refuses nothing
        is_mended(again, "im")


def test_a_change_that_cannot_be_applied(wh: monus.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction is committed by then: it stands, and the view does not pretend."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    with monkeypatch.context() as patched:
        patched.setattr(applying, "add", fail)
        patched.setattr(applying, "fold", fail)
        wh.sql("INSERT INTO t VALUES (3, 3)")
    assert (3, 3) in rows_of(wh.table("t"))
    assert code_of(wh, "im") == "NOT_APPLIED"
    assert "on purpose" in wh.view("im").status().reason
    wh.sql("INSERT INTO t VALUES (4, 4)")
    is_mended(wh, "im")


def test_a_view_over_a_view_that_is_unusable(wh: monus.Warehouse) -> None:
    wh.create_view("over", "SELECT n, count(*) AS c FROM im GROUP BY n", refresh="IMMEDIATE")
    write_past_monus(wh, "im")
    with pytest.raises(ViewUnusable):
        wh.view("im").refresh()
    wh.sql("INSERT INTO t VALUES (3, 3)")
    assert code_of(wh, "over") == "SOURCE_UNUSABLE"
    with pytest.raises(ViewUnusable):
        wh.table("over")
    wh.sql("REFRESH MATERIALIZED VIEW im FULL")
    is_mended(wh, "over")


def test_another_writer_between_the_commit_of_a_transaction_and_its_tables(
    wh: monus.Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    """What it was to take away is gone: the transaction stands, the rest of it is applied, and it is told."""
    path = wh._catalog.table("t").location
    done: list[object] = []

    def come_in_between(point: FaultPoint) -> None:
        if point is FaultPoint.TRANSACTION_COMMITTED and not done:
            done.append(wh.spark.sql(f"DELETE FROM delta.`{path}` WHERE k = 2"))

    with listening(come_in_between), wh.transaction() as tx:
        tx.sql("DELETE FROM t WHERE k = 2")
        tx.sql("INSERT INTO t VALUES (3, 3)")
    assert done and tx.record is not None
    assert [part.note for part in tx.record.tables] == ["CONFLICT_OUTSIDE"]
    assert "1 rows of 't' that transaction" in caplog.text
    assert rows_of(wh.table("t")) == [(1, 1), (1, 1), (3, 3)]
    assert rows_of(wh.table("im")) == rows_of(wh.sql(COUNTED))
    assert wh.view("im").verify().ok


def test_an_error_while_the_transaction_is_written_to_the_catalog(
    wh: monus.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a connection breaks at COMMIT: it may be committed, so what is staged is kept until that is known."""
    commit = Catalog.commit_transaction

    def committed(*given: Any) -> None:
        commit(*given)
        raise CatalogUnavailable("The connection was lost.", "Try again.")

    def not_committed(*_: Any) -> None:
        raise CatalogUnavailable("The connection was lost.", "Try again.")

    for fail, expected in ((not_committed, CatalogUnavailable), (committed, TransactionOutstanding)):
        with monkeypatch.context() as patched, pytest.raises(MonusError, match="The connection was lost") as caught:
            patched.setattr(Catalog, "commit_transaction", fail)
            change(wh)
        assert type(caught.value) is expected
        assert list((wh.root / "staging").glob("*")) == [] or fail is committed
    wh.sql("INSERT INTO t VALUES (4, 4)")
    assert rows_of(wh.table("t")) == [(2, 2), (3, 3), (4, 4)]
    assert wh.view("im").verify().ok


@pytest.mark.parametrize("point", [FaultPoint.TRANSACTION_COMMITTED, FaultPoint.TABLE_COMMITTED])
def test_a_warehouse_that_is_closed_while_a_transaction_commits(
    wh: monus.Warehouse, spark: SparkSession, point: FaultPoint
) -> None:
    def close(at: FaultPoint) -> None:
        if at is point:
            wh.close()

    with listening(close), pytest.raises(TransactionOutstanding, match="not known"):
        change(wh)
    with reopen(wh.root, spark) as again:
        assert rows_of(again.table("t")) == [(2, 2), (3, 3)]
        assert again.view("im").verify().ok


def test_a_transaction_that_cannot_be_completed_blocks_its_tables(
    wh: monus.Warehouse, spark: SparkSession, tmp_path: Path
) -> None:
    """They are read as before it, and not written to; when what was missing is there again, it is completed."""
    assert crash(wh, FaultPoint.TRANSACTION_COMMITTED, lambda: change(wh))
    (staged,) = (wh.root / "staging").glob("*")
    aside = shutil.move(staged, tmp_path / "aside")
    with reopen(wh.root, spark) as again:
        with pytest.raises(TransactionBlocked, match="Nothing was written now"):
            again.sql("INSERT INTO t VALUES (4, 4)")
        assert rows_of(again.table("t")) == [(1, 1), (1, 1), (2, 2)]
        shutil.move(aside, staged)
        again.sql("INSERT INTO t VALUES (4, 4)")
        assert rows_of(again.table("t")) == [(2, 2), (3, 3), (4, 4)]
        assert again.view("im").verify().ok
        assert again.view("im").history(1)[0].incremental

"""What can go wrong around a warehouse: its folder, its sources, and others who work on it at the same time."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import monus
from monus.errors import (
    CatalogUnavailable,
    NameExists,
    RefreshFailed,
    SourceHistoryLost,
    SourceInvalid,
    SourceRecreated,
    SourceSchemaChanged,
    StatementInvalid,
    ViewBusy,
    WarehouseClosed,
    WarehouseInvalid,
    WarehouseTooNew,
)
from monus.maintenance.lease import held_lease
from monus.store.changes import has_change_feed
from monus.store.delta_table import DeltaTable
from tests.spark.picture import picture, refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bad input") / "wh"


@pytest.fixture(scope="module")
def wh(spark: SparkSession, folder: Path) -> Iterator[monus.Warehouse]:
    wh = monus.connect(folder, spark=spark)
    wh.sql("CREATE TABLE sales (cust INT, quantity INT)")
    wh.sql("INSERT INTO sales VALUES (1, 2), (1, 2), (2, 5)")
    wh.sql("CREATE MATERIALIZED VIEW per_cust AS SELECT cust, sum(quantity) AS q FROM sales GROUP BY cust")
    yield wh
    wh.close()


def refresh(wh: monus.Warehouse, view: str, **options: Any) -> monus.Refresh:
    done = wh.view(view).refresh(**options)
    assert isinstance(done, monus.Refresh)
    return done


# -- the folder


def test_a_folder_that_is_not_a_warehouse(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    before = sorted(tmp_path.rglob("*"))
    for place, said in ((tmp_path, "not a warehouse"), (tmp_path / "letter.txt", "is a file")):
        with pytest.raises(WarehouseInvalid, match=said) as caught:
            monus.connect(place, spark=spark)
        assert caught.value.hint and str(place) in caught.value.message
    with pytest.raises(WarehouseInvalid, match="cannot be created"):
        monus.connect(tmp_path / "letter.txt" / "below", spark=spark)
    with pytest.raises(WarehouseInvalid, match="cannot be created"):
        monus.connect("/proc/monus", spark=spark)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_catalog_that_is_not_one_or_newer(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "catalog.db").write_text("nothing that SQLite knows, at some length, so that it looks")
    with pytest.raises(CatalogUnavailable, match="not a database"):
        monus.connect(tmp_path / "text", spark=spark)
    monus.connect(tmp_path / "newer", spark=spark).close()
    connection = sqlite3.connect(tmp_path / "newer" / "catalog.db")
    connection.execute("UPDATE meta SET value = '999' WHERE key = 'format'")
    connection.commit()
    connection.close()
    with pytest.raises(WarehouseTooNew, match="999") as caught:
        monus.connect(tmp_path / "newer", spark=spark)
    assert "Upgrade" in caught.value.hint
    with pytest.raises(CatalogUnavailable, match="object store"):
        monus.connect(tmp_path / "s3", spark=spark, catalog="s3://bucket/catalog.db")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_folder_that_may_not_be_written(spark: SparkSession, tmp_path: Path) -> None:
    """As somebody without the rights: an empty folder, a warehouse, and a folder that may not even be seen."""
    monus.connect(tmp_path / "mine", spark=spark).close()
    (tmp_path / "empty").mkdir()
    (tmp_path / "closed").mkdir(mode=0o700)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and "pytest" in str(folder):
            folder.chmod(0o755)
    (tmp_path / "closed").chmod(0o700)
    expected = {"empty": "WAREHOUSE_INVALID", "mine": "CATALOG_UNAVAILABLE", "closed/x": "WAREHOUSE_INVALID"}
    for name, code in expected.items():
        script = (
            "import os, sys; import monus\n"
            "os.setuid(65534)\n"
            "try: monus.connect(sys.argv[1])\n"
            "except monus.MonusError as error: print(error.code, '|', error.message, '|', error.hint)\n"
        )
        command = [sys.executable, "-c", script, str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.stdout.startswith(code), (name, done.stdout, done.stderr[-500:])
        assert str(tmp_path / name) in done.stdout
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_closed_warehouse(spark: SparkSession, folder: Path, wh: monus.Warehouse) -> None:
    other = monus.connect(folder, spark=spark)
    view = other.view("per_cust")
    other.close()
    other.close()
    for use in (
        lambda: other.sql("SELECT 1"),
        lambda: other.create_view("x", "SELECT 1 AS a"),
        lambda: other.explain_create("x", "SELECT 1 AS a"),
        lambda: other.attach("x", "/nowhere"),
        lambda: other.table("sales"),
        lambda: other.view("per_cust"),
        other.views,
        other.tables,
        other.refresh,
        other.optimize,
        other.vacuum,
        other.recover,
        lambda: other.spark,
        view.refresh,
        view.verify,
        view.explain,
        view.history,
        view.status,
        view.propagate,
        view.partial_refresh,
        view.cancel,
        view.table,
        lambda: view.definition,
    ):
        with pytest.raises(WarehouseClosed) as caught:
            use()
        assert "monus.connect" in caught.value.hint
    # Another connection to the same folder is not touched, nor are the session's names.
    assert wh.sql("SELECT * FROM per_cust").count() == 2
    assert spark.table("sales").count() == 3


def test_names_of_other_tables_in_the_session(spark: SparkSession, wh: monus.Warehouse, tmp_path: Path) -> None:
    """A name that plain Spark, or another warehouse, has in this session: a clear no, and never the wrong table."""
    spark.sql("CREATE TABLE strangers (a INT) USING delta")
    try:
        with refused(wh, NameExists, "'strangers'"):
            wh.sql("CREATE TABLE strangers (b INT)")
        with refused(wh, NameExists, "'strangers'"):
            wh.sql("CREATE MATERIALIZED VIEW strangers AS SELECT cust FROM sales")
        with refused(wh, NameExists, "'strangers'"):
            wh.attach("strangers", wh._catalog.table("sales").location)
    finally:
        spark.sql("DROP TABLE strangers")
    second = monus.connect(tmp_path / "second", spark=spark)
    with refused(second, NameExists, "'sales'"):
        second.sql("CREATE TABLE sales (other INT)")
    second.attach("theirs", "default.sales")
    second.sql("CREATE MATERIALIZED VIEW theirs_too AS SELECT * FROM theirs")
    second.close()
    # Opened where its own names are taken, a warehouse still reads its own tables.
    spark.sql("CREATE TABLE theirs_too (a INT) USING delta")
    spark.sql("CREATE TABLE theirs (a INT) USING delta")
    try:
        second = monus.connect(tmp_path / "second", spark=spark)
        assert second.sql("SELECT * FROM theirs_too").columns == ["cust", "quantity"]
        assert second.sql("SELECT theirs.cust FROM theirs").count() == 3
        second.sql("INSERT INTO theirs VALUES (7, 7)")
        assert refresh(second, "theirs_too").incremental
        assert second.view("theirs_too").verify().ok
        assert spark.table("theirs").columns == ["a"]
        second.close()
        assert spark.table("theirs").columns == ["a"]
    finally:
        spark.sql("DROP TABLE theirs")
        spark.sql("DROP TABLE theirs_too")
    assert refresh(wh, "per_cust").incremental


def test_attach_what_cannot_be(wh: monus.Warehouse, spark: SparkSession, tmp_path: Path) -> None:
    with refused(wh, SourceInvalid, "nowhere"):
        wh.attach("x", "nowhere.at_all")
    with refused(wh, SourceInvalid, str(tmp_path / "empty")):
        wh.attach("x", str(tmp_path / "empty"))
    spark.range(2).write.parquet(str(tmp_path / "parquet"))
    with refused(wh, SourceInvalid):
        wh.attach("x", str(tmp_path / "parquet"))
    with refused(wh, NameExists, "'sales'"):
        wh.attach("sales", str(tmp_path / "parquet"))
    with refused(wh, SourceInvalid, "'per_cust'"):
        wh.attach("door", wh._catalog.view("per_cust").location)
    with refused(wh, StatementInvalid, "__x"):
        wh.attach("__x", str(tmp_path / "parquet"))


def test_a_change_feed_is_switched_on_with_consent_only(
    wh: monus.Warehouse, spark: SparkSession, tmp_path: Path
) -> None:
    for name, consent in (("unasked", {}), ("asked", {"change_feed": True})):
        path = str(tmp_path / name)
        spark.range(3).write.format("delta").save(path)
        wh.attach(name, path, **consent)
        table = DeltaTable(spark, path)
        assert has_change_feed(table.snapshot()) == bool(consent)
        assert table.version() == len(consent)
        wh._creation.drop_table(name)


def test_a_folder_in_an_object_store(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("s3://bucket/wh", "s3a://bucket/wh", "abfss://c@account/wh"):
        with pytest.raises(WarehouseInvalid, match="lock"):
            monus.connect(folder, spark=spark)
    assert list(tmp_path.iterdir()) == []
    with monus.connect(f"file://{tmp_path}/wh", spark=spark) as opened:
        assert opened.root == tmp_path / "wh"


# -- the sources


def test_history_that_was_vacuumed(wh: monus.Warehouse, spark: SparkSession) -> None:
    """Said so, and refreshed in full; STRICT refuses instead."""
    wh.sql("CREATE TABLE old (k INT, v INT) TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    wh.sql("INSERT INTO old VALUES (1, 1), (2, 2), (3, 3)")
    wh.sql("CREATE MATERIALIZED VIEW old_auto AS SELECT k, v FROM old WHERE v > 0")
    wh.sql("CREATE MATERIALIZED VIEW old_strict MODE STRICT AS SELECT k, sum(v) AS s FROM old GROUP BY k")
    wh.sql("UPDATE old SET v = 20 WHERE k = 2")
    at_once = {
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    }
    for name, value in at_once.items():
        spark.conf.set(name, value)
    try:
        spark.sql("VACUUM old RETAIN 0 HOURS")
    finally:
        for name in at_once:
            spark.conf.unset(name)
    with refused(wh, SourceHistoryLost, "old"):
        refresh(wh, "old_strict")
    plan = wh.view("old_auto").refresh(dry_run=True)
    assert isinstance(plan, monus.RefreshPlan)
    assert (plan.kind, plan.code) == ("full", "SOURCE_HISTORY_LOST")
    done = refresh(wh, "old_auto")
    assert (done.strategy, done.incremental, done.code) == ("full", False, "SOURCE_HISTORY_LOST")
    assert "old" in done.reason and "in full" in done.reason
    assert wh.view("old_auto").verify().ok
    assert refresh(wh, "old_strict", full=True).code == "REQUESTED"
    wh.sql("INSERT INTO old VALUES (4, 4)")
    assert refresh(wh, "old_strict").incremental and refresh(wh, "old_auto").incremental
    # And the log itself, cleaned up past the vector.
    for value in (5, 6):
        wh.sql(f"INSERT INTO old VALUES ({value}, {value})")
    table = DeltaTable(spark, wh._catalog.table("old").location)
    table.delta_log().checkpoint()
    head = table.version()
    for version in range(head):
        (wh.root / "tables" / "old" / "_delta_log" / f"{version:020}.json").unlink()
    with refused(wh, SourceHistoryLost, "no longer has version"):
        refresh(wh, "old_strict")
    assert wh.view("old_strict").status().reason.startswith("[SOURCE_HISTORY_LOST]")
    assert refresh(wh, "old_auto").code == "SOURCE_HISTORY_LOST"
    assert wh.view("old_auto").verify().ok


def test_a_source_that_was_dropped_and_recreated(wh: monus.Warehouse, spark: SparkSession) -> None:
    wh.sql("CREATE TABLE again (k INT)")
    wh.sql("INSERT INTO again VALUES (1)")
    wh.sql("CREATE MATERIALIZED VIEW of_again AS SELECT k FROM again")
    place = wh.root / "tables" / "again"
    spark.sql("DROP TABLE again")
    shutil.rmtree(place)
    with refused(wh, SourceInvalid, "tables/again"):
        refresh(wh, "of_again")
    spark.sql(f"CREATE TABLE again (k INT) USING delta LOCATION '{place}'")
    spark.sql("INSERT INTO again VALUES (2)")
    with refused(wh, SourceRecreated, "'again'") as caught:
        refresh(wh, "of_again")
    assert "FULL" in caught.value.hint
    with refused(wh, SourceRecreated, "'again'"):
        wh.view("of_again").propagate()
    assert not wh.view("of_again").status().fresh
    done = refresh(wh, "of_again", full=True)
    assert done.code == "REQUESTED"
    assert [row.k for row in wh.table("of_again").collect()] == [2]
    wh.sql("INSERT INTO again VALUES (3)")
    assert refresh(wh, "of_again").incremental
    assert wh.view("of_again").verify().ok


def test_a_source_whose_schema_changed(wh: monus.Warehouse, spark: SparkSession, folder: Path) -> None:
    """Columns may come and go; one that a view reads may not. The same after reconnecting."""
    wh.sql(
        "CREATE TABLE wide (a INT, b INT, c STRING, d INT) "
        "TBLPROPERTIES (delta.columnMapping.mode = 'name', delta.enableTypeWidening = 'true')"
    )
    wh.sql("INSERT INTO wide VALUES (1, 1, 'x', 1)")
    wh.sql("CREATE MATERIALIZED VIEW stars AS SELECT * FROM wide")
    wh.sql("CREATE MATERIALIZED VIEW some AS SELECT w.a, w.b FROM (SELECT * FROM wide) AS w")
    wh.sql("CREATE MATERIALIZED VIEW ranked AS SELECT a, rank() OVER (ORDER BY b) AS r FROM wide")

    def connected() -> Iterator[monus.Warehouse]:
        yield wh
        again = monus.connect(folder, spark=spark)
        yield again
        again.close()

    wh.sql("ALTER TABLE wide ADD COLUMN e INT FIRST")
    for n, each in enumerate(connected()):
        each.sql(f"INSERT INTO wide VALUES ({n}, 2, 2, 'y', 2)")
        for view in ("stars", "some", "ranked"):
            assert refresh(each, view).incremental == (view != "ranked")
        assert each.sql("SELECT * FROM stars").columns == ["a", "b", "c", "d"]
    assert wh.view("stars").verify().ok
    wh.sql("ALTER TABLE wide DROP COLUMN d")
    for each in connected():
        each.sql("INSERT INTO wide VALUES (0, 3, 3, 'z')")
        for view in ("some", "ranked"):
            assert refresh(each, view).incremental == (view != "ranked")
        with refused(each, SourceSchemaChanged, "'d'", "'wide'", "'stars'") as caught:
            refresh(each, "stars")
        assert caught.value.fields["column"] == "d"
    assert wh.view("some").verify().ok and wh.view("ranked").verify().ok
    wh.sql("ALTER TABLE wide ALTER COLUMN a TYPE BIGINT")
    for each in connected():
        for view in ("some", "ranked"):
            with refused(each, SourceSchemaChanged, "'a'", "bigint", "int", f"'{view}'"):
                refresh(each, view)
        with refused(each, SourceSchemaChanged, "'a'"):
            refresh(each, "some", full=True)
    wh.sql("CREATE OR REPLACE MATERIALIZED VIEW some AS SELECT a, b FROM wide")
    assert wh.view("some").verify().ok
    wh.sql("ALTER TABLE wide RENAME COLUMN b TO bb")
    for each in connected():
        with refused(each, SourceSchemaChanged, "'b'", "renamed"):
            refresh(each, "some")
        assert "[SOURCE_SCHEMA_CHANGED]" in each.view("some").status().reason
    # One view that fails does not keep the others from being refreshed.
    wh.sql("INSERT INTO sales VALUES (9, 9)")
    with pytest.raises(RefreshFailed) as told:
        wh.refresh()
    assert set(told.value.fields["failures"]) >= {"some", "stars", "ranked"}
    assert "per_cust" in {record.view for record in told.value.fields["refreshed"]}
    assert (9, 9) in {tuple(row) for row in wh.table("per_cust").collect()}
    for view in ("stars", "some", "ranked"):
        wh.sql(f"DROP MATERIALIZED VIEW {view}")


def test_data_that_the_query_cannot_compute(wh: monus.Warehouse) -> None:
    wh.sql("CREATE TABLE parts (n STRING)")
    wh.sql("INSERT INTO parts VALUES ('1')")
    wh.sql("CREATE MATERIALIZED VIEW numbers AS SELECT CAST(n AS INT) AS n FROM parts")
    wh.sql("INSERT INTO parts VALUES ('one')")
    with refused(wh, RefreshFailed, "'numbers'", "CAST_INVALID_INPUT"):
        refresh(wh, "numbers")
    assert wh.view("numbers").history()[0].error
    wh.sql("DELETE FROM parts WHERE n = 'one'")
    refresh(wh, "numbers")
    assert wh.view("numbers").verify().ok


# -- others at the same time


def test_a_view_that_somebody_else_maintains(wh: monus.Warehouse, spark: SparkSession) -> None:
    wh.sql("INSERT INTO sales VALUES (3, 3)")
    with held_lease(wh._catalog, spark, "per_cust"):
        with refused(wh, ViewBusy, "'per_cust'"):
            refresh(wh, "per_cust", wait_seconds=0.2)
        with refused(wh, ViewBusy, "'per_cust'"):
            refresh(wh, "per_cust", full=True, wait_seconds=0)
    assert refresh(wh, "per_cust").incremental


def test_two_threads_refresh_one_view(wh: monus.Warehouse) -> None:
    wh.sql("INSERT INTO sales VALUES (4, 4)")
    version = wh._catalog.view("per_cust").version
    done: list[monus.Refresh] = []
    barrier = threading.Barrier(2)

    def work() -> None:
        barrier.wait()
        done.append(refresh(wh, "per_cust"))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(record.commits for record in done) == [0, 1]
    assert wh._catalog.view("per_cust").version == (version or 0) + 1
    assert wh.view("per_cust").verify().ok


def test_two_processes_refresh_one_view(wh: monus.Warehouse, folder: Path, tmp_path: Path) -> None:
    """Both at once, four times over: each change is applied by one of them, and the other finds it done."""
    script = Path(__file__).with_name("rival_process.py")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, str(script), str(folder), "per_cust", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as rival:
        assert rival.stdin is not None and rival.stdout is not None
        assert rival.stdout.readline() == "ready\n"
        for turn in range(4):
            before = wh._catalog.view("per_cust").version or 0
            wh.sql(f"INSERT INTO sales VALUES ({turn % 3}, {turn + 100})")
            rival.stdin.write("refresh\n")
            rival.stdin.flush()
            mine = refresh(wh, "per_cust")
            theirs = int(rival.stdout.readline())
            assert sorted((mine.commits, theirs)) == [0, 1]
            assert wh._catalog.view("per_cust").version == before + 1
            assert wh.view("per_cust").verify().ok
        rival.stdin.write("close\n")
        rival.stdin.flush()
    assert rival.returncode == 0
    assert picture(wh)["names"]

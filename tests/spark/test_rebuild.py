"""A catalog that was lost or damaged is rebuilt from the folder, and the views go on incrementally."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import monus
from monus.errors import CatalogUnavailable, WarehouseInvalid
from monus.store.delta_table import DeltaTable
from tests.spark.crashes import is_right, rows_of

JOINED = "SELECT o.k, o.g, p.x FROM orders o JOIN Places p ON o.k = p.k"
GROUPED = "SELECT g, count(*) n, sum(x) s FROM joined GROUP BY g"


def lose_catalog(folder: Path) -> None:
    """Only the file itself: what SQLite leaves beside it must not be taken for a part of the new one."""
    (folder / "catalog.db").unlink()


def refreshed(warehouse: monus.Warehouse, name: str) -> monus.Refresh:
    done = warehouse.view(name).refresh()
    assert isinstance(done, monus.Refresh)
    return done


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables, one of them attached from elsewhere; a view, a view over it that is behind, and a pending change."""
    top = tmp_path_factory.mktemp("rebuild")
    elsewhere = str(top / "elsewhere")
    spark.sql("SELECT 1 AS k, 10 AS x UNION ALL SELECT 2, 20").write.format("delta").save(elsewhere)
    folder = top / "warehouse"
    with monus.connect(folder, spark=spark) as warehouse:
        warehouse.sql("CREATE TABLE orders (k INT, g STRING)")
        warehouse.sql("INSERT INTO orders VALUES (1, 'a'), (2, 'a'), (2, NULL)")
        warehouse.attach("Places", elsewhere)
        warehouse.create_view("joined", JOINED, mode="incremental", comment="what is where")
        warehouse.create_view("grouped", GROUPED, columns=("grp", "n", "s"))
        warehouse.sql("INSERT INTO orders VALUES (1, 'b')")
        warehouse.view("joined").propagate()
        warehouse.sql("INSERT INTO orders VALUES (2, 'b')")
        warehouse.view("joined").refresh()  # one batch was propagated, one came with the refresh
        warehouse.sql("INSERT INTO orders VALUES (2, 'c')")
        warehouse.view("joined").propagate()  # is lost with the catalog, and computed again
    return folder


def test_a_lost_catalog(spark: SparkSession, folder: Path) -> None:
    with monus.connect(folder, spark=spark) as warehouse:
        known = warehouse._catalog.view("grouped")
        last_number = warehouse._catalog.view("joined").batch
    lose_catalog(folder)

    warehouse = monus.connect(folder, spark=spark)
    for forbidden in (lambda: warehouse.sql("SELECT 1"), lambda: warehouse.create_view("joined", "SELECT 1 AS a")):
        with pytest.raises(WarehouseInvalid, match="rebuild_catalog"):
            forbidden()
    done = warehouse.rebuild_catalog()
    assert (sorted(done.tables), sorted(done.views), done.left) == (["Places", "orders"], ["grouped", "joined"], {})

    assert warehouse._catalog.view("grouped") == known
    view = warehouse.view("joined")
    assert (view.definition, view.mode, warehouse._catalog.view("joined").comment) == (
        JOINED, "INCREMENTAL", "what is where",
    )  # fmt: skip
    assert {t.name: t.managed for t in warehouse._catalog.tables()} == {"Places": False, "orders": True}
    assert view.verify().ok
    assert warehouse.view("grouped").verify().ok  # at the state before the batches, which was found again

    done_now = [refreshed(warehouse, name) for name in ("joined", "grouped")]
    assert [(r.strategy == "full", r.rows_inserted > 0) for r in done_now] == [(False, True), (False, True)]
    assert warehouse._catalog.view("joined").batch > last_number  # numbers are not used twice
    assert is_right(warehouse, "joined") and is_right(warehouse, "grouped")
    assert warehouse.rebuild_catalog() == monus.Rebuilt((), (), {})
    warehouse.close()


def test_a_damaged_catalog(spark: SparkSession, folder: Path) -> None:
    (folder / "catalog.db").write_bytes(b"no database" * 1000)
    with pytest.raises(CatalogUnavailable, match=r"monus\.rebuild_catalog"):
        monus.connect(folder, spark=spark)
    done = monus.rebuild_catalog(folder, spark=spark)
    assert sorted(done.views) == ["grouped", "joined"]
    assert len(list(folder.glob("catalog.db.damaged-*"))) >= 1
    with monus.connect(folder, spark=spark) as warehouse:
        warehouse.sql("DELETE FROM orders WHERE k = 1")
        for name in ("joined", "grouped"):
            assert refreshed(warehouse, name).incremental
            assert is_right(warehouse, name)


def test_what_cannot_be_rebuilt_is_named_and_left(spark: SparkSession, warehouse_path: Path) -> None:
    with monus.connect(warehouse_path, spark=spark) as warehouse:
        warehouse.sql("CREATE TABLE t (a INT)")
        warehouse.sql("INSERT INTO t VALUES (1), (2)")
        warehouse.create_view("silent", "SELECT a FROM t")
        warehouse.create_view("above", "SELECT a + 1 AS b FROM silent")
        warehouse.create_view("spoiled", "SELECT a * 2 AS c FROM t")
        warehouse.create_view("replaced", "SELECT a FROM t")
        warehouse.create_view("replaced", "SELECT a + 5 AS d FROM t", replace=True)
        warehouse.sql("INSERT INTO t VALUES (3)")
        spoiled = warehouse._catalog.view("spoiled").location
        spark.sql(f"INSERT INTO delta.`{spoiled}` VALUES (77)")
    for commit in (warehouse_path / "views/silent/_delta_log").glob("*.json"):
        forget_metadata(commit)
    lose_catalog(warehouse_path)
    done = monus.rebuild_catalog(warehouse_path, spark=spark)
    assert sorted(done.views) == ["replaced", "spoiled"]
    assert set(done.left) == {"silent", "above"}
    assert "silent" in done.left["above"] and "silent" in str(done)
    assert (warehouse_path / "views/silent").is_dir()
    with monus.connect(warehouse_path, spark=spark) as warehouse:
        assert refreshed(warehouse, "replaced").incremental
        assert rows_of(warehouse.table("replaced")) == [(6,), (7,), (8,)]
        with pytest.raises(monus.MonusError, match="VIEW_UNUSABLE"):
            warehouse.view("spoiled").refresh()
        warehouse.view("spoiled").refresh(full=True)
        assert is_right(warehouse, "spoiled")


def forget_metadata(commit: Path) -> None:
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        line.get("commitInfo", {}).pop("userMetadata", None)
    commit.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    (commit.parent / f".{commit.name}.crc").unlink(missing_ok=True)


def test_a_folder_without_tables_is_a_new_warehouse(spark: SparkSession, warehouse_path: Path) -> None:
    (warehouse_path / "tables").mkdir(parents=True)
    with monus.connect(warehouse_path, spark=spark) as warehouse:
        assert warehouse.tables() == []
        assert warehouse.rebuild_catalog() == monus.Rebuilt((), (), {})
        assert not DeltaTable(spark, str(warehouse_path / "tables/t")).exists()

"""What SQLite cannot be opened on, and what is said then."""

from __future__ import annotations

import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event

from monus.catalog.catalog import Catalog
from monus.errors import CatalogUnavailable, WarehouseClosed
from tests.unit.catalog.samples import a_refresh, a_table


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


@pytest.mark.parametrize(
    "place",
    ["s3://bucket/w/catalog.db", "s3a://b/c.db", "gs://b/c", "abfss://c@a.dfs.core.windows.net/x", "hdfs://n:8020/x",
     Path("s3://bucket/catalog.db")],
)  # fmt: skip
def test_an_object_store_cannot_lock(place: str | Path) -> None:
    with pytest.raises(CatalogUnavailable, match=r"object store cannot lock.*connect\(\.\.\., catalog=\.\.\.\)"):
        Catalog.open(place)


def test_postgresql_is_for_later() -> None:
    with pytest.raises(CatalogUnavailable, match="PostgreSQL is not available"):
        Catalog.open("postgresql+psycopg://user@host/db")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_memory_does_not_last(url: str) -> None:
    with pytest.raises(CatalogUnavailable, match="outlive"):
        Catalog.open(url)


def test_by_path_by_url_and_by_file_url(path: Path) -> None:
    for place in (path, str(path), f"sqlite:///{path}", f"file://{path}", f"file:{path}"):
        with Catalog.open(place) as catalog:
            assert catalog.where == str(path)
    assert [file.name for file in path.parent.iterdir()] == ["catalog.db"]


def test_a_file_that_is_not_a_database(path: Path) -> None:
    path.write_text("This is not a database, but it is long enough to look like one. " * 100)
    with pytest.raises(CatalogUnavailable, match="is not a database"):
        Catalog.open(path)


def test_an_empty_file_becomes_a_catalog(path: Path) -> None:
    path.touch()
    with Catalog.open(path) as catalog:
        assert catalog.tables() == []


def test_a_database_of_somebody_else_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE meta (a)")
    before = path.read_bytes()
    with pytest.raises(CatalogUnavailable, match="is not a catalog of Monus"):
        Catalog.open(path)
    assert path.read_bytes() == before


def test_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CatalogUnavailable, match="cannot be opened"):
        Catalog.open(tmp_path / "file" / "catalog.db")


def test_a_folder_that_does_not_exist_or_is_not_a_file(tmp_path: Path) -> None:
    for place in (tmp_path / "nothing" / "catalog.db", tmp_path):
        with pytest.raises(CatalogUnavailable, match="cannot be opened"):
            Catalog.open(place)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_where_nothing_can_be_created() -> None:
    with pytest.raises(CatalogUnavailable, match="cannot be opened"):
        Catalog.open("/proc/catalog.db")


def test_read_only(path: Path) -> None:
    Catalog.open(path).close()
    with pytest.raises(CatalogUnavailable, match="cannot be written to"):
        Catalog.open(f"sqlite:///file:{path}?mode=ro&uri=true")


def test_read_only_by_its_rights(path: Path) -> None:
    Catalog.open(path).close()
    path.chmod(stat.S_IRUSR)
    try:
        with path.open("r+b"):
            pytest.skip("this user may write to any file")
    except PermissionError:
        pass
    with pytest.raises(CatalogUnavailable, match="cannot be written to"):
        Catalog.open(path)


def test_a_full_disk_changes_nothing(path: Path) -> None:
    with Catalog.open(path) as catalog:
        pages = path.stat().st_size // 4096 + 20

        @event.listens_for(catalog._database._engine, "checkout")
        def limit(connection: sqlite3.Connection, *_: object) -> None:
            connection.execute(f"PRAGMA max_page_count = {pages}")

        catalog.add_table(a_table())
        with pytest.raises(CatalogUnavailable, match="the disk is full"):
            catalog.record_refresh(a_refresh(error="x" * 1_000_000))
        assert catalog.refreshes("big_sales") == []
        assert catalog.tables() == [a_table()]


def test_a_lock_that_is_never_released(path: Path) -> None:
    with Catalog.open(path, busy_seconds=0.2) as catalog, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CatalogUnavailable, match="stayed locked by another process"):
            catalog.add_table(a_table())
        assert catalog.tables() == []  # readers do not wait
        other.rollback()
        catalog.add_table(a_table())


def test_settings_of_the_connections(path: Path) -> None:
    with Catalog.open(path) as catalog, catalog._database.read() as connection:
        settings = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "foreign_keys", "synchronous")
        ]
    assert settings == ["wal", 1, 2]


def test_closed(path: Path) -> None:
    catalog = Catalog.open(path)
    catalog.close()
    catalog.close()
    with pytest.raises(WarehouseClosed):
        catalog.tables()
    assert [file.name for file in path.parent.iterdir()] == ["catalog.db"]


def test_threads_share_a_catalog(path: Path) -> None:
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for i in range(10):
                catalog.add_table(a_table(f"t{worker}_{i}"))
                assert catalog.table(f"T{worker}_{i}")
        except BaseException as error:
            failures.append(error)

    with Catalog.open(path) as catalog:
        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(catalog.tables()) == 80

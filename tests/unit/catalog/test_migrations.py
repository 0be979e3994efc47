"""Catalogs of earlier formats end up like new ones, those of later formats are left alone."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection

from monus.catalog.catalog import Catalog
from monus.catalog.migrations import FORMAT, MIGRATIONS
from monus.catalog.records import SourceRecord
from monus.errors import CatalogUnavailable, WarehouseTooNew
from tests.unit.catalog.samples import FakeClock, a_table, a_view, lease_on

FORMAT_1 = Path(__file__).with_name("format_1.sql")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


def run(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


def stored_format(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        (value,) = connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
        assert isinstance(value, str)
        return value


def shape(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every table with its columns: name, type, whether it may be null, its place in the primary key."""
    with closing(sqlite3.connect(path)) as connection:
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
        ]
        return {
            name: [row[1:4] + row[5:] for row in connection.execute(f"PRAGMA table_info({name})")]
            for name in sorted(names)
        }


def test_from_format_1(path: Path, tmp_path: Path) -> None:
    """Fails when the tables change without a migration."""
    run(path, FORMAT_1.read_text())
    assert stored_format(path) == "1"
    clock = FakeClock()
    clock.pass_seconds(11)  # past the lease that is stored there
    with Catalog.open(path, clock=clock) as catalog:
        assert catalog.tables() == [a_table()]
        view = catalog.view("big_sales")
        assert view.definition == a_view().definition
        assert (view.batch, view.version, view.columns) == (1, 7, a_view().columns)
        assert catalog.sources("big_sales") == [SourceRecord("Sales", "table")]
        assert len(catalog.refreshes("big_sales")) == len(catalog.batches("big_sales", 0, 9)) == 1
        lease = lease_on(catalog)
        assert (lease.epoch, lease.outstanding) == (2, 2)
    assert stored_format(path) == str(FORMAT)
    Catalog.open(tmp_path / "new.db").close()
    assert shape(path) == shape(tmp_path / "new.db")


def add_colour(connection: Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE tables ADD COLUMN colour TEXT")


def fail_half_way(connection: Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE tables ADD COLUMN taste TEXT")
    raise RuntimeError("the power went out")


def test_each_migration_runs_once_and_in_order(path: Path) -> None:
    Catalog.open(path).close()
    for _ in range(2):
        with Catalog.open(path, migrations=[*MIGRATIONS, add_colour]) as catalog:
            assert catalog.tables() == []
    assert stored_format(path) == str(FORMAT + 1)
    assert "colour" in str(shape(path)["tables"])


def test_a_new_catalog_goes_through_later_migrations_too(path: Path) -> None:
    Catalog.open(path, migrations=[*MIGRATIONS, add_colour]).close()
    assert stored_format(path) == str(FORMAT + 1)


def test_a_migration_that_fails_leaves_the_format_before_it(path: Path) -> None:
    Catalog.open(path).close()
    with pytest.raises(RuntimeError):
        Catalog.open(path, migrations=[*MIGRATIONS, add_colour, fail_half_way])
    assert stored_format(path) == str(FORMAT + 1)
    assert "taste" not in str(shape(path)["tables"])


def test_several_at_once_migrate_once(path: Path) -> None:
    Catalog.open(path).close()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            Catalog.open(path, migrations=[*MIGRATIONS, add_colour]).close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_newer_format_is_left_alone(path: Path) -> None:
    Catalog.open(path).close()
    run(path, "UPDATE meta SET value = '99' WHERE key = 'format'")
    with pytest.raises(WarehouseTooNew, match=r"has format 99.*Upgrade monus"):
        Catalog.open(path)
    assert stored_format(path) == "99"


@pytest.mark.parametrize("change", ["DELETE FROM meta", "UPDATE meta SET value = 'x'", "UPDATE meta SET value = '0'"])
def test_no_format_at_all(path: Path, change: str) -> None:
    Catalog.open(path).close()
    run(path, change)
    with pytest.raises(CatalogUnavailable, match="does not say which format"):
        Catalog.open(path)

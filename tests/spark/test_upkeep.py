"""Upkeep removes nothing that a view needs; what others do to a view's table is harmless or noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import monus
from monus.errors import ViewUnusable
from monus.maintenance.fault_points import FaultPoint, listening
from monus.maintenance.layout import BATCH, pending_path
from tests.spark.crashes import crash, is_right, reopen, rows_of

VIEW, READER = "counted", "reader"


class Shop:
    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder, self.spark = folder, spark
        self.warehouse = monus.connect(folder, spark=spark)
        self.warehouse.sql("CREATE TABLE t (k INT, x INT)")
        self.warehouse.sql("INSERT INTO t VALUES (1, 1), (2, 5), (2, 5), (3, NULL)")
        self.warehouse.create_view(VIEW, "SELECT k, count(*) n FROM t GROUP BY k")
        self.warehouse.create_view(READER, f"SELECT n, count(*) c FROM {VIEW} GROUP BY n")
        self.key = 100

    def insert(self) -> None:
        self.key += 1
        self.warehouse.sql(f"INSERT INTO t VALUES ({self.key}, 0)")

    def add_to_group(self) -> None:
        self.warehouse.sql("INSERT INTO t VALUES (2, 9)")

    def refresh(self, name: str) -> monus.Refresh:
        done = self.warehouse.view(name).refresh()
        assert isinstance(done, monus.Refresh)
        return done

    def is_fresh_without_full(self) -> bool:
        done = [self.refresh(name) for name in (VIEW, READER)]
        return all(r.incremental for r in done) and all(is_right(self.warehouse, name) for name in (VIEW, READER))

    @property
    def location(self) -> str:
        return self.warehouse._catalog.view(VIEW).location

    def batches(self) -> set[int]:
        pending = self.spark.read.format("delta").load(pending_path(self.location))
        return {row[0] for row in pending.select(BATCH).distinct().collect()}


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    opened = Shop(tmp_path_factory.mktemp("upkeep") / "warehouse", spark)
    yield opened
    opened.warehouse.close()


def test_what_a_reader_has_not_read_is_kept(shop: Shop) -> None:
    assert shop.is_fresh_without_full()
    shop.insert()
    shop.refresh(VIEW)
    shop.add_to_group()
    shop.refresh(VIEW)  # all rows were rewritten; the reader is two batches behind
    shop.insert()
    shop.warehouse.view(VIEW).propagate()
    waiting = sorted(shop.batches())[-3:]

    shop.warehouse.vacuum(min_retention_hours=0)
    assert sorted(shop.batches()) == waiting
    assert shop.warehouse.view(READER).verify().ok  # reads the version before both
    assert shop.is_fresh_without_full()

    assert shop.warehouse.vacuum(min_retention_hours=0)[VIEW] == 3  # the fold of what was pending added none
    assert shop.batches() == set()
    assert [b.operation for b in shop.warehouse._catalog.batches(VIEW, 0, 1000)] == ["refresh"]
    assert shop.warehouse.view(VIEW).verify().ok and shop.warehouse.view(READER).verify().ok
    shop.add_to_group()
    assert shop.is_fresh_without_full()


@pytest.mark.slow
def test_a_crash_while_batches_are_dropped(shop: Shop) -> None:
    shop.insert()
    assert shop.is_fresh_without_full()
    read = shop.batches()
    assert crash(shop.warehouse, FaultPoint.BATCHES_GIVEN_UP, shop.warehouse.vacuum)
    shop.warehouse = reopen(shop.folder, shop.spark)
    shop.insert()
    shop.refresh(VIEW)
    assert len(shop.batches()) == len(read) + 1
    shop.warehouse.vacuum()
    assert len(shop.batches()) == 1  # the reader has not read the other one
    assert shop.is_fresh_without_full()


def test_optimize(shop: Shop) -> None:
    for _ in range(2):
        shop.insert()
        shop.refresh(VIEW)
    assert VIEW in shop.warehouse.optimize()
    head = shop.spark.sql(f"DESCRIBE HISTORY delta.`{shop.location}` LIMIT 1").first()
    assert head is not None and head["version"] == shop.warehouse._catalog.view(VIEW).version
    assert shop.refresh(VIEW).code == "NO_CHANGE"
    shop.warehouse.vacuum(min_retention_hours=0)
    assert shop.warehouse.view(READER).verify().ok
    shop.add_to_group()
    assert shop.is_fresh_without_full()


def test_what_others_do_without_changing_rows_does_no_harm(shop: Shop) -> None:
    shop.insert()
    assert shop.is_fresh_without_full()
    shop.insert()
    shop.refresh(VIEW)
    before = rows_of(shop.warehouse.table(VIEW))
    for statement in (
        f"OPTIMIZE delta.`{shop.location}`",
        f"ALTER TABLE delta.`{shop.location}` SET TBLPROPERTIES ('note' = 'hello')",
    ):
        shop.spark.sql(statement)
        assert rows_of(shop.warehouse.table(VIEW)) == before
    assert shop.refresh(VIEW).code == "NO_CHANGE"
    shop.add_to_group()
    assert shop.is_fresh_without_full()


def stranger(location: str) -> str:
    return f"INSERT INTO delta.`{location}` SELECT 77 AS k, 7L AS n, * EXCEPT (k, n) FROM delta.`{location}` LIMIT 1"


def insert_row(shop: Shop) -> None:
    shop.spark.sql(stranger(shop.location))


def insert_row_when_a_source_changed(shop: Shop) -> None:
    shop.spark.sql(stranger(shop.location))
    shop.add_to_group()


def add_column(shop: Shop) -> None:
    shop.spark.sql(f"ALTER TABLE delta.`{shop.location}` ADD COLUMN strange INT")


@pytest.mark.parametrize("spoil", [insert_row, insert_row_when_a_source_changed, add_column])
def test_a_stranger_is_noticed_and_the_view_is_mended(shop: Shop, spoil: Callable[[Shop], None]) -> None:
    before = rows_of(shop.warehouse.table(VIEW))
    spoil(shop)
    assert rows_of(shop.warehouse.table(VIEW)) == before  # readers through Monus see what was published
    with pytest.raises(ViewUnusable, match="somebody else"):
        shop.refresh(VIEW)
    reason = shop.warehouse._catalog.view(VIEW).unusable_reason
    assert reason is not None and reason.code == "FOREIGN_COMMIT"
    assert not shop.warehouse.view(VIEW).status().usable
    for read in (
        lambda: shop.warehouse.table(VIEW),
        lambda: shop.warehouse.sql(f"SELECT * FROM {VIEW}"),
        lambda: shop.warehouse.view(VIEW).propagate(),
        lambda: shop.refresh(READER),
    ):
        with pytest.raises(ViewUnusable, match="FULL"):
            read()
    shop.warehouse.view(VIEW).refresh(full=True)
    shop.refresh(READER)
    for name in (VIEW, READER):
        assert is_right(shop.warehouse, name)
        assert shop.warehouse.view(name).verify().ok
    shop.add_to_group()
    assert shop.is_fresh_without_full()


def test_a_stranger_during_a_refresh(shop: Shop) -> None:
    shop.insert()

    def come_between(point: FaultPoint) -> None:
        if point is FaultPoint.INTENT_WRITTEN:
            insert_row(shop)

    with listening(come_between), pytest.raises(ViewUnusable, match="somebody else"):
        shop.refresh(VIEW)
    assert shop.warehouse._catalog.outstanding_intent(VIEW) is None
    shop.warehouse.view(VIEW).refresh(full=True)
    shop.refresh(READER)
    assert is_right(shop.warehouse, VIEW) and is_right(shop.warehouse, READER)

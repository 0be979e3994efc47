"""A process that ends at any moment leaves every view right, and the next refresh goes on from there.

By default those moments are tried that differ most in what is on disk; MONUS_ALL_CRASHES=1 tries all.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import monus
from monus.errors import LeaseLost, UnknownView, ViewBusy
from monus.maintenance import applying
from monus.maintenance.fault_points import FaultPoint, listening
from monus.maintenance.fold import Way
from tests.spark.crashes import Crash, counting, crash, is_right, reopen, rows_of

pytestmark = pytest.mark.slow

BAG, GROUPED, READER = "bag", "grouped", "reader"
FOLDED = {FaultPoint.COMMITTED, FaultPoint.CHECKED, FaultPoint.PUBLISHED}


@dataclass
class Shop:
    """A warehouse that dies and is opened again, with rows that are always new."""

    folder: Path
    spark: SparkSession
    warehouse: monus.Warehouse
    keys: Iterator[int] = field(default_factory=lambda: itertools.count(100))

    def reopen(self) -> monus.Warehouse:
        self.warehouse = reopen(self.folder, self.spark)
        return self.warehouse

    def insert(self) -> None:
        """A new row, in a new group."""
        key = next(self.keys)
        self.warehouse.sql(f"INSERT INTO t VALUES ({key}, {key}, 1)")

    def update(self) -> None:
        self.warehouse.sql("UPDATE t SET x = x + 1 WHERE k = 1")


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("protocol") / "warehouse"
    warehouse = monus.connect(folder, spark=spark)
    warehouse.sql("CREATE TABLE t (k INT, g INT, x INT)")
    warehouse.sql("INSERT INTO t VALUES (1, 1, 1), (2, 1, 5), (2, 1, 5), (3, 2, 7), (4, NULL, NULL)")
    warehouse.create_view(BAG, "SELECT k, x FROM t")
    warehouse.create_view(GROUPED, "SELECT g, count(*) n, sum(x) s FROM t GROUP BY g")
    warehouse.create_view(READER, f"SELECT n, count(*) c, sum(s) s FROM {GROUPED} GROUP BY n")
    opened = Shop(folder, spark, warehouse)
    yield opened
    for name in (BAG, GROUPED, READER):
        assert opened.warehouse.view(name).verify().ok
    opened.warehouse.close()


@dataclass(frozen=True)
class Operation:
    name: str
    view: str
    change: Callable[[Shop], None]
    act: Callable[[monus.View], object]
    way: Way | None = None
    folds: bool = True
    tried: frozenset[FaultPoint] = frozenset({FaultPoint.COMMITTED})

    def points(self) -> list[FaultPoint]:
        points = [FaultPoint.LEASE_TAKEN, FaultPoint.INTENT_WRITTEN, FaultPoint.COMMITTED]
        points += [FaultPoint.CHECKED, FaultPoint.PUBLISHED]
        if self.view == GROUPED and self.name != "partial refresh":  # a fold of what is pending adds no batch
            points.append(FaultPoint.BATCH_APPENDED)
        return points


def refresh(view: monus.View) -> object:
    return view.refresh()


def insert_and_propagate(shop: Shop) -> None:
    shop.insert()
    shop.warehouse.view(GROUPED).propagate()


BEGUN = frozenset({FaultPoint.INTENT_WRITTEN, FaultPoint.COMMITTED})
HALF_DONE = frozenset({FaultPoint.BATCH_APPENDED, FaultPoint.COMMITTED})
OPERATIONS = (
    Operation("append", BAG, Shop.insert, refresh, "append", tried=BEGUN),
    Operation("rewrite", BAG, Shop.update, refresh, "rewrite"),
    Operation("merge", BAG, Shop.update, refresh, "merge"),
    Operation("append that is read", GROUPED, Shop.insert, refresh, "append", tried=frozenset(FaultPoint)),
    Operation("rewrite that is read", GROUPED, Shop.update, refresh, "rewrite", tried=HALF_DONE),
    Operation("merge that is read", GROUPED, Shop.update, refresh, "merge"),
    Operation("propagate", GROUPED, Shop.insert, monus.View.propagate, folds=False),
    Operation("partial refresh", GROUPED, insert_and_propagate, monus.View.partial_refresh, tried=BEGUN),
    Operation("full refresh", GROUPED, Shop.update, lambda view: view.refresh(full=True), tried=HALF_DONE),
)
CASES = [
    (operation, point)
    for operation in OPERATIONS
    for point in operation.points()
    if point in operation.tried or os.environ.get("MONUS_ALL_CRASHES")
]


@pytest.mark.parametrize(("operation", "point"), CASES, ids=[f"{o.name}, {p}" for o, p in CASES])
def test_a_crash(shop: Shop, operation: Operation, point: FaultPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    if operation.way is not None:
        monkeypatch.setattr(applying, "choose_way", lambda *_: operation.way)
    before = rows_of(shop.warehouse.table(operation.view))
    operation.change(shop)
    after = rows_of(shop.warehouse.sql(shop.warehouse.view(operation.view).definition))
    assert before != after

    assert crash(shop.warehouse, point, lambda: operation.act(shop.warehouse.view(operation.view)))
    monkeypatch.undo()

    warehouse = shop.reopen()
    assert warehouse._catalog.outstanding_intent(operation.view) is None
    is_done = operation.folds and point in FOLDED
    assert rows_of(warehouse.table(operation.view)) == (after if is_done else before)
    done = warehouse.view(operation.view).refresh()
    assert isinstance(done, monus.Refresh) and done.incremental
    assert rows_of(warehouse.table(operation.view)) == after
    assert is_right(warehouse, operation.view)
    if operation.view == GROUPED:
        done = warehouse.view(READER).refresh()
        assert isinstance(done, monus.Refresh) and done.incremental
        assert is_right(warehouse, READER)


@pytest.mark.parametrize("first", [FaultPoint.INTENT_WRITTEN, FaultPoint.COMMITTED])
@pytest.mark.parametrize("second", [FaultPoint.FENCE_MARKED, FaultPoint.FENCED])
def test_a_crash_of_the_recovery(shop: Shop, first: FaultPoint, second: FaultPoint) -> None:
    shop.insert()
    assert crash(shop.warehouse, first, shop.warehouse.view(GROUPED).refresh)

    def die(point: FaultPoint) -> None:
        if point is second:
            raise Crash(point)

    with listening(die), pytest.raises(Crash):
        shop.reopen()
    warehouse = shop.reopen()
    for name in (GROUPED, READER):
        done = warehouse.view(name).refresh()
        assert isinstance(done, monus.Refresh) and done.incremental
        assert is_right(warehouse, name)


def test_a_recovered_operation_is_in_the_history(shop: Shop) -> None:
    shop.insert()
    assert crash(shop.warehouse, FaultPoint.COMMITTED, shop.warehouse.view(BAG).refresh)
    newest = shop.reopen().view(BAG).history(1)[0]
    assert (newest.operation, newest.code, newest.incremental) == ("refresh", "RECOVERED", True)


NEW_VIEW = "SELECT g, max(x) m FROM t GROUP BY g"
CREATION = [
    FaultPoint.VIEW_RECORDED,
    FaultPoint.TABLE_CREATED,
    FaultPoint.TABLE_RECORDED,
    FaultPoint.INTENT_WRITTEN,
    FaultPoint.COMMITTED,
    FaultPoint.PUBLISHED,
]


@pytest.mark.parametrize("point", CREATION)
def test_a_crash_while_a_view_is_created(shop: Shop, point: FaultPoint) -> None:
    """What was never filled was never created; what was filled is there."""
    name = f"new_{point.name.lower()}"
    assert crash(shop.warehouse, point, lambda: shop.warehouse.create_view(name, NEW_VIEW))
    warehouse = shop.reopen()
    if point in FOLDED:
        assert rows_of(warehouse.table(name)) == rows_of(warehouse.sql(NEW_VIEW))
        shop.insert()
        done = warehouse.view(name).refresh()
        assert isinstance(done, monus.Refresh) and done.incremental
        assert is_right(warehouse, name)
        warehouse.drop_view(name)
    assert name not in warehouse.views()
    assert not list(shop.folder.glob(f"*/{name}*"))
    with pytest.raises(UnknownView):
        warehouse.view(name)


def test_a_view_can_be_created_again_after_a_crash(shop: Shop) -> None:
    for point in (FaultPoint.TABLE_CREATED, FaultPoint.VIEW_FORGOTTEN):
        warehouse = shop.warehouse

        def come_and_go(warehouse: monus.Warehouse = warehouse) -> None:
            warehouse.create_view("again", NEW_VIEW)
            warehouse.drop_view("again")

        assert crash(warehouse, point, come_and_go, keeps_names=True)
        shop.reopen()
        warehouse._names.close()
    shop.warehouse.create_view("again", NEW_VIEW)
    assert is_right(shop.warehouse, "again")
    shop.warehouse.drop_view("again")


def test_an_error_leaves_the_old_state_and_no_intent(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows_of(shop.warehouse.table(BAG))
    shop.insert()
    with monkeypatch.context() as patched:

        def fail(*_: object) -> None:
            raise ZeroDivisionError("on purpose")

        patched.setattr(applying, "add", fail)
        patched.setattr(applying, "fold", fail)
        with pytest.raises(Exception, match="on purpose"):
            shop.warehouse.view(BAG).refresh()
    assert shop.warehouse._catalog.outstanding_intent(BAG) is None
    assert rows_of(shop.warehouse.table(BAG)) == before
    assert shop.warehouse.view(BAG).history(1)[0].error is not None
    with counting() as points:
        shop.warehouse.view(BAG).refresh()
    assert points[FaultPoint.FENCED] == 0
    assert is_right(shop.warehouse, BAG)


def test_an_interrupt_is_settled_by_the_next_operation(shop: Shop) -> None:
    """Python cannot know whether the JVM still works on the commit, so it is shut out first."""
    shop.insert()

    def interrupt(point: FaultPoint) -> None:
        if point is FaultPoint.INTENT_WRITTEN:
            raise KeyboardInterrupt

    with listening(interrupt), pytest.raises(KeyboardInterrupt):
        shop.warehouse.view(BAG).refresh()
    assert shop.warehouse._catalog.outstanding_intent(BAG) is not None
    with counting() as points:
        done = shop.warehouse.view(BAG).refresh()
    assert points[FaultPoint.FENCED] == 1
    assert isinstance(done, monus.Refresh) and done.incremental
    assert is_right(shop.warehouse, BAG)


def test_an_owner_that_lost_its_lease_begins_again(shop: Shop) -> None:
    shop.insert()
    lost = []

    def lose(point: FaultPoint) -> None:
        if point is FaultPoint.INTENT_WRITTEN and not lost:
            lost.append(point)
            raise LeaseLost("Somebody else was quicker.")

    with listening(lose):
        done = shop.warehouse.view(BAG).refresh()
    assert lost and isinstance(done, monus.Refresh) and done.incremental
    assert is_right(shop.warehouse, BAG)


def test_a_living_owner_is_left_alone(shop: Shop) -> None:
    """A second process may connect while the first is at work: it waits for nothing and takes nothing over."""
    shop.insert()

    def look(point: FaultPoint) -> None:
        if point is not FaultPoint.INTENT_WRITTEN:
            return
        with monus.connect(shop.folder, spark=shop.spark) as second:
            assert second._catalog.outstanding_intent(BAG) is not None
            with pytest.raises(ViewBusy):
                second.view(BAG).refresh(wait_seconds=0.1)

    with listening(look):
        done = shop.warehouse.view(BAG).refresh()
    assert isinstance(done, monus.Refresh) and done.incremental
    assert is_right(shop.warehouse, BAG)

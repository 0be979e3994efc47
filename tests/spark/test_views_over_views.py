"""Views that read views: batches are their log, and a diamond ends at one state of the tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import monus
from monus.errors import InUse, RefreshFailed


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Iterator[monus.Warehouse]:
    opened = monus.connect(tmp_path / "warehouse", spark=spark)
    opened.sql("CREATE TABLE orders_ (id INT, customer INT, amount BIGINT)")
    opened.sql("INSERT INTO orders_ SELECT id, id % 5, id FROM range(50)")
    opened.create_view("totals", "SELECT customer, sum(amount) AS total FROM orders_ GROUP BY customer")
    opened.create_view("large", "SELECT customer, amount FROM orders_ WHERE amount > 20")
    opened.create_view(
        "diamond", "SELECT t.customer, t.total, l.amount FROM totals t JOIN large l ON t.customer = l.customer"
    )
    opened.create_view("top", "SELECT total, count(*) AS n FROM diamond GROUP BY total")
    yield opened
    for name in ("top", "diamond", "large", "totals"):
        opened.drop_view(name)
    opened.sql("DROP TABLE orders_")
    opened.close()


def check(warehouse: monus.Warehouse) -> None:
    for name in ("totals", "large", "diamond", "top"):
        assert warehouse.view(name).verify().ok, name


def test_four_levels_are_refreshed_incrementally(warehouse: monus.Warehouse) -> None:
    for statement in (
        "INSERT INTO orders_ VALUES (100, 3, 1000), (101, 9, 5)",
        "UPDATE orders_ SET amount = amount + 1 WHERE id = 30",
        "DELETE FROM orders_ WHERE customer = 2",
        "INSERT OVERWRITE orders_ SELECT id, id % 3, id * 2 FROM range(30)",
    ):
        warehouse.sql(statement)
        done = warehouse.refresh()
        assert [d.view for d in done].index("diamond") > [d.view for d in done].index("totals")
        assert all(d.incremental for d in done)
        check(warehouse)
    live = warehouse.spark.sql(
        "SELECT t.customer, t.total, l.amount FROM "
        "(SELECT customer, sum(amount) AS total FROM orders_ GROUP BY customer) t JOIN "
        "(SELECT customer, amount FROM orders_ WHERE amount > 20) l ON t.customer = l.customer"
    )
    stored = warehouse.table("diamond")
    assert stored.exceptAll(live).isEmpty()
    assert live.exceptAll(stored).isEmpty()


def test_a_full_refresh_below_leaves_views_above_incremental(warehouse: monus.Warehouse) -> None:
    warehouse.sql("UPDATE orders_ SET amount = amount * 2 WHERE customer = 1")
    warehouse.view("totals").refresh(full=True)
    done = {d.view: d for d in warehouse.refresh()}
    assert done["diamond"].incremental
    check(warehouse)


def test_propagated_changes_reach_views_above_when_folded(warehouse: monus.Warehouse) -> None:
    warehouse.sql("INSERT INTO orders_ VALUES (200, 1, 7)")
    warehouse.view("totals").propagate()
    warehouse.view("diamond").refresh()
    check(warehouse)
    warehouse.sql("INSERT INTO orders_ VALUES (201, 1, 70)")
    warehouse.view("totals").propagate()
    warehouse.view("totals").partial_refresh()
    warehouse.view("diamond").refresh()
    check(warehouse)
    warehouse.refresh()
    check(warehouse)


def test_refreshing_all_goes_on_past_a_view_that_fails(warehouse: monus.Warehouse) -> None:
    warehouse.sql("CREATE TABLE other_ (a INT, b INT)")
    warehouse.sql("INSERT INTO other_ VALUES (1, 2)")
    warehouse.create_view("fails", "SELECT a, 10 DIV b AS c FROM other_")
    warehouse.sql("INSERT INTO other_ VALUES (3, 0)")
    warehouse.sql("INSERT INTO orders_ VALUES (300, 4, 8)")
    with pytest.raises(RefreshFailed) as caught:
        warehouse.refresh()
    assert list(caught.value.fields["failures"]) == ["fails"]
    check(warehouse)
    assert warehouse.view("fails").verify().ok
    warehouse.drop_view("fails")
    warehouse.sql("DROP TABLE other_")


def test_a_view_that_is_read_cannot_be_dropped(warehouse: monus.Warehouse) -> None:
    with pytest.raises(InUse):
        warehouse.sql("DROP MATERIALIZED VIEW totals")
    check(warehouse)

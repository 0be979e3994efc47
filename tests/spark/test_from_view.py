"""A join whose dimension changes is maintained from its own rows, when that is right and reads less."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

import monus
from tests.spark.limits import LIMITS, MERGE, low_limits

MERGE_LIMITS = tuple(name for name in LIMITS if name.endswith(MERGE))
PAYS = "monus.maintenance.from_view.PAYS"
QUERY = """
    SELECT d.k, d.name, upper(d.name) AS upper_name, f.id, f.x, e.y, d.k + f.x AS mixed
    FROM   dims d JOIN facts f ON d.k = f.k JOIN more e ON f.id = e.id
    WHERE  d.k < 40"""


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[monus.Warehouse]:
    folder: Path = tmp_path_factory.mktemp("from_view")
    opened = monus.connect(folder / "warehouse", spark=spark)
    opened.sql("CREATE TABLE dims (k INT, name STRING, note STRING)")
    opened.sql("INSERT INTO dims SELECT id, concat('d', id), 'n' FROM range(50)")
    opened.sql("INSERT INTO dims VALUES (NULL, 'none', 'n'), (7, 'again', 'n'), (8, 'd8', 'n')")
    opened.sql("CREATE TABLE facts (id BIGINT, k INT, x INT, padding STRING)")
    opened.sql("INSERT INTO facts SELECT id, id % 60, id % 3, sha2(string(id), 512) FROM range(600)")
    opened.sql("INSERT INTO facts SELECT * FROM facts WHERE id % 50 = 3")
    opened.sql("CREATE TABLE more (id BIGINT, y INT, padding STRING)")
    opened.sql("INSERT INTO more SELECT id, id % 5, sha2(string(id), 512) FROM range(600)")
    opened.create_view("joined", QUERY)
    yield opened
    opened.drop_view("joined")
    for name in ("dims", "facts", "more"):
        opened.sql(f"DROP TABLE {name}")
    opened.close()


def refreshed(warehouse: monus.Warehouse, *statements: str) -> monus.Refresh:
    warehouse.refresh()
    for statement in statements:
        warehouse.sql(statement)
    with low_limits(PAYS):
        done = warehouse.view("joined").refresh()
    assert isinstance(done, monus.Refresh)
    assert warehouse.view("joined").verify().ok
    return done


@pytest.mark.parametrize("limits", [(), MERGE_LIMITS], ids=["rewritten", "marked in deletion vectors"])
def test_an_updated_dimension_is_joined_with_what_the_view_holds(
    warehouse: monus.Warehouse, limits: tuple[str, ...]
) -> None:
    with low_limits(*limits):
        done = refreshed(warehouse, "UPDATE dims SET name = concat(name, '!') WHERE k IN (3, 4, 45)")
    assert (done.code, done.incremental, done.commits) == ("FROM_VIEW", True, 1)
    assert done.rows_inserted == done.rows_deleted == 22
    assert done.rows_read.keys() == {"dims", "facts", "more"}
    assert done.rows_read["facts"] == done.rows_read["more"] == 0


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("DELETE FROM dims WHERE k = 12", "FROM_VIEW"),
        ("UPDATE dims SET name = 'z' WHERE k = 7", "INCREMENTAL"),  # two rows have this key
        ("DELETE FROM dims WHERE k = 8", "INCREMENTAL"),  # two equal rows
        ("UPDATE dims SET k = 39 WHERE k = 38", "INCREMENTAL"),
        ("UPDATE dims SET k = k + 1 WHERE k IN (20, 21)", "INCREMENTAL"),
        ("UPDATE dims SET name = 'y' WHERE k IS NULL", "NO_EFFECT"),
        ("UPDATE dims SET name = NULL WHERE k = 15", "FROM_VIEW"),
        ("UPDATE facts SET x = x + 1 WHERE id = 5", "INCREMENTAL"),
    ],
)
def test_when_it_is_used(warehouse: monus.Warehouse, statement: str, code: str) -> None:
    with low_limits(*MERGE_LIMITS):
        done = refreshed(warehouse, statement)
    assert done.code == code


def test_explain_says_for_which_tables(warehouse: monus.Warehouse) -> None:
    said = [rule for rule in warehouse.view("joined").explain().rules if "read from the view" in rule]
    assert [rule.split(":")[0] for rule in said] == ["table dims", "table facts", "table more"]


def test_not_when_two_tables_change(warehouse: monus.Warehouse) -> None:
    changes = ("UPDATE dims SET name = 'w' WHERE k = 16", "UPDATE facts SET x = 5 WHERE id = 16")
    assert refreshed(warehouse, *changes).code == "INCREMENTAL"


def test_not_when_the_view_is_the_larger_one(warehouse: monus.Warehouse) -> None:
    warehouse.refresh()
    warehouse.sql("UPDATE dims SET name = 'v' WHERE k = 17")
    with patch(PAYS, 0.0):
        done = warehouse.view("joined").refresh()
    assert isinstance(done, monus.Refresh)
    assert done.code == "INCREMENTAL"
    assert warehouse.view("joined").verify().ok


def test_what_was_propagated_before_is_seen(warehouse: monus.Warehouse) -> None:
    """The stored rows are the view's table with its pending change."""
    warehouse.refresh()
    view = warehouse.view("joined")
    with low_limits(PAYS):
        for name in ("a", "b", "c"):
            warehouse.sql(f"UPDATE dims SET name = concat(name, '{name}') WHERE k IN (18, 19)")
            done = view.propagate()
            assert done.code == "PROPAGATED" and "view itself" in done.reason
        warehouse.sql("UPDATE facts SET x = x + 1 WHERE k = 18")
        view.propagate()
        warehouse.sql("UPDATE dims SET name = 'last' WHERE k = 18")
        done = view.refresh()
    assert isinstance(done, monus.Refresh)
    assert done.code == "FROM_VIEW"
    assert view.verify().ok


def test_views_over_it_see_the_change(warehouse: monus.Warehouse) -> None:
    warehouse.refresh()
    warehouse.create_view("over", "SELECT name, count(*) AS n, sum(x) AS x FROM joined GROUP BY name")
    try:
        for limits in ((), MERGE_LIMITS):
            warehouse.sql("UPDATE dims SET name = concat(name, '+') WHERE k IN (23, 24)")
            warehouse.sql("DELETE FROM dims WHERE k = 25")
            with low_limits(PAYS, *limits):
                found = {done.view: done for done in warehouse.refresh()}
            assert found["joined"].code == "FROM_VIEW"
            assert found["over"].incremental
            assert warehouse.view("over").verify().ok
            warehouse.sql("INSERT INTO dims VALUES (25, 'back', 'n')")
            warehouse.refresh()
    finally:
        warehouse.drop_view("over")


def test_random_changes_of_the_dimension(warehouse: monus.Warehouse) -> None:
    rng = random.Random(3)
    codes = set()
    for _ in range(4):
        statements = []
        for _ in range(rng.randint(1, 3)):
            k = rng.randint(0, 45)
            statements.append(
                rng.choice(
                    [
                        f"UPDATE dims SET name = 'r{rng.randint(0, 3)}' WHERE k BETWEEN {k} AND {k + 3}",
                        f"UPDATE dims SET name = 'r{rng.randint(0, 3)}' WHERE k = {k}",
                        f"DELETE FROM dims WHERE k = {k}",
                        f"INSERT INTO dims VALUES ({k}, 'i', 'n')",
                    ]
                )
            )
        with low_limits(*(MERGE_LIMITS if rng.random() < 0.6 else ())):
            codes.add(refreshed(warehouse, *statements).code)
    assert "FROM_VIEW" in codes

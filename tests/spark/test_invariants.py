"""The invariants of Figure 1 say no where they must: the table, or the pending change, is not what it should be."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from pyspark.sql import SparkSession

import monus
from monus.maintenance.layout import pending_path
from tests.spark.fault_matrix import forget_logs

POLICIES = {
    "im": ("IMMEDIATE", "INV_IM"),
    "bl": ("ON DEMAND USING LOG", "INV_BL"),
    "dt": ("ON DEMAND USING DIFFERENTIAL", "INV_DT"),
    "c": ("ON DEMAND USING COMBINED", "INV_C"),
}
PENDING = ("dt", "c")


@pytest.fixture(scope="module")
def wh(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[monus.Warehouse]:
    wh = monus.connect(tmp_path_factory.mktemp("invariants") / "wh", spark=spark)
    wh.sql("CREATE TABLE t (k INT, x INT)")
    wh.sql("INSERT INTO t VALUES (1, 1), (1, 1), (2, 2)")
    for name, (policy, _) in POLICIES.items():
        wh.create_view(name, "SELECT k, x FROM t WHERE x > 0", refresh=policy)
    wh.sql("INSERT INTO t VALUES (3, 3)")
    wh.sql("DELETE FROM t WHERE k = 2")
    wh.view("c").propagate()
    yield wh
    wh.close()


def failed(wh: monus.Warehouse, name: str) -> dict[str, tuple[list[tuple[int, ...]], list[tuple[int, ...]]]]:
    """The checks that do not hold, with the rows that are missing and extra."""
    found = wh.view(name).verify()
    assert found.invariant == POLICIES[name][1]
    wrong = [each for each in found.checks if not each.ok]
    assert found.ok == (not wrong)
    return {
        each.name: ([tuple(row) for row in each.missing.collect()], [tuple(row) for row in each.extra.collect()])
        for each in wrong
    }


def mend(wh: monus.Warehouse, name: str) -> None:
    """Back to what was pending before."""
    wh.view(name).refresh(full=True)
    assert failed(wh, name) == {}


@pytest.mark.parametrize("name", POLICIES)
def test_a_table_with_a_row_too_many(wh: monus.Warehouse, name: str) -> None:
    """As if an operation of Monus had made it: the version with the row is the one that is published."""
    assert failed(wh, name) == {}
    record = wh._catalog.view(name)
    wh.spark.sql(f"INSERT INTO delta.`{record.location}` VALUES (9, 9)")
    with closing(sqlite3.connect(wh.root / "catalog.db")) as database, database:
        database.execute("UPDATE views SET version = version + 1 WHERE key = ?", (name,))
    found = failed(wh, name)
    assert found[POLICIES[name][1]] == ([], [(9, 9)])
    assert not any("⊆" in check for check in found)
    if name in PENDING:
        assert found["MV ≡ Q at its vector"] == ([], [(9, 9)])
    with closing(sqlite3.connect(wh.root / "catalog.db")) as database, database:
        database.execute("UPDATE views SET version = version - 1 WHERE key = ?", (name,))
    wh.spark.sql(f"RESTORE TABLE delta.`{record.location}` TO VERSION AS OF {record.version}")
    forget_logs(wh.spark)


@pytest.mark.parametrize("name", PENDING)
def test_a_pending_change_that_takes_away_what_is_not_there(wh: monus.Warehouse, name: str) -> None:
    """∇MV ⊆ MV says so; the bags are equal, because a monus takes away no more than there is."""
    record = wh._catalog.view(name)
    assert failed(wh, name) == {}
    path = pending_path(record.location)
    wh.spark.sql(f"INSERT INTO delta.`{path}` BY NAME SELECT 8 AS k, 8 AS x, -1L AS __w, {record.batch}L AS __batch")
    assert failed(wh, name) == {"∇MV ⊆ MV": ([(8, 8)], [])}
    mend(wh, name)


def test_a_pending_change_that_brings_a_row_too_many(wh: monus.Warehouse) -> None:
    wh.sql("INSERT INTO t VALUES (4, 4)")
    wh.view("c").propagate()
    record = wh._catalog.view("c")
    path = pending_path(record.location)
    wh.spark.sql(f"INSERT INTO delta.`{path}` BY NAME SELECT 5 AS k, 5 AS x, 1L AS __w, {record.batch}L AS __batch")
    assert failed(wh, "c") == {"INV_C": ([], [(5, 5)])}
    mend(wh, "c")

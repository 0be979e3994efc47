"""Cases that were wrong once, or nearly were; each is one refresh that must equal recomputation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import monus
from tests.spark.limits import LIMITS, MERGE, low_limits


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[monus.Warehouse]:
    folder: Path = tmp_path_factory.mktemp("counterexamples")
    opened = monus.connect(folder / "warehouse", spark=spark)
    opened.sql("CREATE TABLE left_ (k INT, x INT)")
    opened.sql("CREATE TABLE right_ (k INT, y INT)")
    yield opened
    opened.sql("DROP TABLE left_")
    opened.sql("DROP TABLE right_")
    opened.close()


def maintained(warehouse: monus.Warehouse, query: str, before: list[str], after: list[str]) -> monus.Refresh:
    """Fill the tables, make the view, change the tables, refresh and verify."""
    for table in ("left_", "right_"):
        warehouse.sql(f"DELETE FROM {table}")
    for statement in before:
        warehouse.sql(statement)
    view = warehouse.create_view("counterexample", query)
    try:
        for statement in after:
            warehouse.sql(statement)
        done = view.refresh()
        assert isinstance(done, monus.Refresh)
        assert view.verify().ok
        assert done.incremental
        return done
    finally:
        warehouse.drop_view("counterexample")


def test_a_row_that_two_terms_add_and_take_away_brings_no_extreme(warehouse: monus.Warehouse) -> None:
    maintained(
        warehouse,
        "SELECT left_.k, min(x) AS least, max(x) AS most FROM left_ JOIN right_ ON left_.k = right_.k GROUP BY left_.k",
        ["INSERT INTO left_ VALUES (1, 5), (1, 6)", "INSERT INTO right_ VALUES (1, 1), (1, 2)"],
        [
            "INSERT INTO left_ VALUES (2, -9), (1, 7)",
            "INSERT INTO right_ VALUES (2, 3)",
            "DELETE FROM right_ WHERE y > 1",
        ],
    )


def test_a_global_extreme_over_no_rows_is_null(warehouse: monus.Warehouse) -> None:
    maintained(
        warehouse,
        "SELECT min(x) AS least, max(x) AS most, count(*) AS n, sum(x) AS total FROM left_",
        ["INSERT INTO left_ VALUES (1, 5), (1, 6)"],
        ["DELETE FROM left_"],
    )


def test_an_extreme_that_left_is_recomputed_for_its_group_alone(warehouse: monus.Warehouse) -> None:
    done = maintained(
        warehouse,
        "SELECT k, max(x) AS most FROM left_ GROUP BY k",
        ["INSERT INTO left_ VALUES (1, 5), (1, 6), (2, 9), (NULL, 3), (NULL, 4)"],
        ["DELETE FROM left_ WHERE x = 6", "DELETE FROM left_ WHERE x = 4", "INSERT INTO left_ VALUES (2, 10)"],
    )
    assert done.code == "REGROUPED"


def test_a_row_that_moves_between_groups_affects_both(warehouse: monus.Warehouse) -> None:
    maintained(
        warehouse,
        "SELECT k, count(DISTINCT x) AS n FROM left_ GROUP BY k HAVING count(*) > 1",
        ["INSERT INTO left_ VALUES (1, 5), (1, 6), (2, 9), (NULL, 3)"],
        ["UPDATE left_ SET k = NULL WHERE x = 9", "UPDATE left_ SET k = 2 WHERE x = 6"],
    )


def test_the_variance_of_one_value_is_what_the_setting_says(warehouse: monus.Warehouse) -> None:
    """NULL, or NaN where the view was made under the legacy setting: also when a group shrinks to one value."""
    setting = "spark.sql.legacy.statisticalAggregate"
    for value in ("true", "false"):
        warehouse.spark.conf.set(setting, value)
        try:
            maintained(
                warehouse,
                "SELECT k, var_samp(x) AS v, stddev(x) AS s, var_pop(x) AS p FROM left_ GROUP BY k",
                ["INSERT INTO left_ VALUES (1, 5), (1, 6), (2, 1), (3, NULL)"],
                ["DELETE FROM left_ WHERE x = 5", "INSERT INTO left_ VALUES (4, 1), (3, NULL)"],
            )
        finally:
            warehouse.spark.conf.unset(setting)


def test_a_large_bag_loses_as_many_copies_as_leave(warehouse: monus.Warehouse) -> None:
    """By deletion vectors: of five copies two leave, and rows that differ only in NULL or −0.0 stay."""
    query = "SELECT k, CAST(x AS DOUBLE) * IF(k < 0, -0.0D, 1.0D) AS z FROM left_"
    rows = ", ".join(["(1, 7)"] * 5 + ["(-1, 0)", "(0, 0)", "(NULL, 0)", "(1, NULL)", "(2, 2)"])
    with low_limits(*(name for name in LIMITS if name.endswith(MERGE))):
        for leaving in ("SELECT 1 AS k, 7 AS x UNION ALL SELECT -1, 0", "SELECT 0 AS k, 0 AS x UNION ALL SELECT 2, 2"):
            done = maintained(
                warehouse,
                query,
                [f"INSERT INTO left_ VALUES {rows}"],
                [
                    f"MERGE INTO left_ USING ({leaving}) gone ON left_.k = gone.k AND left_.x = gone.x "
                    "WHEN MATCHED THEN DELETE",
                    "INSERT INTO left_ VALUES (1, 7), (1, 7), (1, 7)",
                ],
            )
            assert done.strategy == "merge"


@pytest.mark.parametrize("more_files", [(), ("monus.store.listing.MOST_FILES",)], ids=["deletion vectors", "MERGE"])
def test_the_one_row_of_a_global_aggregate_is_merged(warehouse: monus.Warehouse, more_files: tuple[str, ...]) -> None:
    """There is no key to match it by."""
    with low_limits(*(name for name in LIMITS if name.endswith(MERGE)), *more_files):
        done = maintained(
            warehouse,
            "SELECT var_samp(x) AS spread, min(x) AS least FROM left_",
            ["INSERT INTO left_ VALUES (1, 5), (1, 6), (2, NULL)"],
            ["DELETE FROM left_ WHERE x = 5", "INSERT INTO left_ VALUES (3, 9)"],
        )
    assert (done.strategy, done.rows_inserted, done.rows_deleted) == ("merge", 1, 1)


def test_a_floating_aggregate_that_others_read_is_not_computed_twice(warehouse: monus.Warehouse) -> None:
    """The row that is to leave would differ from the one that is there in its last digit."""
    inner = "SELECT k, var_samp(x) AS spread FROM left_ GROUP BY k"
    view = warehouse.create_view("counterexample", f"SELECT spread FROM ({inner}) UNION SELECT 0.0D")
    try:
        explanation = view.explain()
        assert [(reason.code, reason.operator) for reason in explanation.reasons] == [("FLOAT_AGGREGATE", "var_samp")]
        warehouse.sql("INSERT INTO left_ VALUES (1, 7), (1, -1), (1, 0), (1, 1)")
        done = view.refresh()
        assert isinstance(done, monus.Refresh)
        assert (done.strategy, done.code) == ("full", "FLOAT_AGGREGATE")
        assert view.verify().ok
    finally:
        warehouse.drop_view("counterexample")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, var_samp(x) AS spread FROM left_ GROUP BY k",
        "SELECT DISTINCT mean FROM (SELECT k, avg(x) AS mean FROM left_ GROUP BY k)",
        "SELECT DISTINCT total FROM (SELECT k, sum(CAST(x AS DECIMAL(10, 2))) AS total FROM left_ GROUP BY k)",
    ],
)
def test_aggregates_whose_digits_are_certain_are_incremental(warehouse: monus.Warehouse, query: str) -> None:
    maintained(warehouse, query, ["INSERT INTO left_ VALUES (1, 5), (1, 6)"], ["INSERT INTO left_ VALUES (1, 8)"])


def test_rows_that_leave_among_very_many_copies_are_not_all_held(warehouse: monus.Warehouse) -> None:
    """Every copy of a row that leaves has its hash: those of one value may be the whole table."""
    names = (*(name for name in LIMITS if name.endswith(MERGE)), "monus.maintenance.fold.LEAST_HELD")
    with low_limits(*names):
        done = maintained(
            warehouse,
            "SELECT x FROM left_",
            ["INSERT INTO left_ SELECT id, id % 3 FROM range(300)"],
            ["DELETE FROM left_ WHERE k IN (4, 5)", "INSERT INTO left_ VALUES (1, 7)"],
        )
    assert (done.strategy, done.rows_inserted, done.rows_deleted) == ("merge", 1, 2)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM spelt GROUP BY s COLLATE UTF8_LCASE",
        "SELECT CAST(max(s COLLATE UTF8_LCASE) AS STRING) AS top FROM spelt",
    ],
)
def test_the_spelling_of_equal_strings_is_not_maintained(warehouse: monus.Warehouse, query: str) -> None:
    warehouse.sql("CREATE TABLE spelt (s STRING)")
    view = warehouse.create_view("counterexample", query)
    try:
        assert [reason.code for reason in view.explain().reasons] == ["COLLATION"]
    finally:
        warehouse.drop_view("counterexample")
        warehouse.sql("DROP TABLE spelt")


def test_a_refresh_of_all_never_takes_a_view_back(warehouse: monus.Warehouse) -> None:
    """Another process may refresh a view further than the states that were pinned for all."""
    view = warehouse.create_view("counterexample", "SELECT k FROM left_")
    try:
        pinned = warehouse._pin_tables()
        warehouse.sql("INSERT INTO left_ VALUES (9, 9)")
        view.refresh()
        reached = view.status().vector
        done = warehouse._maintainer.refresh("counterexample", pinned=pinned)
        assert (done.strategy, done.code) == ("none", "NO_CHANGE")
        assert view.status().vector == reached
    finally:
        warehouse.drop_view("counterexample")

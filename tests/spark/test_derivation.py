"""Random queries: the derived change equals the difference of two recomputations."""

from __future__ import annotations

import os
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from monus.frontend.jvm import without_call_sites
from tests.spark.derivation import Derivation, differences, random_case
from tests.spark.random_sql import TABLES

CASES = int(os.environ.get("MONUS_CASES", "240"))
BATCH = 12


@pytest.fixture(scope="module")
def derivation(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Derivation:
    """The tables exist as empty Delta tables, so that Spark can analyse the queries."""
    folder: Path = tmp_path_factory.mktemp("derivation")
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.sql("CREATE DATABASE IF NOT EXISTS derivation")
    session.sql("USE derivation")
    for table, columns in TABLES.items():
        ddl = ", ".join(f"{name} {kind}" for name, kind in columns)
        session.sql(f"CREATE TABLE {table} ({ddl}) USING delta LOCATION '{folder / table}'")
    return Derivation(session, lambda path: path.rsplit("/", 1)[-1])


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_derived_change_is_the_difference(derivation: Derivation, first: int) -> None:
    with without_call_sites():
        tagged = [derivation.tagged(str(seed), random_case(seed)) for seed in range(first, first + BATCH)]
        wrong = differences(reduce(DataFrame.union, tagged).collect())
    queries = "\n".join(f"{seed}: {random_case(int(seed)).query}" for seed in wrong)
    assert not wrong, f"{wrong}\n{queries}"

"""Random sequences on real Delta tables; `make fuzz` runs them for as long as one likes."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import monus
from tests.spark.end_to_end import Sequence, close_warehouse, open_warehouse

SEQUENCES = int(os.environ.get("MONUS_SEQUENCES", "24"))


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[monus.Warehouse]:
    folder: Path = tmp_path_factory.mktemp("sequences")
    opened = open_warehouse(spark, folder, random.Random(0))
    yield opened
    close_warehouse(opened)


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_every_refresh_equals_the_query(warehouse: monus.Warehouse, seed: int) -> None:
    Sequence(warehouse, seed, rounds=2).run()

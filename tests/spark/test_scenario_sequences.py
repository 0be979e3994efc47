"""Random transactions and maintenance under all scenarios; `make fuzz` runs them for as long as one likes."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import monus
from tests.spark.end_to_end import close_warehouse, open_warehouse
from tests.spark.scenario_sequences import Scenarios

SCENARIOS = int(os.environ.get("MONUS_SCENARIOS", "8"))


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[monus.Warehouse]:
    folder: Path = tmp_path_factory.mktemp("scenario_sequences")
    opened = open_warehouse(spark, folder, random.Random(0))
    yield opened
    close_warehouse(opened)


@pytest.mark.parametrize("seed", range(SCENARIOS))
def test_after_every_step_each_view_is_under_its_invariant(warehouse: monus.Warehouse, seed: int) -> None:
    Scenarios(warehouse, seed, steps=5).run()

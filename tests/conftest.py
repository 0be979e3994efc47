"""For all tests: those that need no Spark run first, so that a plain mistake shows within seconds.

Of the others, files that take minutes run before those that take seconds, so that no process is left alone with one.
"""

from __future__ import annotations

import pytest

SPARK_FIXTURE = "spark"
LONG = (
    "test_fault_matrix", "test_end_to_end", "test_scenario_sequences", "test_two_processes", "test_full_disk",
    "test_scenarios", "test_derivation", "test_bad_input",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SPARK_FIXTURE in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    folders = ("unit", "property")

    def rank(item: pytest.Item) -> tuple[bool, int, int]:
        folder = next((i for i, name in enumerate(folders) if name in item.path.parts), len(folders))
        place = LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG)
        return item.get_closest_marker("spark") is not None, folder, place

    items.sort(key=rank)

"""For all tests: those that need no Spark run first, so that a plain mistake shows within seconds."""

from __future__ import annotations

import pytest

SPARK_FIXTURE = "spark"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SPARK_FIXTURE in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    folders = ("unit", "property")

    def rank(item: pytest.Item) -> tuple[bool, int]:
        folder = next((i for i, name in enumerate(folders) if name in item.path.parts), len(folders))
        return item.get_closest_marker("spark") is not None, folder

    items.sort(key=rank)

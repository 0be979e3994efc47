"""A disk that becomes full before and after any durable action of an operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

import monus
from tests.spark.disk_lab import OPERATIONS, Lab, check_in_the_end, shown_of, tried
from tests.spark.small_disk import Reached, free, full_from, points_of, small_disk


@pytest.fixture(scope="module", params=["with the catalog", "without the catalog"])
def full(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Lab, int]]:
    """The warehouse, and which half of the fault points is for it."""
    folder = tmp_path_factory.mktemp("disk")
    catalog = None if request.param == "with the catalog" else str(folder / "catalog.db")
    with small_disk(folder / "small") as disk, monus.connect(disk / "wh", spark=spark, catalog=catalog) as wh:
        yield Lab(wh, disk), 0 if catalog is None else 1


def fails_when_full(lab: Lab, name: str, choose: Callable[[list[Reached | None]], list[Reached | None]]) -> None:
    operation = OPERATIONS[name]
    operation.prepare(lab)
    after = operation.after(lab.state, lab.key)
    reached = points_of(lambda: operation.act(lab.wh, lab.key))
    assert lab.shown(operation.names) == shown_of(after, operation.names)
    lab.state, lab.key = after, lab.key + 1
    for at in choose([None, *reached]):
        operation.prepare(lab)
        error = tried(lab, operation, full_from(lab.disk, at), lambda: free(lab.disk))
        assert at is not None or error is not None, "nothing can be written, so it must fail"


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_full_disk(full: tuple[Lab, int], name: str) -> None:
    """Every fourth fault point on one of the two disks; `make faults` has all of them on both."""
    lab, half = full
    fails_when_full(lab, name, lambda points: points[4 * half :: 8])


def test_after_a_full_disk(full: tuple[Lab, int]) -> None:
    check_in_the_end(full[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_full_disk_at_every_point(full: tuple[Lab, int], name: str) -> None:
    fails_when_full(full[0], name, lambda points: points)
    check_in_the_end(full[0])

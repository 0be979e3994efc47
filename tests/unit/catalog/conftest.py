"""One catalog for each kind of database; every contract test runs over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from monus.catalog.catalog import Catalog
from tests.unit.catalog.samples import FakeClock


@pytest.fixture(params=["sqlite"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty catalog may be made: a path or a URL. Another kind of database is one more parameter."""
    match request.param:
        case "sqlite":
            return str(tmp_path / "catalog.db")
        case other:
            raise ValueError(other)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def catalog(location: str, clock: FakeClock) -> Iterator[Catalog]:
    with Catalog.open(location, clock=clock) as opened:
        yield opened

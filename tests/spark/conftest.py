"""One Spark session for all Spark tests: starting one takes longer than most tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from monus.store.session import jobs_started
from tests.spark.quick_spark import quick_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = quick_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def nothing_stays_cached(request: pytest.FixtureRequest) -> Iterator[None]:
    """What Monus keeps in Spark's cache meanwhile is given back by the end of the test."""
    yield
    if "spark" in request.fixturenames:
        session: SparkSession = request.getfixturevalue("spark")
        cache = session._jsparkSession.sharedState().cacheManager()
        is_empty = cache.isEmpty()
        cache.clearCache()
        assert is_empty, "something was left in Spark's cache"


@pytest.fixture
def warehouse_path(tmp_path: Path) -> Path:
    """A folder for a warehouse, which does not exist yet."""
    return tmp_path / "warehouse"


@dataclass
class JobCount:
    """The number of Spark jobs of a block; known when the block has ended."""

    jobs: int = -1


@pytest.fixture
def job_counter(spark: SparkSession) -> Callable[[], AbstractContextManager[JobCount]]:
    """`with job_counter() as count: ...`, then `assert count.jobs == 3`."""

    @contextmanager
    def counter() -> Iterator[JobCount]:
        count = JobCount()
        before = jobs_started(spark)
        yield count
        count.jobs = jobs_started(spark) - before

    return counter

"""Sessions of Monus's own for maintenance, and the count of the Spark jobs that they start.

Delta keeps the number of a commit in the session, so a session serves one operation at a time.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from monus.frontend.jvm import active, without_call_sites
from monus.store.session import maintenance_session


class SessionPool:
    """Idle sessions by the settings that they were made with."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._idle: dict[frozenset[tuple[str, str]], list[SparkSession]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def session(self, settings: Mapping[str, str]) -> Iterator[SparkSession]:
        key = frozenset(settings.items())
        with self._lock:
            idle = self._idle.setdefault(key, [])
            session = idle.pop() if idle else None
        if session is None:
            session = maintenance_session(self._spark, settings)
        try:
            with active(session), without_call_sites():  # its settings count for every Column that is made meanwhile
                yield session
        finally:
            with self._lock:
                self._idle[key].append(session)


class Cancelled(Exception):
    """The operation is to stop; whoever runs it says so to the user."""


@dataclass
class Jobs:
    """The jobs of one operation: a group that can be counted and cancelled."""

    spark: SparkSession
    group: str
    cancelled: bool = False
    thread: int = field(default_factory=threading.get_ident)

    def count(self) -> int:
        """How many jobs the group has started so far."""
        context: Any = self.spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        return len(self.spark.sparkContext.statusTracker().getJobIdsForGroup(self.group))

    def cancel(self) -> None:
        """Ends the jobs that run; those that would come next are not begun, if `check` is asked before."""
        self.cancelled = True
        self.spark.sparkContext.cancelJobGroup(self.group)

    def check(self) -> None:
        if self.cancelled:
            raise Cancelled


@contextmanager
def job_group(spark: SparkSession, description: str) -> Iterator[Jobs]:
    """Jobs that this thread starts belong to the group, and to whichever they belonged to afterwards."""
    context = spark.sparkContext
    names = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
    before = {name: context.getLocalProperty(name) for name in names}
    jobs = Jobs(spark, f"monus-{uuid.uuid4()}")
    context.setJobGroup(jobs.group, description, interruptOnCancel=True)
    try:
        yield jobs
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)  # type: ignore[arg-type]  # None removes it

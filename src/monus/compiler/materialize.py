"""Small results that are used more than once are computed once and held.

A small one is kept by the driver in Spark's own row format: using it again costs no job, and an
empty one is known to be empty before anything is joined with it. A larger one is cached by Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from monus.compiler.frames import Frame, local_rows

logger = logging.getLogger(__name__)

LOCAL_ROWS = 50_000


@dataclass(slots=True)
class Materializer:
    """Runs what must be known before the plan goes on; `release` frees what Spark has cached."""

    spark: SparkSession
    local_rows: int = LOCAL_ROWS
    on_run: Callable[[str], None] | None = None
    _cached: list[DataFrame] = field(default_factory=list)

    def hold(self, frame: Frame, what: str) -> tuple[Frame, int]:
        """The frame with its rows computed, and how many there are."""
        if self.on_run is not None:
            self.on_run(what)
        if frame.rows <= self.local_rows:
            try:
                return self._collect(frame)
            except Py4JJavaError as error:
                if "maxResultSize" not in str(error.java_exception):
                    raise
                logger.info("%s is larger than expected: cached instead of collected", what)
        data = frame.data.persist()
        self._cached.append(data)
        count = data.count()
        return replace(frame, data=data, known_empty=count == 0, **_size(frame, count)), count

    def release(self) -> None:
        for data in self._cached:
            data.unpersist()
        self._cached.clear()

    def _collect(self, frame: Frame) -> tuple[Frame, int]:
        rows: Any = frame.data._jdf.queryExecution().executedPlan().executeCollect()
        count = len(rows)
        data = local_rows(self.spark, frame.data, rows)
        return replace(frame, data=data, known_empty=count == 0, **_size(frame, count)), count


def _size(frame: Frame, rows: int) -> dict[str, float]:
    total = max(frame.total, float(rows), 1.0)
    return {"total": total, "fraction": rows / total}

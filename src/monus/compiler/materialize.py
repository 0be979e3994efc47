"""Small results that are used more than once are computed once and held.

A small one is kept by the driver in Spark's own row format: using it again costs no job, and an
empty one is known to be empty before anything is joined with it. A larger one is cached by Spark.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from monus.compiler.frames import Frame, local_rows
from monus.compiler.scans import scanned_rows

logger = logging.getLogger(__name__)

LOCAL_ROWS = 50_000


@dataclass(slots=True)
class Materializer:
    """Runs what must be known before the plan goes on; `release` frees what Spark has cached."""

    spark: SparkSession
    local_rows: int = field(default_factory=lambda: LOCAL_ROWS)
    on_run: Callable[[str], None] | None = None
    scanned: Counter[str] = field(default_factory=Counter)
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
        self.scanned += scanned_rows(data._jdf.queryExecution().executedPlan(), filled_cache=True)
        return _resized(frame, data, count), count

    def count(self, data: DataFrame) -> int:
        """The number of rows, without a job where the driver holds them."""
        return len(self._driver_rows(data)) if _is_local(data) else data.count()

    def driver_values(self, data: DataFrame) -> list[Row] | None:
        """The rows, if the driver holds them."""
        return data.collect() if _is_local(data) else None

    def has_true(self, data: DataFrame, name: str) -> bool:
        flags = data.select(name)
        if _is_local(flags):
            return any(row[0] for row in flags.collect())
        return not flags.where(F.col(name)).isEmpty()

    def present(self, data: DataFrame, *names: str) -> list[int]:
        """How many rows have a value in each of these columns."""
        there = data.select(*(F.col(name).isNotNull() for name in names))
        if _is_local(there):
            rows = there.collect()
            return [sum(row[i] for row in rows) for i in range(len(names))]
        counts = data.agg(*(F.count(F.col(name)) for name in names)).first()
        assert counts is not None  # a global count has a row
        return list(counts)

    def signed_totals(self, weights: DataFrame) -> tuple[int, int]:
        """How many copies of rows come and how many go, from the weights of a change."""
        if _is_local(weights):
            found = [row[0] for row in weights.collect()]
            return sum(w for w in found if w > 0), -sum(w for w in found if w < 0)
        weight = F.col(weights.columns[0])
        sums = weights.agg(F.sum(F.when(weight > 0, weight)), F.sum(F.when(weight < 0, -weight))).first()
        assert sums is not None  # a global sum has a row
        return int(sums[0] or 0), int(sums[1] or 0)

    def keep(self, data: DataFrame) -> DataFrame:
        """A large result that is used twice, cached when it is first computed."""
        self._cached.append(data.persist())
        return self._cached[-1]

    def release(self) -> None:
        for data in self._cached:
            data.unpersist()
        self._cached.clear()

    def _collect(self, frame: Frame) -> tuple[Frame, int]:
        rows = self._driver_rows(frame.data)
        count = len(rows)
        return _resized(frame, local_rows(self.spark, frame.data, rows), count), count

    def _driver_rows(self, data: DataFrame) -> Any:
        plan: Any = data._jdf.queryExecution().executedPlan()
        rows = plan.executeCollect()
        self.scanned += scanned_rows(plan)
        return rows


def _is_local(data: DataFrame) -> bool:
    """Whether the optimizer has reduced the plan to rows that the driver holds."""
    name: str = data._jdf.queryExecution().optimizedPlan().getClass().getName()
    return name.endswith(".LocalRelation")


def _resized(frame: Frame, data: DataFrame, rows: int) -> Frame:
    total = max(frame.total, float(rows), 1.0)
    return replace(frame, data=data, known_empty=rows == 0, total=total, fraction=rows / total)

"""How many rows each file scan of an executed plan gave, by the path of its table."""

from __future__ import annotations

from collections import Counter
from typing import Any

from py4j.protocol import Py4JError

from monus.frontend.jvm import class_name, items


def scanned_rows(executed: Any, filled_cache: bool = False) -> Counter[str]:
    """Rows read from files, from the metrics that Spark itself keeps.

    What is reused is read once: an exchange, and a cached result unless this plan filled the cache.
    """
    found: Counter[str] = Counter()
    _count(executed, found, filled_cache)
    return found


def _count(plan: Any, found: Counter[str], filled_cache: bool) -> None:
    # Scans, reused exchanges, cached results, stages and adaptive plans are leaves of a plan; asking for the leaves is
    # one call of the JVM, walking down to them would be four for every node.
    for leaf in items(plan.collectLeaves()):
        kind = class_name(leaf)
        if kind == "FileSourceScanExec":
            path = items(leaf.relation().location().rootPaths())[0].toString()
            found[path] += int(leaf.metrics().apply("numOutputRows").value())
        elif kind == "InMemoryTableScanExec":
            if filled_cache:
                _count(leaf.relation().cachedPlan(), found, False)
        elif kind == "AdaptiveSparkPlanExec":
            _count(leaf.executedPlan(), found, filled_cache)
        elif kind.endswith("QueryStageExec"):
            stage = _stage_plan(leaf)
            if stage is not None:
                _count(stage, found, filled_cache)


def _stage_plan(stage: Any) -> Any | None:
    try:
        return stage.plan()
    except Py4JError:
        return None

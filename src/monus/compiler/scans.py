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
    _walk(executed, found, filled_cache)
    return found


def _walk(node: Any, found: Counter[str], filled_cache: bool) -> None:
    kind = class_name(node)
    if kind == "FileSourceScanExec":
        path = items(node.relation().location().rootPaths())[0].toString()
        found[path] += int(node.metrics().apply("numOutputRows").value())
        return
    if kind == "ReusedExchangeExec":
        return
    if kind == "InMemoryTableScanExec":
        if filled_cache:
            _walk(node.relation().cachedPlan(), found, False)
        return
    if kind == "AdaptiveSparkPlanExec":
        _walk(node.executedPlan(), found, filled_cache)
        return
    for child in [*items(node.children()), *_stage_plan(node, kind)]:
        _walk(child, found, filled_cache)


def _stage_plan(node: Any, kind: str) -> list[Any]:
    if not kind.endswith("QueryStageExec"):
        return []
    try:
        return [node.plan()]
    except Py4JError:
        return []

"""Rows that are read more than once, and must be the same each time.

A query may give other rows when it is computed again: by LIMIT or rand(), or because a table that it reads was
changed in the meantime. A filter or a projection of rows at a fixed version cannot; everything else is
computed once and held by Spark until nobody refers to it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from monus.frontend.jvm import analyzed, class_name, items

FIXED_LEAVES = {"LocalRelation", "OneRowRelation", "Range"}
ROW_BY_ROW = {"SubqueryAlias", "View", "Project", "Filter"}


def settled(frame: DataFrame) -> DataFrame:
    """The same rows under the same attributes, however often they are read."""
    return frame if _is_fixed(analyzed(frame)) else frame.localCheckpoint()


def _is_fixed(plan: Any) -> bool:
    kind = class_name(plan)
    if kind in FIXED_LEAVES:
        return True
    if kind == "LogicalRelation":
        return _is_fixed_version(plan.relation())
    return (
        kind in ROW_BY_ROW
        and plan.deterministic()
        and plan.subqueries().isEmpty()
        and all(_is_fixed(child) for child in items(plan.children()))
    )


def _is_fixed_version(relation: Any) -> bool:
    if class_name(relation) != "HadoopFsRelation":
        return False
    location = relation.location()
    match class_name(location):
        case "TahoeLogFileIndex":
            return bool(location.isTimeTravelQuery())  # otherwise it follows the head of the table
        case "TahoeBatchFileIndex":
            return True
    return False

"""Which names a parsed statement changes.

Commands that only look at a table are listed; whatever else names one is taken for a change, so that a
command that nobody thought of is refused on a view rather than run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from monus.frontend.jvm import class_name, items
from monus.frontend.substitution import INSERTS, NAMES, Parts

LOOKS = {
    "DescribeRelation", "DescribeColumn", "DescribeRelationJsonCommand", "DescribeDeltaDetailCommand",
    "DescribeDeltaHistory", "ShowColumns", "ShowCreateTable", "ShowTableProperties", "ShowPartitions", "AnalyzeTable",
    "AnalyzeColumn", "RefreshTable", "OptimizeTableCommand", "CacheTable", "UncacheTable", "DeltaGenerateCommand",
    "ShowFunctions", "DescribeFunction", "CreateVariable", "DropVariable", "CreateFunction", "DropFunction",
    "CreateUserDefinedFunction",
}  # fmt: skip
CREATES = {"CreateTable", "CreateTableAsSelect", "ReplaceTable", "ReplaceTableAsSelect", "CreateView"}


def changed_targets(plan: Any) -> Iterator[Any]:
    """The unresolved nodes that stand for what a statement changes, also behind WITH and in several INSERTs."""
    kind = class_name(plan)
    if kind in INSERTS or kind in ("UpdateTable", "DeleteFromTable", "RestoreTableStatement"):
        yield plan.table()
    elif kind == "MergeIntoTable":
        yield plan.targetTable()
    elif kind not in LOOKS | CREATES:
        yield from (child for child in items(plan.children()) if class_name(child) in NAMES)
    if kind in ("UnresolvedWith", "Union"):
        for child in items(plan.children()):
            yield from changed_targets(child)


def identifier_parts(plan: Any) -> Parts:
    """The name that a command is about."""
    for node in [plan, *items(plan.children())]:
        match class_name(node):
            case "UnresolvedIdentifier":
                return tuple(items(node.nameParts()))
            case "UnresolvedTable" | "UnresolvedTableOrView" | "UnresolvedView":
                return tuple(items(node.multipartIdentifier()))
    return ("",)

"""Screening by columns (Zhou et al., readily ignorable updates): no row is looked at, so the user never waits for it.

An UPDATE that sets only columns that a view does not read leaves the view as it is: the rows are as many as before, and
what the view sees of them is the same. That a view reads no other columns is only known where its query is understood.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from monus.catalog.tasks import Ignores
from monus.frontend.dml_rows import GENERATED
from monus.frontend.jvm import class_name, items
from monus.store.delta_table import Snapshot


def ignores_columns(plan: Any, table: Snapshot) -> Ignores | None:
    """For a parsed statement on the table by its own name: which views need not know of it; None if all do."""
    changed = _columns_set(plan, table)
    if changed is None:
        return None

    def ignores(definition: Mapping[str, Any], source: str) -> bool:
        read = definition.get("reads", {}).get(source)
        if read is None or not definition.get("is_understood") or definition.get("may_change"):
            return False
        return not changed & {name.lower() for name in read}

    return ignores


def is_alone(result: DataFrame, before: Snapshot, head: int) -> bool:
    """Whether the UPDATE that gave this result is all that was committed since: others are not in its way, and count.

    One that changes no row makes no commit, and then the one that is there is somebody else's.
    """
    return head == before.version + 1 and any(row[0] > 0 for row in result.collect())


def _columns_set(plan: Any, table: Snapshot) -> set[str] | None:
    if class_name(plan) != "UpdateTable" or any(GENERATED in field.metadata for field in table.schema):
        return None  # a generated column follows those that it is computed from
    columns, found = {name.lower() for name in table.schema.names}, set[str]()
    for assignment in items(plan.assignments()):
        if class_name(assignment.key()) != "UnresolvedAttribute":
            return None
        # The column may stand behind an alias, and before the name of a field: whichever word is one counts.
        named = {str(part).lower() for part in items(assignment.key().nameParts())} & columns
        if not named:
            return None
        found |= named
    return found

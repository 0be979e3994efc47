"""Screening by columns (Zhou et al., readily ignorable updates): no row is looked at, so the user never waits for it.

An UPDATE that sets only columns that a view does not read leaves the view as it is: the rows are as many as before, and
what the view sees of them is the same. That a view reads no other columns is only known where its query is understood.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monus.catalog.tasks import Ignores
from monus.frontend.dml_rows import GENERATED
from monus.frontend.jvm import class_name, items
from monus.store.delta_table import DeltaTable, Snapshot
from monus.store.log import commits


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


def is_only_update(table: DeltaTable, before: Snapshot, reached: int) -> bool:
    """Whether nothing but an UPDATE lies between: an INSERT of somebody else is not in its way, and counts."""
    between = commits(table, before.version, reached) if reached == before.version + 1 else []
    return [commit.operation for commit in between] == ["UPDATE"]


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

"""What a change of a table's schema means for reading what was written before it.

A stored column is known by its physical name, which a rename under column mapping keeps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from monus.errors import SourceSchemaChanged
from monus.store.log import HasLog, Metadata


def only_adds_columns(older: Metadata, newer: Metadata) -> bool:
    """Whether all old columns are there under the same name, in the same place, with the same type."""
    if older.schema_json == newer.schema_json and older.partition_columns == newer.partition_columns:
        return True
    new = {(field["name"], _physical_name(field)): field["type"] for field in _fields(newer)}
    return older.partition_columns == newer.partition_columns and all(
        new.get((field["name"], _physical_name(field))) == field["type"] for field in _fields(older)
    )


def check_kept(table: HasLog, older: Metadata, newer: Metadata) -> None:
    """Rows that are yet to come have a place for each of their columns."""
    known = {_physical_name(field) for field in _fields(newer)}
    gone = tuple(str(field["name"]) for field in _fields(older) if _physical_name(field) not in known)
    if gone:
        raise SourceSchemaChanged(
            f"The columns {', '.join(gone)} of {table.path} were dropped, and rows that are to come have them.",
            "Add them again, or restore the table.",
            table=table.path,
            columns=gone,
        )


def check_readable(table: HasLog, older: Metadata, newer: Metadata) -> None:
    """Files written under one schema can be read under another if no stored column changed its type or place."""
    if older.schema_json == newer.schema_json and older.partition_columns == newer.partition_columns:
        return
    new = {_physical_name(field): field for field in _fields(newer)}
    widens = newer.configuration.get("delta.enableTypeWidening", "false").lower() == "true"
    changed = [
        field["name"]
        for field in _fields(older)
        if _physical_name(field) in new and new[_physical_name(field)]["type"] != field["type"] and not widens
    ]
    if older.partition_columns != newer.partition_columns:
        changed += [name for name in older.partition_columns if name not in newer.partition_columns]
        changed += [name for name in newer.partition_columns if name not in older.partition_columns]
    if changed:
        raise SourceSchemaChanged(
            f"The type or the partitioning of {', '.join(changed)} in {table.path} changed, "
            "so what the table had before cannot be read any more as what it has now.",
            "Refresh the view in full.",
            table=table.path,
            columns=tuple(changed),
        )


def _fields(metadata: Metadata) -> list[dict[str, Any]]:
    return list(json.loads(metadata.schema_json)["fields"])


def _physical_name(field: Mapping[str, Any]) -> str:
    return str(field["metadata"].get("delta.columnMapping.physicalName", field["name"]))

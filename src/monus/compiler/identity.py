"""Binary identity: what makes two values the same value, not only equal.

Grouping and joining take −0.0 for 0.0 and, under a collation, 'a' for 'A'; maps cannot be grouped
by at all. Rows are told apart by these keys instead, so that no change is lost.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def is_plain(type_name: str) -> bool:
    """Whether equality of the type already is identity."""
    lowered = type_name.lower()
    return not any(word in lowered for word in ("float", "double", "map<", "collate", "variant"))


def identity_key(column: Column, type_name: str) -> Column:
    """An expression that is equal exactly for identical values; NULL stays NULL."""
    lowered = type_name.lower()
    if is_plain(type_name):
        return column
    if lowered in ("float", "double"):
        return column.cast("string")
    if lowered.startswith("string"):
        return column.cast("binary")
    if lowered.startswith("map<"):
        return F.to_json(F.struct(F.sort_array(F.map_entries(column)).alias("m")), {"ignoreNullFields": "false"})
    return F.to_json(F.struct(column.alias("v")), {"ignoreNullFields": "false"})

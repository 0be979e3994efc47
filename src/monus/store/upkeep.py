"""Upkeep of a table: fewer and larger files, no files that nobody needs, no batches that were folded in.

Nothing here removes what a version that is still needed reads. VACUUM removes a file when it was removed from the
table longer ago than the retention, so the retention reaches back to the first removal after that version.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as F

from monus.store.apply import TxnNumber, numbered_commit, session_settings
from monus.store.delta_table import DeltaTable
from monus.store.faults import storage_faults
from monus.store.jvm import java, java_session
from monus.store.log import commits

DEFAULT_RETENTION_HOURS = 168.0
# Clocks of writers differ, and a change file is written some time before its commit.
_MARGIN_HOURS = 1.0


def optimize(table: DeltaTable) -> int | None:
    """Compact small files; the version of that commit, or None where there was nothing to compact."""
    with numbered_commit(table, table.spark) as outcome:
        _delta(table).optimize().executeCompaction()
    return outcome.version


def vacuum(table: DeltaTable, retain_versions_from: int, min_retention_hours: float = DEFAULT_RETENTION_HOURS) -> float:
    """Remove files that no version from `retain_versions_from` on needs; returns the hours that were retained.

    A retention below the default of seven days is for callers that know that no other writer is at work: VACUUM
    would take the files that a commit under way has written, but not yet committed, for garbage.
    """
    hours = float(max(min_retention_hours, _needed_hours(table, retain_versions_from)))
    settings = {
        # Delta refuses a retention below the table's own setting; the versions needed are what decides here.
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        # VACUUM lists the folder in this many tasks. The default of 10,000 takes a minute for the smallest table.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(
            4 * table.spark.sparkContext.defaultParallelism
        ),
    }
    with session_settings(table.spark, settings), storage_faults(table.path):
        _delta(table).vacuum(hours)
    return hours


def delete_partitions(
    table: DeltaTable, column: str, values: Sequence[Any], number: TxnNumber | None = None
) -> int | None:
    """Drop whole partitions, which changes the log only: no data file is read or written."""
    if not values:
        return None
    condition = F.col(f"`{column.replace('`', '``')}`").isin(list(values))
    with numbered_commit(table, table.spark, number) as outcome:
        _delta(table).delete(condition._jc)
    return outcome.version


def _needed_hours(table: DeltaTable, version: int) -> float:
    """How long ago the first file that `version` or a later one reads was removed, or its change file written."""
    moments = []
    for commit in commits(table, version, table.version()):
        # Change files have no time of their own, but were written together with the new data files.
        written = [file for file in commit.adds if commit.cdc and file.dv is None]
        moments += [file.timestamp for file in (*commit.removes, *written)] + [commit.timestamp]
    moments = [moment for moment in moments if moment is not None]
    if not moments:
        return 0.0
    return math.ceil((time.time() - min(moments) / 1000) / 3600) + _MARGIN_HOURS


def _delta(table: DeltaTable) -> Any:
    return java(table.spark).io.delta.tables.DeltaTable.forPath(java_session(table.spark), table.path)

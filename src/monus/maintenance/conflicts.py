"""First committer wins: whether what a transaction takes away was taken by another one since it began.

Rows are told apart by binary identity. Rows that only come never conflict; where all rows are to leave, any other
change since the begin is a conflict, because the statement meant the rows that it saw.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.compiler.identity import identity_key
from monus.compiler.materialize import Materializer
from monus.errors import SourceHistoryLost, SourceSchemaChanged, TransactionConflict
from monus.frontend.jvm import quoted
from monus.maintenance.fold import consolidated_change
from monus.maintenance.layout import WEIGHT
from monus.maintenance.sources import TableSource
from monus.maintenance.staging import Net, StagedTable, read_rows
from monus.store.changes import read_change, summarize_change
from monus.store.written_files import layout

SHOWN = 3


def check_conflicts(
    spark: SparkSession, staged: StagedTable, net: Net, now: TableSource, materializer: Materializer
) -> None:
    """`now` is the table as the transaction finds it at its end."""
    begin, name = staged.snapshot, staged.record.name
    if now.snapshot.table_id != begin.table_id:
        raise _conflict(name, "It was dropped and created again since.")
    if now.snapshot.version == begin.version:
        return
    try:
        summary = summarize_change(staged.table(spark), begin.version, now.snapshot)
    except (SourceHistoryLost, SourceSchemaChanged) as error:
        raise _conflict(name, f"What happened to it since is not known: {error.message}") from error
    if now.snapshot.schema_json != begin.schema_json or layout(now.snapshot) != layout(begin):
        raise _conflict(name, "Its columns or constraints were changed since.")
    if summary.kind == "none" or (net.deletes is None and not net.replaces_all):
        return
    if net.replaces_all:
        raise _conflict(name, "All of its rows were to leave, and others were changed since.")
    assert net.deletes is not None
    change = consolidated_change(read_change(staged.table(spark), summary), staged.columns, materializer)
    theirs = change.data.where(F.col(WEIGHT) < 0)
    ours = read_rows(spark, staged.columns, net.deletes)
    both = _in_both(ours, theirs, staged)
    found = both.limit(SHOWN).collect()
    if found:
        rows = ", ".join(str(row.asDict()) for row in found)
        raise _conflict(name, f"Rows that it changes were changed first by another one: {rows}.")


def _in_both(ours: DataFrame, theirs: DataFrame, staged: StagedTable) -> DataFrame:
    left, right = ours.alias("ours"), theirs.alias("theirs")
    on = F.lit(True)
    for column in staged.columns:
        a, b = (identity_key(F.col(f"{side}.{quoted(column.name)}"), column.type) for side in ("ours", "theirs"))
        on = on & a.eqNullSafe(b)
    return left.join(right, on, "left_semi").drop(WEIGHT)


def _conflict(table: str, why: str) -> TransactionConflict:
    return TransactionConflict(
        f"The transaction changes the table '{table}', which another one changed since it began. {why}",
        "Nothing of it was written; run it again.",
        table=table,
    )

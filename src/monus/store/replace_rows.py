"""Rows of a table taken out and others put in, in one commit and without a job that finds files.

*Add*: files come. *Replace all*: every file leaves, others come. *Retract*: rows found by file and position are marked
in deletion vectors, so that a commit writes what changed and no more. Delta's own commands do the same, but find the
files and the used numbers by jobs of their own first, and a MERGE looks for its rows twice. Here a transaction of
Delta is given the actions.

What takes rows out counts the whole table as read: a writer that came in between makes Delta refuse the commit.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from monus.store.apply import TxnNumber, numbered_commit, overwrite
from monus.store.delta_table import DeltaTable, Snapshot
from monus.store.jvm import items, java_class, java_session, none, scala_object, seq, some
from monus.store.listing import listed_files

FILE, ROW = "__file", "__row"
_COMMANDS = "org.apache.spark.sql.delta.commands"


def can_retract(table: DeltaTable, snapshot: Snapshot) -> bool:
    """Whether the table takes deletion vectors, and its files are known without a job, with their number of rows."""
    vectors = scala_object(table.spark, f"{_COMMANDS}.DeletionVectorUtils")
    nothing = none(table.spark)
    if not vectors.deletionVectorsWritable(snapshot.jvm, nothing, nothing):
        return False
    files = listed_files(table, snapshot.jvm)
    return files is not None and all(file.stats() for file in items(files))


def read_with_positions(table: DeltaTable, snapshot: Snapshot) -> DataFrame:
    """The rows with the file that each is in and its place there, as `retract` wants them."""
    rows = table.read_listed(snapshot)
    place = (F.col("_metadata.file_path").alias(FILE), F.col("_metadata.row_index").alias(ROW))
    return rows.select("*", *place)


def add(
    table: DeltaTable,
    snapshot: Snapshot,
    rows: DataFrame | None,
    number: TxnNumber | None = None,
    metadata: str | None = None,
) -> int | None:
    """Put in `rows`, which have the table's columns; None, with nothing done, if the number was used.

    Without rows the commit only uses the number up.
    """
    with numbered_commit(table, table.spark, metadata=metadata) as outcome:
        txn = _begin(table, snapshot, number)
        if txn is None:
            return None
        outcome.version = _commit(table, txn, number, () if rows is None else items(txn.writeFiles(rows._jdf)))
    return outcome.version


def retract(
    table: DeltaTable,
    snapshot: Snapshot,
    places: DataFrame,
    expected: int,
    inserts: DataFrame | None,
    number: TxnNumber,
    metadata: str,
) -> int | None:
    """Take out the rows at `places` and put in `inserts`; None, with nothing done, if the number was used.

    `places` has `__file` and `__row`; RowsMissing unless there are as many as expected.
    """
    files = listed_files(table, snapshot.jvm)
    assert files is not None
    session = java_session(table.spark)
    bitmaps = scala_object(table.spark, f"{_COMMANDS}.DeletionVectorBitmapGenerator")
    helper = scala_object(table.spark, f"{_COMMANDS}.DMLWithDeletionVectorsHelper")
    with numbered_commit(table, table.spark, metadata=metadata) as outcome:
        txn = _begin(table, snapshot, number)
        if txn is None:
            return None
        txn.readWholeTable()
        file, row = (some(table.spark, F.col(name)._jc) for name in (FILE, ROW))
        always = java_class(table.spark, "org.apache.spark.sql.catalyst.expressions.Literal.TrueLiteral")()
        has_vectors = any(file.deletionVector() is not None for file in items(files))
        found = bitmaps.buildRowIndexSetsForFilesMatchingCondition(
            session, txn, has_vectors, places._jdf, files, always, file, row
        )
        count = sum(int(each.matchedRowCount()) for each in items(found))
        if count != expected:
            raise RowsMissing(count, expected)
        by_name = helper.generateCandidateFileMap(table.delta_log().dataPath(), files)
        touched = helper.findFilesWithMatchingRows(txn, by_name, found)
        actions = [action for file in items(touched) for action in _without_rows(file)]
        if inserts is not None:
            actions += items(txn.writeFiles(inserts._jdf))
        outcome.version = _commit(table, txn, number, actions)
    return outcome.version


def replace_all(table: DeltaTable, snapshot: Snapshot, rows: DataFrame, number: TxnNumber, metadata: str) -> int | None:
    """Put `rows`, which may be derived from the snapshot, in the place of all that it has."""
    files = listed_files(table, snapshot.jvm)
    if files is None:
        return overwrite(table, rows, number, metadata, snapshot)
    with numbered_commit(table, table.spark, metadata=metadata) as outcome:
        txn = _begin(table, snapshot, number)
        if txn is None:
            return None
        txn.readWholeTable()
        new = items(txn.writeFiles(rows._jdf))
        now = int(time.time() * 1000)
        gone = [file.removeWithTimestamp(now, True) for file in items(files)]
        outcome.version = _commit(table, txn, number, [*gone, *new])
    return outcome.version


class RowsMissing(Exception):
    """Not all rows that were to be taken out are there."""

    def __init__(self, found: int, expected: int) -> None:
        super().__init__(f"{found} of {expected} rows were found")
        self.found = found
        self.expected = expected


def _without_rows(touched: Any) -> list[Any]:
    """The file leaves and comes back with its deletion vector, unless no row of it is left."""
    file = touched.fileLogEntry()
    if touched.isFullyReplaced():
        return [file.removeWithTimestamp(int(time.time() * 1000), True)]
    pair = file.removeRows(touched.newDeletionVector(), True, True)  # its statistics become bounds
    return [pair._1(), pair._2()]


def _begin(table: DeltaTable, snapshot: Snapshot, number: TxnNumber | None) -> Any | None:
    """A transaction over the snapshot; None if the number was used before."""
    txn = table.delta_log().startTransaction(none(table.spark), some(table.spark, snapshot.jvm))
    if number is None:
        return txn
    checksum = snapshot.jvm.checksumOpt()
    used = checksum.get().setTransactions() if checksum.isDefined() else checksum
    if used.isDefined():
        txn.readTxn().addOne(number.app_id)  # a rival that uses the number meanwhile is a conflict
        last = max((int(each.version()) for each in items(used.get()) if each.appId() == number.app_id), default=-1)
    else:
        last = int(txn.txnVersion(number.app_id))  # the same by a job
    return txn if last < number.version else None


def _commit(table: DeltaTable, txn: Any, number: TxnNumber | None, actions: Iterable[Any]) -> int:
    if number is not None:
        used = java_class(table.spark, "org.apache.spark.sql.delta.actions.SetTransaction")(
            number.app_id, number.version, some(table.spark, int(time.time() * 1000))
        )
        actions = [used, *actions]
    # For an UPDATE Delta derives the checksum of the new version from that of the old one; for a manual update it
    # would replay the log.
    operation = java_class(table.spark, "org.apache.spark.sql.delta.DeltaOperations$Update")(none(table.spark))
    return int(txn.commit(seq(table.spark, actions), operation))

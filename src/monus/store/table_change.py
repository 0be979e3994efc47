"""A change of a table of users as one numbered commit; the rows that come were written before, as files.

Files come, which runs no job; or all files leave; or rows leave: they are marked in deletion vectors, and where the
table takes none, the files that hold them are written anew without them.

Where the change feed is on and rows leave, the commit has change files with exactly the rows that leave and come, so
that a reader of the feed reads these and not whole files. Otherwise the files of the commit are its change.

Who comes between the snapshot and the commit is a conflict (ViewBusy: take a new snapshot and try again) if he changed
the table's metadata, or removed a file from which rows leave. Where all files leave, or rows leave a table without
partitions, Delta takes the table as read, and files that somebody added are a conflict too. Files that only come are in
nobody's way.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from monus.store.apply import TxnNumber, numbered_commit
from monus.store.changes import has_change_feed
from monus.store.delta_table import DeltaTable, Snapshot
from monus.store.delta_transaction import Operation, all_files, begin, commit, marked, removed
from monus.store.jvm import items, java_class, java_session, none, scala_object, seq, some
from monus.store.leaving_rows import COPIES, HERE, LEAVING, Identity, LeavingRows, held, look_at, with_files
from monus.store.listing import MOST_FILES
from monus.store.log import Commit, FileAction, commits
from monus.store.replace_rows import FILE, ROW
from monus.store.written_files import fitting_actions, parsed, read_written, remove_written, write_files

__all__ = ["COPIES", "Identity", "TableCommit", "commit_change", "read_written", "remove_written", "write_files"]

FEW_ROWS = 100_000  # are written as one file, because each costs a task now and at every read

_COMMANDS = "org.apache.spark.sql.delta.commands"
_CHANGE_TYPE = "_change_type"


@dataclass(frozen=True, slots=True)
class TableCommit:
    """The version, None if the number was used before; how many copies that were to leave were not there."""

    version: int | None
    missing: int = 0


def commit_change(
    table: DeltaTable,
    snapshot: Snapshot,
    adds: Sequence[str],
    deletes: DataFrame | None,
    number: TxnNumber,
    metadata: str | None = None,
    replace_all: int | None = None,
    identity: Identity | None = None,
) -> TableCommit:
    """Put in the files `adds` of `write_files`, and take out the rows `deletes`, or all that were there at the version
    `replace_all`: files that others have added since stay, as if they had come afterwards.

    `deletes` has the table's columns and `__copies`: each row once, as told apart by `identity`, with the number of
    copies that leave. Those that are not there are counted, and the others leave all the same.
    """
    with numbered_commit(table, table.spark, metadata=metadata) as outcome:
        txn = begin(table, snapshot, number)
        if txn is None:
            return TableCommit(None)
        come = fitting_actions(table, snapshot, txn, adds)
        gone, missing = [], 0
        if replace_all is not None:
            assert deletes is None, "all rows leave: which ones is not asked"
            txn.readWholeTable()
            later = {file.path for each in commits(table, replace_all, snapshot.version) for file in _brought(each)}
            gone = removed(file for file in items(all_files(table, snapshot)) if str(file.path()) not in later)
        elif deletes is not None:
            assert identity is not None, "rows are told apart by the identity of their columns"
            gone, missing = _without(table, snapshot, txn, deletes, identity, adds)
        operation: Operation = "append"
        if gone:
            operation = "update" if replace_all is None else "overwrite" if adds else "truncate"
        outcome.version = commit(table, txn, number, [*gone, *come], operation)
    return TableCommit(outcome.version, missing)


def _without(
    table: DeltaTable, snapshot: Snapshot, txn: Any, deletes: DataFrame, identity: Identity, adds: Sequence[str]
) -> tuple[list[Any], int]:
    """The actions by which rows leave, with the change files of the whole commit, and how many rows are not there."""
    with held(deletes) as rows:
        leaving = look_at(table, snapshot, rows, identity)
        files = all_files(table, snapshot)
        if not leaving.copies or not files.size():
            return [], leaving.copies
        change = _Change(table, snapshot, txn, files, leaving, adds)
        out, count = change.marked() or change.rewritten()
    return out, leaving.copies - count


@dataclass(frozen=True, slots=True)
class _Change:
    """Rows that leave, in a transaction; each way gives its actions, and how many rows leave."""

    table: DeltaTable
    snapshot: Snapshot
    txn: Any
    files: Any
    leaving: LeavingRows
    adds: Sequence[str]

    def marked(self) -> tuple[list[Any], int] | None:
        """By deletion vectors; None where the table takes none, or a file does not tell its number of rows."""
        nothing = none(self.table.spark)
        if not self._helper("DeletionVectorUtils").deletionVectorsWritable(self.snapshot.jvm, nothing, nothing):
            return None
        places = self.leaving.places()
        with held(places) if self._has_feed() else nullcontext(places) as places:
            touched = self._touched(places)
            if not all(file.fileLogEntry().numPhysicalRecords().isDefined() for file, _ in touched):
                return None
            out, count = [action for file, _ in touched for action in marked(file)], sum(rows for _, rows in touched)
            if touched and self._has_feed():
                rows = self._typed(places, "delete").unionAll(self._coming())
                out += self._write(self._in_few_files(rows, count))
        return out, count

    def rewritten(self) -> tuple[list[Any], int]:
        """Files that hold rows that leave are written anew, in one pass with the change files."""
        with held(self.leaving.by_file()) as by_file:
            counts = {row[0]: int(row[1]) for row in by_file.groupBy(FILE).agg(F.sum(LEAVING)).collect()}
            if not counts:
                return [], 0
            log, by_name = self.table.delta_log(), self._by_name()
            files = [self._commands().getTouchedFile(log.dataPath(), name, by_name) for name in counts]
            stored = log.createDataFrame(self.snapshot.jvm, seq(self.table.spark, files), False, none(self.table.spark))
            kept = self.leaving.others(with_files(DataFrame(stored, self.table.spark)), by_file)
            again = _copies(by_file, F.col(HERE) - F.col(LEAVING))
            if self._has_feed():
                gone = self._typed(_copies(by_file, F.col(LEAVING)), "delete")
                kept, rest = self._typed(kept, None), self._typed(again, None).unionAll(gone).unionAll(self._coming())
            else:
                rest = again.select(*self.leaving.columns)
            kept = kept.unionAll(self._in_few_files(rest, sum(counts.values())))
            out = [*removed(files), *self._write(kept)]
        return out, sum(counts.values())

    def _touched(self, places: DataFrame) -> list[tuple[Any, int]]:
        """The files with these places, each with its new deletion vector, and how many places there are."""
        spark = self.table.spark
        always = java_class(spark, "org.apache.spark.sql.catalyst.expressions.Literal.TrueLiteral")()
        file, row = (some(spark, F.col(name)._jc) for name in (FILE, ROW))
        # Of many files it is not asked whether one has a vector already.
        has_vectors = self.files.size() > MOST_FILES or any(f.deletionVector() is not None for f in items(self.files))
        found = self._helper("DeletionVectorBitmapGenerator").buildRowIndexSetsForFilesMatchingCondition(
            java_session(spark), self.txn, has_vectors, places._jdf, self.files, always, file, row
        )
        touched = self._commands().findFilesWithMatchingRows(self.txn, self._by_name(), found)
        counts = {str(each.filePath()): int(each.matchedRowCount()) for each in items(found)}
        return [(each, counts[str(each.inputFilePath())]) for each in items(touched)]

    def _in_few_files(self, rows: DataFrame, leave: int) -> DataFrame:
        come = sum(file.num_records or FEW_ROWS for file in parsed(self.adds))
        return rows.coalesce(1) if leave + come <= FEW_ROWS else rows

    def _coming(self) -> DataFrame:
        rows = read_written(self.table, self.snapshot, self.adds)
        return self._typed(rows.toDF(*self.leaving.columns), "insert")

    def _typed(self, rows: DataFrame, change_type: str | None) -> DataFrame:
        """Rows for a change file, or without a type for the table itself."""
        return rows.select(*self.leaving.columns, F.lit(change_type).cast("string"))

    def _write(self, rows: DataFrame) -> list[Any]:
        names = [field.name for field in self.snapshot.schema.fields]
        return items(self.txn.writeFiles(rows.toDF(*names, *[_CHANGE_TYPE] * self._has_feed())._jdf))

    def _has_feed(self) -> bool:
        return has_change_feed(self.snapshot)

    def _by_name(self) -> Any:
        return self._commands().generateCandidateFileMap(self.table.delta_log().dataPath(), self.files)

    def _commands(self) -> Any:
        return self._helper("DMLWithDeletionVectorsHelper")

    def _helper(self, name: str) -> Any:
        return scala_object(self.table.spark, f"{_COMMANDS}.{name}")


def _brought(commit: Commit) -> list[FileAction]:
    """The files of a commit that only adds rows; others may have rows in them that were there before."""
    return [] if commit.removes else [file for file in commit.adds if file.data_change]


def _copies(rows: DataFrame, number: Column) -> DataFrame:
    repeated = F.explode(F.array_repeat(F.lit(True), number.cast("int"))).alias("__copy")
    return rows.select("*", repeated)

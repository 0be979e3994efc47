"""What a transaction has done so far, as signed rows of each table; nobody else sees any of it.

Rows that an INSERT brings are written as files of the table that its log does not have, so that Delta checks them
against the table's constraints at once and the commit has only the log to write. All else is held as signed rows,
and becomes files when the transaction commits: what comes as files of the table, what leaves in the staging area.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.algebra.scalars import Column
from monus.catalog.records import TableRecord
from monus.compiler.materialize import Materializer
from monus.frontend.jvm import quoted
from monus.maintenance.ahead import Ahead
from monus.maintenance.fold import Target as Table
from monus.maintenance.fold import consolidated_change, copies_of, signed
from monus.maintenance.layout import WEIGHT, folder_of
from monus.store.delta_table import DeltaTable, Snapshot
from monus.store.faults import storage_faults
from monus.store.leaving_rows import COPIES
from monus.store.written_files import parsed, read_written, remove_written, write_files

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Net:
    """What a transaction does to a table in the end; can be stored, and committed by whoever finds it."""

    adds: tuple[str, ...] = ()
    deletes: str | None = None
    inserted: int = 0
    deleted: int = 0
    replaces_all: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.adds and self.deletes is None and not self.replaces_all

    def to_json(self) -> dict[str, Any]:
        return {
            "adds": list(self.adds),
            "deletes": self.deletes,
            "inserted": self.inserted,
            "deleted": self.deleted,
            "replaces_all": self.replaces_all,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Net:
        return cls(
            tuple(stored["adds"]), stored["deletes"], stored["inserted"], stored["deleted"], stored["replaces_all"]
        )


@dataclass(slots=True)
class StagedTable:
    """A table in a transaction: its snapshot at the begin, and in order what was done since."""

    record: TableRecord
    snapshot: Snapshot
    adds: list[str] = field(default_factory=list)
    """The files that INSERTs wrote, as long as nothing but INSERTs came."""
    signed: list[DataFrame] = field(default_factory=list)
    replaces_all: bool = False
    written: list[str] = field(default_factory=list)
    """Every file that was written for it, to be removed unless it is committed."""

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(f.name, f.dataType.simpleString()) for f in self.snapshot.schema.fields)

    def table(self, spark: SparkSession) -> DeltaTable:
        return DeltaTable(spark, self.record.location)

    def target(self, spark: SparkSession) -> Table:
        return Table(self.record.name, self.table(spark), self.snapshot, self.columns, None)

    @property
    def is_untouched(self) -> bool:
        return not (self.adds or self.signed or self.replaces_all)

    def write(self, spark: SparkSession, rows: DataFrame) -> tuple[str, ...]:
        """Rows that are to come, as files that are not part of the table yet."""
        adds = write_files(self.table(spark), self.snapshot, self._ordered(rows))
        self.written += adds
        return adds

    def evaluate(self, rows: DataFrame, materializer: Materializer) -> DataFrame | None:
        """Signed rows, computed once and consolidated; None where they cancel out."""
        found = consolidated_change(rows, self.columns, materializer)
        return None if found.is_empty else found.data

    def replace(self) -> None:
        """Every row leaves."""
        self.adds.clear()
        self.signed.clear()
        self.replaces_all = True

    def ahead(self, spark: SparkSession, materializer: Materializer) -> Ahead:
        """What is staged, as a change of the table as it was at the begin."""
        if not self.signed:
            return Ahead(self._written_rows, self._rows_in(spark, self.adds), 0, self.replaces_all)
        parts = [*self.signed, *([self._written_rows(spark)] if self.adds else [])]
        union = reduce(DataFrame.unionByName, parts)
        found = consolidated_change(union, self.columns, materializer)
        return Ahead(lambda _: found.data, found.inserted, found.deleted, self.replaces_all)

    def net(self, spark: SparkSession, staging: str, materializer: Materializer) -> Net:
        """Everything made durable: consolidated, so that it is weakly minimal, and strongly so."""
        if not self.signed:
            return Net(tuple(self.adds), None, self._rows_in(spark, self.adds), 0, self.replaces_all)
        ahead = self.ahead(spark, materializer)
        adds: tuple[str, ...] = ()
        data, path = ahead.read(spark), None
        weight = F.col(WEIGHT)
        if ahead.inserted:
            comes = copies_of(self.target(spark), data.where(weight > 0))
            adds = write_files(self.table(spark), self.snapshot, comes)
            self.written += adds
        if ahead.deleted:
            path = f"{staging}/{folder_of(self.record.name)}"
            write_rows(data.where(weight < 0), self.columns, path)
        return Net(adds, path, ahead.inserted, ahead.deleted, self.replaces_all)

    def forget(self, spark: SparkSession, committed: Sequence[str] = ()) -> None:
        """Remove what was written for nothing."""
        gone = [file for file in self.written if file not in set(committed)]
        if gone:
            remove_written(self.table(spark), gone)

    def _rows_in(self, spark: SparkSession, adds: Sequence[str]) -> int:
        counts = [file.num_records for file in parsed(adds)]
        known = [count for count in counts if count is not None]
        if len(known) == len(counts):
            return sum(known)
        return read_written(self.table(spark), self.snapshot, adds).count()  # Delta was told to keep no statistics

    def _written_rows(self, spark: SparkSession) -> DataFrame:
        return signed(read_written(self.table(spark), self.snapshot, self.adds), 1)

    def _ordered(self, rows: DataFrame) -> DataFrame:
        return rows.select(*(F.col(quoted(c.name)) for c in self.columns))


def net_rows(spark: SparkSession, record: TableRecord, snapshot: Snapshot, net: Net) -> DataFrame:
    """The signed rows of what was made durable; without the rows that leave because all do."""
    columns = tuple(Column(f.name, f.dataType.simpleString()) for f in snapshot.schema.fields)
    parts = []
    if net.adds:
        parts.append(signed(read_written(DeltaTable(spark, record.location), snapshot, net.adds), 1))
    if net.deletes is not None:
        parts.append(read_rows(spark, columns, net.deletes))
    if not parts:
        return signed(DeltaTable(spark, record.location).read(snapshot).where("false"), 1)
    return reduce(DataFrame.unionByName, parts)


def net_ahead(record: TableRecord, snapshot: Snapshot, net: Net) -> Ahead:
    return Ahead(lambda spark: net_rows(spark, record, snapshot, net), net.inserted, net.deleted, net.replaces_all)


def write_rows(rows: DataFrame, columns: Sequence[Column], path: str) -> None:
    """Signed rows under names that every file format takes."""
    plain = [F.col(quoted(c.name)).alias(f"c{i}") for i, c in enumerate(columns)]
    with storage_faults(path):
        rows.select(*plain, F.col(WEIGHT)).write.mode("overwrite").parquet(path)


def read_rows(spark: SparkSession, columns: Sequence[Column], path: str) -> DataFrame:
    stored = spark.read.parquet(path)
    return stored.select(*(F.col(f"c{i}").alias(c.name) for i, c in enumerate(columns)), F.col(WEIGHT))


def leaving(rows: DataFrame) -> DataFrame:
    """Signed rows that leave, with the number of their copies."""
    return rows.select("*", (-F.col(WEIGHT)).alias(COPIES)).drop(WEIGHT)

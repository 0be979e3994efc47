"""Where the rows are that are to leave a table: as many copies of each as are asked for.

    places  = σ[rank ≤ copies](stored ⋈ deletes)              by file and position, for deletion vectors
    by file = copies − those in files before, at most all      where positions are not known, to write files anew

Rows are the same by binary identity, NULL the same as NULL; `deletes` has each row once. The table is scanned once.
Rows outside of the bounds of `deletes` are left out first, which skips partitions and row groups. Then one number is
compared: a column of whole numbers that few rows share, else a hash of all columns. Only what is left is compared
column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from monus.store.delta_table import DeltaTable, Snapshot
from monus.store.jvm import quoted
from monus.store.replace_rows import FILE, ROW, read_with_positions

COPIES = "__copies"
HERE, LEAVING = "__here", "__leaving"
BROADCAST_BYTES = 128 * 1024 * 1024

Identity = Callable[[Column, str], Column]
"""Of a column and the name of its type: an expression that is equal exactly for identical values."""

_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")
_BOUNDED = (*_WHOLE_NUMBERS, "date", "timestamp")
_MOST_BOUNDED = 32


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which values a column of `deletes` is, days and timestamps as numbers, and how many are not NULL."""

    place: int
    field: StructField
    present: int
    least: int | str | None
    most: int | str | None


@dataclass(frozen=True, slots=True)
class LeavingRows:
    """Rows that are to leave a snapshot, each with its number of copies, and what one look at them told.

    Columns have names by their place, `v0`, `v1` and so on: whatever the user's are called, nothing is ambiguous.
    """

    table: DeltaTable
    snapshot: Snapshot
    identity: Identity
    deletes: DataFrame
    rows: int
    copies: int
    bounds: tuple[Bounds, ...]

    def places(self) -> DataFrame:
        """`__file`, `__row` and the columns of the rows that leave."""
        found = self._found(read_with_positions(self.table, self.snapshot).toDF(*self.columns, FILE, ROW))
        rank = F.row_number().over(Window.partitionBy(*self._keys("g")).orderBy(FILE, ROW))
        ranked = found.select(FILE, ROW, *self.columns, (rank <= F.col(COPIES)).alias(LEAVING))
        return ranked.where(LEAVING).drop(LEAVING)

    def by_file(self) -> DataFrame:
        """Each row once for each `__file` that it leaves, with how many copies are `__here` and are `__leaving`."""
        found = self._found(with_files(self.table.read_listed(self.snapshot)).toDF(*self.columns, FILE))
        keys = [key.alias(f"k{place}") for place, key in enumerate(self._keys("g"))]
        values = [F.first(name).alias(name) for name in (*self.columns, COPIES)]
        grouped = found.groupBy(FILE, *keys).agg(*values, F.count(F.lit(1)).alias(HERE))
        before = Window.partitionBy(*(f"k{place}" for place in range(len(keys)))).orderBy(FILE)
        earlier = F.coalesce(F.sum(HERE).over(before.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0))
        leaving = F.least(F.col(HERE), F.col(COPIES) - earlier).alias(LEAVING)
        return grouped.select(FILE, *self.columns, HERE, leaving).where(F.col(LEAVING) > 0)

    def others(self, stored: DataFrame, by_file: DataFrame) -> DataFrame:
        """Of rows with their `__file`, those of which no copy leaves that file."""
        theirs = [f"g{place}" for place in range(len(self.columns))]
        gone = by_file.select(F.col(FILE), *self.columns).toDF("__gone_file", *theirs)
        same = (F.col(FILE) == F.col("__gone_file")) & self._is_same()
        return stored.toDF(*self.columns, FILE).join(sent(gone), same, "left_anti").select(*self.columns)

    @property
    def columns(self) -> list[str]:
        return [f"v{place}" for place in range(len(self.snapshot.schema.fields))]

    def _found(self, stored: DataFrame) -> DataFrame:
        """The stored rows of which copies may leave, beside the row that asks for it."""
        for bounds in self.bounds:
            stored = stored.where(_within(F.col(self.columns[bounds.place]), bounds, self.rows))
        fields = self.snapshot.schema.fields
        gone = self.deletes.select(*(F.col(quoted(field.name)) for field in fields), F.col(COPIES).cast("bigint"))
        return stored.join(sent(gone.toDF(*(f"g{place}" for place in range(len(fields))), COPIES)), self._is_same())

    def _is_same(self) -> Column:
        ours, theirs = self._keys("v"), self._keys("g")
        place = self._telling_column()
        alike = F.xxhash64(*ours) == F.xxhash64(*theirs) if place is None else ours[place] == theirs[place]
        same = [one.eqNullSafe(other) for one, other in zip(ours, theirs, strict=True)]
        # The least truth of all, and not their conjunction: Spark would make each of them a key of the join, which
        # takes longer than one number.
        return alike & (same[0] if len(same) == 1 else F.least(*same))

    def _keys(self, letter: str) -> list[Column]:
        fields = enumerate(self.snapshot.schema.fields)
        return [self.identity(F.col(f"{letter}{place}"), _type(field)) for place, field in fields]

    def _telling_column(self) -> int | None:
        """The place of whole numbers that may be a key: they span at least as many values as there are rows."""
        stored = self.table.rows(self.snapshot)
        if stored is None:
            return None
        spans: dict[int, int] = {}
        for bounds in self.bounds:
            if _type(bounds.field) in _WHOLE_NUMBERS and bounds.present == self.rows:
                # Statistics go by the name that the column has in the files.
                name = bounds.field.metadata.get("delta.columnMapping.physicalName", bounds.field.name)
                least, most = self.table.extent(self.snapshot, name) or (0, -1)
                spans[bounds.place] = most - least + 1
        best = max(spans, key=spans.__getitem__, default=None)
        return best if best is not None and spans[best] >= max(stored, 1) else None


def look_at(table: DeltaTable, snapshot: Snapshot, deletes: DataFrame, identity: Identity) -> LeavingRows:
    """One job: how many rows and copies there are, and between which bounds."""
    fields = _bounded_fields(snapshot)
    numbers = [_as_number(F.col(quoted(field.name)), field) for _, field in fields]
    bounds = [each(number) for number in numbers for each in (F.count, F.min, F.max)]
    found = deletes.agg(F.count(F.lit(1)), F.sum(COPIES), *bounds).first()
    assert found is not None  # an aggregate of everything has a row
    rows, copies, *rest = found
    known = (Bounds(place, field, *rest[3 * i : 3 * i + 3]) for i, (place, field) in enumerate(fields))
    return LeavingRows(table, snapshot, identity, deletes, int(rows), int(copies or 0), tuple(known))


def with_files(rows: DataFrame) -> DataFrame:
    return rows.select("*", F.col("_metadata.file_path"))


def sent(rows: DataFrame) -> DataFrame:
    """Sent to every task if they are few: Spark sees to the rest itself."""
    # Py4J gives an int where it knows how to, and else the JVM's object.
    size = float(str(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    return F.broadcast(rows) if size <= BROADCAST_BYTES else rows


@contextmanager
def held(rows: DataFrame) -> Iterator[DataFrame]:
    """Rows that are computed once for several uses."""
    if rows.storageLevel != StorageLevel.NONE:
        yield rows  # held by somebody else already, who also lets them go
        return
    rows = rows.persist()
    try:
        yield rows
    finally:
        rows.unpersist()


def _bounded_fields(snapshot: Snapshot) -> list[tuple[int, StructField]]:
    """The columns, with their places, that partitions or row groups can be skipped by."""
    partitions = snapshot.metadata.partition_columns
    fields = list(enumerate(snapshot.schema.fields))
    outer = [each for each in fields if each[1].name in partitions and _type(each[1]) in (*_BOUNDED, "string")]
    inner = [each for each in fields if each[1].name not in partitions and _type(each[1]) in _BOUNDED]
    return [*outer, *inner[:_MOST_BOUNDED]]


def _as_number(column: Column, field: StructField) -> Column:
    """Days and timestamps as numbers: Python's own have fewer years, and hours that occur twice."""
    match _type(field):
        case "date":
            return F.unix_date(column)
        case "timestamp":
            return F.unix_micros(column)
        case _:
            return column


def _as_value(number: int | str, field: StructField) -> Column:
    match _type(field):
        case "date":
            return F.date_from_unix_date(F.lit(number).cast("int"))
        case "timestamp":
            return F.timestamp_micros(F.lit(number).cast("bigint"))
        case type_name:
            return F.lit(number).cast(type_name)


def _within(column: Column, bounds: Bounds, rows: int) -> Column:
    if bounds.least is None or bounds.most is None:
        return column.isNull()
    inside = column.between(_as_value(bounds.least, bounds.field), _as_value(bounds.most, bounds.field))
    return inside if bounds.present == rows else inside | column.isNull()


def _type(field: StructField) -> str:
    return field.dataType.simpleString()

"""The sources of a view during one operation: pinned states, and what changed since the view's vector.

What a source has to say costs no Spark job until its rows are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from monus.catalog.catalog import Catalog
from monus.catalog.records import BatchRecord, TableRecord, ViewRecord
from monus.errors import SourceHistoryLost, SourceRecreated, SourceSchemaChanged, ViewUnusable
from monus.frontend.jvm import quoted
from monus.maintenance.layout import BATCH, WEIGHT, pending_path
from monus.maintenance.vectors import SourceState, TableState, ViewState
from monus.store.changes import ChangeSummary, read_change, summarize_change
from monus.store.delta_table import DeltaTable, Snapshot
from monus.store.log import commits

BYTES_PER_ROW = 40.0


@dataclass(frozen=True, slots=True)
class SourceChange:
    """What changed in a source: nothing, or rows that are read when asked for."""

    kind: str
    rows: float
    insert_only: bool
    summary: ChangeSummary | None = None
    batches: tuple[BatchRecord, ...] = ()
    before: SourceChange | None = None
    """What comes before the rows that are not in the source yet (`ahead.py`)."""

    @property
    def is_empty(self) -> bool:
        return self.kind == "none"


NO_CHANGE = SourceChange("none", 0.0, True)


@dataclass(slots=True)
class TableSource:
    """A base table at a pinned snapshot: the head, or the version `at`."""

    record: TableRecord
    spark: SparkSession
    at: int | None = None
    snapshot: Snapshot = field(init=False)

    def __post_init__(self) -> None:
        head = self._table().snapshot()
        self.snapshot = head if self.at in (None, head.version) else self._table().snapshot_at(self.at)

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def state(self) -> SourceState:
        return TableState(self.snapshot.table_id, self.snapshot.version)

    @property
    def schema(self) -> StructType:
        return self.snapshot.schema

    def rows(self) -> float:
        return max(1.0, self.snapshot.size_in_bytes / BYTES_PER_ROW)

    def read(self, spark: SparkSession) -> DataFrame:
        return self._table(spark).read(self.snapshot)

    def read_listed(self, spark: SparkSession) -> DataFrame:
        return self._table(spark).read_listed(self.snapshot)

    def extent(self, column: str) -> tuple[int, int] | None:
        return self._table().extent(self.snapshot, column)

    def read_at(self, spark: SparkSession, state: SourceState) -> DataFrame:
        assert isinstance(state, TableState)
        if state.version == self.snapshot.version:
            return self.read(spark)
        return self._table(spark).read_version(state.version)

    def change_since(self, state: SourceState) -> SourceChange:
        """From the log alone. A table that was dropped and made anew, or cut its log, is noticed here."""
        if not isinstance(state, TableState) or state.id != self.snapshot.table_id:
            raise SourceRecreated(
                f"The table '{self.name}' was dropped and created again since the view was refreshed.",
                "Refresh the view in full: REFRESH MATERIALIZED VIEW … FULL.",
                table=self.name,
            )
        if state.version == self.snapshot.version:
            return NO_CHANGE
        if state.version > self.snapshot.version:
            raise SourceHistoryLost(
                f"The table '{self.name}' is at version {self.snapshot.version}, before the view's {state.version}.",
                "Refresh the view in full.",
                table=self.name,
            )
        summary = summarize_change(self._table(), state.version, self.snapshot)
        if summary.kind == "none":
            return NO_CHANGE
        rows = summary.num_records if summary.num_records is not None else summary.bytes / BYTES_PER_ROW
        return SourceChange(summary.kind, float(rows), summary.insert_only, summary)

    def read_change(self, spark: SparkSession, change: SourceChange) -> DataFrame:
        assert change.summary is not None
        return read_change(self._table(spark), change.summary)

    def _table(self, spark: SparkSession | None = None) -> DeltaTable:
        return DeltaTable(spark or self.spark, self.record.location)


@dataclass(slots=True)
class ViewSource:
    """A view that another view reads, at its published state."""

    record: ViewRecord
    spark: SparkSession
    catalog: Catalog
    snapshot: Snapshot = field(init=False)

    def __post_init__(self) -> None:
        if self.record.unusable_reason is not None or self.record.version is None:
            reason = self.record.unusable_reason
            why = reason.sentence if reason is not None else "It was never filled."
            raise ViewUnusable(
                f"The view '{self.record.name}' cannot be read: {why}",
                f"Compute it anew: REFRESH MATERIALIZED VIEW {self.record.name} FULL.",
                view=self.record.name,
            )
        self.snapshot = published(self.spark, self.record)

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def state(self) -> SourceState:
        return ViewState(self.snapshot.table_id, self.record.pending_from - 1)

    @property
    def schema(self) -> StructType:
        return StructType([f for f in self.snapshot.schema.fields if not f.name.startswith("__")])

    def rows(self) -> float:
        return max(1.0, self.snapshot.size_in_bytes / BYTES_PER_ROW)

    def read(self, spark: SparkSession) -> DataFrame:
        return DeltaTable(spark, self.record.location).read(self.snapshot).select(*self._visible())

    def read_listed(self, spark: SparkSession) -> DataFrame:
        return DeltaTable(spark, self.record.location).read_listed(self.snapshot).select(*self._visible())

    def extent(self, column: str) -> tuple[int, int] | None:
        return DeltaTable(self.spark, self.record.location).extent(self.snapshot, column)

    def read_at(self, spark: SparkSession, state: SourceState) -> DataFrame:
        assert isinstance(state, ViewState)
        if state == self.state:
            return self.read(spark)
        folded = [b for b in self.catalog.batches(self.name, 0, state.batch) if b.operation != "propagate"]
        if not folded or folded[-1].version is None:
            raise self._lost(state)
        return DeltaTable(spark, self.record.location).read_version(folded[-1].version).select(*self._visible())

    def change_since(self, state: SourceState) -> SourceChange:
        if not isinstance(state, ViewState) or state.id != self.snapshot.table_id:
            raise SourceRecreated(
                f"The view '{self.name}' was created again since it was last read.",
                "Refresh the view that reads it in full.",
                view=self.name,
            )
        upto = self.record.pending_from - 1
        if state.batch == upto:
            return NO_CHANGE
        found = self.catalog.batches(self.name, state.batch, upto)
        if any(not batch.has_rows and batch.operation != "partial_refresh" for batch in found) or not found:
            raise self._lost(state)
        with_rows = tuple(batch for batch in found if batch.has_rows)
        if not with_rows:
            return NO_CHANGE
        return SourceChange("batches", self.rows() * 0.1, False, None, with_rows)

    def read_change(self, spark: SparkSession, change: SourceChange) -> DataFrame:
        rows = read_batches(spark, self.record, change.batches)
        if rows is None:
            return self.read(spark).where("false").withColumn(WEIGHT, F.lit(1).cast("bigint"))
        return rows.select(*self._visible(), F.col(WEIGHT))

    def _visible(self) -> list[str]:
        return [quoted(f.name) for f in self.schema.fields]

    def _lost(self, state: ViewState) -> SourceHistoryLost:
        return SourceHistoryLost(
            f"The changes of the view '{self.name}' since its operation {state.batch} were not kept.",
            "Refresh the view that reads it in full.",
            view=self.name,
        )


class Readable(Protocol):
    """Something whose rows can be had in a session."""

    def read(self, spark: SparkSession) -> DataFrame: ...


class Source(Readable, Protocol):
    """A table or view that a view reads, at one state; what a derivation asks of it."""

    @property
    def record(self) -> TableRecord | ViewRecord: ...

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def name(self) -> str: ...

    @property
    def state(self) -> SourceState: ...

    @property
    def schema(self) -> StructType: ...

    def rows(self) -> float: ...

    def read_listed(self, spark: SparkSession) -> DataFrame: ...

    def extent(self, column: str) -> tuple[int, int] | None: ...

    def read_at(self, spark: SparkSession, state: SourceState) -> DataFrame: ...

    def change_since(self, state: SourceState) -> SourceChange: ...

    def read_change(self, spark: SparkSession, change: SourceChange) -> DataFrame: ...


def published(spark: SparkSession, record: ViewRecord, seen: bool = False) -> Snapshot:
    """The snapshot of a view's table that readers see; after OPTIMIZE and the like, the newest with the same rows.

    `seen`: the head that was last looked at will do.
    """
    table = DeltaTable(spark, record.location)
    head = table.last_seen() if seen else table.snapshot()
    if record.version is None or head.version == record.version:
        return head
    try:
        later = commits(table, record.version, head.version)
        if later and not any(commit.is_data_change or commit.metadata for commit in later):
            return head
    except SourceHistoryLost:
        pass  # a part of the log was cleaned up; the version itself may still be there
    return table.snapshot_at(record.version)


def visible_rows(spark: SparkSession, record: ViewRecord) -> DataFrame:
    """The published rows of a view, without the columns that do not show."""
    data = DeltaTable(spark, record.location).read(published(spark, record))
    return data.select(*(F.col(quoted(c.name)) for c in record.columns))


def read_batches(spark: SparkSession, record: ViewRecord, batches: Iterable[BatchRecord]) -> DataFrame | None:
    """The signed rows of some batches of a view, hidden columns included; None if no batch ever had rows."""
    table = DeltaTable(spark, pending_path(record.location))
    if not table.exists():
        return None
    numbers = [batch.number for batch in batches]
    return table.read_listed(table.snapshot()).where(F.col(BATCH).isin(numbers)).drop(BATCH)


def check_schema(source: Source, used: Mapping[str, str], view: str) -> None:
    """A column that the view reads must still be there with its type; others may come and go."""
    now = {f.name.lower(): f.dataType.simpleString() for f in source.schema.fields}
    for name, kind in used.items():
        found = now.get(name.lower())
        if found is None:
            raise SourceSchemaChanged(
                f"The column '{name}' of '{source.name}', which the view '{view}' reads, was removed or renamed.",
                "Put it back, or define the view without it: CREATE OR REPLACE MATERIALIZED VIEW.",
                view=view,
                source=source.name,
                column=name,
            )
        if found.lower() != kind.lower():
            raise SourceSchemaChanged(
                f"The column '{name}' of '{source.name}', which the view '{view}' reads, is now {found}, not {kind}.",
                "Define the view again: CREATE OR REPLACE MATERIALIZED VIEW.",
                view=view,
                source=source.name,
                column=name,
            )

"""A source as it will be: what it is now, and rows that are not in it yet.

FUTURE(T, Q) = Q(…, (Rᵢ ∸ ∇Rᵢ) ⊎ ΔRᵢ, …), evaluated before T (Colby et al., section 2.5): a transaction's staged rows
before its tables have them, or the change of a view that is derived but not applied. To whoever derives a change
from it such a source is in the post-update state, so there is one derivation for both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from monus.algebra.scalars import Column
from monus.catalog.records import TableRecord, ViewRecord
from monus.compiler.materialize import Materializer
from monus.frontend.jvm import quoted
from monus.maintenance.fold import Target, copies_of, stored_and_pending
from monus.maintenance.layout import WEIGHT
from monus.maintenance.sources import Source, SourceChange
from monus.maintenance.vectors import SourceState
from monus.store.delta_table import DeltaTable, Snapshot


@dataclass(frozen=True, slots=True)
class Ahead:
    """Signed rows: the columns of the source and `__w`. `replaces_all`: they come in place of all that it has."""

    read: Callable[[SparkSession], DataFrame]
    inserted: int
    deleted: int
    replaces_all: bool = False

    @property
    def is_empty(self) -> bool:
        return self.inserted == 0 and self.deleted == 0 and not self.replaces_all


@dataclass(frozen=True, slots=True)
class AheadSource:
    """`reached` is the state that the source will have with these rows; what is held for it, `materializer` frees."""

    base: Source
    ahead: Ahead
    reached: SourceState
    materializer: Materializer

    @property
    def record(self) -> TableRecord | ViewRecord:
        return self.base.record

    @property
    def snapshot(self) -> Snapshot:
        return self.base.snapshot

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def state(self) -> SourceState:
        return self.reached

    @property
    def schema(self) -> StructType:
        return self.base.schema

    def rows(self) -> float:
        kept = 0.0 if self.ahead.replaces_all else self.base.rows()
        return max(1.0, kept + self.ahead.inserted)

    def read(self, spark: SparkSession) -> DataFrame:
        return self._future(spark, self.base.read(spark))

    def read_listed(self, spark: SparkSession) -> DataFrame:
        return self._future(spark, self.base.read_listed(spark))

    def extent(self, column: str) -> tuple[int, int] | None:
        """The bounds in the files say nothing of rows that are not in them."""
        return None

    def read_at(self, spark: SparkSession, state: SourceState) -> DataFrame:
        return self.read(spark) if state == self.reached else self.base.read_at(spark, state)

    def change_since(self, state: SourceState) -> SourceChange:
        before = self.base.change_since(state)
        if self.ahead.is_empty:
            return before
        rows = before.rows + self.ahead.inserted + self.ahead.deleted
        if self.ahead.replaces_all:
            rows += self.base.rows()
        insert_only = before.insert_only and self.ahead.deleted == 0 and not self.ahead.replaces_all
        return SourceChange("staged", rows, insert_only, before=before)

    def read_change(self, spark: SparkSession, change: SourceChange) -> DataFrame:
        columns = [F.col(quoted(field.name)) for field in self.schema.fields]
        if change.before is None:
            return self.base.read_change(spark, change)
        rows = self.ahead.read(spark).select(*columns, F.col(WEIGHT))
        if self.ahead.replaces_all:
            rows = rows.union(self.base.read(spark).select(*columns, F.lit(-1).cast("bigint").alias(WEIGHT)))
        if change.before.is_empty:
            return rows
        return self.base.read_change(spark, change.before).select(*columns, F.col(WEIGHT)).union(rows)

    def _future(self, spark: SparkSession, base: DataFrame) -> DataFrame:
        columns = tuple(Column(f.name, f.dataType.simpleString()) for f in self.schema.fields)
        target = Target(self.name, DeltaTable(spark, self.record.location), self.snapshot, columns, None)
        ahead = self.ahead
        if ahead.is_empty:
            return base
        rows = ahead.read(spark).select(*(F.col(quoted(c.name)) for c in columns), F.col(WEIGHT))
        if ahead.replaces_all:
            return copies_of(target, rows)
        if ahead.deleted == 0:
            return base.unionByName(copies_of(target, rows))
        return stored_and_pending(target, base, rows, self.materializer)

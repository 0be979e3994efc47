"""What the catalog keeps, as plain values.

States, vectors and definitions are JSON that the catalog stores and never looks into.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

State: TypeAlias = Mapping[str, Any]
SourceKind: TypeAlias = Literal["table", "view"]
Strategy: TypeAlias = Literal["none", "append", "merge", "rewrite", "replace", "full"]


def key_of(name: str) -> str:
    """What two spellings of one name have in common; names compare as Spark compares them by default."""
    return name.lower()


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A base table; `identifier` is its name in the session's catalog, `table_id` the id in its own metadata."""

    name: str
    location: str
    identifier: str | None
    table_id: str
    managed: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ColumnRecord:
    """An output column of a view; `type` is Spark's name of the type."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why a view must not be read."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class ViewRecord:
    """A view, as last published.

    `batch` is the number of the last published operation (0: nothing is published) and `version` the version of
    the view's table that belongs to it. The table reflects `vector`; the table together with the batches from
    `pending_from` on reflects `pending_vector`.
    """

    name: str
    definition: Mapping[str, Any]
    policy: str
    mode: str
    location: str
    created_at: datetime
    columns: tuple[ColumnRecord, ...] = ()
    comment: str | None = None
    hidden: bool = False
    table_id: str | None = None
    unusable_reason: Unusable | None = None
    batch: int = 0
    version: int | None = None
    vector: State = field(default_factory=dict)
    pending_vector: State = field(default_factory=dict)
    pending_from: int = 1
    next_refresh: datetime | None = None
    next_propagate: datetime | None = None

    @property
    def usable(self) -> bool:
        return self.unusable_reason is None


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """Something that a view reads."""

    name: str
    kind: SourceKind


@dataclass(frozen=True, slots=True)
class Intent:
    """An operation that was begun and is neither published nor discarded."""

    view: str
    number: int
    epoch: int
    operation: str
    from_state: State
    to_state: State
    started_at: datetime


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A published operation, and whether it left signed rows under its number in the view's pending change."""

    view: str
    number: int
    operation: str
    version: int | None
    from_vector: State
    to_vector: State
    has_rows: bool
    published_at: datetime


@dataclass(frozen=True, slots=True)
class RefreshRecord:
    """What one refresh, propagate or partial refresh did; `error` is None unless it failed."""

    view: str
    operation: str
    strategy: Strategy
    incremental: bool
    code: str
    reason: str
    rows_inserted: int
    rows_deleted: int
    seconds: float
    spark_jobs: int
    commits: int
    rows_read: Mapping[str, int]
    from_versions: State
    to_versions: State
    started_at: datetime
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionPart:
    """What a transaction does to one table, or that it concerns one view.

    `before` is the state that readers see until the whole transaction is applied; `number` is that of the table's
    commit, `staged` what is to be committed, and `reached` the version that it made, once it is known.
    """

    name: str
    kind: SourceKind
    before: State
    staged: State = field(default_factory=dict)
    number: int | None = None
    reached: int | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A committed transaction; until it is applied it is outstanding, and can only go forward."""

    id: str
    sequence: int
    statements: int
    parts: tuple[TransactionPart, ...]
    staging: str | None
    committed_at: datetime
    applied_at: datetime | None = None

    @property
    def is_outstanding(self) -> bool:
        return self.applied_at is None

    @property
    def tables(self) -> tuple[TransactionPart, ...]:
        return tuple(part for part in self.parts if part.kind == "table")

    @property
    def views(self) -> tuple[TransactionPart, ...]:
        return tuple(part for part in self.parts if part.kind == "view")


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """What one transaction left to be done for one lazy view.

    `changed` are the states, by source, that the view has to reach; `transaction` is None for what others wrote.
    `statement` is the first of the transaction that the view does not reflect.
    """

    view: str
    sequence: int
    transaction: str | None
    statement: int
    changed: Mapping[str, State | None]
    created_at: datetime
    in_progress: bool = False


@dataclass(frozen=True, slots=True)
class Ledger:
    """The outstanding transactions; as long as `count` is the same, none has begun or ended."""

    count: int
    outstanding: tuple[TransactionRecord, ...]

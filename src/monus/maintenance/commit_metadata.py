"""What each commit of a view's table carries: for people, and for rebuilding a lost catalog."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from monus.catalog.catalog import Catalog
from monus.catalog.records import ColumnRecord, SourceKind, SourceRecord, ViewRecord

FORMAT = 1


@dataclass(frozen=True, slots=True)
class CarriedSource:
    """A source, and where it is if it is a table."""

    name: str
    kind: SourceKind
    location: str | None = None
    identifier: str | None = None
    managed: bool = False


@dataclass(frozen=True, slots=True)
class CarriedBatch:
    """A batch that the commit folds: whether views over this one can go on from it, and whether it has rows."""

    number: int
    operation: str
    is_log: bool
    has_rows: bool


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """A view and its state after a commit; `is_full`: all rows were computed anew."""

    view: str
    number: int
    operation: str
    is_full: bool
    vector: Mapping[str, Any]
    definition: Mapping[str, Any]
    policy: str
    mode: str
    hidden: bool
    comment: str | None
    created_at: datetime
    columns: tuple[ColumnRecord, ...]
    sources: tuple[CarriedSource, ...]
    batches: tuple[CarriedBatch, ...]

    def to_json(self) -> str:
        return json.dumps(
            {
                "monus": FORMAT,
                "view": self.view,
                "number": self.number,
                "operation": self.operation,
                "full": self.is_full,
                "vector": dict(self.vector),
                "definition": dict(self.definition),
                "policy": self.policy,
                "mode": self.mode,
                "hidden": self.hidden,
                "comment": self.comment,
                "created_at": self.created_at.isoformat(),
                "columns": [[c.name, c.type, c.comment] for c in self.columns],
                "sources": [[s.name, s.kind, s.location, s.identifier, s.managed] for s in self.sources],
                "batches": [[b.number, b.operation, b.is_log, b.has_rows] for b in self.batches],
            }
        )

    @classmethod
    def from_json(cls, text: str | None) -> CommitMetadata | None:
        """None where somebody else wrote the text, or a version of Monus that says it differently."""
        try:
            stored = json.loads(text or "")
            if stored["monus"] != FORMAT:
                return None
            return cls(
                view=stored["view"],
                number=stored["number"],
                operation=stored["operation"],
                is_full=stored["full"],
                vector=stored["vector"],
                definition=stored["definition"],
                policy=stored["policy"],
                mode=stored["mode"],
                hidden=stored["hidden"],
                comment=stored["comment"],
                created_at=datetime.fromisoformat(stored["created_at"]),
                columns=tuple(ColumnRecord(*column) for column in stored["columns"]),
                sources=tuple(CarriedSource(*source) for source in stored["sources"]),
                batches=tuple(CarriedBatch(*batch) for batch in stored["batches"]),
            )
        except (ValueError, KeyError, TypeError):
            return None


def commit_metadata(
    catalog: Catalog,
    record: ViewRecord,
    vector: Mapping[str, Any],
    number: int,
    operation: str,
    is_log: bool,
    has_rows: bool,
    is_full: bool,
) -> str:
    """For a commit that brings the view to this vector; `is_log` and `has_rows` say the same of its own batch."""
    folded = [
        CarriedBatch(b.number, b.operation, b.has_rows, b.has_rows)
        for b in catalog.batches(record.name, record.pending_from - 1, record.batch)
    ]
    return CommitMetadata(
        view=record.name,
        number=number,
        operation=operation,
        is_full=is_full,
        vector=vector,
        definition=record.definition,
        policy=record.policy,
        mode=record.mode,
        hidden=record.hidden,
        comment=record.comment,
        created_at=record.created_at,
        columns=record.columns,
        sources=tuple(_carried(catalog, source) for source in catalog.sources(record.name)),
        batches=(*folded, CarriedBatch(number, operation, is_log, has_rows)),
    ).to_json()


def _carried(catalog: Catalog, source: SourceRecord) -> CarriedSource:
    if source.kind == "view":
        return CarriedSource(source.name, "view")
    table = catalog.table(source.name)
    return CarriedSource(source.name, "table", table.location, table.identifier, table.managed)

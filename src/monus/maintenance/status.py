"""How fresh a view is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from monus.catalog.records import ViewRecord
from monus.errors import MonusError
from monus.maintenance.maintainer import Maintainer
from monus.maintenance.sources import TableSource
from monus.maintenance.vectors import TableState, from_json
from monus.store.log import commits


@dataclass(frozen=True, slots=True)
class Behind:
    """How many transactions of the sources the view does not reflect, and for how long it has not."""

    transactions: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Status:
    view: str
    fresh: bool
    behind: Behind
    vector: Mapping[str, Any]
    policy: str
    mode: str
    usable: bool
    pending: bool
    reason: str


def status_of(maintainer: Maintainer, record: ViewRecord) -> Status:
    """From logs and the catalog alone; a source that cannot be read is told, not raised."""
    transactions, oldest, reason = 0, None, ""
    try:
        vector = from_json(record.vector)
        for name, source in maintainer.sources(record).items():
            state = vector.get(name)
            if state is None or source.state == state:
                continue
            if source.state.id != state.id:
                source.change_since(state)  # says that it was created again
            if not isinstance(source, TableSource) or not isinstance(state, TableState):
                transactions += 1
                continue
            later = [c for c in commits(source._table(), state.version, source.snapshot.version) if c.is_data_change]
            transactions += len(later)
            moments = [c.timestamp for c in later if c.timestamp is not None]
            oldest = min([*moments, *([oldest] if oldest is not None else [])], default=None)
    except MonusError as error:
        reason, transactions = f"[{error.code}] {error.message}", max(transactions, 1)
    seconds = 0.0 if oldest is None else max(0.0, datetime.now(UTC).timestamp() - oldest / 1000)
    if record.unusable_reason is not None:
        reason = record.unusable_reason.sentence
    may_change = record.definition.get("may_change")
    if may_change and not reason:
        reason = f"[{may_change}] Its answer may change although no source does, so it is never known to be fresh."
    fresh = record.usable and record.batch > 0 and transactions == 0 and not may_change
    pending = record.pending_from <= record.batch
    return Status(
        record.name, fresh, Behind(transactions, seconds), record.vector, record.policy, record.mode, record.usable,
        pending, reason,
    )  # fmt: skip

"""Version vectors: which state of every source a view reflects.

A table's state is its id and version, a view's its id and the number of the last operation that was
folded into its table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class TableState:
    id: str
    version: int


@dataclass(frozen=True, slots=True)
class ViewState:
    id: str
    batch: int


SourceState: TypeAlias = TableState | ViewState
Vector: TypeAlias = Mapping[str, SourceState]


def to_json(vector: Vector) -> dict[str, Any]:
    stored: dict[str, Any] = {}
    for name, state in vector.items():
        if isinstance(state, TableState):
            stored[name] = {"id": state.id, "version": state.version}
        else:
            stored[name] = {"id": state.id, "batch": state.batch}
    return stored


def from_json(stored: Mapping[str, Any]) -> dict[str, SourceState]:
    return {
        name: TableState(state["id"], state["version"])
        if "version" in state
        else ViewState(state["id"], state["batch"])
        for name, state in stored.items()
    }


def is_behind(state: SourceState, than: SourceState | None) -> bool:
    """Whether it is an earlier state of the same source."""
    match state, than:
        case TableState(id, version), TableState(other, reached):
            return id == other and version < reached
        case ViewState(id, batch), ViewState(other, reached):
            return id == other and batch < reached
        case _:
            return False


def numbers(vector: Vector) -> dict[str, int]:
    """Version or batch by source, for people and for `history`."""
    return {n: s.version if isinstance(s, TableState) else s.batch for n, s in vector.items()}

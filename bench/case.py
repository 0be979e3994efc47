"""A case: data, the views over it, the changes that are measured, and what is to be reached.

A case says what, never how: the runner applies each change, refreshes, recomputes and verifies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import monus

Say: TypeAlias = Callable[[str], None]
Measure: TypeAlias = Literal["propagate_ratio", "refresh_ratio", "refresh_seconds", "refresh_jobs"]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much data (TPC's scale factor), and the folder where what was generated stays between runs."""

    factor: float
    data: Path

    @property
    def label(self) -> str:
        return f"sf{self.factor:g}"


@dataclass(frozen=True, slots=True)
class View:
    """A view under measurement."""

    name: str
    title: str
    query: str


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to the tables before a refresh.

    `statements(factor, number)` are the statements of the change's n-th application: no two applications in a run
    have the same number, so each can touch other rows than the one before.
    """

    name: str
    title: str
    statements: Callable[[float, int], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Target:
    """At most `limit`, for every view; `factor` is the scale that the target was set for."""

    change: str
    measure: Measure
    limit: float
    factor: float


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    title: str
    views: tuple[View, ...]
    changes: tuple[Change, ...]
    targets: tuple[Target, ...]
    prepare: Callable[[Scale, Say], None]
    """Generate what is not there yet, without Spark."""
    load: Callable[[monus.Warehouse, Scale, Say], None]
    """Create the warehouse's tables from what was generated."""

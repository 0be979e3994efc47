"""One operation on one view while it runs: what it has done so far, its session, and how it is stopped."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from monus.catalog.records import RefreshRecord, Strategy, ViewRecord, key_of
from monus.errors import RefreshCancelled
from monus.frontend.definition import Definition
from monus.maintenance.sessions import Jobs, SessionPool, job_group


@dataclass(slots=True)
class Operation:
    """One operation on one view while it runs."""

    name: str
    record: ViewRecord
    started: float = field(default_factory=time.perf_counter)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    commits: int = 0
    rows_read: dict[str, int] = field(default_factory=dict)

    def describe(
        self,
        strategy: Strategy,
        code: str,
        reason: str,
        vectors: tuple[Mapping[str, int], Mapping[str, int]],
        change: tuple[int, int] = (0, 0),
        jobs: int = 0,
        error: str | None = None,
    ) -> RefreshRecord:
        return RefreshRecord(
            view=self.record.name,
            operation=self.name,
            strategy=strategy,
            incremental=strategy != "full",
            code=code,
            reason=reason,
            rows_inserted=change[0],
            rows_deleted=change[1],
            seconds=time.perf_counter() - self.started,
            spark_jobs=jobs,
            commits=self.commits,
            rows_read=dict(self.rows_read),
            from_versions=vectors[0],
            to_versions=vectors[1],
            started_at=self.started_at,
            error=error,
        )


@dataclass(slots=True)
class Board:
    """What runs in this process, by view."""

    running: dict[str, Jobs] = field(default_factory=dict)

    def cancel(self, view: str, thread: int | None) -> bool:
        jobs = self.running.get(key_of(view))
        if jobs is None or thread not in (None, jobs.thread):
            return False
        jobs.cancel()
        return True


class Running:
    """A session and a job group for as long as an operation runs; a cancelled one says so."""

    def __init__(self, board: Board, sessions: SessionPool, operation: Operation) -> None:
        self._board = board
        self._sessions = sessions
        self._operation = operation

    def __enter__(self) -> tuple[SparkSession, Jobs]:
        record = self._operation.record
        definition = Definition.from_json(record.definition)
        self._session = self._sessions.session(definition.settings)
        session = self._session.__enter__()
        self._group = job_group(session, f"{self._operation.name} {record.name}")
        self._jobs = self._group.__enter__()
        self._board.running[key_of(record.name)] = self._jobs
        return session, self._jobs

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        name = self._operation.record.name
        self._board.running.pop(key_of(name), None)
        self._group.__exit__(None, None, None)
        self._session.__exit__(None, None, None)
        if error is not None and self._jobs.cancelled:
            raise RefreshCancelled(
                f"The {self._operation.name} of '{name}' was cancelled.", "The view is as it was before.", view=name
            ) from error

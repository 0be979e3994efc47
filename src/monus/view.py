"""One materialized view, as its user holds it: every method is one call of the room that does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from monus.catalog.records import RefreshRecord, TaskRecord, ViewRecord
from monus.errors import StatementInvalid
from monus.maintenance.explain import Explanation, explain_view
from monus.maintenance.invariants import verify_view
from monus.maintenance.planner import RefreshPlan
from monus.maintenance.points import To, sources_at
from monus.maintenance.status import Status, status_of
from monus.maintenance.verify import Verification
from monus.sql.mode import Mode, parse_mode
from monus.sql.policy import Policy, parse_policy

if TYPE_CHECKING:
    from monus.warehouse import Warehouse


class View:
    """One materialized view."""

    def __init__(self, warehouse: Warehouse, name: str) -> None:
        self._warehouse = warehouse
        self.name = name

    @property
    def _record(self) -> ViewRecord:
        self._warehouse._check_open()
        return self._warehouse._catalog.view(self.name)

    @property
    def definition(self) -> str:
        return str(self._record.definition["text"])

    @property
    def policy(self) -> str:
        return self._record.policy

    @property
    def mode(self) -> str:
        return self._record.mode

    @property
    def vector(self) -> Mapping[str, Any]:
        return self._record.vector

    def refresh(
        self,
        full: bool = False,
        *,
        to: To | None = None,
        dry_run: bool = False,
        wait_seconds: float = 60.0,
    ) -> RefreshRecord | RefreshPlan:
        """Bring the view up to date; `dry_run` only says how.

        `to`: up to a moment, or to versions of its tables, `{"sales": 7}`, between what it reflects and now.
        """
        self._warehouse._check_open()
        if to is not None:
            if full or dry_run:
                raise StatementInvalid("`to` is for incremental refreshes.", "Leave `full` and `dry_run` out.")
            points = sources_at(self._warehouse.spark, self._warehouse._catalog, self._record, to)
            return self._warehouse._maintainer.refresh(self.name, pinned=points, wait_seconds=wait_seconds)
        if dry_run:
            return self._warehouse._maintainer.plan(self.name, full)
        return self._warehouse._maintainer.refresh(self.name, full, wait_seconds=wait_seconds)

    def propagate(self) -> RefreshRecord:
        """Compute the change and keep it beside the view, without touching its rows."""
        self._warehouse._check_open()
        return self._warehouse._maintainer.propagate(self.name)

    def partial_refresh(self) -> RefreshRecord:
        """Fold what was propagated into the view's table."""
        self._warehouse._check_open()
        return self._warehouse._maintainer.partial_refresh(self.name)

    def alter(self, refresh: str | Policy | None = None, mode: str | Mode | None = None) -> None:
        """Another policy or mode; to IMMEDIATE the view is refreshed, to DIFFERENTIAL its change is propagated."""
        self._warehouse._check_open()
        if refresh is not None:
            policy = parse_policy(refresh) if isinstance(refresh, str) else refresh
            self._warehouse._alteration.set_policy(self.name, policy)
        if mode is not None:
            self._warehouse._alteration.set_mode(self.name, parse_mode(mode) if isinstance(mode, str) else mode)

    def rename(self, name: str) -> None:
        """Another name; views that read this one would no longer find it, so there must be none."""
        self._warehouse._check_open()
        self._warehouse._alteration.rename(self.name, name)
        self.name = self._warehouse._catalog.view(name).name

    def cancel(self) -> bool:
        """Stop a refresh that runs in another thread: the old state stays, unless it was about to commit already.

        Spark ends a task when it next reads a row; one that computes long within a row goes on until then.
        """
        self._warehouse._check_open()
        return self._warehouse._maintainer.cancel(self.name)

    def verify(self) -> Verification:
        self._warehouse._check_open()
        return verify_view(self._warehouse._maintainer, self.name)

    def explain(self) -> Explanation:
        return explain_view(self.name, self._warehouse._plans.of(self._record))

    def history(self, limit: int | None = None) -> list[RefreshRecord]:
        """What was done to the view, newest first."""
        return self._warehouse._catalog.refreshes(self._record.name, limit)

    def tasks(self) -> list[TaskRecord]:
        """What is still to be done for it, in commit order; only lazy views have tasks."""
        return self._warehouse._catalog.tasks(self._record.name)

    def status(self) -> Status:
        return status_of(self._warehouse._maintainer, self._record)

    def table(self) -> DataFrame:
        return self._warehouse.table(self.name)

    def __repr__(self) -> str:
        return f"View({self.name!r})"

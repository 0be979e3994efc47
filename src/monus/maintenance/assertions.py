"""CREATE ASSERTION: a query that must stay empty.

An assertion is an immediate view that nobody reads. Its change is derived before a transaction commits, as pre-update
expressions allow (Griffin and Libkin), and one that would leave rows in it is refused. Its table stays empty unless
somebody writes past Monus; then transactions that leave it so are refused, and one that mends it is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from monus.catalog.catalog import Catalog
from monus.catalog.records import SourceRecord, ViewRecord, key_of
from monus.errors import AssertionViolated, NameExists, NotSupported, UnknownAssertion
from monus.frontend.definition import Definition
from monus.maintenance.commitment import Commitment
from monus.maintenance.concerned import ASSERTION, assertion_name, is_assertion, late_view
from monus.maintenance.creation import Creation, NewView, check_name
from monus.maintenance.lease import WAIT_SECONDS
from monus.maintenance.participation import check_empty
from monus.maintenance.plans import Plans
from monus.maintenance.view_plan import ViewPlan
from monus.sql.mode import Mode
from monus.sql.policy import Immediate


@dataclass(frozen=True, slots=True)
class AssertionRecord:
    name: str
    query: str
    usable: bool


@dataclass(frozen=True, slots=True)
class Assertions:
    catalog: Catalog
    plans: Plans
    creation: Creation
    commitment: Commitment

    def create(self, name: str, definition: Definition) -> None:
        check_name(name)
        if self._find(name) is not None:
            raise NameExists(f"There is an assertion named '{name}' already.", "Choose another name.", name=name)
        plan = self.plans.analyse(definition)
        self._check_sources(name, plan)
        with self.commitment.alone_on(sorted(self._tables(plan.sources)), WAIT_SECONDS):
            self._create(name, definition, plan)

    def _create(self, name: str, definition: Definition, plan: ViewPlan) -> None:
        """No transaction on its tables is under way, so that none is that it was not asked about."""
        check_empty(name, plan.frame)
        stored = f"{ASSERTION}{name}"
        self.creation.create_hidden(NewView(stored, definition, str(Immediate()), Mode.AUTO.name), plan)
        record = self.catalog.view(stored)
        try:
            check_empty(name, self.creation.rows_of(record))
        except AssertionViolated:  # rows came while it was made
            self.creation.drop_view(stored)
            raise

    def _tables(self, sources: Iterable[str]) -> set[str]:
        """The tables that it reads, also through views."""
        found: set[str] = set()
        for name in sources:
            view = self.catalog.find_view(name)
            found |= {name} if view is None else self._tables(s.name for s in self.catalog.sources(view.name))
        return found

    def _check_sources(self, name: str, plan: ViewPlan) -> None:
        """What a transaction does to a view must be known before it commits."""
        views = [SourceRecord(record.name, "view") for record in map(self.catalog.find_view, plan.sources) if record]
        late = late_view(self.catalog, views)
        if late is not None:
            raise NotSupported(
                f"The assertion '{name}' would read the view '{late.name}', which is {late.policy}: what a transaction "
                "changes is seen there only later.",
                f"Let it read the tables, or ALTER MATERIALIZED VIEW {late.name} SET REFRESH IMMEDIATE first.",
                view=late.name,
            )
        for view in views:
            record = self.catalog.view(view.name)
            reasons = self.plans.of(record).reasons
            if reasons or record.mode == "FULL":
                raise NotSupported(
                    f"The assertion '{name}' would read the view '{view.name}', which can only be refreshed in full, "
                    "so that its rows are not known before a transaction commits.",
                    "Let the assertion read the tables.",
                    view=view.name,
                )

    def drop(self, name: str) -> None:
        record = self._find(name)
        if record is None:
            raise UnknownAssertion(f"There is no assertion named '{name}'.", "SHOW ASSERTIONS lists them.", name=name)
        self.creation.drop_view(record.name)

    def all(self) -> list[AssertionRecord]:
        return [
            AssertionRecord(assertion_name(record), str(record.definition["text"]), record.usable)
            for record in self.catalog.views()
            if is_assertion(record)
        ]

    def _find(self, name: str) -> ViewRecord | None:
        return next(
            (r for r in self.catalog.views() if is_assertion(r) and key_of(assertion_name(r)) == key_of(name)), None
        )

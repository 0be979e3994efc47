"""A view as it would be if it were refreshed now, without writing anything.

The stored rows, what is pending, and the change that the log makes: Q ≡ ((MV ∸ ∇MV) ⊎ ΔMV) with ▼(L, Q) and ▲(L, Q)
after it. Where the change cannot be derived, the query itself is read. The same with a transaction's staged rows ahead
of its tables is what the transaction sees.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.algebra.scalars import Column
from monus.catalog.records import SourceRecord, ViewRecord, key_of
from monus.compiler.materialize import Materializer
from monus.errors import MonusError, RefreshFailed, SourceHistoryLost, SourceRecreated, SourceSchemaChanged
from monus.frontend.definition import Definition, spark_message
from monus.frontend.jvm import active, analyzed, frame_of, quoted
from monus.maintenance.ahead import Ahead, AheadSource
from monus.maintenance.concerned import reads_now
from monus.maintenance.derive import Deriver, ViewChange
from monus.maintenance.fold import consolidated_change, signed, stored_and_pending
from monus.maintenance.layout import WEIGHT
from monus.maintenance.maintainer import Maintainer
from monus.maintenance.sources import Source, ViewSource, check_schema
from monus.maintenance.vectors import ViewState, from_json
from monus.maintenance.view_plan import ViewPlan
from monus.store.session import maintenance_session


@dataclass(slots=True)
class FreshViews:
    """Views over the tables that `table` opens; each is derived once, also where several read it.

    A view among the sources of another is read as a query would read it: a deferred one as it is stored, unless
    `all_fresh` says that it is to be up to date as well.
    """

    maintainer: Maintainer
    table: Callable[[SourceRecord], Source]
    record_of: Callable[[str], ViewRecord]
    all_fresh: bool = True
    _known: dict[str, AheadSource] = field(default_factory=dict)

    def rows(self, name: str) -> DataFrame:
        """The columns that show."""
        source = self._ahead(name)
        frame = source.read(self.maintainer.spark)
        # What is held serves as long as the frame: without it, it would only be computed again.
        weakref.finalize(frame, source.materializer.release)
        return frame

    def as_propagated(self, name: str) -> DataFrame:
        """The stored rows with what is pending, without the log."""
        record, maintainer = self.record_of(name), self.maintainer
        session = maintenance_session(maintainer.spark, Definition.from_json(record.definition).settings)
        materializer = Materializer(session)
        with active(session):
            target = maintainer.applying.target(record, maintainer.plans.of(record), session)
            pending = maintainer.applying.pending(record, session)
            rows = stored_and_pending(target, target.table.read(target.snapshot), pending, materializer)
            shown = analyzed(rows.select(*(F.col(quoted(c.name)) for c in record.columns)))
        frame = frame_of(maintainer.spark, shown)
        weakref.finalize(frame, materializer.release)
        return frame

    def source(self, name: str) -> Source:
        record = self.record_of(name)
        if self.all_fresh or reads_now(record):
            return self._ahead(name)
        return ViewSource(record, self.maintainer.spark, self.maintainer.catalog)

    def _ahead(self, name: str) -> AheadSource:
        key = key_of(name)
        if key not in self._known:
            record = self.record_of(name)
            try:
                self._known[key] = self._derived(record)
            except MonusError:
                raise
            except Exception as error:
                raise RefreshFailed(
                    f"The view '{record.name}' cannot be computed now: {spark_message(error)}",
                    "Correct the data or the query; without fresh=True it is read as it was last refreshed.",
                    view=record.name,
                ) from error
        return self._known[key]

    def _derived(self, record: ViewRecord) -> AheadSource:
        maintainer = self.maintainer
        base = ViewSource(record, maintainer.spark, maintainer.catalog)
        session = maintenance_session(maintainer.spark, Definition.from_json(record.definition).settings)
        materializer = Materializer(session)
        sources = {
            each.name: self.table(each) if each.kind == "table" else self.source(each.name)
            for each in maintainer.catalog.sources(record.name)
        }
        vector, used = from_json(record.vector), record.definition.get("reads", {})
        for name, source in sources.items():
            if source.state != vector.get(name):
                check_schema(source, used.get(key_of(name), {}), record.name)
        plan = maintainer.plans.of(record, sources)
        with active(session):
            change = self._change(record, plan, sources, session, materializer)
            if change is None:
                change = self._difference(record, base, sources, session, materializer)
        columns = [F.col(quoted(c.name)) for c in record.columns]
        rows = analyzed(change.data.select(*columns, F.col(WEIGHT)))
        ahead = Ahead(lambda spark: frame_of(spark, rows), change.inserted, change.deleted)
        state = base.state
        assert isinstance(state, ViewState)
        return AheadSource(base, ahead, ViewState(state.id, state.batch + 1), materializer)

    def _change(
        self,
        record: ViewRecord,
        plan: ViewPlan,
        sources: Mapping[str, Source],
        session: SparkSession,
        materializer: Materializer,
    ) -> ViewChange | None:
        """What is pending and what the log adds; None where it cannot be derived."""
        if plan.reasons:
            return None
        vector = from_json(record.pending_vector)
        try:
            changes = {name: source.change_since(vector[name]) for name, source in sources.items()}
        except (SourceHistoryLost, SourceRecreated, SourceSchemaChanged):
            return None
        applying = self.maintainer.applying
        target = applying.target(record, plan, session)
        pending = applying.pending(record, session)
        deriver = Deriver(session, plan, sources, materializer)
        derived = deriver.change(changes, applying.view(target, pending, materializer))
        return applying.whole(derived, pending, target, materializer)

    def _difference(
        self,
        record: ViewRecord,
        base: ViewSource,
        sources: Mapping[str, Source],
        session: SparkSession,
        materializer: Materializer,
    ) -> ViewChange:
        now = self.maintainer.plans.pinned_frame(session, record, sources)
        columns = tuple(Column(c.name, c.type) for c in record.columns)
        return consolidated_change(signed(now, 1).unionByName(signed(base.read(session), -1)), columns, materializer)

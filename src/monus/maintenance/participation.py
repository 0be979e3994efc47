"""The views of a transaction: INV_IM and INV_DT of Colby et al., kept as the tables change.

Before the transaction commits, the change of each view is derived in the state before it (FUTURE: the tables as they
are, with the staged rows ahead of them), so that a change that cannot be derived refuses the transaction. Once the
tables have their commits, it is applied: to an immediate view's table, or to the pending change of a differential
one. If somebody else's commit came in between, or the transaction is recovered, it is derived again from the tables'
logs instead. A view that cannot be maintained then is marked unusable: what is committed stays committed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from monus.catalog.leases import Lease
from monus.catalog.records import SourceRecord, ViewRecord, key_of
from monus.compiler.materialize import Materializer
from monus.errors import (
    AssertionViolated,
    LeaseLost,
    MonusError,
    StorageUnavailable,
    TransactionRefused,
    ViewUnusable,
)
from monus.frontend.definition import spark_message
from monus.frontend.jvm import quoted
from monus.maintenance.ahead import Ahead, AheadSource
from monus.maintenance.applying import has_pending, unusable
from monus.maintenance.concerned import assertion_name, is_assertion, is_differential, is_immediate, shown_name
from monus.maintenance.derive import Deriver, ViewChange
from monus.maintenance.fault_points import FaultPoint, fault_point
from monus.maintenance.fold import Target, stored_and_pending
from monus.maintenance.layout import WEIGHT
from monus.maintenance.maintainer import Maintainer
from monus.maintenance.operation import Operation
from monus.maintenance.protocol import mark_unusable, prepare
from monus.maintenance.sessions import Jobs
from monus.maintenance.sources import Source, TableSource, ViewSource
from monus.maintenance.staging import Net, net_ahead
from monus.maintenance.vectors import TableState, ViewState, from_json, numbers, to_json

logger = logging.getLogger(__name__)

SHOWN_ROWS = 20


@dataclass(slots=True)
class Derived:
    """The change of one view, held until the tables have their commits."""

    operation: Operation
    sources: Mapping[str, Source]
    change: ViewChange
    target: Target
    jobs: Jobs
    materializer: Materializer


@dataclass(slots=True)
class Participation:
    """`before` are the changed tables as the transaction finds them, by key; `stack` ends when all is applied."""

    maintainer: Maintainer
    stack: ExitStack
    before: Mapping[str, TableSource]
    nets: Mapping[str, Net]
    records: list[ViewRecord] = field(default_factory=list)
    derived: dict[str, Derived] = field(default_factory=dict)
    _as_staged: set[str] = field(default_factory=set)
    """The immediate views whose table got just what was derived."""

    # -- before the transaction is committed

    def prepare(self, view: ViewRecord, lease: Lease) -> None:
        """Bring the view to the state before, and derive its change; raises where the transaction is to be refused."""
        catalog = self.maintainer.catalog
        try:
            record = prepare(catalog, lease, self.maintainer.spark)
            if not record.usable or record.batch == 0:
                if is_assertion(record):
                    raise unusable(record)
                return  # nobody can read it until it is computed anew
            record = self._caught_up(record, lease)
            self.records.append(record)
            self._derive(record)
        except (LeaseLost, AssertionViolated, StorageUnavailable):
            raise
        except ViewUnusable as error:
            if is_assertion(view):
                raise _refused(view, error.message) from error
            # What it reads must be computed anew first: no reason to refuse what is written to tables.
            mark_unusable(catalog, view.name, "SOURCE_UNUSABLE", error.message, lease)
        except MonusError as error:
            raise _refused(view, error.message) from error
        except Exception as error:
            raise _refused(view, spark_message(error)) from error

    def _caught_up(self, record: ViewRecord, lease: Lease) -> ViewRecord:
        """What others wrote to the tables since is a transaction before this one."""
        now = self.maintainer.sources(record, self._before())
        state = to_json({name: source.state for name, source in now.items()})
        is_lazy = is_differential(record)
        if record.pending_vector == state and (is_lazy or not has_pending(record)):
            return record
        if is_lazy:
            self.maintainer.propagate_held(record.name, lease, now)
        else:
            self.maintainer.refresh_held(record.name, lease, now)
        return self.maintainer.catalog.view(record.name)

    def _derive(self, record: ViewRecord) -> None:
        maintainer = self.maintainer
        operation = Operation("refresh" if is_immediate(record) else "propagate", record)
        session, jobs = self.stack.enter_context(maintainer.running_jobs(operation))
        materializer = Materializer(session, on_run=lambda _: jobs.check())
        self.stack.callback(materializer.release)
        sources = self._after(record, materializer)
        if sources is None:
            return  # derived when what it reads was computed
        plan = maintainer.plans.of(record, sources)
        if plan.reasons or record.mode == "FULL":
            if is_assertion(record):
                rows = maintainer.plans.pinned_frame(session, record, sources)
                check_empty(assertion_name(record), rows)
            return  # computed in full when the tables have their commits
        vector = from_json(record.pending_vector)
        changes = {name: source.change_since(vector[name]) for name, source in sources.items()}
        target = maintainer.applying.target(record, plan, session)
        pending = maintainer.applying.pending(record, session)
        stored = maintainer.applying.view(target, pending, materializer, folds=is_immediate(record))
        deriver = Deriver(session, plan, sources, materializer)
        change = deriver.change(changes, stored)
        operation.rows_read.update(deriver.rows_read)
        if is_assertion(record) and (change.inserted or target.snapshot.size_in_bytes):
            rows = stored_and_pending(target, target.table.read(target.snapshot), change.data, materializer)
            check_empty(assertion_name(record), rows.select(*(F.col(quoted(c.name)) for c in record.columns)))
        self.derived[key_of(record.name)] = Derived(operation, sources, change, target, jobs, materializer)

    def _before(self) -> dict[str, Source]:
        return {source.name: source for source in self.before.values()}

    def _after(self, record: ViewRecord, materializer: Materializer) -> dict[str, Source] | None:
        """The view's sources as they will be; None where one is a view that is computed in full later."""
        found = self.maintainer.sources(record, self._before())
        for name, source in found.items():
            net, derived = self.nets.get(key_of(name)), self.derived.get(key_of(name))
            if net is not None and isinstance(source, TableSource):
                reached = TableState(source.snapshot.table_id, source.snapshot.version + 1)
                ahead = net_ahead(source.record, source.snapshot, net)
                found[name] = AheadSource(source, ahead, reached, materializer)
            elif derived is not None and isinstance(source, ViewSource) and is_immediate(source.record):
                found[name] = _ahead_of_view(source, derived, materializer)
            elif isinstance(source, ViewSource) and name in (r.name for r in self.records) and derived is None:
                return None
        return found

    # -- when the tables have their commits

    def maintain(self, name: str, lease: Lease, versions: Mapping[str, int]) -> None:
        """`versions` are those that the transaction's tables have reached, by key."""
        try:
            self._maintain(name, lease, versions)
        except (LeaseLost, StorageUnavailable):
            raise  # no fault of the view: the transaction stays outstanding, and is completed when there is room
        except Exception as error:
            message = error.message if isinstance(error, MonusError) else spark_message(error)
            logger.exception("%s could not be maintained", name)
            sentence = f"A transaction was committed, but its change could not be applied: {message}"
            mark_unusable(self.maintainer.catalog, name, "NOT_APPLIED", sentence, lease)

    def _maintain(self, name: str, lease: Lease, versions: Mapping[str, int]) -> None:
        record = prepare(self.maintainer.catalog, lease, self.maintainer.spark)
        if not record.usable or record.batch == 0:
            return
        sources = self._reached(record, versions)
        derived = self.derived.get(key_of(name))
        if derived is None or not self._holds(derived, sources):
            if is_differential(record):
                self.maintainer.propagate_held(name, lease, sources)
            else:
                self.maintainer.refresh_held(name, lease, sources)
            return
        self._apply(record, lease, derived, sources)
        if is_immediate(record):
            self._as_staged.add(key_of(name))

    def _apply(self, record: ViewRecord, lease: Lease, derived: Derived, sources: Mapping[str, Source]) -> None:
        operation, change = derived.operation, derived.change
        operation.record = record
        state = to_json({name: source.state for name, source in sources.items()})
        vectors = (numbers(from_json(record.pending_vector)), numbers(from_json(state)))
        applying, catalog = self.maintainer.applying, self.maintainer.catalog
        if change.is_empty:
            done = operation.describe(
                "none", "NO_EFFECT", "The transaction does not change the view.", vectors, jobs=derived.jobs.count()
            )
            vector = record.vector if has_pending(record) else state
            catalog.publish_vector_only(lease, vector=vector, pending_vector=state, refresh=done)
            fault_point(FaultPoint.VECTOR_PUBLISHED)
        elif is_differential(record):
            reason = "The change was added to the pending change with the transaction."
            applying.keep(operation, lease, derived.target, change, state, reason, vectors, derived.jobs)
        else:
            why = ("IMMEDIATE", "The change was applied with the transaction.")
            target, materializer = derived.target, derived.materializer
            whole = applying.whole(change, None, target, materializer)
            applying.fold(operation, lease, target, change, whole, state, why, vectors, derived.jobs, materializer)

    def _reached(self, record: ViewRecord, versions: Mapping[str, int]) -> dict[str, Source]:
        """The view's sources with the transaction, and as it found them where it does not change them."""
        derived = self.derived.get(key_of(record.name))
        found: dict[str, Source] = {}
        for source in self.maintainer.catalog.sources(record.name):
            version = versions.get(key_of(source.name))
            if version is not None:
                table = self.maintainer.catalog.table(source.name)
                found[source.name] = TableSource(table, self.maintainer.spark, version)
            elif derived is not None and source.kind == "table":
                found[source.name] = derived.sources[source.name]
            else:
                found[source.name] = self._open(source)
        return found

    def _open(self, source: SourceRecord) -> Source:
        catalog, spark = self.maintainer.catalog, self.maintainer.spark
        if source.kind == "table":
            return TableSource(catalog.table(source.name), spark)
        return ViewSource(catalog.view(source.name), spark, catalog)

    def _holds(self, derived: Derived, sources: Mapping[str, Source]) -> bool:
        """Whether what was derived is the change up to the states that were reached, and nobody else's is in it."""
        for name, source in sources.items():
            expected = derived.sources[name]
            if isinstance(expected, AheadSource) and isinstance(source, ViewSource):
                if key_of(name) not in self._as_staged:
                    return False
            elif source.state != expected.state:
                return False
        return True


def _ahead_of_view(source: ViewSource, derived: Derived, materializer: Materializer) -> AheadSource:
    columns = [F.col(quoted(field.name)) for field in source.schema.fields]
    rows = derived.change.data.select(*columns, F.col(WEIGHT))
    ahead = Ahead(lambda _: rows, derived.change.inserted, derived.change.deleted)
    state: Any = source.state
    return AheadSource(source, ahead, ViewState(state.id, state.batch + 1), materializer)


def check_empty(name: str, rows: DataFrame) -> None:
    """`rows` are those that the assertion says must not be."""
    found = rows.limit(SHOWN_ROWS).collect()
    if not found:
        return
    some = ", ".join(str(row.asDict()) for row in found[:3])
    raise AssertionViolated(
        f"The assertion '{name}' would be violated by {len(found)}{'' if len(found) < SHOWN_ROWS else ' or more'} "
        f"rows, such as {some}.",
        "Nothing was written; change the statements so that its query stays empty.",
        assertion=name,
        rows=[row.asDict() for row in found],
    )


def _refused(view: ViewRecord, why: str) -> TransactionRefused:
    what = shown_name(view)
    return TransactionRefused(
        f"The transaction was refused, because the change of the {what} cannot be derived: {why}",
        "Nothing was written; change the data, or let the view be maintained later: ALTER MATERIALIZED VIEW … SET "
        "REFRESH ON DEMAND.",
        view=view.name,
    )

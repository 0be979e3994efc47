"""The façade: a folder with tables, views and their catalog, and what can be done with them."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self
from weakref import WeakSet

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from monus.catalog.catalog import Catalog, set_aside_if_damaged
from monus.catalog.records import RefreshRecord, TaskRecord
from monus.errors import MonusError, RefreshFailed, TransactionClosed, WarehouseClosed, WarehouseInvalid
from monus.frontend.definition import spark_message
from monus.maintenance.alteration import Alteration
from monus.maintenance.assertions import AssertionRecord, Assertions
from monus.maintenance.commitment import Commitment
from monus.maintenance.creation import Creation, NewView
from monus.maintenance.definitions import Definitions
from monus.maintenance.explain import Explanation, explain_view
from monus.maintenance.folder import MARK, check_folder, local_folder
from monus.maintenance.lease import WAIT_SECONDS
from monus.maintenance.lookup import Lookup
from monus.maintenance.maintainer import Maintainer
from monus.maintenance.manager import BUSY_CPU, Manager, SystemIsIdle
from monus.maintenance.names import Names
from monus.maintenance.pins import ATTEMPTS, Pins, unsteady
from monus.maintenance.planner import RefreshPlan
from monus.maintenance.plans import Plans
from monus.maintenance.queries import Queries
from monus.maintenance.rebuild import Rebuilt, has_tables, rebuild
from monus.maintenance.recovery import recover
from monus.maintenance.schedule import Scheduler, no_jobs_running
from monus.maintenance.sources import Source
from monus.maintenance.staging_area import remove_abandoned
from monus.maintenance.status import Status
from monus.maintenance.transaction import Transaction
from monus.maintenance.upkeep import Upkeep
from monus.maintenance.verify import Verification
from monus.sql.mode import Mode, parse_mode
from monus.sql.parser import parse_statement
from monus.sql.policy import OnDemand, Policy, parse_policy
from monus.sql.statements import BeginTransaction
from monus.statements import run_statement
from monus.store.session import local_session, require_delta, spark_is_running
from monus.view import View

logger = logging.getLogger(__name__)

_LOST = "The catalog of the warehouse {} was lost: the folder has tables or views that it does not know."
_LOST_HINT = "Their rows are there: call wh.rebuild_catalog(), or monus.rebuild_catalog(folder)."
DEFAULT_POLICY = OnDemand("LOG")
DEFAULT_MODE = Mode.AUTO


def connect(folder: str | Path, *, spark: SparkSession | None = None, catalog: str | None = None) -> Warehouse:
    """Open a warehouse folder, created if absent; with a local Spark unless one is given."""
    root = local_folder(folder)
    try:
        check_folder(root)
    except OSError as error:
        raise WarehouseInvalid(
            f"The folder {root} cannot be looked into: {error.strerror}.", "Choose a folder that you may use."
        ) from error
    owns_spark = spark is None and not spark_is_running()
    if spark is not None:
        require_delta(spark)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WarehouseInvalid(
            f"The warehouse folder {root} cannot be created: {error.strerror}.",
            "Choose a folder that you may write to.",
        ) from error
    if not (root / MARK).exists() and not os.access(root, os.W_OK | os.X_OK):
        raise WarehouseInvalid(f"The folder {root} may not be written to.", "Choose a folder that you may write to.")
    opened = Catalog.open(catalog or root / MARK)
    try:
        session = spark if spark is not None else local_session(root)
        warehouse = Warehouse(session, root, opened, owns_spark)
        warehouse.recover()
    except BaseException:
        opened.close()
        raise
    return warehouse


def rebuild_catalog(folder: str | Path, *, spark: SparkSession | None = None, catalog: str | None = None) -> Rebuilt:
    """Mend a warehouse whose catalog was lost or damaged; a damaged one is kept beside the new one."""
    where = catalog or local_folder(folder) / MARK
    if Path(where).is_file():
        set_aside_if_damaged(Path(where))
    with connect(folder, spark=spark, catalog=catalog) as warehouse:
        return warehouse.rebuild_catalog()


class Warehouse:
    """Tables and materialized views over Delta Lake in one folder."""

    def __init__(self, spark: SparkSession, root: Path, catalog: Catalog, owns_spark: bool) -> None:
        self._spark = spark
        self.root = root
        self._catalog = catalog
        self._owns_spark = owns_spark
        self._closed = False
        self._may_be_lost = True
        location = f"file:{root}"
        self._names = Names(spark, location)
        lookup = Lookup(spark, catalog, self._names)
        self._plans = Plans(spark, catalog, lookup.record)
        self._maintainer = Maintainer(spark, catalog, self._plans)
        self._creation = Creation(spark, location, catalog, self._plans, self._maintainer, self._names)
        self._commitment = Commitment(spark, catalog, self._maintainer)
        self._maintainer.settle = self._commitment.settle
        self._queries = Queries(spark, location, lookup, self._creation, self._maintainer, self._commitment)
        self._begin = partial(Transaction, spark, location, lookup, self._maintainer, self._queries, self._commitment)
        self._definitions = Definitions(spark, lookup, self._queries)
        self._assertions = Assertions(catalog, self._plans, self._creation, self._commitment)
        self._alteration = Alteration(spark, catalog, self._plans, self._maintainer, self._creation, self._names)
        self._scheduler = Scheduler(catalog, self._maintainer, partial(no_jobs_running, spark))
        self._upkeep = Upkeep(spark, catalog)
        self._open = threading.local()
        self._transactions: WeakSet[Transaction] = WeakSet()

    @property
    def spark(self) -> SparkSession:
        self._check_open()
        return self._spark

    # -- definitions

    def sql(self, text: str) -> DataFrame:
        """A statement of Monus, or any statement of Spark SQL over the warehouse's tables and views."""
        self._check_open()
        statement = parse_statement(text)
        if self.open_transaction is not None and not isinstance(statement, BeginTransaction):
            return self.open_transaction.sql(text)
        if statement is not None:
            return run_statement(self, statement)
        return self._queries.run(text, self._transact)

    # -- transactions

    def transaction(self, wait_seconds: float = WAIT_SECONDS) -> Transaction:
        """`with wh.transaction() as tx:` all of its statements or none; it waits so long for others at its end."""
        self._check_open()
        begun = self._begin(wait_seconds)
        self._transactions.add(begun)
        return begun

    @property
    def open_transaction(self) -> Transaction | None:
        """The one that BEGIN TRANSACTION began in this thread."""
        found: Transaction | None = getattr(self._open, "transaction", None)
        return found if found is not None and found.is_open else None

    def begin(self) -> None:
        """BEGIN TRANSACTION: what this thread says with `sql` belongs to it, until COMMIT or ROLLBACK."""
        self._check_open()
        if self.open_transaction is not None:
            raise TransactionClosed("A transaction is open already.", "COMMIT or ROLLBACK it first.")
        self._open.transaction = self.transaction()

    def _transact(self, text: str) -> DataFrame:
        """A statement by itself that changes several tables, or that views take part in."""
        with self.transaction() as transaction:
            return transaction.sql(text)

    def create_assertion(self, name: str, query: str) -> None:
        """A query that must stay empty: a transaction that would leave rows in it is refused."""
        self._check_open()
        self._assertions.create(name, self._definitions.of(query))

    def drop_assertion(self, name: str) -> None:
        self._check_open()
        self._assertions.drop(name)

    def assertions(self) -> list[AssertionRecord]:
        self._check_open()
        return self._assertions.all()

    def create_view(
        self,
        name: str,
        query: str | DataFrame,
        refresh: str | Policy | None = None,
        mode: str | Mode | None = None,
        *,
        columns: tuple[str, ...] = (),
        comment: str | None = None,
        partitioned_by: tuple[str, ...] = (),
        cluster_by: tuple[str, ...] = (),
        replace: bool = False,
    ) -> View:
        """Define a view and compute it; `refresh` is what REFRESH would be followed by."""
        self._check_open()
        self._creation.create_view(
            self._new_view(name, query, refresh, mode, columns, comment, partitioned_by, cluster_by, replace)
        )
        return self.view(name)

    def explain_create(self, name: str, query: str | DataFrame, columns: tuple[str, ...] = ()) -> Explanation:
        """How a view would be maintained, without making it."""
        self._check_open()
        new = self._new_view(name, query, None, None, columns, None, (), (), False)
        return explain_view(name, self._plans.analyse(new.definition, new.columns))

    def attach(self, name: str, path_or_table: str, *, change_feed: bool = False) -> None:
        """An existing Delta table, written by anyone; its change feed is switched on only if you say so."""
        self._check_open()
        self._creation.attach(name, str(path_or_table), change_feed)

    def drop_view(self, name: str) -> None:
        self._check_open()
        self._creation.drop_view(name)

    # -- reading

    def table(self, name: str, fresh: bool = False) -> DataFrame:
        """The rows of a table, or of a view by its policy: a deferred one as it was last refreshed.

        `fresh`: the view as of now, whatever its policy, without writing anything.
        """
        self._check_open()
        if self.open_transaction is not None:
            return self.open_transaction.table(name, fresh)
        return self._queries.rows(name, fresh)

    def view(self, name: str) -> View:
        self._check_open()
        return View(self, self._catalog.view(name).name)

    def views(self) -> list[str]:
        self._check_open()
        return [record.name for record in self._catalog.views() if not record.hidden]

    def tables(self) -> list[str]:
        self._check_open()
        return [record.name for record in self._catalog.tables()]

    # -- maintenance

    def refresh(self) -> list[RefreshRecord]:
        """All views in dependency order, to one state of the tables; failures are told at the end."""
        self._check_open()
        pinned = self._pin_tables()
        done: list[RefreshRecord] = []
        failed: dict[str, MonusError] = {}
        for name in self._catalog.dependency_order():
            try:
                done.append(self._maintainer.refresh(name, pinned=pinned))
            except MonusError as error:
                failed[name] = error
            except Exception as error:  # of Spark, while a source was opened: the others are to go on
                failed[name] = RefreshFailed(
                    f"The refresh of '{name}' failed: {spark_message(error)}",
                    "The view is as it was before; look at its sources, then refresh it again.",
                    view=name,
                )
        if failed:
            told = "; ".join(f"{name}: {error}" for name, error in failed.items())
            raise RefreshFailed(
                f"{len(failed)} of {len(failed) + len(done)} views could not be refreshed. {told}",
                "The others were; what to do about each is said with it.",
                failures=failed,
                refreshed=done,
            ) from next(iter(failed.values()))
        return done

    def run_due(self, now: datetime | None = None) -> list[RefreshRecord]:
        """What the clock asks for by now of views that are refreshed EVERY so often; for cron and tests."""
        self._check_open()
        return self._scheduler.run_due(now.astimezone(UTC) if now is not None else None)  # naive: local time

    @contextmanager
    def maintenance(self, seconds: float = 1.0, busy_cpu: float = BUSY_CPU) -> Iterator[None]:
        """`with wh.maintenance():` threads do what is due, and when idle what lazy views wait for, until the end.

        The system is busy while Spark runs jobs of others, or the driver's machine uses more than this part of its CPU;
        1 means that the CPU is not looked at.
        """
        self._check_open()
        manager = Manager(self._spark, self._catalog, self._maintainer, SystemIsIdle(self._spark, busy_cpu))
        with self._scheduler.running(seconds), manager.running(seconds):
            yield

    def tasks(self) -> list[TaskRecord]:
        """What is still to be done for lazy views, in commit order."""
        self._check_open()
        return self._catalog.tasks()

    def optimize(self) -> list[str]:
        self._check_open()
        return self._upkeep.optimize()

    def vacuum(self, **options: float) -> dict[str, int]:
        self._check_open()
        return self._upkeep.vacuum(**options)

    def recover(self) -> list[str]:
        """Complete what a process that died left; `connect` has done so before it returns."""
        self._check_not_closed()
        settled = recover(self._spark, self._catalog, self._creation, self._commitment)
        self._creation.remove_leftovers()
        remove_abandoned(self._spark, self.root, self._catalog)
        locations = {record.name: record.location for record in self._catalog.tables()}
        locations |= {record.name: record.location for record in self._catalog.views() if not record.hidden}
        for name, location in locations.items():
            try:
                self._names.register(name, location)
            except AnalysisException:
                logger.warning("There is no Delta table at %s, where '%s' was", location, name)
        if self._is_lost():
            logger.warning("%s: %s", _LOST.format(self.root), _LOST_HINT)
        return settled

    def rebuild_catalog(self) -> Rebuilt:
        """Add to the catalog the tables and views that the folder has and the catalog does not know."""
        self._check_not_closed()
        done = rebuild(self._spark, self.root, self._catalog)
        self.recover()
        return done

    def close(self) -> None:
        """End what `connect` started; transactions that are open are rolled back."""
        if self._closed:
            return
        self._closed = True
        for transaction in list(self._transactions):
            if transaction.is_open:
                transaction.rollback()
        self._names.close()
        self._catalog.close()
        if self._owns_spark:
            self._spark.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- inside

    def _pin_tables(self) -> dict[str, Source]:
        """One state of every base table, so that all views end at one consistent vector."""
        names = self._catalog.dependency_order()
        read = {source.name for name in names for source in self._catalog.sources(name) if source.kind == "table"}
        for _ in range(ATTEMPTS):
            pins = Pins(self._spark, self._catalog, self._commitment.settle)
            pinned: dict[str, Source] = {}
            for name in sorted(read):
                try:
                    pinned[name] = pins.table(self._catalog.table(name))
                except MonusError:
                    continue  # the views that read it will say so
            if pins.still_hold():
                return pinned
        raise unsteady()

    def _new_view(
        self,
        name: str,
        query: str | DataFrame,
        refresh: str | Policy | None,
        mode: str | Mode | None,
        columns: tuple[str, ...],
        comment: str | None,
        partitioned_by: tuple[str, ...],
        cluster_by: tuple[str, ...],
        replace: bool,
    ) -> NewView:
        policy = parse_policy(refresh) if isinstance(refresh, str) else refresh or DEFAULT_POLICY
        chosen = parse_mode(mode) if isinstance(mode, str) else mode or DEFAULT_MODE
        definition = self._definitions.of(query)
        return NewView(
            name, definition, str(policy), chosen.name, columns, comment, partitioned_by, cluster_by, replace
        )

    def _is_lost(self) -> bool:
        return self._catalog.is_empty() and has_tables(self.root)

    def _check_open(self) -> None:
        self._check_not_closed()
        if self._may_be_lost:
            if self._is_lost():
                raise WarehouseInvalid(_LOST.format(self.root), _LOST_HINT)
            self._may_be_lost = False

    def _check_not_closed(self) -> None:
        if self._closed:
            raise WarehouseClosed("The warehouse was closed.", "Open it again with monus.connect(folder).")


__all__ = [
    "Explanation",
    "Rebuilt",
    "RefreshPlan",
    "Status",
    "Verification",
    "View",
    "Warehouse",
    "connect",
    "rebuild_catalog",
]

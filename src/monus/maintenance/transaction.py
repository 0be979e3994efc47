"""A transaction as a user writes it: any number of statements on any number of tables, all of them or none.

It reads the state of the warehouse at its begin together with its own changes, and nobody else sees these before it
commits (snapshot isolation). The paper's abstract transaction {R₁ := Q₁, …, Rₙ := Qₙ} is `assign`: every query is
evaluated in the state before.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.catalog.records import SourceRecord, TableRecord, TransactionRecord, ViewRecord, key_of
from monus.compiler.materialize import Materializer
from monus.errors import (
    MonusError,
    NotSupported,
    StatementInvalid,
    TransactionClosed,
    UnknownColumn,
    UnknownTable,
)
from monus.frontend.definition import rejected
from monus.frontend.dml import StagedDml, insert_rows, stage_dml
from monus.frontend.dml_rows import GENERATED
from monus.frontend.jvm import active, analyzed, frame_of, quoted
from monus.frontend.substitution import Found, Parts
from monus.maintenance.ahead import AheadSource
from monus.maintenance.applying import has_pending, unusable
from monus.maintenance.commitment import Commitment
from monus.maintenance.concerned import reads_now
from monus.maintenance.creation import remove_folder
from monus.maintenance.fold import signed
from monus.maintenance.fresh import FreshViews
from monus.maintenance.lookup import Lookup
from monus.maintenance.maintainer import Maintainer
from monus.maintenance.pins import ATTEMPTS, Pins, unsteady
from monus.maintenance.queries import Queries, check_known, closed, is_query
from monus.maintenance.sources import Source, TableSource, visible_rows
from monus.maintenance.staging import StagedTable
from monus.maintenance.staging_area import staging_path
from monus.maintenance.vectors import TableState
from monus.sql.parser import parse_statement
from monus.sql.policy import OnQuery, parse_policy
from monus.sql.statements import Commit, Rollback

logger = logging.getLogger(__name__)

Rows = str | DataFrame


class Transaction:
    """`with wh.transaction() as tx:` commits at the end of the block, and rolls back if an error leaves it."""

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        lookup: Lookup,
        maintainer: Maintainer,
        queries: Queries,
        commitment: Commitment,
        wait_seconds: float,
    ) -> None:
        self._spark = spark
        self._root = root
        self._lookup = lookup
        self._maintainer = maintainer
        self._queries = queries
        self._commitment = commitment
        self._wait_seconds = wait_seconds
        self._materializer = Materializer(spark)
        self._staging = staging_path(root, str(uuid.uuid4()))
        self._staged: dict[str, StagedTable] = {}
        self._statements = 0
        self._end = ""
        self.record: TransactionRecord | None = None
        """What was committed, once it is; None where nothing was changed."""
        self._pin()

    # -- statements

    def sql(self, text: str) -> DataFrame:
        """A query, INSERT, UPDATE, DELETE, MERGE or TRUNCATE; COMMIT and ROLLBACK end the transaction."""
        self._check_open()
        match parse_statement(text):
            case None:
                pass
            case Commit():
                self.commit()
                return self._nothing()
            case Rollback():
                self.rollback()
                return self._nothing()
            case statement:
                raise NotSupported(
                    f"{type(statement).__name__} is a statement about views, which has no place in a transaction.",
                    "Give it before or after the transaction.",
                )
        plan = self._queries.parse(text)
        check_known(plan)
        if is_query(self._spark, plan):
            return self._queries.execute(self._queries.substituted(plan, self._find))
        self._queries.check_targets(plan)
        return self._stage(stage_dml(self._spark, self._queries.substituted(plan, self._find), self._rows_at))

    def insert(self, table: str, rows: Rows) -> None:
        """Rows of a DataFrame or query, by the names of their columns."""
        staged = self._open(table)
        self._stage([self._coming(staged, "INSERT", self._rows(rows))])

    def delete(self, table: str, where: str | Column | None = None) -> None:
        """The rows for which the condition is true, or all of them."""
        staged = self._open(table)
        rows = self._table_rows(staged)
        gone = rows if where is None else _where(rows, where)
        self._stage([StagedDml(staged.record.location, "DELETE", None, gone, where is None)])

    def update(self, table: str, values: Mapping[str, str | Column], where: str | Column | None = None) -> None:
        """Give columns new values, each a SQL expression or Column over the old row."""
        staged = self._open(table)
        rows = self._table_rows(staged)
        old = rows if where is None else _where(rows, where)
        known = {c.lower(): c for c in rows.columns}
        wanted = {name.lower(): _expression(v) for name, v in values.items()}
        for name in values:
            if name.lower() not in known:
                raise UnknownColumn(
                    f"The table '{table}' has no column '{name}'.", f"Its columns are {', '.join(rows.columns)}."
                )
        generated = {field.name.lower() for field in staged.snapshot.schema if GENERATED in field.metadata}
        kept = [c for c in rows.columns if c.lower() in wanted or c.lower() not in generated]
        columns = [wanted.get(c.lower(), F.col(quoted(c))).alias(c) for c in kept]
        try:
            self._stage([self._coming(staged, "UPDATE", old.select(*columns), old)])
        except MonusError:
            raise
        except Exception as error:
            raise rejected(error) from error

    def merge(
        self,
        table: str,
        source: Rows,
        on: str,
        update: Mapping[str, str] | bool = False,
        insert: Mapping[str, str] | bool = False,
        delete: str | bool = False,
    ) -> None:
        """MERGE of `source` into `target`, as expressions name them.

        `update`, `insert`: the values by column, or True for all columns of the source; `delete`: the condition under
        which a matched row leaves, or True.
        """
        clauses = []
        if delete:
            clauses.append(f"WHEN MATCHED{'' if delete is True else f' AND {delete}'} THEN DELETE")
        if update:
            sets = "*" if update is True else ", ".join(f"target.{quoted(c)} = {v}" for c, v in update.items())
            clauses.append(f"WHEN MATCHED THEN UPDATE SET {sets}")
        if insert:
            named = "*"
            if insert is not True:
                names, values = ", ".join(map(quoted, insert)), ", ".join(insert.values())
                named = f"({names}) VALUES ({values})"
            clauses.append(f"WHEN NOT MATCHED THEN INSERT {named}")
        if not clauses:
            raise StatementInvalid("The MERGE would do nothing.", "Say what to update, insert or delete.")
        name = f"__monus_source_{uuid.uuid4().hex}"
        self._rows(source).createTempView(name)
        try:
            self.sql(f"MERGE INTO {quoted(table)} AS target USING {name} AS source ON {on} {' '.join(clauses)}")
        finally:
            self._spark.catalog.dropTempView(name)

    def assign(self, queries: Mapping[str, Rows]) -> None:
        """R₁ := Q₁, …, Rₙ := Qₙ, all at once: every query sees the tables as they were before."""
        opened = {name: self._open(name) for name in queries}
        self._stage(
            [self._coming(opened[name], "OVERWRITE", self._rows(query), None, True) for name, query in queries.items()]
        )

    def table(self, name: str, fresh: bool = False) -> DataFrame:
        """The rows of a table or view as the transaction sees them; `fresh`: a deferred view too with its changes."""
        self._check_open()
        view = self._views.get(key_of(name))
        if fresh and view is not None:
            return self._fresh(view)
        found = self._find((name,))
        if found is None or found.read is None:
            raise UnknownTable(f"The warehouse has no table or view '{name}'.", "wh.tables() and wh.views() list them.")
        return frame_of(self._spark, found.plan)

    # -- the end

    def commit(self) -> TransactionRecord | None:
        """Make all of it the state of the warehouse, or raise with nothing written."""
        self._check_open()
        self._end = "being committed"
        committed: list[str] = []
        try:
            self.record = self._commitment.commit(self._staged, self._staging, self._statements, self._wait_seconds)
            self._end = "committed"
        except BaseException as error:
            self._end = "ended with an error"
            self.record = self._after(error)
        if self.record is not None:
            committed = [file for part in self.record.tables for file in part.staged["adds"]]
        self._clean(committed)
        return self.record

    def _after(self, error: BaseException) -> TransactionRecord:
        """What is staged goes if it is known that nothing was committed; else whoever completes it needs it."""
        try:
            if not isinstance(error, Exception):
                raise error
            record = self._commitment.after_error(self._staging, error)
        except BaseException:
            self._materializer.release()
            raise
        if record is not None:
            logger.warning("The transaction %s is committed and applied, although: %s", record.id, error)
            self._end = "committed"
            return record
        self._clean([])
        if isinstance(error, MonusError):
            raise error
        raise rejected(error) from error  # such as a constraint that the rows violate

    def rollback(self) -> None:
        """Forget all of it."""
        self._check_open()
        self._end = "rolled back"
        self._clean([])

    @property
    def is_open(self) -> bool:
        return not self._end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self.is_open:
            return
        if error is None:
            self.commit()
        else:
            self.rollback()

    # -- the state that it sees

    def _pin(self) -> None:
        """The state at the begin, of everything: what is looked at later must belong to it too."""
        catalog = self._lookup.catalog
        for _ in range(ATTEMPTS):
            self._pins = Pins(self._spark, catalog, self._commitment.settle)
            self._tables: dict[str, TableSource] = {}
            for record in catalog.tables():
                try:
                    self._tables[key_of(record.name)] = self._pins.table(record)
                except MonusError:
                    continue  # its files are gone: whoever asks for it will be told
            self._views = {key_of(record.name): self._pins.as_seen(record) for record in catalog.views()}
            if self._pins.still_hold():
                return
        raise unsteady()

    def _find(self, parts: Parts) -> Found | None:
        names, record = self._lookup.names, self._lookup.record(parts)
        if record is None:
            return None
        if names.location(names.session_name(record.name)) is None:
            names.register(record.name, record.location)  # another process made it
        if isinstance(record, TableRecord):
            return Found(lambda: analyzed(self._table_rows(self._open(record.name))), names.parts(record.name))
        view = self._views.get(key_of(record.name))
        if view is None:
            raise self._later(record.name)
        if not view.usable or view.batch == 0:
            raise unusable(view)
        if reads_now(view):
            rows = self._views_ahead().rows(view.name)
        elif parse_policy(view.policy) == OnQuery(partial=True) and has_pending(view):
            rows = self._views_ahead().as_propagated(view.name)
        else:
            rows = visible_rows(self._spark, view)
        return Found(partial(analyzed, rows), names.parts(record.name))

    def _fresh(self, view: ViewRecord) -> DataFrame:
        """The view over the tables with what is staged, and so are all views that it reads."""
        if not view.usable or view.batch == 0:
            raise unusable(view)
        return self._views_ahead(all_fresh=True).rows(view.name)

    def _views_ahead(self, all_fresh: bool = False) -> FreshViews:
        return FreshViews(self._maintainer, self._source, lambda name: self._views[key_of(name)], all_fresh)

    def _source(self, source: SourceRecord) -> Source:
        base = self._tables.get(key_of(source.name))
        if base is None:
            raise self._later(source.name)
        staged = self._staged.get(key_of(source.name))
        if staged is None or staged.is_untouched:
            return base
        ahead = staged.ahead(self._spark, self._materializer)
        reached = TableState(base.snapshot.table_id, base.snapshot.version + 1)
        return AheadSource(base, ahead, reached, self._materializer)

    def _open(self, name: str) -> StagedTable:
        self._check_open()
        key = key_of(name)
        if key not in self._staged:
            source = self._tables.get(key)
            if source is None:
                view = self._lookup.catalog.find_view(name)
                raise closed(view.name) if view is not None else self._later(self._lookup.catalog.table(name).name)
            self._staged[key] = StagedTable(source.record, source.snapshot)
        return self._staged[key]

    def _later(self, name: str) -> UnknownTable:
        return UnknownTable(
            f"'{name}' was not there, or could not be read, when the transaction began.", "Begin another one."
        )

    def _table_rows(self, staged: StagedTable) -> DataFrame:
        source = self._source(SourceRecord(staged.record.name, "table"))
        return source.read(self._spark)

    def _rows_at(self, path: str) -> DataFrame:
        record = self._lookup.at(path)
        if not isinstance(record, TableRecord):
            raise UnknownTable(
                f"{path} is not a table of this warehouse.", "Attach it first: wh.attach(name, path).", path=path
            )
        return self._table_rows(self._open(record.name))

    def _rows(self, rows: Rows) -> DataFrame:
        return rows if isinstance(rows, DataFrame) else self.sql(rows)

    # -- staging

    def _coming(
        self,
        staged: StagedTable,
        kind: str,
        rows: DataFrame,
        deleted: DataFrame | None = None,
        replaces_all: bool = False,
    ) -> StagedDml:
        """Rows of a DataFrame, found by name and cast as INSERT would."""
        metadata = staged.snapshot.metadata
        aligned = insert_rows(self._spark, staged.snapshot.schema, rows, metadata.partition_columns)
        return StagedDml(staged.record.location, kind, aligned, deleted, replaces_all)

    def _stage(self, changes: list[StagedDml]) -> DataFrame:
        """One statement: every query is evaluated before any table changes for it."""
        self._check_open()
        ready: list[Callable[[], None]] = []
        with active(self._spark):
            try:
                for change in changes:
                    ready.append(self._evaluated(change))
            except MonusError:
                raise
            except Exception as error:
                raise rejected(error) from error
        for apply in ready:
            apply()
        self._statements += 1
        return self._nothing()

    def _evaluated(self, change: StagedDml) -> Callable[[], None]:
        record = self._lookup.at(change.target)
        if not isinstance(record, TableRecord):
            raise UnknownTable(f"{change.target} is not a table of this warehouse.", "Attach it first.")
        staged = self._open(record.name)
        if change.deleted is None or change.replaces_all:
            adds = () if change.inserted is None else staged.write(self._spark, change.inserted)
            return partial(self._note, staged, adds, None, change.replaces_all)
        rows = signed(change.deleted, -1)
        if change.inserted is not None:
            rows = signed(change.inserted, 1).unionByName(rows)
        found = staged.evaluate(rows, self._materializer)
        return partial(self._note, staged, (), found, change.replaces_all)

    def _note(self, staged: StagedTable, adds: tuple[str, ...], rows: DataFrame | None, replaces_all: bool) -> None:
        if replaces_all:
            staged.replace()
        staged.adds += adds
        if rows is not None:
            staged.signed.append(rows)

    def _clean(self, committed: list[str]) -> None:
        """What is staged and not needed; whether it goes well says nothing about the transaction."""
        try:
            for staged in self._staged.values():
                staged.forget(self._spark, committed)
            self._materializer.release()
            if not committed:
                remove_folder(self._spark, self._staging)
        except Exception:
            logger.warning("Files of a transaction could not be removed; VACUUM will do it", exc_info=True)

    def _check_open(self) -> None:
        if self._end:
            raise TransactionClosed(f"The transaction was {self._end}.", "Begin another one: wh.transaction().")

    def _nothing(self) -> DataFrame:
        return self._spark.range(0).select()


def _where(rows: DataFrame, condition: str | Column) -> DataFrame:
    try:
        return rows.where(condition)
    except Exception as error:
        raise rejected(error) from error


def _expression(value: str | Column) -> Column:
    try:
        return F.expr(value) if isinstance(value, str) else value
    except Exception as error:
        raise rejected(error) from error

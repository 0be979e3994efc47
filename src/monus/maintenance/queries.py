"""Statements of Spark SQL over the warehouse's tables and views.

Views are read at their published version, without the columns that do not show, and are closed to changes;
everything else is Spark's own, under the names that the session has for the warehouse's tables.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.catalog.records import TableRecord, ViewRecord
from monus.errors import (
    CatalogUnavailable,
    InUse,
    MonusError,
    NameExists,
    NotSupported,
    StatementInvalid,
    ViewIsClosedToDml,
)
from monus.frontend.definition import rejected, spark_message
from monus.frontend.dml import SEVERAL, STATEMENTS
from monus.frontend.jvm import analyzed, class_name, frame_of, items
from monus.frontend.substitution import Found, Parts, parse, session_view, substitute
from monus.maintenance.applying import unusable
from monus.maintenance.commitment import Commitment
from monus.maintenance.concerned import assertion_name, concerned_views, is_assertion
from monus.maintenance.creation import Creation
from monus.maintenance.fault_points import FaultPoint, fault_point
from monus.maintenance.lease import WAIT_SECONDS
from monus.maintenance.lookup import Lookup
from monus.maintenance.maintainer import Maintainer
from monus.maintenance.pins import ATTEMPTS, unsteady
from monus.maintenance.reading import Reading
from monus.maintenance.screening import ignores_columns, is_alone
from monus.maintenance.sources import visible_rows
from monus.maintenance.table_creation import TableCreation
from monus.maintenance.targets import changed_targets, identifier_parts
from monus.store.apply import last_commit
from monus.store.delta_table import DeltaTable
from monus.store.faults import storage_faults

logger = logging.getLogger(__name__)

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
COMMANDS = (f"{_LOGICAL}.Command", f"{_LOGICAL}.ParsedStatement")
CREATES_TABLE = ("CreateTable", "CreateTableAsSelect", "ReplaceTable", "ReplaceTableAsSelect")
LISTS_COLUMNS = ("DescribeRelation", "ShowColumns")
MOVES = ("RenameTable", "SetTableLocation")
REFUSED = {
    "CompoundBody": ("A script (BEGIN … END)", "Give one statement at a time."),
    "UnresolvedExecuteImmediate": ("EXECUTE IMMEDIATE", "Give the statement itself."),
    "CreateTableLikeCommand": ("CREATE TABLE … LIKE", "Write CREATE TABLE … AS SELECT * FROM … WHERE false."),
    "CloneTableStatement": ("CREATE TABLE … CLONE", "Write CREATE TABLE … AS SELECT."),
}


class Queries:
    def __init__(
        self,
        spark: SparkSession,
        root: str,
        lookup: Lookup,
        creation: Creation,
        maintainer: Maintainer,
        commitment: Commitment,
    ) -> None:
        self._spark = spark
        self._root = root
        self._lookup = lookup
        self._creation = creation
        self._maintainer = maintainer
        self._commitment = commitment
        self._tables = TableCreation(spark, root, lookup, creation)

    def run(self, text: str, transact: Callable[[str], DataFrame]) -> DataFrame:
        """`transact` runs a statement that is more than one commit, as a transaction."""
        plan = self.parse(text)
        kind = class_name(plan)
        check_known(plan)
        records = self.check_targets(plan)
        if kind in CREATES_TABLE:
            self._tables.create(plan, lambda located: self.execute(self.substituted(located)))
            return self._nothing()
        if kind == "DropTable" and records:
            self._creation.drop_table(records[0].name)
            return self._nothing()
        tables = {record.name: record for record in records if isinstance(record, TableRecord)}
        if tables and changes_rows(plan):
            # Delta takes an UPDATE through a view of Spark that renames columns for one of other columns.
            alone = number_of_changes(plan) == 1 and all(map(self._is_named, changed_targets(plan)))
            done = self._change(plan, *tables.values()) if alone and not self._concerned(tables) else None
            return transact(text) if done is None else done
        if kind == "RestoreTableStatement" and tables:
            return self._restore(plan, *tables.values())
        result = self.execute(self.substituted(plan))
        if kind in LISTS_COLUMNS and isinstance(self._lookup.record(identifier_parts(plan)), ViewRecord):
            result = result.where(~F.col(result.columns[0]).startswith("__"))
        return result

    def substituted(self, plan: Any, find: Callable[[Parts], Found | None] | None = None) -> Any:
        """A parsed statement with what the names of the warehouse stand for: at one state, unless `find` says."""
        if find is not None:
            return substitute(self._spark, plan, find)
        for _ in range(ATTEMPTS):
            reading = self.reading()
            found = substitute(self._spark, plan, reading.find)
            if reading.holds():
                return found
        raise unsteady()

    def rows(self, name: str, fresh: bool) -> DataFrame:
        """The rows of a table or view by name."""
        for _ in range(ATTEMPTS):
            reading = self.reading()
            found = reading.rows(name, fresh)
            if reading.holds():
                return found
        raise unsteady()

    def reading(self) -> Reading:
        return Reading(self._spark, self._lookup, self._maintainer)

    def frame(self, text: str) -> DataFrame:
        """A query's DataFrame that is only analysed."""
        return frame_of(self._spark, self.substituted(parse(self._spark, text), self._known))

    def _concerned(self, tables: Iterable[str]) -> list[ViewRecord]:
        return concerned_views(self._lookup.catalog, tables)

    def _change(self, plan: Any, table: TableRecord) -> DataFrame | None:
        """A statement that is a transaction by itself: its own commit, and one small SQL transaction.

        Rows that only come are in nobody's way; whoever takes rows away waits for a transaction on the table. None
        where views have come meanwhile that must take part.
        """
        only_comes = is_insert(plan)
        if only_comes and not self._commitment.is_left_on(table.name):
            return self._commit(plan, table)
        with self._commitment.alone_on([table.name], WAIT_SECONDS):
            return None if self._concerned([table.name]) else self._commit(plan, table)

    def _restore(self, plan: Any, table: TableRecord) -> DataFrame:
        """Views see it as what others have written; an assertion would see it too late."""
        with self._commitment.alone_on([table.name], WAIT_SECONDS):
            asserted = [record for record in self._concerned([table.name]) if is_assertion(record)]
            if asserted:
                raise InUse(
                    f"The table '{table.name}' is read by the assertion '{assertion_name(asserted[0])}', which RESTORE "
                    "could violate.",
                    f"DROP ASSERTION {assertion_name(asserted[0])} first, or write the rows with INSERT OVERWRITE.",
                    name=table.name,
                    readers=[assertion_name(record) for record in asserted],
                )
            return self._commit(plan, table)

    def _commit(self, plan: Any, table: TableRecord) -> DataFrame:
        delta = DeltaTable(self._spark, table.location)
        before = delta.snapshot()
        with last_commit(self._spark) as committed:
            is_restore = class_name(plan) == "RestoreTableStatement"  # which takes nothing but a name
            ignores = ignores_columns(plan, before)
            result = self.execute(plan if is_restore else self.substituted(plan), table.location)
        if committed.version is not None and committed.version > before.version:
            fault_point(FaultPoint.STATEMENT_COMMITTED)
            # Another thread may have committed to another table, whose version this would be.
            seen = delta.last_seen().version
            reached = min(committed.version, seen) if seen > before.version else committed.version
            if ignores is not None and not is_alone(result, before, seen):
                ignores = None
            try:
                self._lookup.catalog.record_statement(table.name, before.version, before.table_id, reached, ignores)
            except CatalogUnavailable:
                # The rows are there: an error would have the statement run again. Its commit is found as those of
                # other writers are.
                logger.warning("A statement on '%s' could not be recorded", table.name, exc_info=True)
            fault_point(FaultPoint.STATEMENT_RECORDED)
        return result

    def parse(self, text: str) -> Any:
        try:
            return parse(self._spark, text)
        except Exception as error:
            message = spark_message(error)
            raise StatementInvalid(
                f"Spark cannot parse the statement: {message}", "Correct it.", spark=message
            ) from error

    def execute(self, plan: Any, writes_to: str | None = None) -> DataFrame:
        try:
            with storage_faults(writes_to or self._root):
                return frame_of(self._spark, plan)
        except MonusError:
            raise
        except Exception as error:
            raise rejected(error) from error

    def _known(self, parts: Parts) -> Found | None:
        """Names alone: for what is analysed and not read."""
        names, record = self._lookup.names, self._lookup.record(parts)
        if record is None or (parts[0].lower() == "delta" and isinstance(record, TableRecord)):
            return None
        if names.location(names.session_name(record.name)) is None:
            names.register(record.name, record.location)
        if isinstance(record, TableRecord):
            return Found(parts=names.parts(record.name))
        if not record.usable or record.batch == 0:
            raise unusable(record)
        return Found(lambda: analyzed(visible_rows(self._spark, record)), names.parts(record.name))

    def check_targets(self, plan: Any) -> list[TableRecord | ViewRecord]:
        """What the statement changes; a view is not changed by anybody but its own refresh."""
        found: list[TableRecord | ViewRecord] = []
        for target in changed_targets(plan):
            hit = self._records_behind(target)
            for record in hit:
                if isinstance(record, ViewRecord):
                    raise closed(record.name)
                if class_name(plan) in MOVES:
                    raise NotSupported(
                        f"The table '{record.name}' of a warehouse cannot be renamed or moved yet.",
                        "Make another with CREATE TABLE … AS SELECT.",
                        name=record.name,
                    )
            found += hit
        if class_name(plan) == "CreateView":
            self._check_new_name(identifier_parts(plan))
        return found

    def _records_behind(self, target: Any) -> list[TableRecord | ViewRecord]:
        """The tables and views that a name stands for, also through temporary and SQL views."""
        if class_name(target) == "UnresolvedIdentifier":
            parts = identifier_parts(target)
            record = self._lookup.record(parts) if not self._is_hidden(parts) else None
            return [] if record is None else [record]
        found: list[TableRecord | ViewRecord] = []

        def note(parts: Parts) -> Found | None:
            record = self._lookup.record(parts) or self._lookup.keeper(parts)
            if record is None:
                return None
            found.append(record)
            return Found()

        substitute(self._spark, target, note)
        return found

    def _is_named(self, target: Any) -> bool:
        """Whether it is the name of a table itself, and not of a view of Spark over it."""
        while class_name(target) == "SubqueryAlias":
            target = target.child()
        if class_name(target) != "UnresolvedRelation":
            return True
        parts = tuple(items(target.multipartIdentifier()))
        return not self._is_hidden(parts) and isinstance(self._lookup.record(parts), TableRecord)

    def _is_hidden(self, parts: Parts) -> bool:
        is_temporary = session_view(self._spark, parts) is not None
        return is_temporary and not self._lookup.names.is_shown(parts[-1])

    def _check_new_name(self, parts: Parts) -> None:
        record = self._lookup.record(parts)
        if record is not None:
            raise NameExists(
                f"The warehouse has a table or view '{record.name}' already.", "Choose another name.", name=record.name
            )

    def _nothing(self) -> DataFrame:
        """What Spark's own commands answer with."""
        return self._spark.range(0).select()


def check_known(plan: Any) -> None:
    """What these would do to names, tables and views cannot be seen before they run."""
    kind = class_name(plan)
    if kind in REFUSED:
        what, instead = REFUSED[kind]
        raise NotSupported(f"{what} is not there yet.", instead)
    for child in items(plan.children()) if kind == "UnresolvedWith" else []:
        check_known(child)


def is_query(spark: SparkSession, plan: Any) -> bool:
    """Whether a parsed statement only reads."""
    gateway = spark.sparkContext._gateway
    kind = class_name(plan)
    if kind.endswith("Statement") or kind == "InsertIntoDir":  # these are no commands for Spark
        return False
    if kind == "UnresolvedWith":
        return all(is_query(spark, child) for child in items(plan.children()))
    return not changes_rows(plan) and not any(is_instance_of(gateway, plan, kind) for kind in COMMANDS)


def changes_rows(plan: Any) -> bool:
    """Whether a parsed statement is INSERT, UPDATE, DELETE, MERGE or TRUNCATE, also behind WITH or several at once."""
    kind = class_name(plan)
    if kind in SEVERAL:
        return any(changes_rows(child) for child in items(plan.children()))
    return kind in STATEMENTS


def number_of_changes(plan: Any) -> int:
    """How many commits it would be."""
    kind = class_name(plan)
    if kind in SEVERAL:
        return sum(number_of_changes(child) for child in items(plan.children()))
    return 1 if kind in STATEMENTS else 0


def is_insert(plan: Any) -> bool:
    """Whether rows only come."""
    kind = class_name(plan)
    if kind == "UnresolvedWith":
        return any(is_insert(child) for child in items(plan.children()))
    return kind == "AppendData" or (kind == "InsertIntoStatement" and not plan.overwrite())


def closed(name: str) -> ViewIsClosedToDml:
    return ViewIsClosedToDml(
        f"'{name}' is a materialized view: its rows follow from its query and cannot be changed.",
        "Change the tables that it reads, then refresh it; DROP MATERIALIZED VIEW drops it, wh.optimize() and "
        "wh.vacuum() look after its files.",
        view=name,
    )

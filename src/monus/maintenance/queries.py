"""Statements of Spark SQL over the warehouse's tables and views.

Views are read at their published version, without the columns that do not show, and are closed to changes;
everything else is Spark's own, under the names that the session has for the warehouse's tables.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.catalog.records import TableRecord, ViewRecord
from monus.errors import MonusError, NameExists, NotSupported, StatementInvalid, ViewIsClosedToDml
from monus.frontend.definition import rejected, spark_message
from monus.frontend.jvm import class_name, frame_of
from monus.frontend.substitution import Found, Parts, parse, reads, session_view, substitute
from monus.maintenance.creation import Creation
from monus.maintenance.lookup import Lookup
from monus.maintenance.maintainer import unusable
from monus.maintenance.table_creation import TableCreation
from monus.maintenance.targets import changed_targets, identifier_parts
from monus.maintenance.verification import visible_rows

CREATES_TABLE = ("CreateTable", "CreateTableAsSelect", "ReplaceTable", "ReplaceTableAsSelect")
LISTS_COLUMNS = ("DescribeRelation", "ShowColumns")
MOVES = ("RenameTable", "SetTableLocation")
# What each of these would do to names and views cannot be seen before it runs.
REFUSED = {
    "CompoundBody": ("A script (BEGIN … END)", "Give one statement at a time."),
    "UnresolvedExecuteImmediate": ("EXECUTE IMMEDIATE", "Give the statement itself."),
    "CreateTableLikeCommand": ("CREATE TABLE … LIKE", "Write CREATE TABLE … AS SELECT * FROM … WHERE false."),
    "CloneTableStatement": ("CREATE TABLE … CLONE", "Write CREATE TABLE … AS SELECT."),
}


class Queries:
    def __init__(self, spark: SparkSession, root: str, lookup: Lookup, creation: Creation) -> None:
        self._spark = spark
        self._lookup = lookup
        self._creation = creation
        self._tables = TableCreation(spark, root, lookup, creation)

    def run(self, text: str) -> DataFrame:
        plan = self._parse(text)
        kind = class_name(plan)
        if kind in REFUSED:
            what, instead = REFUSED[kind]
            raise NotSupported(f"{what} is not there yet.", instead)
        records = self._check_targets(plan)
        if kind in CREATES_TABLE:
            located = self._tables.prepare(plan)
            if located is not None:
                self._tables.create(located, lambda: self._execute(self.substituted(located.plan)))
            return self._nothing()
        if kind == "DropTable" and records:
            self._creation.drop_table(records[0].name)
            return self._nothing()
        result = self._execute(self.substituted(plan))
        if kind in LISTS_COLUMNS and isinstance(self._lookup.record(identifier_parts(plan)), ViewRecord):
            result = result.where(~F.col(result.columns[0]).startswith("__"))
        return result

    def substituted(self, plan: Any) -> Any:
        """A parsed statement with the names of the warehouse put in."""
        return substitute(self._spark, plan, self._find)

    def frame(self, text: str) -> DataFrame:
        """A query's DataFrame, as a reader of the warehouse sees it."""
        return frame_of(self._spark, self.substituted(parse(self._spark, text)))

    def _parse(self, text: str) -> Any:
        try:
            return parse(self._spark, text)
        except Exception as error:
            message = spark_message(error)
            raise StatementInvalid(
                f"Spark cannot parse the statement: {message}", "Correct it.", spark=message
            ) from error

    def _execute(self, plan: Any) -> DataFrame:
        try:
            return frame_of(self._spark, plan)
        except MonusError:
            raise
        except Exception as error:
            raise rejected(error) from error

    def _find(self, parts: Parts) -> Found | None:
        names = self._lookup.names
        record = self._lookup.record(parts)
        if record is None or (parts[0].lower() == "delta" and isinstance(record, TableRecord)):
            return None
        if names.location(names.session_name(record.name)) is None:
            names.register(record.name, record.location)  # another process made it, or plain Spark dropped the name
        if isinstance(record, TableRecord):
            return Found(parts=names.parts(record.name))
        if not record.usable or record.batch == 0:
            raise unusable(record)
        return Found(reads(visible_rows(self._spark, record)).plan, names.parts(record.name))

    def _check_targets(self, plan: Any) -> list[TableRecord | ViewRecord]:
        """What the statement changes; a view is not changed by anybody but its own refresh."""
        found: list[TableRecord | ViewRecord] = []
        for target in changed_targets(plan):
            hit = self._records_behind(target)
            for record in hit:
                if isinstance(record, ViewRecord):
                    raise _closed(record.name)
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
            record = self._lookup.record(parts)
            if record is not None:
                found.append(record)
            return None

        substitute(self._spark, target, note)
        return found

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


def _closed(name: str) -> ViewIsClosedToDml:
    return ViewIsClosedToDml(
        f"'{name}' is a materialized view: its rows follow from its query and cannot be changed.",
        "Change the tables that it reads, then refresh it; DROP MATERIALIZED VIEW drops it, wh.optimize() and "
        "wh.vacuum() look after its files.",
        view=name,
    )

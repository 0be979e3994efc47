"""The definition of record of a view: text, with everything that its meaning depends on.

It is analysed again in each process: the same text under the same settings, in the same namespace,
gives the same plan. SQL views that it reads, temporary or permanent, are kept with it, each as a
definition of its own: they may be redefined or gone when the text is analysed again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import DataFrame, SparkSession

from monus.errors import (
    DefinitionInvalid,
    DefinitionNotStorable,
    MonusError,
    NameExists,
    StatementInvalid,
    UnknownColumn,
    UnknownTable,
)
from monus.frontend.functions import check_function
from monus.frontend.jvm import active, class_name, frame_of, items, option, to_seq
from monus.frontend.substitution import Find, Found, Parts, parse, permanent_view, session_view, substitute

# The settings that change what a query means; everything else only changes how fast it runs.
SETTINGS = (
    "spark.sql.ansi.enabled",
    "spark.sql.session.timeZone",
    "spark.sql.caseSensitive",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.legacy.statisticalAggregate",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.groupByOrdinal",
    "spark.sql.orderByOrdinal",
    "spark.sql.groupByAliases",
    "spark.sql.session.collation.enabled",
    "spark.sql.legacy.negativeIndexInArrayInsert",
    "spark.sql.legacy.sizeOfNull",
    "spark.sql.timestampType",
    "spark.sql.ansi.doubleQuotedIdentifiers",
    "spark.sql.ansi.enforceReservedKeywords",
    "spark.sql.parser.escapedStringLiterals",
    "spark.sql.parser.quotedRegexColumnNames",
    "spark.sql.legacy.setopsPrecedence.enabled",
    "spark.sql.legacy.literal.pickMinimumPrecision",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled",
    "spark.sql.legacy.integerGroupingId",
    "spark.sql.legacy.followThreeValuedLogicInArrayExists",
    "spark.sql.legacy.interval.enabled",
)
_CONTEXT = "__monus_context"


@dataclass(frozen=True, slots=True)
class Definition:
    """`columns` are the names that a SQL view gives to its query's columns; `views` what its text reads."""

    text: str
    database: str
    settings: Mapping[str, str]
    columns: tuple[str, ...] = ()
    views: Mapping[str, Definition] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "database": self.database,
            "settings": dict(self.settings),
            "columns": list(self.columns),
            "views": {name: view.to_json() for name, view in self.views.items()},
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Definition:
        views = {name: cls.from_json(view) for name, view in stored.get("views", {}).items()}
        settings = dict(stored["settings"])
        return cls(stored["text"], stored["database"], settings, tuple(stored.get("columns", ())), views)


Knows = Callable[[Parts], bool]
Print = Callable[[Any], str]


def capture(spark: SparkSession, text: str, knows: Knows, print_plan: Print) -> Definition:
    """The definition as this session means it.

    `knows` tells the names of the warehouse itself; `print_plan` makes text of a view that has none.
    """
    settings = {name: value for name in SETTINGS if (value := spark.conf.get(name, None)) is not None}
    return _Capture(spark, knows, print_plan).definition(text, spark.catalog.currentDatabase(), settings)


def open_session(spark: SparkSession, definition: Definition) -> SparkSession:
    """A session in which the definition means what it meant when it was made."""
    session = spark.newSession()
    prepare_session(session, definition)
    return session


def prepare_session(session: SparkSession, definition: Definition) -> None:
    for name, value in definition.settings.items():
        session.conf.set(name, value)
    _use_database(session, definition.database)


def analyse(session: SparkSession, definition: Definition, find: Find) -> DataFrame:
    """The definition's query in a session made for it; Spark's message is kept if it cannot be analysed."""
    try:
        with active(session):
            return frame_of(session, _plan(session, definition, find))
    except MonusError:
        raise
    except Exception as error:
        raise invalid(error) from error


def spark_message(error: Exception) -> str:
    """Spark's own words, without its stack trace."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    message = str(java.getMessage()) if java is not None else str(error)
    message = message.split("\n\nJVM stacktrace")[0].strip()
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    cause = "" if java is None else str(java.getMessage()).split("\n")[0].strip()
    return message if cause in message else f"{message} {cause}"  # such as the value that a task could not cast


def invalid(error: Exception) -> DefinitionInvalid | NameExists | UnknownTable | UnknownColumn:
    """A query that Spark cannot analyse; an unknown name has a type of its own."""
    found = rejected(error)
    if isinstance(found, StatementInvalid):
        message = spark_message(error)
        return DefinitionInvalid(f"Spark cannot analyse the query: {message}", "Correct the query.", spark=message)
    return found


def rejected(error: Exception) -> StatementInvalid | NameExists | UnknownTable | UnknownColumn:
    """A statement that Spark refuses, with Spark's words."""
    message = spark_message(error)
    if "TABLE_OR_VIEW_NOT_FOUND" in message:
        return UnknownTable(message, "wh.tables() and wh.views() list what there is.", spark=message)
    if "UNRESOLVED_COLUMN" in message:
        return UnknownColumn(message, "Correct the name.", spark=message)
    if "TABLE_OR_VIEW_ALREADY_EXISTS" in message:
        return NameExists(message, "Choose another name.", spark=message)
    if "NOT_NULL_ASSERT_VIOLATION" in message:  # most of what Spark says is about Scala; of an UPDATE, no column
        column = re.search(r"non-nullable field: *\n *(\S.*)\n", message)
        which = f"the column {column[1]}, which" if column is not None and "Scala" not in column[1] else "a column that"
        return StatementInvalid(
            f"NULL was given to {which} is NOT NULL (NOT_NULL_ASSERT_VIOLATION).",
            "Give it a value, or leave such rows out; DESCRIBE TABLE EXTENDED tells which columns may not be NULL.",
            spark=message,
        )
    return StatementInvalid(message, "Correct the statement.", spark=message)


def key_of_view(parts: Parts) -> str:
    return ".".join("`" + part.lower().replace("`", "``") + "`" for part in parts)


class _Capture:
    def __init__(self, spark: SparkSession, knows: Knows, print_plan: Print) -> None:
        self._spark = spark
        self._knows = knows
        self._print = print_plan

    def definition(self, text: str, database: str, settings: Mapping[str, str]) -> Definition:
        try:
            plan = parse(self._spark, text)
        except Exception as error:
            raise invalid(error) from error
        _check_query(self._spark, plan)
        views = self._views(plan, settings, lambda parts: (parts, session_view(self._spark, parts)))
        return Definition(text, database, settings, (), views)

    def _views(
        self, plan: Any, settings: Mapping[str, str], resolve: Callable[[Parts], tuple[Parts, Any | None]]
    ) -> dict[str, Definition]:
        """The SQL views that a parsed text reads; `resolve` gives the full name, and the temporary view of it."""
        views: dict[str, Definition] = {}

        def note(written: Parts) -> Found | None:
            key = key_of_view(written)
            if key in views:
                return None
            parts, view = resolve(written)
            if self._knows(parts):
                return None
            view = view if view is not None else permanent_view(self._spark, parts)
            if view is not None:
                views[key] = self._view(parts, view, settings)
            return None

        def see(function: Parts) -> None:
            check_function(self._spark, function)

        substitute(self._spark, plan, note, opens_views=False, on_function=see)
        return views

    def _view(self, parts: Parts, view: Any, outer: Mapping[str, str]) -> Definition:
        description = view.desc()
        text = option(description.viewText())
        here = self._spark.catalog.currentDatabase()
        if text is None:
            return self.definition(self._print(view.child()), here, outer)
        namespace = items(description.viewCatalogAndNamespace())
        if namespace and namespace[0].lower() != "spark_catalog":
            raise DefinitionNotStorable(
                f"The view '{'.'.join(parts)}' was made in the catalog {namespace[0]}.",
                "Make it in Spark's own catalog, or write its query into the definition.",
                view=".".join(parts),
            )
        database = namespace[-1] if namespace else here
        configured = description.viewSQLConfigs()
        settings = {
            name: str(configured.apply(name)) if configured.contains(name) else value for name, value in outer.items()
        }
        temporary = {items(each)[-1].lower() for each in items(description.viewReferredTempViewNames())}

        def resolve(written: Parts) -> tuple[Parts, Any | None]:
            """Names in a view are those of its namespace, and the temporary views that it was made over."""
            found = session_view(self._spark, written) if written[-1].lower() in temporary else None
            qualified = (database, *written) if found is None and len(written) == 1 else written
            return qualified, found

        columns = tuple(f.name() for f in description.schema().fields())
        return Definition(text, database, settings, columns, self._views(view.child(), settings, resolve))


def _check_query(spark: SparkSession, plan: Any) -> None:
    """A command would be carried out by analysing it."""
    gateway = spark.sparkContext._gateway
    logical = "org.apache.spark.sql.catalyst.plans.logical"
    if any(is_instance_of(gateway, plan, f"{logical}.{kind}") for kind in ("Command", "ParsedStatement")) or (
        class_name(plan) in ("CompoundBody", "UnresolvedExecuteImmediate")
    ):
        raise DefinitionInvalid(
            f"The definition is not a query: it is a statement of the kind {class_name(plan)}.",
            "Give a query, such as SELECT … FROM ….",
        )
    if class_name(plan) in ("UnresolvedWith", "Union"):
        for child in items(plan.children()):
            _check_query(spark, child)


def _plan(session: SparkSession, definition: Definition, find: Find, is_view: bool = False) -> Any:
    """The text parsed, with what it reads put in."""

    def find_here(parts: Parts) -> Found | None:
        stored = definition.views.get(key_of_view(parts))
        if stored is not None:
            return Found(partial(_view_plan, session, stored, find))
        return find((definition.database, *parts) if is_view and len(parts) == 1 else parts)

    return substitute(session, parse(session, definition.text), find_here, opens_views=False)


def _view_plan(session: SparkSession, stored: Definition, find: Find) -> Any:
    """A SQL view as Spark has it: its text is analysed under its own settings, in its own namespace."""
    jvm: Any = session._jvm
    before = {name: str(session.conf.get(name)) for name in stored.settings}
    database = session.catalog.currentDatabase()
    try:
        for name, value in stored.settings.items():
            session.conf.set(name, value)
        _use_database(session, stored.database)
        child = _plan(session, stored, find, is_view=True)
        session.sql(f"CREATE OR REPLACE TEMPORARY VIEW {_CONTEXT} AS SELECT 1 AS one")
        context = session_view(session, (_CONTEXT,))
        session.catalog.dropTempView(_CONTEXT)
    finally:
        for name, value in before.items():
            session.conf.set(name, value)
        _use_database(session, database)
    assert context is not None
    fields = context.productIterator().toArray(jvm.scala.reflect.ClassTag.AnyRef())
    fields[2] = child
    plan = context.makeCopy(fields)
    if not stored.columns:
        return plan
    name = jvm.org.apache.spark.sql.catalyst.AliasIdentifier("view")
    alias = jvm.org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias(name, plan)
    unresolved = jvm.org.apache.spark.sql.catalyst.analysis.UnresolvedSubqueryColumnAliases
    return unresolved(to_seq(jvm, stored.columns), alias)


def _use_database(session: SparkSession, database: str) -> None:
    """The namespace, where there still is one: the warehouse's own names do not need it."""
    if session.catalog.currentDatabase() != database and session.catalog.databaseExists(database):
        session.catalog.setCurrentDatabase(database)

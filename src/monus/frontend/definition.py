"""The definition of record of a view: text, with everything that its meaning depends on.

It is analysed again in each process: the same text under the same settings, in the same namespace,
gives the same plan. Temporary SQL views that it reads are kept with it, by their own text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from monus.errors import DefinitionInvalid, DefinitionNotStorable, StatementInvalid, UnknownColumn, UnknownTable
from monus.frontend.jvm import class_name, items, option
from monus.frontend.substitution import Find, parse, query_frame, relation_names

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
)


@dataclass(frozen=True, slots=True)
class Definition:
    text: str
    database: str
    settings: Mapping[str, str]
    temporary_views: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Definition:
        return cls(stored["text"], stored["database"], dict(stored["settings"]), dict(stored["temporary_views"]))


def capture(spark: SparkSession, text: str) -> Definition:
    """The definition as this session means it."""
    settings = {}
    for name in SETTINGS:
        value = spark.conf.get(name, None)
        if value is not None:
            settings[name] = value
    views: dict[str, str] = {}
    _collect_temporary_views(spark, text, views)
    return Definition(text, spark.catalog.currentDatabase(), settings, views)


def open_session(spark: SparkSession, definition: Definition) -> SparkSession:
    """A session in which the definition means what it meant when it was made."""
    session = spark.newSession()
    prepare_session(session, definition)
    return session


def prepare_session(session: SparkSession, definition: Definition) -> None:
    for name, value in definition.settings.items():
        session.conf.set(name, value)
    session.catalog.setCurrentDatabase(definition.database)
    for name, text in definition.temporary_views.items():
        session.sql(f"CREATE OR REPLACE TEMPORARY VIEW `{name.replace('`', '``')}` AS {text}")


def analyse(session: SparkSession, definition: Definition, find: Find) -> DataFrame:
    """The definition's query in a session made for it; Spark's message is kept if it cannot be analysed."""
    try:
        return query_frame(session, definition.text, find)
    except Exception as error:
        raise invalid(error) from error


def spark_message(error: Exception) -> str:
    """Spark's own words, without its stack trace."""
    java = getattr(error, "java_exception", None)
    message = str(java.getMessage()) if java is not None else str(error)
    return message.split("\n\nJVM stacktrace")[0].strip()


def invalid(error: Exception) -> DefinitionInvalid | UnknownTable | UnknownColumn:
    """A query that Spark cannot analyse; an unknown name has a type of its own."""
    found = rejected(error)
    if isinstance(found, StatementInvalid):
        message = spark_message(error)
        return DefinitionInvalid(f"Spark cannot analyse the query: {message}", "Correct the query.", spark=message)
    return found


def rejected(error: Exception) -> StatementInvalid | UnknownTable | UnknownColumn:
    message = spark_message(error)
    if "TABLE_OR_VIEW_NOT_FOUND" in message:
        return UnknownTable(message, "wh.tables() and wh.views() list what there is.", spark=message)
    if "UNRESOLVED_COLUMN" in message:
        return UnknownColumn(message, "Correct the name.", spark=message)
    return StatementInvalid(message, "Correct the statement.", spark=message)


def _collect_temporary_views(spark: SparkSession, text: str, found: dict[str, str]) -> None:
    """Views that live in this session only, those that they read first."""
    try:
        names = relation_names(spark, parse(spark, text))
    except Exception as error:
        raise invalid(error) from error
    catalog = spark._jsparkSession.sessionState().catalog()
    for parts in names:
        view = option(catalog.getTempView(parts[0])) if len(parts) == 1 else None
        if view is None or parts[0].lower() in found:
            continue
        described = [node for node in [view, *items(view.children())] if class_name(node) == "View"]
        body = option(described[0].desc().viewText()) if described else None
        if body is None:
            raise DefinitionNotStorable(
                f"The temporary view '{parts[0]}' was made from a DataFrame and has no text to be stored.",
                "Create it with CREATE TEMPORARY VIEW … AS SELECT …, or write its query into the definition.",
                view=parts[0],
            )
        _collect_temporary_views(spark, body, found)
        found[parts[0].lower()] = body

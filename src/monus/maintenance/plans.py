"""The plans of views, worked out once per process from their definitions of record."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.catalog.catalog import Catalog
from monus.catalog.records import TableRecord, ViewRecord, key_of
from monus.errors import DefinitionInvalid, SourceSchemaChanged, UnknownColumn
from monus.frontend.definition import Definition, analyse, open_session, prepare_session
from monus.frontend.jvm import quoted
from monus.frontend.plan import Source as PlanSource
from monus.frontend.substitution import Found, Parts, reads
from monus.maintenance.sources import Readable, Source
from monus.maintenance.view_plan import ViewPlan, plan_view
from monus.store.delta_table import DeltaTable

# The columns of each source, by name, as they were when a view was created.
Schemas = Mapping[str, Mapping[str, str]]
RecordOf = Callable[[Parts, str | None], TableRecord | ViewRecord | None]


class Plans:
    """`record_of` tells what a name in a definition stands for, given the namespace of the definition."""

    def __init__(self, spark: SparkSession, catalog: Catalog, record_of: RecordOf) -> None:
        self._spark = spark
        self._catalog = catalog
        self._record_of = record_of
        self._known: dict[str, tuple[str, ViewPlan]] = {}
        self._lock = threading.Lock()

    def of(self, record: ViewRecord, pinned: Mapping[str, Source] | None = None) -> ViewPlan:
        """The plan of a view; analysed again when the definition or the schema of a source changed.

        `pinned` are the sources where they are open already: each costs a look at its log otherwise.
        """
        key = key_of(record.name)
        fingerprint = json.dumps([dict(record.definition), self._schemas(record, pinned)], sort_keys=True, default=str)
        with self._lock:
            known = self._known.get(key)
        if known is not None and known[0] == fingerprint:
            return known[1]
        definition = Definition.from_json(record.definition)
        try:
            plan = self.analyse(definition, tuple(c.name for c in record.columns), schemas_of(record))
        except (DefinitionInvalid, UnknownColumn) as error:
            column = re.search(r"with name `(.+?)` cannot be resolved", error.message)
            raise SourceSchemaChanged(
                f"The definition of the view '{record.name}' no longer fits its sources. {error.message}",
                "Put back what was removed or renamed, or define the view again with CREATE OR REPLACE.",
                view=record.name,
                column=column[1] if column else None,
            ) from error
        with self._lock:
            self._known[key] = (fingerprint, plan)
        return plan

    def forget(self, name: str) -> None:
        with self._lock:
            self._known.pop(key_of(name), None)

    def analyse(
        self, definition: Definition, columns: tuple[str, ...] = (), schemas: Schemas | None = None
    ) -> ViewPlan:
        """`columns` are the names that the view gives to the query's columns, by position.

        A star means the columns that a source had when the view was created: `schemas` has them.
        """
        session = open_session(self._spark, definition)

        def find(parts: Parts) -> Found | None:
            found = self._record_of(parts, definition.database)
            if found is None:
                return None
            return reads(_known(session.read.format("delta").load(found.location), found, schemas or {}))

        return plan_view(session, _named(analyse(session, definition, find), columns), self._name_of)

    def pinned_frame(self, session: SparkSession, record: ViewRecord, sources: Mapping[str, Readable]) -> DataFrame:
        """The definition's query over sources at their pinned states, for what only Spark itself can compute."""
        definition = Definition.from_json(record.definition)
        prepare_session(session, definition)
        by_key = {key_of(name): source for name, source in sources.items()}

        def find(parts: Parts) -> Found | None:
            found = self._record_of(parts, definition.database)
            source = None if found is None else by_key.get(key_of(found.name))
            if found is None or source is None:
                return None
            return reads(_known(source.read(session), found, schemas_of(record)))

        return _named(analyse(session, definition, find), tuple(c.name for c in record.columns))

    def _schemas(self, record: ViewRecord, pinned: Mapping[str, Source] | None) -> list[str]:
        """The sources' columns now: another schema may be another plan."""
        if pinned is not None:
            return [source.snapshot.schema_json for source in pinned.values()]
        found = [
            self._catalog.view(source.name) if source.kind == "view" else self._catalog.table(source.name)
            for source in self._catalog.sources(record.name)
        ]
        return [DeltaTable(self._spark, each.location).snapshot().schema_json for each in found]

    def _name_of(self, source: PlanSource) -> str | None:
        for table in self._catalog.tables():
            if same_path(table.location, source.path):
                return table.name
        for view in self._catalog.views():
            if same_path(view.location, source.path):
                return view.name
        return None


def schemas_of(record: ViewRecord) -> Schemas:
    """The sources' columns with their types when the view was created."""
    found: Schemas = record.definition.get("schemas", {})
    return found


def normal_path(spark: SparkSession, path: str) -> str:
    """The path as Delta itself writes it."""
    return str(DeltaTable(spark, path).delta_log().dataPath().toString())


def same_path(left: str, right: str) -> bool:
    return left.rstrip("/") == right.rstrip("/")


def _known(frame: DataFrame, source: TableRecord | ViewRecord, schemas: Schemas) -> DataFrame:
    """The columns that the source had when the view was created, in that order; never those that do not show."""
    now = {name.lower(): name for name in frame.columns}
    then = [now[name.lower()] for name in schemas.get(key_of(source.name), frame.columns) if name.lower() in now]
    kept = [name for name in then if not (isinstance(source, ViewRecord) and name.startswith("__"))]
    return frame if kept == frame.columns else frame.select(*(F.col(quoted(name)) for name in kept))


def _named(frame: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    if not columns or list(columns) == frame.columns:
        return frame
    if len(columns) != len(frame.columns):
        raise DefinitionInvalid(
            f"The view names {len(columns)} columns, but its query has {len(frame.columns)}.",
            "Name as many columns as the query has.",
        )
    return frame.toDF(*columns)

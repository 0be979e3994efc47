"""The plans of views, worked out once per process from their definitions of record."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.catalog.catalog import Catalog
from monus.catalog.records import ViewRecord, key_of
from monus.errors import DefinitionInvalid, SourceSchemaChanged, UnknownColumn
from monus.frontend.definition import Definition, analyse, open_session, prepare_session
from monus.frontend.plan import Source as PlanSource
from monus.maintenance.sources import Readable
from monus.maintenance.view_plan import ViewPlan, plan_view
from monus.store.delta_table import DeltaTable


class Plans:
    def __init__(self, spark: SparkSession, catalog: Catalog) -> None:
        self._spark = spark
        self._catalog = catalog
        self._known: dict[str, tuple[str, ViewPlan]] = {}
        self._lock = threading.Lock()

    def of(self, record: ViewRecord) -> ViewPlan:
        """The plan of a view; analysed again when the definition or the schema of a source changed."""
        key = key_of(record.name)
        fingerprint = json.dumps(dict(record.definition), sort_keys=True, default=str)
        with self._lock:
            known = self._known.get(key)
        if known is not None and known[0] == fingerprint:
            return known[1]
        definition = Definition.from_json(record.definition)
        try:
            plan = self.analyse(definition, (record.columns and tuple(c.name for c in record.columns)) or ())
        except (DefinitionInvalid, UnknownColumn) as error:
            raise SourceSchemaChanged(
                f"The definition of the view '{record.name}' no longer fits its sources. {error.message}",
                "Put back what was removed or renamed, or define the view again with CREATE OR REPLACE.",
                view=record.name,
            ) from error
        with self._lock:
            self._known[key] = (fingerprint, plan)
        return plan

    def forget(self, name: str) -> None:
        with self._lock:
            self._known.pop(key_of(name), None)

    def analyse(self, definition: Definition, columns: tuple[str, ...] = ()) -> ViewPlan:
        """`columns` are the names that the view gives to the query's columns, by position."""
        session = open_session(self._spark, definition)
        frame = analyse(session, definition, lambda parts: self._find_view(session, parts))
        return plan_view(session, _named(frame, columns), self._name_of)

    def pinned_frame(self, session: SparkSession, record: ViewRecord, sources: Mapping[str, Readable]) -> DataFrame:
        """The definition's query over sources at their pinned states, for what only Spark itself can compute."""
        definition = Definition.from_json(record.definition)
        prepare_session(session, definition)
        by_key = {key_of(name): source for name, source in sources.items()}

        def find(parts: tuple[str, ...]) -> DataFrame | None:
            source = by_key.get(key_of(parts[-1]))
            return None if source is None else source.read(session)

        return _named(analyse(session, definition, find), tuple(c.name for c in record.columns))

    def _find_view(self, session: SparkSession, parts: tuple[str, ...]) -> DataFrame | None:
        """A view's table without the columns that do not show."""
        record = self._catalog.find_view(parts[-1]) if len(parts) <= 2 else None
        if record is None:
            return None
        data = session.read.format("delta").load(record.location)
        return data.select(*(F.col(_quoted(n)) for n in data.columns if not n.startswith("__")))

    def _name_of(self, source: PlanSource) -> str | None:
        for table in self._catalog.tables():
            if same_path(table.location, source.path):
                return table.name
        for view in self._catalog.views():
            if same_path(view.location, source.path):
                return view.name
        return None


def normal_path(spark: SparkSession, path: str) -> str:
    """The path as Delta itself writes it."""
    return str(DeltaTable(spark, path).delta_log().dataPath().toString())


def same_path(left: str, right: str) -> bool:
    return left.rstrip("/") == right.rstrip("/")


def _named(frame: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    if not columns or list(columns) == frame.columns:
        return frame
    if len(columns) != len(frame.columns):
        raise DefinitionInvalid(
            f"The view names {len(columns)} columns, but its query has {len(frame.columns)}.",
            "Name as many columns as the query has.",
        )
    return frame.toDF(*columns)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

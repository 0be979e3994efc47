"""Views and tables come and go: nothing is left half made."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlparse

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from monus.catalog.catalog import Catalog
from monus.catalog.records import ColumnRecord, RefreshRecord, SourceRecord, TableRecord, ViewRecord
from monus.errors import DefinitionInvalid, NameExists, NotIncremental, UnknownTable
from monus.frontend.definition import Definition
from monus.maintenance.layout import pending_path, view_path
from monus.maintenance.maintainer import Maintainer
from monus.maintenance.names import Names
from monus.maintenance.plans import Plans, normal_path
from monus.maintenance.protocol import held_lease
from monus.maintenance.view_plan import ViewPlan
from monus.store.changes import enable_change_feed
from monus.store.delta_table import DeltaTable, resolve

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NewView:
    """What CREATE MATERIALIZED VIEW says."""

    name: str
    definition: Definition
    policy: str
    mode: str
    columns: tuple[str, ...] = ()
    comment: str | None = None
    partitioned_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    replace: bool = False


class Creation:
    def __init__(
        self, spark: SparkSession, root: str, catalog: Catalog, plans: Plans, maintainer: Maintainer, names: Names
    ) -> None:
        self._spark = spark
        self._root = root
        self._catalog = catalog
        self._plans = plans
        self._maintainer = maintainer
        self._names = names

    def create_view(self, new: NewView) -> RefreshRecord:
        plan = self._plans.analyse(new.definition, new.columns)
        check_strict(new.name, new.mode, plan)
        if new.replace and self._catalog.find_view(new.name) is not None:
            self.drop_view(new.name)
        self.check_free(new.name)
        record = self._record(new, plan)
        sources = [self._source(name) for name in plan.sources]
        self._catalog.create_view(record, sources)
        try:
            return self._fill(record, plan, new)
        except BaseException:
            self._undo(record)
            raise

    def check_free(self, name: str) -> None:
        if self._catalog.find_view(name) is not None or self._catalog.find_table(name) is not None:
            kind = "view" if self._catalog.find_view(name) is not None else "table"
            raise NameExists(
                f"The warehouse has a {kind} '{name}' already.", "Choose another name, or CREATE OR REPLACE.", name=name
            )
        self._names.check_free(name)

    def drop_view(self, name: str) -> None:
        record = self._catalog.view(name)
        with held_lease(self._catalog, self._spark, record.name) as lease:
            self._catalog.drop_view(lease)
        self._plans.forget(record.name)
        self._names.forget(record.name)
        remove_folder(self._spark, record.location)
        remove_folder(self._spark, pending_path(record.location))

    def attach(self, name: str, path_or_table: str, change_feed: bool = False) -> TableRecord:
        """An existing Delta table; its change feed is switched on only if the caller says so."""
        if self._catalog.find_table(name) is not None or self._catalog.find_view(name) is not None:
            raise NameExists(f"The warehouse has a table or view '{name}' already.", "Choose another name.", name=name)
        location = resolve(self._spark, path_or_table)
        table = DeltaTable(self._spark, location)
        known = self._names.location(name)
        if known is not None and normal_path(self._spark, known) != location:
            self._names.check_free(name)
        if change_feed:
            enable_change_feed(table)
        record = TableRecord(name, location, path_or_table, table.snapshot().table_id, False, datetime.now(UTC))
        self._catalog.add_table(record)
        self._names.register(name, location)
        return record

    def add_table(self, name: str, location: str) -> TableRecord:
        """A table that was just created inside the warehouse."""
        path = normal_path(self._spark, location)
        record = TableRecord(
            name, path, None, DeltaTable(self._spark, path).snapshot().table_id, True, datetime.now(UTC)
        )
        self._catalog.add_table(record)
        return record

    def drop_table(self, name: str) -> None:
        """A managed table is deleted, an attached one only forgotten."""
        record = self._catalog.table(name)
        self._catalog.drop_table(record.name)
        self._names.forget(record.name)
        if record.managed:
            remove_folder(self._spark, record.location)

    def _record(self, new: NewView, plan: ViewPlan) -> ViewRecord:
        columns = tuple(ColumnRecord(f.name, f.dataType.simpleString()) for f in plan.visible.fields)
        location = normal_path(self._spark, view_path(self._root, new.name))
        definition = new.definition.to_json()
        return ViewRecord(
            name=new.name,
            definition=definition,
            policy=new.policy,
            mode=new.mode,
            location=location,
            created_at=datetime.now(UTC),
            columns=columns,
            comment=new.comment,
        )

    def _fill(self, record: ViewRecord, plan: ViewPlan, new: NewView) -> RefreshRecord:
        hidden = StructType.fromDDL(", ".join(f"`{c.name}` {c.type}" for c in plan.hidden)) if plan.hidden else None
        fields = list(plan.visible.fields) + list(hidden.fields if hidden is not None else [])
        schema = StructType([StructField(f.name, f.dataType, True) for f in fields])
        _check_known(new.partitioned_by + new.cluster_by, schema)
        remove_folder(self._spark, record.location)
        remove_folder(self._spark, pending_path(record.location))
        try:
            DeltaTable(self._spark, record.location).create(
                schema, partition_by=new.partitioned_by, cluster_by=new.cluster_by, comment=new.comment
            )
        except Exception as error:
            raise DefinitionInvalid(
                f"Delta cannot store the columns of '{record.name}': {str(error).splitlines()[0]}",
                "Cast the columns to types that Delta stores.",
            ) from error
        snapshot = DeltaTable(self._spark, record.location).snapshot()
        with held_lease(self._catalog, self._spark, record.name) as lease:
            self._catalog.set_table_id(lease, snapshot.table_id)
        self._names.register(record.name, record.location)
        return self._maintainer.refresh(record.name)

    def _undo(self, record: ViewRecord) -> None:
        try:
            self.drop_view(record.name)
        except Exception:  # the first error is the one to tell
            logger.exception("%s could not be removed after its creation failed", record.name)

    def _source(self, name: str) -> SourceRecord:
        if self._catalog.find_view(name) is not None:
            return SourceRecord(name, "view")
        if self._catalog.find_table(name) is None:
            raise UnknownTable(f"The warehouse has no table or view '{name}'.", "Attach it: wh.attach(name, path).")
        return SourceRecord(name, "table")


def check_strict(name: str, mode: str, plan: ViewPlan) -> None:
    if mode == "STRICT" and plan.reasons:
        reason = plan.reasons[0]
        raise NotIncremental(
            f"The view '{name}' is STRICT, and {reason.operator} cannot be maintained incrementally: {reason.sentence}",
            "Change the query, or leave MODE STRICT out.",
            view=name,
            reason=reason.code,
        )


def remove_folder(spark: SparkSession, location: str) -> None:
    """Deletes a folder of the warehouse, on whichever file system it is."""
    parsed = urlparse(location)
    if parsed.scheme in ("", "file"):
        shutil.rmtree(Path(unquote(parsed.path) if parsed.scheme == "" else parsed.path), ignore_errors=True)
    else:
        jvm = spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(location)  # type: ignore[union-attr]
        path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).delete(path, True)
    _forget_log(spark, location)


def _forget_log(spark: SparkSession, location: str) -> None:
    """Delta keeps logs in a cache by path; the next table at this path is another one."""
    jvm = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(location)  # type: ignore[union-attr]
    jvm.org.apache.spark.sql.delta.DeltaLog.invalidateCache(spark._jsparkSession, path)  # type: ignore[union-attr]


def _check_known(names: Sequence[str], schema: StructType) -> None:
    known = {f.name.lower() for f in schema.fields}
    for name in names:
        if name.lower() not in known:
            raise DefinitionInvalid(
                f"There is no column '{name}' to partition or cluster by.",
                f"The columns are {', '.join(f.name for f in schema.fields)}.",
            )

"""Views and tables come and go: nothing is left half made."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from monus.catalog.catalog import Catalog
from monus.catalog.leases import Lease
from monus.catalog.records import ColumnRecord, RefreshRecord, SourceKind, SourceRecord, TableRecord, ViewRecord, key_of
from monus.errors import (
    DefinitionInvalid,
    InUse,
    MonusError,
    NameExists,
    NotIncremental,
    RefreshFailed,
    SourceInvalid,
    StatementInvalid,
    UnknownTable,
    ViewBusy,
)
from monus.frontend.definition import Definition
from monus.maintenance.fault_points import FaultPoint, fault_point
from monus.maintenance.layout import OWN_TABLE, pending_path, table_path, view_path
from monus.maintenance.lease import WAIT_SECONDS, held_lease
from monus.maintenance.maintainer import Maintainer
from monus.maintenance.names import Names
from monus.maintenance.plans import Plans, normal_path, same_path
from monus.maintenance.schedule import first_ticks
from monus.maintenance.view_plan import ViewPlan
from monus.sql.policy import OnDemand, Policy, parse_policy
from monus.store.changes import enable_change_feed
from monus.store.delta_table import DeltaTable, resolve

logger = logging.getLogger(__name__)

# A view that is being made to take the place of another; no name of a user's begins like this.
REPLACING = "__replacing "

# Rows that leave a view are marked in deletion vectors, unless Delta's own default for new tables says otherwise.
VECTORS = "delta.enableDeletionVectors"
VECTORS_DEFAULT = "spark.databricks.delta.properties.defaults.enableDeletionVectors"


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
        check_name(new.name)
        plan = self._plans.analyse(new.definition, new.columns)
        check_strict(new.name, new.mode, plan)
        check_policy(new.name, parse_policy(new.policy), plan)
        _check_known(new.partitioned_by + new.cluster_by, plan.visible)
        old = self._catalog.find_view(new.name) if new.replace else None
        if old is not None:
            return self._replace(old, new, plan)
        self.check_free(new.name)
        return self._create(new, plan, self._record(new, plan, self._free_path(new.name)))

    def create_hidden(self, new: NewView, plan: ViewPlan) -> RefreshRecord:
        """A view that is not shown, under a name that no user can give."""
        record = self._record(new, plan, self._free_path(new.name))
        return self._create(new, plan, dataclasses.replace(record, hidden=True))

    def rows_of(self, record: ViewRecord) -> DataFrame:
        table = DeltaTable(self._spark, record.location)
        return table.read(table.snapshot())

    def _free_path(self, name: str) -> str:
        """A view that was renamed keeps its folder, which another may not take."""
        path = view_path(self._root, name)
        taken = {record.location for record in self._catalog.views()} | self._catalog.dropped().keys()
        return path if normal_path(self._spark, path) not in taken else f"{path}~{uuid.uuid4().hex[:8]}"

    def _create(
        self, new: NewView, plan: ViewPlan, record: ViewRecord, then: Callable[[Lease], None] | None = None
    ) -> RefreshRecord:
        """`then` is done as the owner, when the view has its rows."""
        sources = [self._source(name) for name in plan.sources]
        # The lease comes first: a view that has no rows and no owner is one whose creation was not finished.
        with held_lease(self._catalog, self._spark, record.name) as lease:
            self._catalog.create_view(record, sources)
            fault_point(FaultPoint.VIEW_RECORDED)
            try:
                done = self._fill(record, plan, new, lease)
                if then is not None:
                    then(lease)
                return done
            except BaseException as error:
                self._undo(record, lease)
                if isinstance(error, RefreshFailed):
                    raise DefinitionInvalid(
                        f"The view '{new.name}' cannot be computed: {error.fields.get('spark', error.message)}",
                        "Nothing was created; correct the query or the data.",
                        view=new.name,
                    ) from error
                raise

    def _replace(self, old: ViewRecord, new: NewView, plan: ViewPlan) -> RefreshRecord:
        """The new view is made beside the old one, and takes its place when it has its rows."""
        readers = self._catalog.dependants(old.name)
        if readers:
            raise InUse(
                f"The view '{old.name}' is read by {', '.join(readers)}, so it cannot be replaced.",
                "Drop these first.",
                name=old.name,
                readers=readers,
            )
        if key_of(old.name) in (key_of(name) for name in plan.sources):
            raise DefinitionInvalid(
                f"The view '{old.name}' would read itself.", "Read the tables instead.", view=old.name
            )
        beside = f"{REPLACING}{old.name}"
        self.remove_leftovers()
        location = f"{view_path(self._root, new.name)}~{uuid.uuid4().hex[:8]}"
        record = dataclasses.replace(self._record(new, plan, location), name=beside, hidden=True)

        def take_place(making: Lease) -> None:
            filled, sources = self._catalog.view(beside), self._catalog.sources(beside)
            with held_lease(self._catalog, self._spark, old.name) as lease:
                self._catalog.drop_view(making)
                self._catalog.replace_view(lease, dataclasses.replace(filled, name=new.name, hidden=False), sources)

        done = self._create(new, plan, record, take_place)
        self._plans.forget(old.name)
        self._plans.forget(beside)
        self._names.forget(old.name)
        self._names.register(new.name, record.location)
        self.remove_dropped()  # where another one is at the view just now, when the warehouse is next opened
        done = dataclasses.replace(done, view=new.name)
        self._catalog.record_refresh(done)
        return done

    def remove_leftovers(self) -> None:
        """Views that were to take the place of others when their process died."""
        for record in self._catalog.views():
            holder = self._catalog.holder(record.name)
            if record.name.startswith(REPLACING) and (holder is None or holder.owner.is_dead()):
                self.drop_view(record.name)

    def check_free(self, name: str) -> None:
        if self._catalog.find_view(name) is not None or self._catalog.find_table(name) is not None:
            kind = "view" if self._catalog.find_view(name) is not None else "table"
            raise NameExists(
                f"The warehouse has a {kind} '{name}' already.", "Choose another name, or CREATE OR REPLACE.", name=name
            )
        self.check_name_is_free(name)

    def check_name_is_free(self, name: str) -> None:
        """In the session, which may still know what another process has dropped."""
        known = self._names.location(name)
        table, view = (normal_path(self._spark, path(self._root, name)) for path in (table_path, view_path))
        if known is not None and (same_path(known, table) or same_path(known, view) or known.startswith(f"{view}~")):
            self._names.forget(name)
        self._names.check_free(name)

    def drop_view(self, name: str) -> None:
        with held_lease(self._catalog, self._spark, self._catalog.view(name).name) as lease:
            self.remove_view(self._catalog.view(lease.resource), lease)

    def remove_view(self, record: ViewRecord, lease: Lease) -> None:
        """As the owner; what cannot be read without its record goes last."""
        self._catalog.drop_view(lease)
        fault_point(FaultPoint.VIEW_FORGOTTEN)
        self._plans.forget(record.name)
        known = self._names.location(self._names.session_name(record.name))
        if known is None or same_path(known, record.location):  # it may be somebody else's
            self._names.forget(record.name)
        self._remove_dropped(record.name)

    def remove_dropped(self, wait_seconds: float = 0.0) -> None:
        """Folders of what was dropped by processes that died meanwhile."""
        for name in {was.name for was in self._catalog.dropped().values()}:
            try:
                with held_lease(self._catalog, self._spark, name, wait_seconds):
                    self._remove_dropped(name)
            except ViewBusy:
                continue  # another process is at it

    def free_location(self, location: str, owned: str) -> None:
        """Have no folder there that is only waiting to be removed; the caller holds the lease of a name."""
        was = self._catalog.dropped().get(location)
        if was is not None and key_of(was.name) == key_of(owned):
            self._remove_dropped(owned)
        elif was is not None:
            self.remove_dropped(WAIT_SECONDS)

    def _remove_dropped(self, name: str) -> None:
        """As the owner of the name: only what the catalog says that nobody needs."""
        for location, was in self._catalog.dropped().items():
            if key_of(was.name) == key_of(name):
                self._remove_folders(location, was.kind)

    def _remove_folders(self, location: str, kind: SourceKind) -> None:
        """Those of a table or view that the catalog does not know any more; what is left is tried again later."""
        paths = (location, pending_path(location)) if kind == "view" else (location,)
        gone = [remove_folder(self._spark, path) for path in paths]
        fault_point(FaultPoint.FOLDERS_REMOVED)
        if all(gone):
            self._catalog.forget_dropped(location)
        else:
            logger.warning(
                "The folder %s could not be removed; it is tried again when the warehouse is opened", location
            )

    def attach(self, name: str, path_or_table: str, change_feed: bool = False) -> TableRecord:
        """An existing Delta table; its change feed is switched on only if the caller says so."""
        if self._catalog.find_table(name) is not None or self._catalog.find_view(name) is not None:
            raise NameExists(f"The warehouse has a table or view '{name}' already.", "Choose another name.", name=name)
        check_name(name)
        location = resolve(self._spark, path_or_table)
        for view in self._catalog.views():
            if any(same_path(location, normal_path(self._spark, own)) for own in _tables_of(view)):
                raise SourceInvalid(
                    f"{path_or_table} is a table of the materialized view '{view.name}'.",
                    f"Read the view by its name, {view.name}.",
                    view=view.name,
                )
        table = DeltaTable(self._spark, location)
        known = self._names.location(name)
        if known is not None and normal_path(self._spark, known) != location:
            self._names.check_free(name)
        self.check_unknown(location)
        if change_feed:
            enable_change_feed(table)
        record = TableRecord(name, location, path_or_table, table.snapshot().table_id, False, datetime.now(UTC))
        self._catalog.add_table(record)
        self._names.register(name, location)
        return record

    def check_unknown(self, location: str) -> None:
        """A table has one name in the warehouse: who changes it by another would pass its views by."""
        for table in self._catalog.tables():
            if same_path(normal_path(self._spark, table.location), location):
                raise NameExists(
                    f"The table at {location} is in the warehouse already, as '{table.name}'.",
                    f"Use that name, or DROP TABLE {table.name} first.",
                    name=table.name,
                )

    def add_table(self, name: str, location: str, managed: bool) -> TableRecord:
        """A table that was just created by the warehouse, inside its folder or where the user said."""
        check_name(name)
        self.check_unknown(location)
        table_id = DeltaTable(self._spark, location).snapshot().table_id
        record = TableRecord(name, location, None, table_id, managed, datetime.now(UTC))
        self._catalog.add_table(record)
        self._names.register(name, location)
        return record

    def drop_table(self, name: str) -> None:
        """A managed table is deleted, an attached one only forgotten."""
        record = self._catalog.table(name)
        with held_lease(self._catalog, self._spark, record.name):  # not while a transaction changes it
            self._catalog.drop_table(record.name)
            fault_point(FaultPoint.TABLE_FORGOTTEN)
            self._names.forget(record.name)
            self._remove_dropped(record.name)

    def _record(self, new: NewView, plan: ViewPlan, path: str) -> ViewRecord:
        columns = tuple(ColumnRecord(f.name, f.dataType.simpleString()) for f in plan.visible.fields)
        location = normal_path(self._spark, path)
        next_refresh, next_propagate = first_ticks(parse_policy(new.policy), datetime.now(UTC))
        definition = new.definition.to_json() | self._schemas(plan)
        if plan.may_change is not None:
            definition["may_change"] = plan.may_change.code
        return ViewRecord(
            name=new.name,
            definition=definition,
            policy=new.policy,
            mode=new.mode,
            location=location,
            created_at=datetime.now(UTC),
            columns=columns,
            comment=new.comment,
            next_refresh=next_refresh,
            next_propagate=next_propagate,
        )

    def _fill(self, record: ViewRecord, plan: ViewPlan, new: NewView, lease: Lease) -> RefreshRecord:
        fields = list(plan.visible.fields)
        if plan.hidden:
            hidden = StructType.fromDDL(", ".join(f"`{c.name}` {c.type}" for c in plan.hidden))
            assert isinstance(hidden, StructType)
            fields += hidden.fields
        schema = StructType([StructField(f.name, f.dataType, True) for f in fields])
        remove_folder(self._spark, record.location)
        remove_folder(self._spark, pending_path(record.location))
        try:
            DeltaTable(self._spark, record.location).create(
                schema,
                partition_by=new.partitioned_by,
                cluster_by=new.cluster_by,
                properties=OWN_TABLE | {VECTORS: self._spark.conf.get(VECTORS_DEFAULT, "true") or "true"},
                comment=new.comment,
            )
        except MonusError:
            raise
        except Exception as error:
            raise DefinitionInvalid(
                f"Delta cannot store the columns of '{record.name}': {str(error).splitlines()[0]}",
                "Cast the columns to types that Delta stores.",
            ) from error
        fault_point(FaultPoint.TABLE_CREATED)
        snapshot = DeltaTable(self._spark, record.location).snapshot()
        self._catalog.set_table_id(lease, snapshot.table_id)
        fault_point(FaultPoint.TABLE_RECORDED)
        if not record.hidden:
            self._names.register(record.name, record.location)
        return self._maintainer.fill(record.name, lease)

    def _schemas(self, plan: ViewPlan) -> dict[str, Any]:
        """The columns of the sources now, and those that the view reads: by these a change of schema is noticed."""
        schemas, used = {}, {}
        for name in plan.sources:
            known = self._catalog.find_view(name) or self._catalog.table(name)
            fields = DeltaTable(self._spark, known.location).snapshot().schema.fields
            columns = {f.name: f.dataType.simpleString() for f in fields}
            read = plan.columns_read(name, known.location)
            schemas[key_of(name)] = columns
            used[key_of(name)] = {column: kind for column, kind in columns.items() if column.lower() in read}
        return {"schemas": schemas, "reads": used, "is_understood": plan.query is not None}

    def _undo(self, record: ViewRecord, lease: Lease) -> None:
        try:
            self.remove_view(record, lease)
        except Exception:  # the first error is the one to tell
            logger.exception("%s could not be removed after its creation failed", record.name)

    def _source(self, name: str) -> SourceRecord:
        if self._catalog.find_view(name) is not None:
            return SourceRecord(name, "view")
        if self._catalog.find_table(name) is None:
            raise UnknownTable(f"The warehouse has no table or view '{name}'.", "Attach it: wh.attach(name, path).")
        return SourceRecord(name, "table")


def _tables_of(view: ViewRecord) -> tuple[str, str]:
    return view.location, pending_path(view.location)


def check_name(name: str) -> None:
    """Any identifier of Spark, except names that Monus keeps for itself."""
    if not name.strip() or name.startswith("__"):
        raise StatementInvalid(
            f"'{name}' cannot be the name of a table or view.",
            "Choose a name that is not empty and does not begin with '__'.",
            name=name,
        )


def check_strict(name: str, mode: str, plan: ViewPlan) -> None:
    if mode == "STRICT" and plan.reasons:
        reason = plan.reasons[0]
        raise NotIncremental(
            f"The view '{name}' is STRICT, and {reason.operator} cannot be maintained incrementally: {reason.sentence}",
            "Change the query, or leave MODE STRICT out.",
            view=name,
            reason=reason.code,
        )


def check_policy(name: str, policy: Policy, plan: ViewPlan) -> None:
    """A pending change can only be kept for what can be maintained from changes."""
    if policy == OnDemand("DIFFERENTIAL") and plan.reasons:
        reason = plan.reasons[0]
        raise NotIncremental(
            f"The view '{name}' cannot be kept USING DIFFERENTIAL, because {reason.operator} cannot be maintained "
            f"incrementally: {reason.sentence}",
            "Change the query, or take another policy, such as ON DEMAND USING LOG.",
            view=name,
            reason=reason.code,
        )


def remove_folder(spark: SparkSession, location: str) -> bool:
    """Deletes a folder of the warehouse, on whichever file system it is; whether it is gone."""
    local = re.fullmatch(r"(?:file:/*)?(/.*)", location, re.DOTALL)
    if local:
        # Not parsed as a URL: in a path '#', '?' and '%' are characters like others.
        shutil.rmtree(local[1], ignore_errors=True)
        gone = not os.path.lexists(local[1])
    else:
        jvm = spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(location)  # type: ignore[union-attr]
        path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).delete(path, True)
        gone = True  # or it is an error
    _forget_log(spark, location)
    return gone


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

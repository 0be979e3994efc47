"""CREATE TABLE: the same statement with a place in the warehouse, Delta as the format, and the change feed on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from monus.errors import InUse, NameExists, StatementInvalid
from monus.frontend.jvm import class_name, items, option, to_seq
from monus.maintenance.creation import Creation, remove_folder
from monus.maintenance.layout import table_path
from monus.maintenance.lease import held_lease
from monus.maintenance.lookup import Lookup
from monus.maintenance.plans import normal_path
from monus.store.delta_table import DeltaTable, needs_mapping

FEED = "delta.enableChangeDataFeed"
MAPPING = "delta.columnMapping.mode"


@dataclass(frozen=True, slots=True)
class Located:
    """A CREATE TABLE that is ready to be run; `managed` tables go with their files when they are dropped."""

    name: str
    location: str
    managed: bool
    plan: Any


class TableCreation:
    def __init__(self, spark: SparkSession, root: str, lookup: Lookup, creation: Creation) -> None:
        self._spark = spark
        self._root = root
        self._lookup = lookup
        self._creation = creation

    def create(self, plan: Any, execute: Callable[[Any], object]) -> None:
        """As the owner of the name: of two who create or drop it, the other's files are never taken for one's own."""
        parts = tuple(items(plan.name().nameParts()))
        names = self._lookup.names
        name = names.own(parts)
        if name is None:
            raise StatementInvalid(
                f"'{'.'.join(parts)}' is outside the warehouse, whose tables are in the database {names.database}.",
                "Leave the qualifier out, or use spark.sql for tables elsewhere.",
            )
        catalog = self._lookup.catalog
        is_known = catalog.find_table(name) is not None or catalog.find_view(name) is not None
        if is_known and self._exists(plan, name):
            return  # whoever is at work on it is not waited for
        with held_lease(catalog, self._spark, name):
            located = self._prepare(plan, name)
            if located is not None:
                self._create(located, lambda: execute(located.plan))

    def _prepare(self, plan: Any, name: str) -> Located | None:
        """None where IF NOT EXISTS leaves nothing to do."""
        names = self._lookup.names
        if self._exists(plan, name):
            return None
        spec = plan.tableSpec()
        provider = option(spec.provider())
        if provider is not None and provider.lower() != "delta":
            raise StatementInvalid(f"USING {provider}: tables of a warehouse are Delta tables.", "Leave USING out.")
        given = option(spec.location())
        location = normal_path(self._spark, given or table_path(self._root, name))
        self._creation.check_unknown(location)
        self._creation.free_location(location, name)
        if given is None and DeltaTable(self._spark, location).exists():
            raise NameExists(
                f"There is a Delta table at {location} that the warehouse's catalog does not know.",
                "Attach it, or remove the folder; wh.rebuild_catalog() mends a catalog that was lost.",
                name=name,
            )
        return Located(name, location, given is None, self._located(plan, spec, location, names.reserve(name)))

    def _create(self, located: Located, execute: Callable[[], object]) -> None:
        """Run the statement and tell the catalog; a failure leaves nothing behind."""
        was_there = DeltaTable(self._spark, located.location).exists()
        try:
            execute()
            self._creation.add_table(located.name, located.location, located.managed)
        except BaseException:
            if self._lookup.catalog.find_table(located.name) is None:
                self._lookup.names.forget(located.name)
                if not was_there:
                    remove_folder(self._spark, located.location)
            raise

    def _exists(self, plan: Any, name: str) -> bool:
        """Whether it is there and may be; a name that belongs to something else is an error."""
        replaces = class_name(plan).startswith("Replace")
        catalog = self._lookup.catalog
        known = catalog.find_table(name)
        if known is not None and replaces:
            raise InUse(
                f"REPLACE TABLE would make '{name}' another table.",
                "Use INSERT OVERWRITE, or drop it first.",
                name=name,
            )
        if known is not None and plan.ignoreIfExists():
            return True
        if known is not None or catalog.find_view(name) is not None:
            kind = "table" if known is not None else "view"
            raise NameExists(f"The warehouse has a {kind} '{name}' already.", "Choose another name.", name=name)
        self._creation.check_name_is_free(name)
        return False

    def _located(self, plan: Any, spec: Any, location: str, parts: tuple[str, ...]) -> Any:
        jvm: Any = self._spark._jvm
        some = jvm.scala.Option.apply
        properties = spec.properties()
        if not properties.contains(FEED):
            properties = properties.updated(FEED, "true")
        columns = items(plan.columns()) if class_name(plan) == "CreateTable" else []
        if any(needs_mapping(column.name()) for column in columns) and not properties.contains(MAPPING):
            # Parquet cannot have names such as `a b`; Delta stores them under other names then.
            properties = properties.updated(MAPPING, "name")
        fields = self._fields(spec)
        fields[0] = properties
        fields[1] = some("delta")
        fields[3] = some(location)
        new_spec = spec.makeCopy(fields)
        name = self._fields(plan.name())
        name[0] = to_seq(jvm, parts)
        outer = self._fields(plan)
        for i in range(len(outer)):
            kind = class_name(outer[i]) if isinstance(outer[i], JavaObject) else ""
            if kind == class_name(spec):
                outer[i] = new_spec
            elif kind == "UnresolvedIdentifier":
                outer[i] = plan.name().makeCopy(name)
        return plan.makeCopy(outer)

    def _fields(self, node: Any) -> Any:
        jvm: Any = self._spark._jvm
        return node.productIterator().toArray(jvm.scala.reflect.ClassTag.AnyRef())

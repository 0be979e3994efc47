"""Statements of Spark SQL over the warehouse's tables and views.

Tables are made inside the warehouse as Delta tables with their change feed on; views are read at their
published version, without the columns that do not show, and are closed to changes.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from monus.catalog.catalog import Catalog
from monus.errors import DefinitionNotStorable, InUse, MonusError, NameExists, StatementInvalid, ViewIsClosedToDml
from monus.frontend.definition import invalid, rejected
from monus.frontend.jvm import analyzed, class_name, frame_of, items, option
from monus.frontend.substitution import parse, substitute
from monus.maintenance.creation import Creation
from monus.maintenance.layout import table_path
from monus.maintenance.maintainer import unusable
from monus.maintenance.verification import visible_rows

FEED = "delta.enableChangeDataFeed"
CHANGES = {
    "InsertIntoStatement", "UpdateTable", "DeleteFromTable", "MergeIntoTable", "OverwriteByExpression", "AppendData",
    "TruncateTable", "AlterColumns", "AddColumns", "DropColumns", "RenameColumn", "RenameTable", "SetTableProperties",
    "UnsetTableProperties", "ReplaceColumns", "RestoreTableStatement", "AlterTableAddConstraint",
    "AlterTableDropConstraint", "SetTableLocation", "AddPartitions", "DropPartitions", "TruncatePartition",
    "AddConstraint", "DropConstraint", "AlterTableClusterBy", "DropTable", "DropView",
}  # fmt: skip


class Queries:
    def __init__(self, spark: SparkSession, root: str, catalog: Catalog, creation: Creation) -> None:
        self._spark = spark
        self._root = root
        self._catalog = catalog
        self._creation = creation

    def run(self, text: str) -> DataFrame:
        try:
            plan = parse(self._spark, text)
        except Exception as error:
            raise _syntax(error) from error
        match class_name(plan):
            case "CreateTable" | "CreateTableAsSelect" | "ReplaceTable" | "ReplaceTableAsSelect":
                return self._create_table(plan)
            case "DropTable":
                return self._drop_table(plan, text)
            case kind if kind in CHANGES:
                self._refuse_views(plan)
        return self._execute(substitute(self._spark, plan, self._find_view))

    def text_of(self, frame: DataFrame) -> str:
        """The text of a DataFrame that `spark.sql` made; only text that means the same plan is taken."""
        plan = analyzed(frame)
        logical = frame._jdf.queryExecution().logical()
        text = option(logical.origin().sqlText())
        if text is not None:
            try:
                again = substitute(self._spark, parse(self._spark, text), self._find_view)
                if analyzed(frame_of(self._spark, again)).canonicalized().sameResult(plan.canonicalized()):
                    return str(text)
            except Exception as error:
                raise invalid(error) from error
        raise DefinitionNotStorable(
            "The DataFrame was not made by one SQL text, so it would not survive this process: "
            f"its topmost operator is {class_name(plan)}.",
            "Write the view's query in SQL.",
            operator=class_name(plan),
        )

    def _execute(self, plan: Any) -> DataFrame:
        try:
            return frame_of(self._spark, plan)
        except MonusError:
            raise
        except Exception as error:
            raise rejected(error) from error

    def _find_view(self, parts: tuple[str, ...]) -> DataFrame | None:
        record = self._catalog.find_view(parts[-1]) if len(parts) <= 2 else None
        if record is None:
            return None
        if not record.usable or record.batch == 0:
            raise unusable(record)
        return visible_rows(self._spark, record)

    def _refuse_views(self, plan: Any) -> None:
        name = _target(plan)
        if name is not None and self._catalog.find_view(name) is not None:
            raise ViewIsClosedToDml(
                f"'{name}' is a materialized view: its rows follow from its query and cannot be changed.",
                "Change the tables that it reads, then refresh it; DROP MATERIALIZED VIEW drops it.",
                view=name,
            )

    def _create_table(self, plan: Any) -> DataFrame:
        """The same statement with a location in the warehouse, Delta as the format, and the change feed on."""
        kind = class_name(plan)
        parts = items(plan.name().nameParts())
        name = parts[-1]
        replaces = kind.startswith("Replace")
        known = self._catalog.find_table(name)
        if self._catalog.find_view(name) is not None or (known is not None and not replaces):
            if known is not None and plan.ignoreIfExists():
                return self._spark.range(0).select()
            raise NameExists(f"The warehouse has a table or view '{name}' already.", "Choose another name.", name=name)
        if known is not None:
            raise InUse(
                f"REPLACE TABLE would make '{name}' another table.",
                "Use INSERT OVERWRITE, or drop it first.",
                name=name,
            )
        spec = plan.tableSpec()
        provider = option(spec.provider())
        if provider is not None and provider.lower() != "delta":
            raise StatementInvalid(f"USING {provider}: tables of a warehouse are Delta tables.", "Leave USING out.")
        location = option(spec.location()) or table_path(self._root, name)
        located = self._with_location(plan, spec, location)
        self._execute(substitute(self._spark, located, self._find_view))
        self._creation.add_table(name, location)
        return self._spark.range(0).select()

    def _with_location(self, plan: Any, spec: Any, location: str) -> Any:
        jvm: Any = self._spark._jvm
        some = jvm.scala.Option.apply
        properties = spec.properties()
        if not properties.contains(FEED):
            properties = properties.updated(FEED, "true")
        fields = spec.productIterator().toArray(jvm.scala.reflect.ClassTag.AnyRef())
        fields[0] = properties
        fields[1] = some("delta")
        fields[3] = some(location)
        new_spec = spec.makeCopy(fields)
        outer = plan.productIterator().toArray(jvm.scala.reflect.ClassTag.AnyRef())
        for i in range(len(outer)):
            if isinstance(outer[i], type(spec)) and outer[i].equals(spec):
                outer[i] = new_spec
        return plan.makeCopy(outer)

    def _drop_table(self, plan: Any, text: str) -> DataFrame:
        name = _target(plan)
        self._refuse_views(plan)
        if name is None or self._catalog.find_table(name) is None:
            return self._execute(plan)
        self._creation.drop_table(name)
        return self._spark.range(0).select()


def _target(plan: Any) -> str | None:
    """The last part of the name that a command changes."""
    for method in ("table", "targetTable", "child"):
        try:
            node = getattr(plan, method)()
        except Exception:  # py4j has no other way to ask whether a method is there
            continue
        for _ in range(5):
            kind = class_name(node)
            if kind in ("UnresolvedRelation", "UnresolvedTable", "UnresolvedTableOrView", "UnresolvedIdentifier",
                        "UnresolvedView", "UnresolvedMaterializedView"):  # fmt: skip
                parts = node.nameParts() if kind == "UnresolvedIdentifier" else node.multipartIdentifier()
                return str(items(parts)[-1])
            children = items(node.children())
            if not children:
                break
            node = children[0]
    return None


def _syntax(error: Exception) -> StatementInvalid:
    found = invalid(error)
    return StatementInvalid(f"Spark cannot parse the statement: {found.fields['spark']}", "Correct it.")

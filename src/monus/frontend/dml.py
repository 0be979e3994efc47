"""A DML statement over a Delta table as the signed change that it would make, without running it.

    rows after = (rows before ∸ deleted) ⊎ inserted,   where deleted ⊑ rows before

Spark and Delta analyse the statement: their resolved command has the columns that are not set filled in, and the
values cast to the table's types. The rows of the table give way to those that the caller gives, which are the
table as a transaction sees it. Duplicates are rows of their own: to update two equal rows deletes two and inserts
two. What a statement has to check before it changes anything is checked here, by a job of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.errors import MonusError, NotSupported, StatementInvalid
from monus.frontend.definition import rejected, spark_message
from monus.frontend.dml_merge import check_partners, deleted_rows, inserted_rows, read_merge
from monus.frontend.dml_rows import aligned, insert_rows
from monus.frontend.dml_target import RowsOf, Shape, Target, shape_of, target_of, with_ids
from monus.frontend.jvm import active, analyzed, class_name, items, option, quoted
from monus.frontend.plan_nodes import PlanNodes
from monus.frontend.settled import settled

__all__ = ["RowsOf", "Shape", "StagedDml", "insert_rows", "stage_dml"]

STATEMENTS = {
    "InsertIntoStatement", "OverwriteByExpression", "UpdateTable", "DeleteFromTable", "MergeIntoTable",
    "TruncateTable", "TruncatePartition",
}  # fmt: skip
SEVERAL = {"UnresolvedWith", "Union"}


@dataclass(frozen=True, slots=True)
class StagedDml:
    """A change of the Delta table at the path `target`, as Delta writes it.

    `kind` is INSERT, OVERWRITE, UPDATE, DELETE, MERGE or TRUNCATE. Each DataFrame has all columns of the table, in
    its order, with its types, and is to be evaluated once; None has no rows. An updated row is in both. Where
    `replaces_all`, every row leaves, and `deleted` does not list them.
    """

    target: str
    kind: str
    inserted: DataFrame | None
    deleted: DataFrame | None
    replaces_all: bool = False


def stage_dml(spark: SparkSession, plan: Any, rows_of: RowsOf) -> list[StagedDml]:
    """The changes of a parsed statement, one for each table that it names as its target.

    Its sources are the plans that they are to be read as; `rows_of` gives the rows of a target by its path.
    """
    statements = list(_statements(plan))
    try:
        with active(spark):
            commands = list(_commands(_analysed(spark, plan)))
            stage = _Stage(spark, rows_of)
            return [stage.command(c, class_name(s)) for c, s in zip(commands, statements, strict=True)]
    except MonusError:
        raise
    except Exception as error:
        raise _refused(error) from error


class _Stage:
    def __init__(self, spark: SparkSession, rows_of: RowsOf) -> None:
        self._spark = spark
        self._rows_of = rows_of
        self._nodes = PlanNodes(spark)

    def command(self, command: Any, statement: str) -> StagedDml:
        """`statement` is what the command was before it was resolved."""
        match class_name(command):
            case "AppendData":
                return self._insert(command)
            case "OverwriteByExpression":
                return self._overwrite(command, is_checked=statement == "OverwriteByExpression")
            case "DeltaDynamicPartitionOverwriteCommand":
                return self._overwrite_partitions(command)
            case "UpdateCommand":
                return self._update(command)
            case "DeleteCommand":
                return self._delete(command)
            case "MergeIntoCommand":
                return self._merge(command)
            case "TruncateDeltaTableCommand":
                path = _path(command.child().table())
                return StagedDml(path, "TRUNCATE", None, None, replaces_all=True)
        raise NotSupported(
            "A transaction changes Delta tables only.",
            "Run the statement outside of a transaction.",
            statement=statement,
        )

    def _insert(self, command: Any) -> StagedDml:
        return StagedDml(_path(_table(command)), "INSERT", self._query_rows(command), None)

    def _overwrite(self, command: Any, is_checked: bool) -> StagedDml:
        """INSERT OVERWRITE of a table or of a static partition; or REPLACE WHERE, whose rows are checked."""
        path, condition = _path(_table(command)), command.deleteExpr()
        inserted = self._query_rows(command)
        if _is_true(condition):
            return StagedDml(path, "OVERWRITE", inserted, None, replaces_all=True)
        attributes = items(command.table().output())
        if is_checked:
            inserted = settled(inserted)
            self._check_replaced(inserted, attributes, condition, path)
        deleted = self._nodes.filter(condition, with_ids(self._nodes, self._rows_of(path), attributes, path))
        return StagedDml(path, "OVERWRITE", inserted, self._nodes.frames([deleted])[0])

    def _check_replaced(self, inserted: DataFrame, attributes: list[Any], condition: Any, path: str) -> None:
        rows = with_ids(self._nodes, inserted, attributes, path)
        holds = self._nodes.expression("EqualNullSafe", condition, self._nodes.literal(True))
        (outside,) = self._nodes.frames([self._nodes.filter(self._nodes.expression("Not", holds), rows)])
        if not outside.isEmpty():
            raise StatementInvalid(
                f"REPLACE WHERE {condition.sql()} was given rows for which that does not hold "
                "(DELTA_REPLACE_WHERE_MISMATCH).",
                "Filter the query by the same condition.",
                table=path,
            )

    def _overwrite_partitions(self, command: Any) -> StagedDml:
        """The partitions that the query has rows of give way to them."""
        path, shape = _path(_table(command)), shape_of(_table(command).initialSnapshot().metadata())
        inserted = self._query_rows(command)
        if not shape.partitions:
            return StagedDml(path, "OVERWRITE", inserted, None, replaces_all=True)
        inserted = settled(inserted)
        columns = {quoted(name): f"__partition{i}" for i, name in enumerate(shape.partitions)}
        partitions = inserted.select(*(F.col(name).alias(new) for name, new in columns.items())).distinct()
        same = [F.col(name).eqNullSafe(F.col(new)) for name, new in columns.items()]
        return StagedDml(path, "OVERWRITE", inserted, self._rows_of(path).join(partitions, same, "left_semi"))

    def _query_rows(self, command: Any) -> DataFrame:
        table = _table(command)
        if not command.table().options().isEmpty():
            raise NotSupported(
                "An INSERT with options cannot be part of a transaction.", "Leave out WITH (…).", table=_path(table)
            )
        shape = shape_of(table.initialSnapshot().metadata())
        rows = aligned(self._spark, command.query(), shape, str(table.name()))
        return self._nodes.frames([analyzed(rows)])[0]

    def _update(self, command: Any) -> StagedDml:
        target = target_of(self._nodes, command.target(), self._rows_of)
        condition = option(command.condition())
        found = target.plan if condition is None else self._nodes.filter(condition, target.plan)
        values = target.in_order(items(command.updateExpressions()))
        deleted, inserted = self._nodes.frames(
            [self._columns(target, target.attributes(), found), self._columns(target, values, found)]
        )
        return StagedDml(target.path, "UPDATE", self._stored(inserted, target), deleted)

    def _delete(self, command: Any) -> StagedDml:
        condition = option(command.condition())
        if condition is None or _is_true(condition):
            return StagedDml(_path(command), "DELETE", None, None, replaces_all=True)
        target = target_of(self._nodes, command.target(), self._rows_of)
        found = self._nodes.filter(condition, target.plan)
        (deleted,) = self._nodes.frames([self._columns(target, target.attributes(), found)])
        return StagedDml(target.path, "DELETE", None, deleted)

    def _merge(self, command: Any) -> StagedDml:
        target = target_of(self._nodes, command.target(), self._rows_of)
        merge = read_merge(self._spark, command, target)
        plans = (deleted_rows(self._nodes, merge), inserted_rows(self._nodes, merge))
        deleted, inserted = (None if plan is None else self._nodes.frames([plan])[0] for plan in plans)
        if inserted is not None:
            inserted = self._stored(inserted, target)
        check_partners(self._spark, self._nodes, merge)
        return StagedDml(target.path, "MERGE", inserted, deleted)

    def _stored(self, rows: DataFrame, target: Target) -> DataFrame:
        return aligned(self._spark, analyzed(rows), target.shape, target.path)

    def _columns(self, target: Target, values: list[Any], rows: Any) -> Any:
        names = target.shape.schema.names
        return self._nodes.project([self._nodes.alias(v, n) for v, n in zip(values, names, strict=True)], rows)


def _statements(plan: Any) -> Iterator[Any]:
    """The DML statements of a parsed text; anything else is refused before it is analysed, which might run it."""
    kind = class_name(plan)
    if kind in STATEMENTS:
        yield plan
    elif kind == "UnresolvedWith":
        yield from _statements(plan.child())
    elif kind == "Union":
        for child in items(plan.children()):
            yield from _statements(child)
    else:
        raise NotSupported(
            f"{_in_words(kind)} cannot be part of a transaction: INSERT, UPDATE, DELETE, MERGE and TRUNCATE can.",
            "Run it outside of the transaction, before it begins or after it has ended.",
            statement=_in_words(kind),
        )


def _commands(plan: Any) -> Iterator[Any]:
    if class_name(plan) == "Union":
        for child in items(plan.children()):
            yield from _commands(child)
    else:
        yield plan


def _analysed(spark: SparkSession, plan: Any) -> Any:
    jvm: Any = spark._jvm
    not_run = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    return spark._jsparkSession.sessionState().executePlan(plan, not_run).analyzed()


def _refused(error: Exception) -> MonusError:
    message = spark_message(error)
    if "NON_DETERMINISTIC" in message:
        return NotSupported(
            f"The statement depends on chance where it chooses rows. {message}",
            "Compute the value first and write it into the statement.",
            spark=message,
        )
    return rejected(error)


def _table(command: Any) -> Any:
    return command.table().table()


def _path(of: Any) -> str:
    return str(of.deltaLog().dataPath().toString())


def _is_true(condition: Any) -> bool:
    return class_name(condition) == "Literal" and condition.value() is True


def _in_words(kind: str) -> str:
    """`OptimizeTableCommand` as OPTIMIZE TABLE."""
    words = re.findall(r"[A-Z]+[a-z0-9]*", re.sub(r"(Command|Statement)$", "", kind))
    return " ".join(words).upper()

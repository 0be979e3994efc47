"""The table that a resolved DML command changes, with the rows of a transaction in place of its own.

The command's expressions name the columns of the table's relation by their ids. A projection that gives the
rows of the transaction these very ids stands in for the relation, and every expression means what it meant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from monus.errors import NotSupported, SourceSchemaChanged
from monus.frontend.expressions import attribute_id, type_name
from monus.frontend.jvm import analyzed, class_name, items
from monus.frontend.plan_nodes import PlanNodes

RowsOf = Callable[[str], DataFrame]
IDENTITY = "delta.identity.start"


@dataclass(frozen=True, slots=True)
class Shape:
    """What rows of a table look like: its columns, with Delta's metadata of each, and those it is partitioned by."""

    schema: StructType
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """`plan` has the rows; `positions` tells for every column of the table which column of the plan it is."""

    path: str
    shape: Shape
    plan: Any
    output: tuple[Any, ...]
    positions: tuple[int, ...]

    def attributes(self) -> list[Any]:
        """In the order of the table."""
        return [self.output[position] for position in self.positions]

    def in_order(self, expressions: Sequence[Any]) -> list[Any]:
        """What is given in the order of the plan in the order of the table."""
        return [expressions[position] for position in self.positions]


def target_of(nodes: PlanNodes, plan: Any, rows_of: RowsOf) -> Target:
    """`plan` is the command's target: the relation itself, or the projection that a temporary view makes of it."""
    relation, column_of = _trace(plan)
    location = relation.relation().location()
    shape = shape_of(location.snapshotAtAnalysis().metadata())
    path = str(location.deltaLog().dataPath().toString())
    rows = with_ids(nodes, rows_of(path), items(relation.output()), path)
    output = tuple(items(plan.output()))
    names = [column_of[attribute_id(each)] for each in output]
    if sorted(names) != sorted(shape.schema.names):
        raise _not_plain()
    positions = tuple(names.index(name) for name in shape.schema.names)
    return Target(path, shape, _replaced(plan, rows), output, positions)


def shape_of(metadata: Any) -> Shape:
    return Shape(
        StructType.fromJson(json.loads(str(metadata.schemaString()))),
        tuple(str(name) for name in items(metadata.partitionColumns())),
    )


def with_ids(nodes: PlanNodes, rows: DataFrame, attributes: Sequence[Any], path: str) -> Any:
    """The rows as a plan whose columns carry the ids of these attributes, found by name."""
    plan = analyzed(rows)
    there = {attribute.name(): attribute for attribute in items(plan.output())}
    for wanted in attributes:
        found = there.get(wanted.name())
        if found is None or type_name(found.dataType()) != type_name(wanted.dataType()):
            raise SourceSchemaChanged(
                f"The columns of {path} are no longer those that the transaction began with: see '{wanted.name()}'.",
                "Roll the transaction back and begin it again.",
                table=path,
                column=wanted.name(),
            )
    return nodes.project([nodes.alias(there[each.name()], each.name(), each) for each in attributes], plan)


def check_writable(fields: Sequence[StructField]) -> None:
    """Values of an identity column are given out by the commit that writes the rows."""
    for field in fields:
        if IDENTITY in field.metadata:
            raise NotSupported(
                f"The table has an identity column, '{field.name}', whose values only a commit can give out.",
                "Run the statement outside of a transaction.",
                column=field.name,
            )


def _trace(plan: Any) -> tuple[Any, dict[str, str]]:
    """The relation at the bottom, and which of its columns each column of the plan is."""
    match class_name(plan):
        case "LogicalRelation":
            return plan, {attribute_id(each): each.name() for each in items(plan.output())}
        case "SubqueryAlias" | "View":
            return _trace(plan.child())
        case "Project":
            relation, below = _trace(plan.child())
            named = items(plan.projectList())
            return relation, {attribute_id(each): below[attribute_id(_column(each))] for each in named}
    raise _not_plain()


def _column(expression: Any) -> Any:
    """The column whose values the expression shows as they are; those of type CHAR are padded."""
    match class_name(expression):
        case "AttributeReference":
            return expression
        case "Alias":
            return _column(expression.child())
        case "Cast" if type_name(expression.dataType()) == type_name(expression.child().dataType()):
            return _column(expression.child())
        case "StaticInvoke" if expression.functionName() == "readSidePadding":
            return _column(items(expression.arguments())[0])
    raise _not_plain()


def _replaced(plan: Any, rows: Any) -> Any:
    match class_name(plan):
        case "LogicalRelation":
            return rows
        case "SubqueryAlias" | "View":
            return _replaced(plan.child(), rows)
    children = plan.children().take(0).appended(_replaced(plan.child(), rows))
    return plan.withNewChildren(children)


def _not_plain() -> NotSupported:
    return NotSupported(
        "The statement changes a table through a view that does more than rename its columns.",
        "Name the table itself.",
    )

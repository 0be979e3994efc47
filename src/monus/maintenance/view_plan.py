"""What is known of a view from its definition alone: how it is stored and by which rule it is maintained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import NullType, StructField, StructType

from monus.algebra.groups import Grouped, Layout
from monus.algebra.reasons import Reason
from monus.algebra.relations import Relation, Table, walk
from monus.algebra.scalars import Column, Schema
from monus.analysis.float_order import float_below
from monus.analysis.shape import grouped
from monus.delta.group_state import layout, stored_query
from monus.errors import DefinitionInvalid, UnknownTable
from monus.frontend.expressions import Untranslatable
from monus.frontend.jvm import analyzed
from monus.frontend.plan import Source, check_unique_output, columns_read, sources, translate, undetermined
from monus.rewrite.prune_columns import prune_columns

NameOf = Callable[[Source], str | None]


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """`query` is None where the view can only be refreshed in full; `reasons` says why.

    `frame` is Spark's own DataFrame of the definition; `constants` are literal tables that the query reads.
    """

    frame: DataFrame
    visible: StructType
    sources: tuple[str, ...]
    reasons: tuple[Reason, ...]
    query: Relation | None
    shape: Grouped | None
    layout: Layout | None
    constants: dict[str, Any]
    may_change: Reason | None = None
    """Why the answer may be another one although no source has changed."""

    @property
    def hidden(self) -> Schema:
        return () if self.layout is None else self.layout.hidden

    @property
    def keys(self) -> tuple[str, ...] | None:
        """The columns that find a row of a grouped view; None for a bag."""
        return None if self.layout is None else self.layout.stored_keys

    def stored(self) -> Relation:
        """The rows of the view's table as a query."""
        assert self.query is not None
        if self.shape is None or self.layout is None:
            return self.query
        return stored_query(self.shape, self.layout, self.shape.aggregate.child)

    def columns_of(self, source: str) -> tuple[Column, ...]:
        """The columns of a source that the view reads."""
        found: dict[str, Column] = {}
        for node in walk(self.query) if self.query is not None else ():
            if isinstance(node, Table) and node.name == source:
                found |= {column.name: column for column in node.schema}
        return tuple(found.values())

    def columns_read(self, source: str, path: str) -> frozenset[str]:
        """The names of those columns, in lower case, also where the view can only be refreshed in full."""
        if self.query is not None:
            return frozenset(column.name.lower() for column in self.columns_of(source))
        return frozenset(name.lower() for name in columns_read(analyzed(self.frame), path))


def plan_view(spark: SparkSession, frame: DataFrame, name_of: NameOf) -> ViewPlan:
    """`name_of` gives the warehouse's name of a Delta table that the query reads, None if it does not know it."""
    plan = analyzed(frame)
    check_unique_output(plan)
    _check_columns(frame.schema)
    names: list[str] = []
    for source in sources(plan):
        name = name_of(source) if source.is_delta else None
        if source.is_delta and name is None:
            raise UnknownTable(
                f"The query reads {source.path}, which this warehouse does not know.",
                "Attach it first: wh.attach(name, path).",
                path=source.path,
            )
        if name is not None and name not in names:
            names.append(name)
    visible = StructType([StructField(f.name, f.dataType, True) for f in frame.schema.fields])
    try:
        translation = translate(spark._jvm, plan, lambda source: name_of(source) or "")
    except Untranslatable as found:
        return ViewPlan(frame, visible, tuple(names), (found.reason,), None, None, None, {}, undetermined(plan))
    query = prune_columns(translation.query)
    shape = grouped(query)
    in_the_way = float_below(query, shape)
    if in_the_way:
        return ViewPlan(frame, visible, tuple(names), in_the_way, None, None, None, {})
    stored = None if shape is None else layout(shape)
    return ViewPlan(frame, visible, tuple(names), (), query, shape, stored, translation.constants)


def _check_columns(schema: StructType) -> None:
    for field in schema.fields:
        if field.name.startswith("__"):
            raise DefinitionInvalid(
                f"The output column '{field.name}' begins with '__', which is for what Monus keeps beside a view.",
                "Give it another name with AS.",
            )
        if isinstance(field.dataType, NullType):
            raise DefinitionInvalid(
                f"The output column '{field.name}' has no type.", "Write CAST(NULL AS …) with a type."
            )

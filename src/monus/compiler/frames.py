"""A relation as a DataFrame: every column has a name of its own that no other frame uses.

So joins, also of a table with itself, never meet an ambiguous name.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.algebra.relations import WEIGHT
from monus.algebra.scalars import Schema

_counter = itertools.count(1)


def fresh(hint: str = "c") -> str:
    return f"{hint}{next(_counter)}"


@dataclass(frozen=True, slots=True)
class Frame:
    """`columns` maps the algebra's names to the DataFrame's; `weight` is there for signed bags.

    `total` is a guess at the rows of the whole relation, `fraction` at the part that this frame
    holds: a change of 100 customers joined with their orders is that fraction of all orders.
    """

    data: DataFrame
    columns: Mapping[str, str]
    schema: Schema
    weight: str | None = None
    total: float = 1.0
    fraction: float = 1.0
    known_empty: bool = False

    @property
    def rows(self) -> float:
        """The estimated number of rows."""
        return self.total * self.fraction

    def column(self, name: str) -> Column:
        return F.col(self.columns[name])

    def weight_column(self) -> Column:
        return F.lit(1).cast("bigint") if self.weight is None else F.col(self.weight)

    def all_columns(self) -> list[Column]:
        return [F.col(name) for name in self.columns.values()]


def renew(frame: Frame) -> Frame:
    """The same rows under new names, so that they can be used once more in one plan."""
    columns = {name: fresh() for name in frame.columns}
    selected = [F.col(frame.columns[name]).alias(new) for name, new in columns.items()]
    weight = None
    if frame.weight is not None:
        weight = fresh("w")
        selected.append(F.col(frame.weight).alias(weight))
    return replace(frame, data=frame.data.select(*selected), columns=columns, weight=weight)


def empty_frame(spark: SparkSession, schema: Schema) -> Frame:
    columns = {column.name: fresh() for column in schema}
    nulls = [F.lit(None).cast(column.type).alias(columns[column.name]) for column in schema]
    weight = fresh("w")
    data = local_rows(spark, spark.range(0).select(*nulls, F.lit(1).cast("bigint").alias(weight)), [])
    return Frame(data, columns, schema, weight, total=0.0, known_empty=True)


def local_rows(spark: SparkSession, like: DataFrame, rows: Any) -> DataFrame:
    """A DataFrame over rows that the driver holds, in Spark's own form and with the schema of `like`."""
    jvm: Any = spark._jvm
    output = like._jdf.queryExecution().analyzed().output()
    seq = (
        jvm.PythonUtils.toSeq([])
        if isinstance(rows, list)
        else jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(rows)
    )
    plan = jvm.org.apache.spark.sql.catalyst.plans.logical.LocalRelation(
        output, seq, False, jvm.scala.Option.apply(None)
    )
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def all_of(conditions: list[Column]) -> Column:
    return reduce(lambda a, b: a & b, conditions) if conditions else F.lit(True)


def exported(frame: Frame) -> DataFrame:
    """The frame with the algebra's names, and the weight as `__w` if there is one."""
    selected = [F.col(physical).alias(name) for name, physical in frame.columns.items()]
    if frame.weight is not None:
        selected.append(F.col(frame.weight).alias(WEIGHT))
    return frame.data.select(*selected)

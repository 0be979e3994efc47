"""A relation as a DataFrame: every column has a name of its own that no other frame uses.

So joins, also of a table with itself, never meet an ambiguous name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.algebra.relations import WEIGHT
from monus.algebra.scalars import Schema
from monus.frontend.jvm import frame_of, java_class, quoted

Extent = tuple[int, int]

_counter = itertools.count(1)
_PLAIN = re.compile(r"\w(?:[^`,\n]*\S)?")  # a name that needs no care when many are written in one text


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
    extent: Callable[[str], Extent | None] = lambda physical: None
    """Least and greatest value of a column of the DataFrame, where that is known."""

    @property
    def rows(self) -> float:
        """The estimated number of rows."""
        return self.total * self.fraction

    def column(self, name: str) -> Column:
        return F.col(self.columns[name])

    def weight_column(self) -> Column:
        return _one() if self.weight is None else F.col(self.weight)

    def all_columns(self) -> list[Column]:
        return [F.col(name) for name in self.columns.values()]


def renew(frame: Frame) -> Frame:
    """The same rows under new names, so that they can be used once more in one plan."""
    columns = {name: fresh() for name in frame.columns}
    pairs = [(frame.columns[name], new) for name, new in columns.items()]
    weight = None
    if frame.weight is not None:
        weight = fresh("w")
        pairs.append((frame.weight, weight))
    return replace(frame, data=renamed(frame.data, pairs), columns=columns, weight=weight)


def renamed(data: DataFrame, pairs: Sequence[tuple[str | None, str]]) -> DataFrame:
    """A projection on plain columns, each under its new name; None is the weight of a row that has none, 1.

    A Column for each name would be ten calls of the JVM for every one of them: here it is three for all.
    """
    if not all(_PLAIN.fullmatch(new) and (old is None or _PLAIN.fullmatch(old)) for old, new in pairs):
        return data.select(*(_one() if old is None else F.col(quoted(old)).alias(new) for old, new in pairs))
    text = ",".join(f"{'1L' if old is None else f'`{old}`'} AS `{new}`" for old, new in pairs)
    return DataFrame(
        data._jdf.selectExpr(java_class(data.sparkSession._jvm, "org.apache.spark.util.Utils.stringToSeq")(text)),
        data.sparkSession,
    )


def _one() -> Column:
    return F.lit(1).cast("bigint")


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
    to_seq = "PythonUtils.toSeq" if isinstance(rows, list) else "scala.collection.immutable.ArraySeq.unsafeWrapArray"
    nothing = java_class(jvm, "scala.Option.empty")()
    relation = java_class(jvm, "org.apache.spark.sql.catalyst.plans.logical.LocalRelation")
    return frame_of(spark, relation(output, java_class(jvm, to_seq)(rows), False, nothing))


def all_of(conditions: list[Column]) -> Column:
    return reduce(lambda a, b: a & b, conditions) if conditions else F.lit(True)


def exported(frame: Frame) -> DataFrame:
    """The frame with the algebra's names, and the weight as `__w` if there is one."""
    pairs = [(physical, name) for name, physical in frame.columns.items()]
    return renamed(frame.data, pairs if frame.weight is None else [*pairs, (frame.weight, WEIGHT)])

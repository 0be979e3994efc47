"""Rows that come into a table, as the table will hold them: all columns, in its order, with its types.

Columns are found by name and cast by Spark's rules of store assignment. One that is not given has its default,
or NULL; a generated one is computed from the others. A partition column cannot tell '' from NULL: Delta writes
NULL for both. CHECK and NOT NULL, and a generated column that is given, are checked when the rows are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from monus.errors import MonusError, UnknownColumn
from monus.frontend.definition import rejected
from monus.frontend.dml_target import Shape, check_writable
from monus.frontend.jvm import active, analyzed, frame_of, items, java_class

GENERATED = "delta.generationExpression"
_CATALYST = "org.apache.spark.sql.catalyst"


def insert_rows(spark: SparkSession, schema: StructType, frame: DataFrame, partitions: Sequence[str] = ()) -> DataFrame:
    """A user's rows as rows of a table, whose `schema` is Delta's, with the metadata of the columns."""
    known = {_key(spark, name) for name in schema.names}
    unknown = [name for name in frame.columns if _key(spark, name) not in known]
    if unknown:
        names = ", ".join(f"'{name}'" for name in unknown)
        raise UnknownColumn(
            f"The table has no column {names}.", f"Its columns are {', '.join(schema.names)}.", columns=tuple(unknown)
        )
    try:
        with active(spark):
            return aligned(spark, analyzed(frame), Shape(schema, tuple(partitions)), "the table")
    except MonusError:
        raise
    except Exception as error:
        raise rejected(error) from error


def aligned(spark: SparkSession, plan: Any, shape: Shape, table: str) -> DataFrame:
    """A query's rows as rows of the table; Spark's own error if they cannot be."""
    check_writable(shape.schema.fields)
    given = {_key(spark, attribute.name()) for attribute in items(plan.output())}
    computed = {
        field.name for field in shape.schema if GENERATED in field.metadata and _key(spark, field.name) not in given
    }
    stored = StructType([field for field in shape.schema if field.name not in computed])
    frame = frame_of(spark, _assigned(spark, plan, stored, table))
    if computed:
        frame = frame.select(*(_generated(field) if field.name in computed else _of(field) for field in shape.schema))
    return _without_empty_partitions(frame, shape)


def _without_empty_partitions(frame: DataFrame, shape: Shape) -> DataFrame:
    partitions = {
        field.name
        for field in shape.schema
        if field.name in shape.partitions and isinstance(field.dataType, StringType)
    }
    if not partitions:
        return frame
    return frame.select(
        *(F.nullif(_of(f), F.lit("")).alias(f.name) if f.name in partitions else _of(f) for f in shape.schema)
    )


def _assigned(spark: SparkSession, plan: Any, schema: StructType, table: str) -> Any:
    jvm: Any = spark._jvm
    session = spark._jsparkSession
    attributes = java_class(jvm, f"{_CATALYST}.types.DataTypeUtils.toAttributes")(session.parseDataType(schema.json()))
    resolve = java_class(jvm, f"{_CATALYST}.analysis.TableOutputResolver.resolveOutputColumns")
    return resolve(table, attributes, plan, True, session.sessionState().conf(), True)


def _generated(field: StructField) -> Column:
    return F.expr(field.metadata[GENERATED]).cast(field.dataType).alias(field.name)


def _of(field: StructField) -> Column:
    return F.col("`" + field.name.replace("`", "``") + "`")


def _key(spark: SparkSession, name: str) -> str:
    return name if spark.conf.get("spark.sql.caseSensitive") == "true" else name.lower()

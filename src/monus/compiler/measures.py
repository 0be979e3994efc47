"""Aggregate functions as Columns: Spark's own expression where there is one, else a stored sum."""

from __future__ import annotations

from pyspark.sql import Column

from monus.algebra.relations import Measure
from monus.algebra.scalars import type_of
from monus.compiler.scalars import Scope
from monus.compiler.state_columns import sum_over_rows


def measure_column(scope: Scope, measure: Measure) -> Column:
    if measure.handle is not None:
        return scope.spark_expression(measure.handle, measure.params, measure.bound, measure.name)
    args = [scope.column(arg) for arg in measure.args]
    types = [type_of(arg, scope.schema) for arg in measure.args]
    condition = None if measure.filter is None else scope.column(measure.filter)
    return sum_over_rows(measure.function, args, types, condition).try_cast(measure.type)

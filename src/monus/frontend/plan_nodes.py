"""Nodes of Spark's logical plan and its expressions, made from Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from monus.frontend.jvm import frame_of, items, java_class, to_seq

_CATALYST = "org.apache.spark.sql.catalyst"
_TYPES = {bool: "BooleanType", int: "IntegerType"}


class PlanNodes:
    """Expressions find their columns by id: what stands below them must have columns of the ids that they name."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm

    def project(self, named: Iterable[Any], child: Any) -> Any:
        return self._plan("Project", to_seq(self._jvm, named), child)

    def filter(self, condition: Any, child: Any) -> Any:
        return self._plan("Filter", condition, child)

    def join(self, left: Any, right: Any, kind: str, condition: Any) -> Any:
        """`kind` as Spark writes it in small letters: inner, leftsemi, leftanti, leftouter, rightouter, fullouter."""
        join_type = java_class(self._jvm, f"{_CATALYST}.plans.JoinType.apply")(kind)
        no_hint = java_class(self._jvm, f"{_CATALYST}.plans.logical.JoinHint.NONE")()
        return self._plan("Join", left, right, join_type, self._jvm.scala.Option.apply(condition), no_hint)

    def union(self, plans: Sequence[Any]) -> Any:
        return plans[0] if len(plans) == 1 else self._plan("Union", to_seq(self._jvm, plans), False, False)

    def alias(self, expression: Any, name: str, like: Any = None) -> Any:
        """The expression under a name, and under the id of the attribute `like` if there is one."""
        new_id = java_class(self._jvm, f"{_CATALYST}.expressions.NamedExpression.newExprId")
        nothing = to_seq(self._jvm, [])
        return self.expression(
            "Alias", expression, name, new_id() if like is None else like.exprId(), nothing, self._none(), nothing
        )

    def expression(self, kind: str, *children: Any) -> Any:
        return java_class(self._jvm, f"{_CATALYST}.expressions.{kind}")(*children)

    def literal(self, value: bool | int) -> Any:
        data_type = getattr(java_class(self._jvm, "org.apache.spark.sql.types.DataTypes"), _TYPES[type(value)])
        return self.expression("Literal", value, data_type)

    def any_of(self, conditions: Iterable[Any]) -> Any:
        """There must be one at least."""
        return reduce(lambda a, b: self.expression("Or", a, b), conditions)

    def all_of(self, conditions: Iterable[Any]) -> Any:
        return reduce(lambda a, b: self.expression("And", a, b), conditions)

    def first_of(self, branches: Iterable[tuple[Any, Any]]) -> Any:
        """The value of the first branch whose condition holds, else NULL."""
        pairs = [self._jvm.scala.Tuple2(condition, value) for condition, value in branches]
        return self.expression("CaseWhen", to_seq(self._jvm, pairs), self._none())

    def frames(self, plans: Sequence[Any]) -> list[DataFrame]:
        """DataFrames for which it is the same moment, however late each is evaluated."""
        together = self._plan("Union", to_seq(self._jvm, plans), False, False)
        compute = java_class(self._jvm, f"{_CATALYST}.optimizer.ComputeCurrentTime.apply")
        return [frame_of(self._spark, plan) for plan in items(compute(together).children())]

    def _plan(self, kind: str, *fields: Any) -> Any:
        return java_class(self._jvm, f"{_CATALYST}.plans.logical.{kind}")(*fields)

    def _none(self) -> Any:
        return java_class(self._jvm, "scala.Option.empty")()

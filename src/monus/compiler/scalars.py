"""Scalars as Columns over a frame."""

from __future__ import annotations

from typing import Any, assert_never

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from monus.algebra.scalars import And, Compare, IsNull, Literal, Not, Opaque, Or, Ref, Scalar, Schema
from monus.compiler.frames import Frame
from monus.errors import AlgebraInvalid
from monus.frontend.expressions import rebind
from monus.frontend.jvm import java_class, output_attributes


class Scope:
    """Compiles scalars over one frame; asks the JVM for the frame's attributes once."""

    def __init__(self, frame: Frame, *also: DataFrame) -> None:
        """`also` are further DataFrames whose columns the frame names, as for a join's condition."""
        self._frame = frame
        self._also = also
        self._attributes: dict[str, Any] | None = None

    def column(self, scalar: Scalar) -> Column:
        match scalar:
            case Ref(name):
                return self._frame.column(name)
            case Literal(value, type_name):
                return F.lit(value).cast(type_name)
            case Compare(op, left, right):
                return _compare(op, self.column(left), self.column(right))
            case And(left, right):
                return self.column(left) & self.column(right)
            case Or(left, right):
                return self.column(left) | self.column(right)
            case Not(operand):
                return ~self.column(operand)
            case IsNull(operand):
                return self.column(operand).isNull()
            case Opaque():
                return self.spark_expression(scalar.handle, scalar.params, scalar.args, scalar.text)
            case _:
                assert_never(scalar)

    def spark_expression(self, handle: Any, params: tuple[str, ...], args: tuple[Scalar, ...], text: str) -> Column:
        """A resolved Spark expression, bound to the frame's own attributes."""
        if any(not isinstance(arg, Ref) for arg in args):
            raise AlgebraInvalid(f"'{text}' is bound to something that is not a column.")
        attributes = self._resolved()
        names = [arg.name for arg in args if isinstance(arg, Ref)]
        bound = {param: attributes[self._frame.columns[name]] for param, name in zip(params, names, strict=True)}
        return column_of(self._frame, rebind(handle, bound))

    def physical(self, name: str) -> Any:
        """The resolved JVM attribute of a column of the DataFrame."""
        return self._resolved()[name]

    @property
    def schema(self) -> Schema:
        return self._frame.schema

    def _resolved(self) -> dict[str, Any]:
        if self._attributes is None:
            self._attributes = output_attributes(self._frame.data)
            for data in self._also:
                self._attributes |= output_attributes(data)
        return self._attributes


def column_of(frame: Frame, expression: Any) -> Column:
    column = java_class(frame.data.sparkSession._jvm, "org.apache.spark.sql.classic.ExpressionUtils.column")
    return Column(column(expression))


def _compare(op: str, left: Column, right: Column) -> Column:
    match op:
        case "=":
            return left == right
        case "<>":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
        case "<=>":
            return left.eqNullSafe(right)
        case _:
            raise AlgebraInvalid(f"'{op}' is not a comparison.")

"""Spark's scalar expressions as scalars of the algebra, and back to life over other columns.

What rules look into becomes a node of the closed set; everything else stays a resolved Spark
expression, whose attributes are bound again to whatever columns it is to read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from monus.algebra.reasons import Reason
from monus.algebra.scalars import And, Compare, IsNull, Literal, Not, Opaque, Or, Ref, Scalar
from monus.frontend import determinism
from monus.frontend.jvm import class_name, items

COMPARISONS = {
    "EqualTo": "=", "EqualNullSafe": "<=>", "LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}  # fmt: skip
LITERALS = ("boolean", "tinyint", "smallint", "int", "bigint", "string")
SUBQUERIES = {"ScalarSubquery", "Exists", "InSubquery", "ListQuery", "LateralSubquery", "DynamicPruningSubquery"}


class Untranslatable(Exception):
    """The plan holds something that no rule maintains."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(str(reason))


def attribute_id(attribute: Any) -> str:
    return f"{attribute.exprId().id()}@{attribute.exprId().jvmId()}"


def type_name(data_type: Any) -> str:
    """Spark's name of the type, as DDL: collations and nested fields included."""
    name: str = data_type.catalogString() if "collate" not in data_type.sql().lower() else data_type.sql()
    return name


def to_scalar(expression: Any, name_of: Callable[[str], str]) -> Scalar:
    """`name_of` gives the algebra's name of an attribute."""
    kind = class_name(expression)
    if kind == "AttributeReference":
        return Ref(name_of(attribute_id(expression)))
    if kind in COMPARISONS:
        left, right = (to_scalar(child, name_of) for child in items(expression.children()))
        return Compare(COMPARISONS[kind], left, right)  # type: ignore[arg-type]  # the table holds comparisons only
    if kind in ("And", "Or"):
        left, right = (to_scalar(child, name_of) for child in items(expression.children()))
        return And(left, right) if kind == "And" else Or(left, right)
    if kind in ("Not", "IsNull", "IsNotNull"):
        operand = to_scalar(expression.child(), name_of)
        match kind:
            case "Not":
                return Not(operand)
            case "IsNull":
                return IsNull(operand)
            case _:
                return Not(IsNull(operand))
    if kind == "Alias":
        return to_scalar(expression.child(), name_of)
    if kind == "Literal" and (literal := _literal(expression)) is not None:
        return literal
    return opaque(expression, name_of)


def opaque(expression: Any, name_of: Callable[[str], str]) -> Opaque:
    attributes = _attributes(expression)
    return Opaque(
        text=expression.sql(),
        type=type_name(expression.dataType()),
        params=tuple(attributes),
        args=tuple(Ref(name_of(each)) for each in attributes),
        handle=expression,
    )


def check(expression: Any) -> None:
    """Raises for what cannot be maintained: subqueries and values that the input does not determine."""
    for reason in determinism.reasons(expression):
        raise Untranslatable(reason)
    _check_subqueries(expression)


def rebind(expression: Any, by: Mapping[str, Any]) -> Any:
    """The expression with its attributes replaced, by their ids, in the JVM."""
    if class_name(expression) == "AttributeReference":
        return by.get(attribute_id(expression), expression)
    old = items(expression.children())
    new = [rebind(child, by) for child in old]
    if all(a is b for a, b in zip(old, new, strict=True)):
        return expression
    seq = expression.children().take(0)
    for child in new:
        seq = seq.appended(child)
    return expression.withNewChildren(seq)


def _attributes(expression: Any) -> dict[str, Any]:
    if class_name(expression) == "AttributeReference":
        return {attribute_id(expression): expression}
    result: dict[str, Any] = {}
    for child in items(expression.children()):
        result |= _attributes(child)
    return result


def _literal(expression: Any) -> Literal | None:
    name = type_name(expression.dataType())
    if name not in LITERALS:
        return None
    value = expression.value()
    if value is None:
        return Literal(None, name)
    return Literal(value.toString() if name == "string" else value, name)


def _check_subqueries(expression: Any) -> None:
    if class_name(expression) in SUBQUERIES:
        sentence = "Subqueries in expressions are not maintained yet. Write a join instead."
        raise Untranslatable(Reason("SUBQUERY", expression.sql(), sentence))
    if class_name(expression) == "OuterReference":
        sentence = "A correlated reference is not maintained yet. Write a join instead."
        raise Untranslatable(Reason("SUBQUERY", expression.sql(), sentence))
    for child in items(expression.children()):
        _check_subqueries(child)

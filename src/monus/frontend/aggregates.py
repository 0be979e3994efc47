"""Spark's Aggregate node taken apart: γ over plain keys and measures, and a projection above it.

Spark mixes them, as in `sum(a) + max(b) AS x`. Every aggregate function and every grouping
expression inside becomes an attribute of its own; what is left around them is a projection.
"""

from __future__ import annotations

from typing import Any

from monus.algebra.reasons import Reason
from monus.algebra.relations import Aggregate, Measure, Named, Project, Relation
from monus.frontend.expressions import Untranslatable, check, opaque, to_scalar, type_name
from monus.frontend.jvm import class_name, items, option
from monus.frontend.names import Names


class Splitter:
    """Collects the measures of one Aggregate node."""

    def __init__(self, jvm: Any, names: Names) -> None:
        self._jvm = jvm
        self._names = names
        self.measures: list[Measure] = []
        self._seen: list[tuple[Any, Any]] = []
        self._keys: list[tuple[Any, Any]] = []

    def key(self, expression: Any) -> Named:
        """A grouping expression; outputs that repeat it will refer to it."""
        if class_name(expression) == "AttributeReference":
            attribute = self._fresh(expression, expression.name())
        else:
            attribute = self._fresh(expression, "key")
        self._keys.append((expression, attribute))
        return Named(self._names.new(attribute), to_scalar(expression, self._names.of))

    def output(self, expression: Any) -> Any:
        """The expression with keys and aggregate functions replaced by attributes."""
        for known, attribute in self._keys:
            if expression.semanticEquals(known):
                return attribute
        if class_name(expression) == "AggregateExpression":
            return self._measure(expression)
        children = items(expression.children())
        if not children:
            return expression
        new = [self.output(child) for child in children]
        if all(a is b for a, b in zip(children, new, strict=True)):
            return expression
        seq = expression.children().take(0)
        for child in new:
            seq = seq.appended(child)
        return expression.withNewChildren(seq)

    def _measure(self, expression: Any) -> Any:
        for known, attribute in self._seen:
            if expression.semanticEquals(known):
                return attribute
        function = expression.aggregateFunction()
        attribute = self._fresh(expression, function.prettyName().lower())
        self._seen.append((expression, attribute))
        condition = option(expression.filter())
        whole = opaque(expression, self._names.of)
        name = function.prettyName().lower()
        args = tuple(to_scalar(_exact(child, name), self._names.of) for child in items(function.children()))
        if name == "count" and len(args) == 1 and class_name(items(function.children())[0]) == "Literal":
            args = () if items(function.children())[0].value() is not None else args
        self.measures.append(
            Measure(
                name=self._names.new(attribute),
                function=name,
                args=args,
                type=type_name(expression.dataType()),
                distinct=bool(expression.isDistinct()),
                filter=None if condition is None else to_scalar(condition, self._names.of),
                params=whole.params,
                bound=whole.args,
                handle=expression,
            )
        )
        return attribute

    def _fresh(self, expression: Any, name: str) -> Any:
        """A new attribute of the expression's type."""
        package = self._jvm.org.apache.spark.sql.catalyst.expressions
        new_id = package.NamedExpression.newExprId()
        empty = self._jvm.PythonUtils.toSeq([])
        metadata = self._jvm.org.apache.spark.sql.types.Metadata.empty()
        return package.AttributeReference(name, expression.dataType(), True, metadata, new_id, empty)


def split_aggregate(jvm: Any, node: Any, child: Relation, names: Names) -> Relation:
    """Project(outputs, Aggregate(keys, measures, child))."""
    groupings, outputs = items(node.groupingExpressions()), items(node.aggregateExpressions())
    for expression in (*groupings, *outputs):
        check(expression)
    for expression in groupings:
        check_spelling(expression, expression.sql())
    splitter = Splitter(jvm, names)
    keys = _distinct_keys(groupings, splitter)
    rebuilt = [(output, splitter.output(_value(output))) for output in outputs]
    for measure in splitter.measures:
        check_spelling(measure.handle, measure.function)
    aggregate = Aggregate(keys, tuple(splitter.measures), child)
    columns: list[Named] = []
    for output, value in rebuilt:
        name = names.new(output)
        again = any(column.name == name for column in columns)
        columns.append(Named(names.unused(name) if again else name, to_scalar(value, names.of)))
    return Project(tuple(columns), aggregate)


def check_spelling(value: Any, name: str) -> None:
    """Values that are equal under a collation: which of their spellings is shown depends on the order of rows."""
    if "collate" in value.dataType().sql().lower():
        sentence = "Which spelling of equal strings survives is not defined. Compare lower(x) instead."
        raise Untranslatable(Reason("COLLATION", name, sentence))


def _distinct_keys(groupings: list[Any], splitter: Splitter) -> tuple[Named, ...]:
    """GROUP BY a, a is one key."""
    kept: list[Any] = []
    for expression in groupings:
        if not any(expression.semanticEquals(other) for other in kept):
            kept.append(expression)
    return tuple(splitter.key(expression) for expression in kept)


def _exact(argument: Any, function: str) -> Any:
    """What STDDEV and VARIANCE are given before Spark makes it a double: exact sums need it as it was."""
    if function.startswith(("stddev", "var")) and class_name(argument) == "Cast":
        return argument.child()
    return argument


def _value(output: Any) -> Any:
    return output.child() if class_name(output) == "Alias" else output

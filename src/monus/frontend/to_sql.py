"""An analysed plan as SQL text: how a DataFrame that was built by its API is stored.

Every operator becomes one SELECT over its input in parentheses, with columns of names of its own. Printing an
expression and reading it back is not always the same expression, so the caller compares the plans; what
cannot be printed at all is refused here, by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from monus.errors import DefinitionNotStorable
from monus.frontend.expressions import SUBQUERIES, attribute_id, rebind
from monus.frontend.jvm import class_name, items, option, quoted, to_seq
from monus.frontend.plan import TRANSPARENT, as_source, inline_ctes

USER_FUNCTIONS = {"PythonUDF", "ScalaUDF", "PythonUDAF", "ScalaAggregator", "ScalaUDAF", "PythonUDTF"}
LAMBDAS = {"LambdaFunction", "NamedLambdaVariable", "UnresolvedNamedLambdaVariable"}
PRINTS = TRANSPARENT - {"Repartition", "RepartitionByExpression", "RebalancePartitions"}
SETS = {"Union": "UNION ALL", "Intersect": "INTERSECT", "Except": "EXCEPT"}
LOCAL = {
    "LocalRelation": "rows that were made in this process",
    "LogicalRDD": "rows that were made in this process",
    "ExternalRDD": "rows that were made in this process",
    "InMemoryRelation": "rows that are cached in this process",
}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A table or view by the name that the warehouse knows it by, qualified where something hides it."""

    parts: tuple[str, ...]
    is_view: bool


FindLeaf = Callable[[str], Leaf | None]


def not_storable(what: str) -> DefinitionNotStorable:
    return DefinitionNotStorable(
        f"The DataFrame would not survive this process: {what}.", "Write the view's query in SQL.", part=what
    )


def to_sql(jvm: Any, plan: Any, find: FindLeaf) -> str:
    """`find` gives the warehouse's table or view at a path."""
    return _Printer(jvm, find).query(inline_ctes(jvm, plan))


class _Printer:
    def __init__(self, jvm: Any, find: FindLeaf) -> None:
        self._jvm = jvm
        self._find = find
        self._names: dict[str, str] = {}
        self._attributes: dict[str, Any] = {}
        self._made = 0

    def query(self, plan: Any) -> str:
        body = self._relation(plan)
        outputs = items(plan.output())
        shown = [f"{quoted(self._name(a))} AS {quoted(a.name())}" for a in outputs]
        return f"SELECT {', '.join(shown)}\nFROM {self._as(body)}"

    def _relation(self, node: Any) -> str:
        """A query whose columns are those of the node, under their printed names."""
        kind = class_name(node)
        match kind:
            case _ if kind in PRINTS:
                return self._relation(node.child())
            case "LogicalRelation":
                return self._table(node)
            case "OneRowRelation":
                return "SELECT 1 AS one"
            case "Project":
                below = self._from(node.child())
                return f"SELECT {self._outputs(items(node.projectList()))}{below}"
            case "Filter":
                return f"SELECT *{self._from(node.child())}\nWHERE {self._text(node.condition())}"
            case "Aggregate":
                return self._aggregate(node)
            case "Join":
                return self._join(node)
            case "Union" | "Intersect" | "Except":
                return self._set(node, kind)
            case "Distinct":
                return f"SELECT DISTINCT *{self._from(node.child())}"
            case "Deduplicate" if is_distinct(node):
                return f"SELECT DISTINCT *{self._from(node.child())}"
            case "Sort":
                below = self._from(node.child())
                order = ", ".join(self._text(each) for each in items(node.order()))
                return f"SELECT *{below}\n{'ORDER' if is_global(node) else 'SORT'} BY {order}"
            case "GlobalLimit" if class_name(node.child()) == "LocalLimit":
                return f"SELECT *{self._from(node.child().child())}\nLIMIT {self._text(node.limitExpr())}"
            case "Offset":
                return f"SELECT *{self._from(node.child())}\nOFFSET {self._text(node.offsetExpr())}"
            case "Window":
                below = self._from(node.child())
                return f"SELECT *, {self._outputs(items(node.windowExpressions()))}{below}"
            case "Generate":
                return self._generate(node)
        raise not_storable(LOCAL.get(kind, f"{kind} has no text"))

    def _table(self, node: Any) -> str:
        source = as_source(node)
        leaf = self._find(source.path) if source is not None and source.is_delta else None
        if source is None or leaf is None:
            raise not_storable(f"it reads {node.simpleString(25)}, which the warehouse does not know; attach it")
        if source.pinned and not leaf.is_view:
            raise not_storable(f"it reads the table {leaf.parts[-1]} at one version")
        columns = [a for a in items(node.output()) if not (leaf.is_view and a.name().startswith("__"))]
        listed = ", ".join(f"{quoted(a.name())} AS {quoted(self._new(a))}" for a in columns)
        return f"SELECT {listed} FROM {'.'.join(map(quoted, leaf.parts))}"

    def _aggregate(self, node: Any) -> str:
        below = self._from(node.child())
        keys = [self._text(each) for each in items(node.groupingExpressions())]
        outputs = self._outputs(items(node.aggregateExpressions()))
        return f"SELECT {outputs}{below}" + (f"\nGROUP BY {', '.join(keys)}" if keys else "")

    def _join(self, node: Any) -> str:
        how, condition = node.joinType().sql(), option(node.condition())
        if how not in ("INNER", "CROSS", "LEFT OUTER", "RIGHT OUTER", "FULL OUTER", "LEFT SEMI", "LEFT ANTI"):
            raise not_storable(f"a {how} join has no text")
        left, right = self._as(self._relation(node.left())), self._as(self._relation(node.right()))
        if condition is None:
            return f"SELECT *\nFROM {left}\n{'CROSS' if how == 'INNER' else how} JOIN {right}"
        return f"SELECT *\nFROM {left}\n{how} JOIN {right} ON {self._text(condition)}"

    def _set(self, node: Any, kind: str) -> str:
        inputs = union_inputs(node) if kind == "Union" else items(node.children())
        parts = [f"({self._ordered(child)})" for child in inputs]
        every = kind != "Union" and node.isAll()
        operator = f"\n{SETS[kind]}{' ALL' if every else ''}\n"
        for attribute, below in zip(items(node.output()), items(inputs[0].output()), strict=True):
            self._bind(attribute, self._name(below))
        return operator.join(parts)

    def _ordered(self, node: Any) -> str:
        """The columns in the order of the plan's output: set operators match by position."""
        body = self._relation(node)
        return f"SELECT {', '.join(quoted(self._name(a)) for a in items(node.output()))}\nFROM {self._as(body)}"

    def _generate(self, node: Any) -> str:
        below = self._from(node.child())
        generator = self._text(node.generator())
        columns = ", ".join(quoted(self._new(a)) for a in items(node.generatorOutput()))
        return f"SELECT *{below} LATERAL VIEW {'OUTER ' if node.outer() else ''}{generator} AS {columns}"

    def _from(self, child: Any) -> str:
        # SELECT without FROM reads the relation of one row.
        return "" if class_name(child) == "OneRowRelation" else f"\nFROM {self._as(self._relation(child))}"

    def _as(self, body: str) -> str:
        self._made += 1
        return f"({body}) AS `q{self._made}`"

    def _outputs(self, expressions: list[Any]) -> str:
        shown = []
        for expression in expressions:
            if class_name(expression) == "AttributeReference":
                shown.append(quoted(self._name(expression)))
            else:
                text = self._text(expression.child() if class_name(expression) == "Alias" else expression)
                shown.append(f"{text} AS {quoted(self._new(expression))}")
        return ", ".join(shown)

    def _text(self, expression: Any) -> str:
        _check(expression)
        return str(rebind(expression, self._attributes).sql())

    def _new(self, attribute: Any) -> str:
        self._made += 1
        self._bind(attribute, f"c{self._made}")
        return self._name(attribute)

    def _bind(self, attribute: Any, name: str) -> None:
        key = attribute_id(attribute)
        self._names[key] = name
        plain = attribute.toAttribute().withName(name).withQualifier(to_seq(self._jvm, []))
        self._attributes[key] = plain

    def _name(self, attribute: Any) -> str:
        name = self._names.get(attribute_id(attribute))
        if name is None:
            raise not_storable(f"the column {attribute.name()} does not show in the warehouse")
        return name


def union_inputs(node: Any) -> list[Any]:
    """The inputs of a union and of the unions right under it: UNION ALL of three is written as two."""
    if class_name(node) != "Union":
        return [node]
    return [each for child in items(node.children()) for each in union_inputs(child)]


def is_distinct(node: Any) -> bool:
    """Whether dropDuplicates compares whole rows."""
    keys = {attribute_id(key) for key in items(node.keys())}
    return keys == {attribute_id(each) for each in items(node.child().output())}


def is_global(sort: Any) -> bool:
    # The name of the field is a keyword of Python.
    return bool(getattr(sort, "global")())


def _check(expression: Any) -> None:
    kind = class_name(expression)
    if kind in USER_FUNCTIONS:
        raise not_storable(f"{expression.sql()} is a user function, which lives in this session only")
    if kind in LAMBDAS:
        raise not_storable("a lambda function has no text")
    if kind in SUBQUERIES:
        raise not_storable("a subquery inside an expression has no text here")
    for child in items(expression.children()):
        _check(child)

"""Spark's analysed plan as a query of the algebra.

From the analysed plan, so that types, coercions, function resolution, stars and views are exactly
Spark's. What no rule maintains raises `Untranslatable` with a reason that names it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError

from monus.algebra.reasons import Reason
from monus.algebra.relations import (
    Distinct,
    Except,
    Intersect,
    Join,
    Min,
    Monus,
    Named,
    Product,
    Project,
    Relation,
    Select,
    Table,
    UnionAll,
    names_of,
)
from monus.algebra.scalars import Column, Ref
from monus.errors import DuplicateColumns
from monus.frontend.aggregates import check_spelling, split_aggregate
from monus.frontend.determinism import MAY_CHANGE, reasons
from monus.frontend.expressions import Untranslatable, attribute_id, check, to_scalar, type_name
from monus.frontend.jvm import class_name, items, option
from monus.frontend.names import Names

TRANSPARENT = {
    "SubqueryAlias", "View", "ResolvedHint", "Repartition", "RepartitionByExpression", "RebalancePartitions",
    "UnresolvedHint", "SQLFunctionNode", "Subquery",
}  # fmt: skip
NOT_DELTA = {
    "DataSourceV2Relation", "DataSourceV2ScanRelation", "HiveTableRelation", "LogicalRDD", "StreamingRelation",
    "ExternalRDD", "InMemoryRelation", "LogicalQueryStage",
}  # fmt: skip
CONSTANTS = {"LocalRelation", "OneRowRelation", "Range"}
INSTEAD = {
    "Window": "Window functions are not maintained yet. Use GROUP BY and a join.",
    "GlobalLimit": "LIMIT without a total order has no defined answer. Leave it out and limit when reading.",
    "LocalLimit": "LIMIT without a total order has no defined answer. Leave it out and limit when reading.",
    "Offset": "OFFSET without a total order has no defined answer. Leave it out.",
    "Tail": "The last rows without a total order have no defined answer. Leave it out.",
    "Sample": "A sample has no defined answer. Filter by a hash of a key instead.",
    "Generate": "Generators are not maintained yet. Explode when reading.",
    "Expand": "GROUPING SETS, CUBE and ROLLUP are not maintained yet. Write one GROUP BY per view.",
    "Deduplicate": "Which of the duplicates survives is not defined. Use DISTINCT or GROUP BY.",
    "UnionLoop": "Recursive queries are not maintained.",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A leaf of a plan that is a stored table: its path, and the version if the query pins one."""

    path: str
    pinned: bool
    description: str
    is_delta: bool


Resolve = Callable[[Source], str]


@dataclass(frozen=True, slots=True)
class Translation:
    """The query in the algebra, its constants (literal tables, by name) and its visible columns."""

    query: Relation
    constants: dict[str, Any]


def inline_ctes(jvm: Any, plan: Any) -> Any:
    """A common table expression is read where it is referred to."""
    return jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False).apply(plan)


def sources(plan: Any) -> list[Source]:
    """Every stored table that the plan reads, also inside subqueries."""
    found: list[Source] = []
    for node in _all_nodes(plan):
        source = as_source(node)
        if source is not None and source not in found:
            found.append(source)
    return found


def undetermined(plan: Any) -> Reason | None:
    """Why the answer may change although no Delta table does: it reads the clock, or files that tell nothing."""
    for node in _all_nodes(plan):
        source = as_source(node)
        if source is not None and not source.is_delta:
            return _not_delta(source)
        for expression in items(node.expressions()):
            for reason in reasons(expression):
                if reason.code in MAY_CHANGE:
                    return reason
    return None


def columns_read(plan: Any, path: str) -> set[str]:
    """The columns of a stored table that something in the plan refers to, or that it puts out."""
    nodes = _all_nodes(plan)
    used = {attribute_id(attribute) for attribute in items(plan.output())}
    for node in nodes:
        used |= {attribute_id(attribute) for attribute in items(node.references().toSeq())}
    found: set[str] = set()
    for node in nodes:
        source = as_source(node)
        if source is not None and source.path.rstrip("/") == path.rstrip("/"):
            found |= {a.name() for a in items(node.output()) if attribute_id(a) in used}
    return found


def as_source(node: Any) -> Source | None:
    kind = class_name(node)
    if kind == "LogicalRelation":
        try:
            location = node.relation().location()
        except Py4JError:  # a relation that is not made of files
            return Source("", False, node.simpleString(25), False)
        if class_name(location) == "TahoeLogFileIndex":
            path = location.deltaLog().dataPath().toString()
            return Source(path, bool(location.isTimeTravelQuery()), node.simpleString(25), True)
        return Source("", False, node.simpleString(25), False)
    if kind in NOT_DELTA:
        return Source("", False, node.simpleString(25), False)
    return None


def translate(jvm: Any, plan: Any, resolve: Resolve) -> Translation:
    """`resolve` gives the name under which the warehouse knows a stored table."""
    translator = _Translator(jvm, resolve)
    body = translator.relation(inline_ctes(jvm, plan))
    outputs = zip(items(plan.output()), names_of(body), strict=True)
    check_unique_output(plan)
    visible = tuple(Named(attribute.name(), Ref(name)) for attribute, name in outputs)
    query = body if tuple(n.name for n in visible) == names_of(body) else Project(visible, body)
    return Translation(query, translator.constants)


def check_unique_output(plan: Any) -> None:
    names = [attribute.name() for attribute in items(plan.output())]
    twice = sorted({name for name in names if [n.lower() for n in names].count(name.lower()) > 1})
    if twice:
        raise DuplicateColumns(
            f"The query has more than one output column {', '.join(twice)}.", "Name them apart with AS."
        )


class _Translator:
    def __init__(self, jvm: Any, resolve: Resolve) -> None:
        self._jvm = jvm
        self._resolve = resolve
        self.names = Names()
        self.constants: dict[str, Any] = {}

    def relation(self, node: Any) -> Relation:
        kind = class_name(node)
        if kind in TRANSPARENT:
            return self.relation(node.child())
        match kind:
            case "LogicalRelation":
                return self._table(node)
            case "Project":
                child = self.relation(node.child())
                return Project(self._outputs(items(node.projectList())), child)
            case "Filter":
                child = self.relation(node.child())
                check(node.condition())
                return Select(to_scalar(node.condition(), self.names.of), child)
            case "Aggregate":
                return split_aggregate(self._jvm, node, self.relation(node.child()), self.names)
            case "Join":
                return self._join(node)
            case "Union":
                return self._union(node)
            case "Distinct":
                return Distinct(self._comparable(node.child()))
            case "Except" | "Intersect":
                left, right = self._comparable(node.left()), self._comparable(node.right())
                if kind == "Except":
                    return Monus(left, right) if node.isAll() else Except(left, right)
                return Min(left, right) if node.isAll() else Intersect(left, right)
            case "Deduplicate":
                if _same_ids(items(node.keys()), items(node.child().output())):
                    return Distinct(self._comparable(node.child()))
            case "Sort":
                # A view is a bag: an order that nothing above makes use of does not show.
                return self.relation(node.child())
            case _ if kind in CONSTANTS:
                return self._constant(node)
        raise Untranslatable(self._reason(node, kind))

    def _outputs(self, expressions: list[Any]) -> tuple[Named, ...]:
        outputs: list[Named] = []
        for expression in expressions:
            check(expression)
            scalar = to_scalar(expression, self.names.of)
            name = self.names.new(expression)
            # SELECT a, a names one attribute twice; positions count, so both stay.
            again = any(output.name == name for output in outputs)
            outputs.append(Named(self.names.unused(name) if again else name, scalar))
        return tuple(outputs)

    def _table(self, node: Any) -> Relation:
        source = as_source(node)
        assert source is not None
        if not source.is_delta:
            raise Untranslatable(_not_delta(source))
        if source.pinned:
            raise Untranslatable(
                Reason(
                    "TIME_TRAVEL", source.description, "A pinned version never changes. Read the table as it is now."
                )
            )
        attributes = items(node.output())
        for attribute in attributes:
            check(attribute)
        schema = tuple(Column(a.name(), type_name(a.dataType())) for a in attributes)
        table = Table(self._resolve(source), schema)
        outputs = tuple(Named(self.names.new(a), Ref(a.name())) for a in attributes)
        return table if all(o.name == c.name for o, c in zip(outputs, schema, strict=True)) else Project(outputs, table)

    def _constant(self, node: Any) -> Relation:
        attributes = items(node.output())
        name = f"VALUES#{len(self.constants) + 1}"
        self.constants[name] = node
        schema = tuple(Column(self.names.new(a), type_name(a.dataType())) for a in attributes)
        return Table(name, schema)

    def _join(self, node: Any) -> Relation:
        how = node.joinType().sql()
        if how not in ("INNER", "CROSS"):
            sentence = f"{how} joins are not maintained yet. Use an inner join, or UNION ALL of two."
            raise Untranslatable(Reason("JOIN_TYPE", f"{how} JOIN", sentence))
        left, right = self.relation(node.left()), self.relation(node.right())
        condition = option(node.condition())
        if condition is None:
            return Product(left, right)
        check(condition)
        return Join(to_scalar(condition, self.names.of), left, right)

    def _union(self, node: Any) -> Relation:
        inputs = [self.relation(child) for child in items(node.children())]
        result = inputs[0]
        for other in inputs[1:]:
            result = UnionAll(result, other)
        for attribute, name in zip(items(node.output()), names_of(result), strict=True):
            self.names.alias(attribute, name)
        return result

    def _comparable(self, node: Any) -> Relation:
        """Rows that are compared as a whole: under a collation, which spelling survives is not defined."""
        for attribute in items(node.output()):
            check_spelling(attribute, attribute.name())
        return self.relation(node)

    def _reason(self, node: Any, kind: str) -> Reason:
        sentence = INSTEAD.get(kind, f"{kind} is not maintained. Leave it out, or refresh in full.")
        return Reason("OPERATOR", kind, sentence)


def _not_delta(source: Source) -> Reason:
    return Reason("SOURCE_NOT_DELTA", source.description, "Only Delta tables tell what changed. Copy it into one.")


def _all_nodes(plan: Any) -> list[Any]:
    """The plan's nodes with those of subqueries and common table expressions."""
    found = [plan]
    for child in [*items(plan.children()), *items(plan.innerChildren()), *items(plan.subqueries())]:
        found.extend(_all_nodes(child))
    return found


def _same_ids(left: list[Any], right: list[Any]) -> bool:
    return {attribute_id(a) for a in left} == {attribute_id(a) for a in right}

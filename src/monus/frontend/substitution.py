"""Names in a parsed query replaced by plans, before Spark resolves them.

A materialized view's table has columns that must not show, and is read at its published version; so
its name stands for a projection over that version. Common table expressions hide names, as in SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaObject, is_instance_of
from pyspark.sql import DataFrame, SparkSession

from monus.frontend.jvm import class_name, frame_of, items

CATALYST = "org.apache.spark.sql.catalyst"
Find = Callable[[tuple[str, ...]], DataFrame | None]


def parse(spark: SparkSession, text: str) -> Any:
    """The unresolved plan of a statement."""
    return spark._jsparkSession.sessionState().sqlParser().parsePlan(text)


def query_frame(spark: SparkSession, text: str, find: Find) -> DataFrame:
    """The query as a DataFrame, with the names that `find` knows replaced."""
    return frame_of(spark, substitute(spark, parse(spark, text), find))


def relation_names(spark: SparkSession, plan: Any) -> set[tuple[str, ...]]:
    """The names of tables and views that a parsed plan reads or writes."""
    found: set[tuple[str, ...]] = set()

    def note(parts: tuple[str, ...]) -> None:
        found.add(parts)

    substitute(spark, plan, note)
    return found


def substitute(spark: SparkSession, plan: Any, find: Find) -> Any:
    return _Substitution(spark, find).visit(plan, frozenset())


class _Substitution:
    def __init__(self, spark: SparkSession, find: Find) -> None:
        self._spark = spark
        self._find = find
        self._jvm: Any = spark._jvm
        self._gateway = spark.sparkContext._gateway

    def visit(self, value: Any, hidden: frozenset[str]) -> Any:
        """The value itself, the very same, if nothing in it is replaced."""
        if not isinstance(value, JavaObject):
            return value
        if self._is(value, f"{CATALYST}.trees.TreeNode"):
            return self._node(value, hidden)
        if self._is(value, "scala.collection.immutable.Seq"):
            return self._seq(value, hidden)
        if self._is(value, "scala.Some"):
            inner = value.get()
            new = self.visit(inner, hidden)
            return value if new is inner else self._jvm.scala.Option.apply(new)
        if self._is(value, "scala.Tuple2"):
            old = value._2()
            new = self.visit(old, hidden)
            return value if new is old else self._jvm.scala.Tuple2(value._1(), new)
        return value

    def _node(self, node: Any, hidden: frozenset[str]) -> Any:
        kind = class_name(node)
        if kind == "UnresolvedRelation":
            return self._relation(node, hidden)
        if kind == "UnresolvedWith":
            return self._with(node, hidden)
        fields = node.productIterator().toArray(self._jvm.scala.reflect.ClassTag.AnyRef())
        changed = False
        for i in range(len(fields)):
            old = fields[i]
            new = self.visit(old, hidden)
            if new is not old:
                fields[i] = new
                changed = True
        return node.makeCopy(fields) if changed else node

    def _seq(self, seq: Any, hidden: frozenset[str]) -> Any:
        old = items(seq)
        new = [self.visit(each, hidden) for each in old]
        if all(a is b for a, b in zip(old, new, strict=True)):
            return seq
        result = seq
        for i, each in enumerate(new):
            if each is not old[i]:
                result = result.updated(i, each)
        return result

    def _with(self, node: Any, hidden: frozenset[str]) -> Any:
        relations, seen = node.cteRelations(), hidden
        for i, relation in enumerate(items(relations)):
            body = relation._2()
            new = self.visit(body, seen)
            if new is not body:
                relations = relations.updated(i, relation.copy(relation._1(), new, *self._rest(relation)))
            seen |= {relation._1().lower()}
        child = self.visit(node.child(), seen)
        return node.copy(child, relations, node.allowRecursion())

    def _rest(self, relation: Any) -> list[Any]:
        return [relation.productElement(i) for i in range(2, relation.productArity())]

    def _relation(self, node: Any, hidden: frozenset[str]) -> Any:
        parts = tuple(items(node.multipartIdentifier()))
        if len(parts) == 1 and (parts[0].lower() in hidden or self._is_temporary(parts[0])):
            return node
        frame = self._find(parts)
        if frame is None:
            return node
        plan = frame._jdf.queryExecution().analyzed()
        return self._jvm.org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias(
            self._jvm.org.apache.spark.sql.catalyst.AliasIdentifier(parts[-1], self._qualifier()), plan
        )

    def _qualifier(self) -> Any:
        catalog = self._spark.catalog
        return self._jvm.PythonUtils.toSeq([catalog.currentCatalog(), catalog.currentDatabase()])

    def _is_temporary(self, name: str) -> bool:
        return bool(self._spark._jsparkSession.sessionState().catalog().getTempView(name).isDefined())

    def _is(self, value: Any, java_class: str) -> bool:
        return bool(is_instance_of(self._gateway, value, java_class))

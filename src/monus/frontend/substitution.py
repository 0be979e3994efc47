"""Names in a parsed statement replaced by plans, before Spark resolves them.

A materialized view's table has columns that must not show, and is read at its published version; so
its name stands for a projection over that version. What hides a name does so as in SQL: a common table
expression first, then a temporary view. SQL views are opened, because they may read materialized views,
and the names in them are those of the namespace that they were made in. What a statement changes is not a
plan but a table of the session: there a name only gives way to another name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from py4j.java_gateway import JavaObject, is_instance_of
from pyspark.sql import DataFrame, SparkSession

from monus.frontend.jvm import active, analyzed, class_name, frame_of, items, java_class, option, to_seq

CATALYST = "org.apache.spark.sql.catalyst"
KINDS = {
    "expression": f"{CATALYST}.expressions.Expression",
    "node": f"{CATALYST}.trees.TreeNode",
    "seq": "scala.collection.immutable.Seq",
    "some": "scala.Some",
    "pair": "scala.Tuple2",
}
INSERTS = ("InsertIntoStatement", "OverwriteByExpression", "OverwritePartitionsDynamic", "AppendData")
CHANGES = ("UpdateTable", "DeleteFromTable", "MergeIntoTable")
NAMES = ("UnresolvedTable", "UnresolvedTableOrView", "UnresolvedIdentifier", "UnresolvedView")
VALUES = ("LocalRelation", "UnresolvedInlineTable", "ResolvedInlineTable")
LEFT_ALONE = ("CacheTable", "UncacheTable", "CloneTableStatement")

Parts = tuple[str, ...]

_kinds: dict[str, str] = {}


@dataclass(frozen=True)
class Found:
    """What a name stands for: the plan that a reader sees, and the name by which the session knows its table.

    What is changed is not read: the plan is only made when it is asked for.
    """

    read: Callable[[], Any] | None = None
    parts: Parts | None = None

    @cached_property
    def plan(self) -> Any:
        return None if self.read is None else self.read()


Find = Callable[[Parts], Found | None]


def reads(frame: DataFrame) -> Found:
    """A name that stands for the rows of a DataFrame."""
    return Found(partial(analyzed, frame))


def parse(spark: SparkSession, text: str) -> Any:
    """The unresolved plan of a statement."""
    with active(spark):  # whether a cast fails or gives NULL is decided by the parser
        return spark._jsparkSession.sessionState().sqlParser().parsePlan(text)


def substitute(
    spark: SparkSession,
    plan: Any,
    find: Find,
    *,
    opens_views: bool = True,
    on_function: Callable[[Parts], None] | None = None,
) -> Any:
    """The plan, the very same if nothing in it is replaced.

    Where SQL views are not opened, `find` is asked for them too; `on_function` is told of every function.
    """
    return _Substitution(spark, find, opens_views, on_function).visit(plan, _Scope())


def session_view(spark: SparkSession, parts: Parts) -> Any | None:
    """The temporary view of that name as an unresolved plan."""
    catalog = spark._jsparkSession.sessionState().catalog()
    if len(parts) == 1:
        return option(catalog.getTempView(parts[0]))
    if len(parts) == 2 and parts[0].lower() == "global_temp":
        return option(catalog.getGlobalTempView(parts[1]))
    return None


def permanent_view(spark: SparkSession, parts: Parts) -> Any | None:
    """The permanent SQL view of that name in Spark's own catalog as an unresolved plan."""
    jvm: Any = spark._jvm
    if (len(parts) == 3 and parts[0].lower() != "spark_catalog") or len(parts) > 3:
        return None
    database = parts[-2] if len(parts) > 1 else spark.catalog.currentDatabase()
    catalog = spark._jsparkSession.sessionState().catalog()
    identifier = table_identifier(jvm, parts[-1], database)
    try:
        if not catalog.tableExists(identifier):
            return None
        metadata = catalog.getTableMetadata(identifier)
    except Exception:  # a database that is not there, or a name that Spark's catalog cannot have
        return None
    if metadata.tableType().name() != "VIEW":
        return None
    relation = catalog.getRelation(metadata, jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap.empty())
    return relation.child() if class_name(relation) == "SubqueryAlias" else relation


def table_identifier(jvm: Any, name: str, database: str) -> Any:
    return java_class(jvm, f"{CATALYST}.TableIdentifier")(name, java_class(jvm, "scala.Option.apply")(database))


@dataclass(frozen=True, slots=True)
class _Scope:
    """`hidden` are names of common table expressions; inside a SQL view, its namespace and temporary views count.

    `is_target` is the place of what UPDATE, DELETE or MERGE changes, also behind an alias or a temporary view.
    """

    hidden: frozenset[str] = frozenset()
    namespace: Parts | None = None
    temporary: frozenset[str] | None = None
    is_target: bool = False

    def qualified(self, parts: Parts) -> Parts:
        if self.namespace is None or len(parts) > 1 or len(self.namespace) != 2:
            return parts
        return (self.namespace[1], *parts) if self.namespace[0].lower() == "spark_catalog" else parts


class _Substitution:
    def __init__(
        self, spark: SparkSession, find: Find, opens_views: bool, on_function: Callable[[Parts], None] | None
    ) -> None:
        self._spark = spark
        self._find = find
        self._opens_views = opens_views
        self._on_function = on_function
        self._jvm: Any = spark._jvm
        self._gateway = spark.sparkContext._gateway
        self._subquery = java_class(spark._jvm, f"{CATALYST}.trees.TreePattern.PLAN_EXPRESSION")()

    def visit(self, value: Any, scope: _Scope) -> Any:
        """The value itself, the very same, if nothing in it is replaced."""
        if not isinstance(value, JavaObject):
            return value
        match self._kind(value):
            case "expression":
                return value if self._has_no_names(value) else self._node(value, scope)
            case "node":
                return self._node(value, scope)
            case "seq":
                return self._seq(value, scope)
            case "some":
                inner = value.get()
                new = self.visit(inner, scope)
                return value if new is inner else self._jvm.scala.Option.apply(new)
            case "pair":
                old = value._2()
                new = self.visit(old, scope)
                return value if new is old else self._jvm.scala.Tuple2(value._1(), new)
        return value

    def _kind(self, value: Any) -> str:
        """What a value of this class is to us; asked once per class, because each question crosses to the JVM."""
        name = value.getClass().getName()
        if name not in _kinds:
            found = (kind for kind, java in KINDS.items() if is_instance_of(self._gateway, value, java))
            _kinds[name] = next(found, "")
        return _kinds[name]

    def _node(self, node: Any, scope: _Scope) -> Any:
        match class_name(node):
            case "UnresolvedRelation":
                return self._relation(node, scope)
            case "RelationTimeTravel":
                return self._time_travel(node, scope)
            case "UnresolvedWith":
                return self._with(node, scope)
            case "View":
                return self._view(node, scope)
            case kind if kind in VALUES and self._has_no_names(node):
                return node
            case kind if kind in LEFT_ALONE:
                return node
            case kind if kind in NAMES:
                return self._renamed(node, self._find(_parts_of(node)))
            case "UnresolvedFunction" | "UnresolvedTableValuedFunction" as kind if self._on_function is not None:
                self._on_function(tuple(items(node.nameParts() if kind == "UnresolvedFunction" else node.name())))
                return self._copy(node, scope, target=False)
            case kind:
                return self._copy(node, scope, target=kind in INSERTS)

    def _has_no_names(self, node: Any) -> bool:
        """Whether nothing in the expressions is of interest: there, only subqueries name tables."""
        return self._on_function is None and not node.containsPattern(self._subquery)

    def _copy(self, node: Any, scope: _Scope, target: bool) -> Any:
        fields = None
        first = replace(scope, is_target=True) if class_name(node) in CHANGES else scope
        for i in range(node.productArity()):
            old = node.productElement(i)
            if i == 0 and target and class_name(old) == "UnresolvedRelation":
                new = self._renamed(old, self._find(_parts_of(old)))
            else:
                new = self.visit(old, first if i == 0 else scope)
            if new is not old:
                fields = self._fields(node) if fields is None else fields
                fields[i] = new
        return node if fields is None else node.makeCopy(fields)

    def _seq(self, seq: Any, scope: _Scope) -> Any:
        old = items(seq)
        new = [self.visit(each, scope) for each in old]
        result = seq
        for i, each in enumerate(new):
            if each is not old[i]:
                result = result.updated(i, each)
        return result

    def _with(self, node: Any, scope: _Scope) -> Any:
        relations, seen = node.cteRelations(), scope
        for i, relation in enumerate(items(relations)):
            name, body = relation._1().lower(), relation._2()
            inner = replace(seen, hidden=seen.hidden | {name})
            new = self.visit(body, inner if node.allowRecursion() else seen)
            if new is not body:
                rest = [relation.productElement(k) for k in range(2, relation.productArity())]
                relations = relations.updated(i, relation.copy(relation._1(), new, *rest))
            seen = inner
        child = self.visit(node.child(), seen)
        if child is node.child() and relations is node.cteRelations():
            return node
        return node.copy(child, relations, node.allowRecursion())

    def _relation(self, node: Any, scope: _Scope) -> Any:
        parts = _parts_of(node)
        if len(parts) == 1 and parts[0].lower() in scope.hidden:
            return node
        view = self._temporary(parts, scope)
        if view is None:
            found = self._find(scope.qualified(parts))
            if found is not None:
                plan = self._renamed(node, found) if scope.is_target or found.read is None else found.plan
                return node if plan is node else self._aliased(parts, plan)
            view = permanent_view(self._spark, scope.qualified(parts)) if self._opens_views else None
        if view is None:
            return node
        opened = self.visit(view, scope)
        return node if opened is view else self._aliased(parts, opened)

    def _view(self, node: Any, scope: _Scope) -> Any:
        """A SQL view: its text was parsed, its names are not resolved yet; one of a DataFrame has no names."""
        if node.child().resolved():
            return node
        description = node.desc()
        referred = [tuple(items(each)) for each in items(description.viewReferredTempViewNames())]
        temporary = frozenset(each[-1].lower() for each in referred)
        namespace = tuple(items(description.viewCatalogAndNamespace()))
        return self._copy(node, _Scope(frozenset(), namespace or None, temporary, scope.is_target), target=False)

    def _time_travel(self, node: Any, scope: _Scope) -> Any:
        """An earlier version, by its own table; columns that do not show are left out here too."""
        inner = node.relation()
        if class_name(inner) != "UnresolvedRelation":
            return self._copy(node, scope, target=False)
        parts = _parts_of(inner)
        is_hidden = len(parts) == 1 and parts[0].lower() in scope.hidden
        found = None if is_hidden or self._temporary(parts, scope) is not None else self._find(scope.qualified(parts))
        if found is None:
            return node
        fields = self._fields(node)
        fields[0] = self._renamed(inner, found)
        travel = node if fields[0] is inner else node.makeCopy(fields)
        by_name = node if travel is node else self._aliased(parts, travel)
        if found.read is None:
            return by_name
        names = [a.name() for a in items(analyzed(frame_of(self._spark, travel)).output())]
        shown = [name for name in names if not name.startswith("__")]
        if shown == names:
            return by_name
        unresolved = self._jvm.org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
        columns = to_seq(self._jvm, [unresolved(to_seq(self._jvm, [name])) for name in shown])
        project = self._jvm.org.apache.spark.sql.catalyst.plans.logical.Project(columns, travel)
        return self._aliased(parts, project)

    def _temporary(self, parts: Parts, scope: _Scope) -> Any | None:
        if not self._opens_views or (scope.temporary is not None and parts[-1].lower() not in scope.temporary):
            return None
        return session_view(self._spark, parts)

    def _renamed(self, node: Any, found: Found | None) -> Any:
        if found is None or found.parts is None or found.parts == _parts_of(node):
            return node
        fields = self._fields(node)
        fields[0] = to_seq(self._jvm, found.parts)
        return node.makeCopy(fields)

    def _aliased(self, parts: Parts, plan: Any) -> Any:
        """The plan under the name that it was asked for by, so that `db.name.column` finds it."""
        catalog = self._spark.catalog
        qualifier = [catalog.currentCatalog(), catalog.currentDatabase()]
        if len(parts) > 1:
            qualifier = [*([] if len(parts) > 2 else [catalog.currentCatalog()]), *parts[:-1]]
        return self._jvm.org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias(
            self._jvm.org.apache.spark.sql.catalyst.AliasIdentifier(parts[-1], to_seq(self._jvm, qualifier)), plan
        )

    def _fields(self, node: Any) -> Any:
        return node.productIterator().toArray(java_class(self._jvm, "scala.reflect.ClassTag.AnyRef")())


def _parts_of(node: Any) -> Parts:
    is_identifier = class_name(node) == "UnresolvedIdentifier"
    return tuple(items(node.nameParts() if is_identifier else node.multipartIdentifier()))

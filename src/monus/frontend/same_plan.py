"""Whether two analysed plans are the same query: the same operators over the same tables.

Aliases of whole relations and projections that only rename or reorder do not count; every expression is
compared in the JVM, after the attributes of one plan were put in the place of those of the other.
"""

from __future__ import annotations

from typing import Any

from monus.frontend.expressions import attribute_id, rebind
from monus.frontend.jvm import class_name, items, option
from monus.frontend.plan import TRANSPARENT, as_source, inline_ctes
from monus.frontend.to_sql import is_distinct, is_global, union_inputs

Attributes = dict[str, Any]
BY_POSITION = {"Union", "Intersect", "Except", "Distinct"}


class _Different(Exception):
    """Carries what differs."""


def difference(jvm: Any, left: Any, right: Any) -> str | None:
    """What differs, for a person; None if nothing does."""
    names = [[a.name() for a in items(plan.output())] for plan in (left, right)]
    if names[0] != names[1]:
        return f"the columns {', '.join(names[0])} and {', '.join(names[1])}"
    try:
        _Comparison().compare(inline_ctes(jvm, left), inline_ctes(jvm, right), by_position=True)
    except _Different as found:
        return str(found)
    return None


class _Comparison:
    """`left` and `right` map the attributes of each plan to attributes that both have in common."""

    def __init__(self) -> None:
        self.left: Attributes = {}
        self.right: Attributes = {}

    def compare(self, left: Any, right: Any, by_position: bool = False) -> None:
        left_core, left_renames = _strip(left)
        right_core, right_renames = _strip(right)
        kinds = _kind(left_core), _kind(right_core)
        if kinds[0] != kinds[1]:
            raise _Different(f"{kinds[0]} became {kinds[1]}")
        self._cores(kinds[0], left_core, right_core)
        for renames, known in ((left_renames, self.left), (right_renames, self.right)):
            for expression in renames:
                source = expression.child() if class_name(expression) == "Alias" else expression
                known[attribute_id(expression)] = known.get(attribute_id(source), source)
        if by_position:
            ours = [self._common(self.left, a) for a in items(left.output())]
            theirs = [self._common(self.right, a) for a in items(right.output())]
            if ours != theirs:
                raise _Different(f"the order of the columns of {kinds[0]}")

    def _cores(self, kind: str, left: Any, right: Any) -> None:
        if kind == "LogicalRelation":
            if as_source(left) != as_source(right) and _place(left) != _place(right):
                raise _Different(f"{left.simpleString(5)} became {right.simpleString(5)}")
            return self._bind_by_name(left, right)
        ours, theirs = (union_inputs(each) if kind == "Union" else items(each.children()) for each in (left, right))
        if len(ours) != len(theirs):
            raise _Different(f"{kind} has {len(ours)} inputs and then {len(theirs)}")
        for a, b in zip(ours, theirs, strict=True):
            self.compare(a, b, by_position=kind in BY_POSITION)
        if kind == "Join" and _join_type(left) != _join_type(right):
            raise _Different(f"a {_join_type(left)} join became a {_join_type(right)} join")
        if kind in ("Intersect", "Except") and left.isAll() != right.isAll():
            raise _Different(f"{kind} differs in ALL")
        if kind == "Sort" and is_global(left) != is_global(right):
            raise _Different("ORDER BY and SORT BY")
        self._expressions(_expressions(left, kind), _expressions(right, kind), kind)
        self._bind_by_position(left, right)

    def _expressions(self, left: list[Any], right: list[Any], kind: str) -> None:
        if len(left) != len(right):
            raise _Different(f"{kind} has {len(left)} expressions and then {len(right)}")
        for a, b in zip(left, right, strict=True):
            ours = rebind(_value(a), self.left)
            theirs = rebind(_value(b), self.right)
            if not ours.semanticEquals(theirs):
                raise _Different(f"{a.sql()} in {kind}")

    def _bind_by_name(self, left: Any, right: Any) -> None:
        known = {a.name(): a for a in items(left.output())}
        for attribute in items(left.output()):
            self.left[attribute_id(attribute)] = attribute
        for attribute in items(right.output()):
            self.right[attribute_id(attribute)] = known.get(attribute.name(), attribute)

    def _bind_by_position(self, left: Any, right: Any) -> None:
        """Attributes that the operator makes; those that it passes on are known already."""
        if class_name(left) in ("Project", "Aggregate", "Union", "Window", "Generate"):
            ours, theirs = _made(left), _made(right)
            for a, b in zip(ours, theirs, strict=False):
                common = a.toAttribute()
                self.left.setdefault(attribute_id(a), common)
                self.right.setdefault(attribute_id(b), self.left[attribute_id(a)])

    def _common(self, known: Attributes, attribute: Any) -> str:
        return attribute_id(known.get(attribute_id(attribute), attribute))


def _strip(node: Any) -> tuple[Any, list[Any]]:
    """The operator under aliases and renaming projections, and these projections' columns, the inmost first."""
    renames: list[list[Any]] = []
    while True:
        kind = class_name(node)
        if kind in TRANSPARENT or kind == "LocalLimit":
            node = node.child()
        elif kind == "Project" and all(_is_rename(each) for each in items(node.projectList())):
            renames.insert(0, items(node.projectList()))
            node = node.child()
        else:
            return node, [each for columns in renames for each in columns]


def _is_rename(expression: Any) -> bool:
    inner = expression.child() if class_name(expression) == "Alias" else expression
    return class_name(inner) == "AttributeReference"


def _kind(node: Any) -> str:
    kind = class_name(node)
    return "Distinct" if kind == "Deduplicate" and is_distinct(node) else kind


def _expressions(node: Any, kind: str) -> list[Any]:
    match kind:
        case "Distinct" | "Union" | "Intersect" | "Except":
            return []
        case "Join":
            condition = option(node.condition())
            return [] if condition is None else [condition]
        case "Generate":
            return [node.generator()]
    return items(node.expressions())


def _made(node: Any) -> list[Any]:
    match class_name(node):
        case "Window":
            return items(node.windowExpressions())
        case "Generate":
            return items(node.generatorOutput())
    return items(node.output())


def _value(expression: Any) -> Any:
    return expression.child() if class_name(expression) == "Alias" else expression


def _join_type(node: Any) -> str:
    how: str = node.joinType().sql()
    return "INNER" if how == "CROSS" else how


def _place(node: Any) -> tuple[str, bool]:
    source = as_source(node)
    return ("", False) if source is None or not source.is_delta else (source.path, source.pinned)

"""`explain`: the algebra of a view, the rule that maintains each operator, and the derived change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from monus.algebra.reasons import Reason
from monus.algebra.relations import (
    Affected,
    Aggregate,
    Change,
    Distinct,
    Empty,
    Except,
    Intersect,
    Join,
    Max,
    Min,
    Monus,
    Negate,
    Product,
    Project,
    Recount,
    Relation,
    Restrict,
    Rows,
    Select,
    Shared,
    Table,
    UnionAll,
    children,
    schema_of,
    tables_of,
    walk,
)
from monus.algebra.scalars import columns_read, type_of
from monus.algebra.text import to_text
from monus.delta.signed import differentiate
from monus.delta.stored_partners import stored_partners
from monus.maintenance.derive import optimize
from monus.maintenance.view_plan import ViewPlan


@dataclass(frozen=True, slots=True)
class Explanation:
    """`reasons` says what is not incremental and what to write instead; `str()` is for people."""

    view: str
    incremental: bool
    reasons: tuple[Reason, ...]
    notes: tuple[Reason, ...]
    algebra: str
    rules: tuple[str, ...]
    change: str
    sources: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"Materialized view {self.view}: {'incremental' if self.incremental else 'refreshed in full'}"]
        lines += [f"  reads {', '.join(self.sources) or 'no table'}"]
        if self.reasons:
            lines += ["Not incremental, because of", *(f"  {reason}" for reason in self.reasons)]
        if self.notes:
            lines += ["Notes", *(f"  {note}" for note in self.notes)]
        if self.algebra:
            lines += ["The query", _indented(self.algebra), "Maintained by", *(f"  {rule}" for rule in self.rules)]
            lines += ["The derived change, if every source changes", _indented(self.change)]
        return "\n".join(lines)


def explain_view(name: str, plan: ViewPlan) -> Explanation:
    if plan.query is None:
        return Explanation(name, False, plan.reasons, (), "", (), "", plan.sources)
    changed = tables_of(plan.query) - set(plan.constants)
    change = optimize(differentiate(plan.query, changed))
    if plan.shape is not None:
        change = optimize(differentiate(plan.shape.aggregate.child, changed))
    return Explanation(
        name,
        True,
        (),
        notes_of(plan),
        to_text(plan.query, indent=True),
        tuple(_rules(plan)),
        to_text(change, indent=True),
        plan.sources,
    )


def notes_of(plan: ViewPlan) -> tuple[Reason, ...]:
    """What is incremental, but worth knowing."""
    notes = [] if plan.layout is None else list(plan.layout.must_regroup)
    for node in walk(plan.query) if plan.query is not None else ():
        if isinstance(node, Select | Join | Aggregate) and _is_float_sensitive(node):
            sentence = "It decides by a floating-point value; Spark's own answer may depend on the order of additions."
            notes.append(Reason("FLOAT_SENSITIVE", type(node).__name__.upper(), sentence))
    return tuple(dict.fromkeys(notes))


def _is_float_sensitive(node: Select | Join | Aggregate) -> bool:
    """A filter, join or grouping on a floating aggregate."""
    if not any(isinstance(below, Aggregate) for child in children(node) for below in walk(child)):
        return False
    below = tuple(column for child in children(node) for column in schema_of(child))
    floats = {c.name for c in below if c.type in ("float", "double")}
    match node:
        case Select(predicate, _):
            return bool(columns_read(predicate) & floats)
        case Join(condition, _, _):
            return bool(columns_read(condition) & floats)
        case Aggregate(keys, _, _):
            return any(type_of(key.scalar, below) in ("float", "double") for key in keys)


def _rules(plan: ViewPlan) -> list[str]:
    assert plan.query is not None
    top = None if plan.shape is None else plan.shape.aggregate
    lines = []
    for node in walk(plan.query):
        if isinstance(node, Aggregate | Distinct) and top is not None and _is_top(node, top):
            merged = plan.layout is not None and not plan.layout.must_regroup
            how = "stored sums are merged with those of the change" if merged else "affected groups are recomputed"
            lines.append(f"{type(node).__name__.lower()}: {how}")
        elif rule := _rule(node):
            lines.append(rule)
    for name in sorted(tables_of(plan.query) - set(plan.constants)) if top is None else ():
        if stored_partners(plan.query, frozenset({name})) is not None:
            lines.append(f"table {name}: if rows are only updated or deleted, their partners may be read from the view")
    return list(dict.fromkeys(lines))


def _is_top(node: Aggregate | Distinct, top: Aggregate) -> bool:
    return node == top or (isinstance(node, Distinct) and node.child == top.child)


def _rule(node: Relation) -> str | None:
    match node:
        case Select() | Project() | UnionAll():
            return f"{type(node).__name__.lower()}: linear, the same operator over the change"
        case Join() | Product():
            return f"{type(node).__name__.lower()}: bilinear, ΔE ⋈ F_old ⊎ E_new ⋈ ΔF, begun with the change"
        case Distinct() | Monus() | Min() | Max() | Except() | Intersect():
            return f"{type(node).__name__.lower()}: by row, counts of the rows that the change touches"
        case Aggregate():
            return "aggregate: by key, affected groups before and after"
        case Table():
            return f"table {node.name}: its log between two versions, consolidated"
        case Empty() | Rows() | Change() | Negate() | Restrict() | Affected() | Recount() | Shared():
            return None
        case _:
            assert_never(node)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())

"""What is stored beside the groups of a view so that a change can be merged into them.

Paper 002: SUM, COUNT, AVG, STDDEV and VARIANCE are functions φ(Σf₁, …, Σfₙ); every Σf is stored and
merged as Σf(new) = Σf(old) + Σf(change). MIN and MAX merge under insertions and are recomputed for a
group whose extreme left it. Sums of floating point are recomputed: merging would lose digits.
"""

from __future__ import annotations

from monus.algebra.groups import (
    BOOLEANS,
    EXTREMES,
    GROUP_COUNT,
    INTEGRAL,
    MOMENTS,
    Grouped,
    Layout,
    Part,
    State,
    digits,
)
from monus.algebra.reasons import Reason
from monus.algebra.relations import Aggregate, Measure, Named, Project, Relation, Restrict, names_of, schema_of
from monus.algebra.scalars import Column, Ref, Schema, type_of
from monus.analysis.shape import exposed, put_above
from monus.delta.signed import key_columns, with_key_columns


def layout(shape: Grouped) -> Layout:
    """Merged state where every measure allows it, else only the keys: affected groups are recomputed."""
    visible = schema_of(put_above(shape.above, shape.aggregate))
    shown = exposed(shape)
    types = {column.name: column.type for column in schema_of(shape.aggregate)}
    hidden: list[Column] = []
    keys: list[tuple[str, str]] = []
    for i, key in enumerate(shape.aggregate.keys):
        stored = shown.get(key.name, f"__key{i}")
        keys.append((key.name, stored))
        if key.name not in shown:
            hidden.append(Column(stored, types[key.name]))
    reasons = must_regroup(shape)
    states: list[State] = []
    if not reasons:
        below = schema_of(shape.aggregate.child)
        for i, measure in enumerate(shape.aggregate.measures):
            state = _state(measure, below, f"__m{i}", shown.get(measure.name))
            states.append(state)
            hidden.extend(Column(p.column, p.type) for p in state.parts if p.column.startswith("__"))
        hidden.append(Column(GROUP_COUNT, "bigint"))
    return Layout(visible, tuple(hidden), tuple(keys), tuple(states), None if reasons else GROUP_COUNT, reasons)


def must_regroup(shape: Grouped) -> tuple[Reason, ...]:
    """Why affected groups are recomputed instead of merged; empty if they are merged."""
    below = schema_of(shape.aggregate.child)
    found = [
        Reason(
            "REGROUP", m.function, "Its affected groups are recomputed from the tables: it is not a function of sums."
        )
        for m in shape.aggregate.measures
        if not can_merge(m, below)
    ]
    if shape.has_having:
        found.append(
            Reason("REGROUP", "HAVING", "Groups that HAVING hides are not stored, so affected groups are recomputed.")
        )
    return tuple(found)


def can_merge(measure: Measure, below: Schema) -> bool:
    """Whether the measure is a function of exact sums, or an extreme."""
    if measure.distinct:
        return False
    types = [type_of(arg, below) for arg in measure.args]
    match measure.function:
        case "count" | "count_if":
            return True
        case "sum" | "avg" | "mean":
            return _is_exact(types[0])
        case function if function in MOMENTS:
            return types[0] in INTEGRAL or (_is_exact(types[0]) and digits(types[0])[0] <= 18)
        case function if function in EXTREMES:
            return types[0] in (*INTEGRAL, "bigint", "date", "timestamp", "timestamp_ntz", "string", "boolean") or (
                types[0].startswith("decimal")
            )
        case function:
            return function in BOOLEANS


def stored_query(shape: Grouped, stored: Layout, child: Relation) -> Relation:
    """The view's table as a query: visible columns, keys that do not show, and the stored sums."""
    aggregate = shape.aggregate
    extra = tuple(
        Measure(part.column, _function(part), state.measure.args, part.type, filter=state.measure.filter)
        for state in stored.states
        for part in state.parts
        if not part.own
    )
    count = () if stored.count is None else (Measure(stored.count, "count", (), "bigint"),)
    body: Relation = Aggregate(aggregate.keys, aggregate.measures + extra + count, child)
    return above_stored(shape, stored, body)


def above_stored(shape: Grouped, stored: Layout, groups: Relation, carried: tuple[str, ...] = ()) -> Relation:
    """The operators over the aggregate, with the hidden columns (and `carried` ones) passed along."""
    own = {p.column: s.measure.name for s in stored.states for p in s.parts if p.own and p.column.startswith("__")}
    hidden_keys = {hidden: key for key, hidden in stored.keys if hidden.startswith("__")}
    sources = {column.name: own.get(column.name, hidden_keys.get(column.name, column.name)) for column in stored.hidden}
    sources |= {name: name for name in carried}
    kept = [name for name in names_of(groups) if name not in sources]
    body: Relation = Project(
        tuple(Named(n, Ref(n)) for n in kept) + tuple(Named(n, Ref(source)) for n, source in sources.items()), groups
    )
    passed = tuple(Named(name, Ref(name)) for name in sources)
    for node in reversed(shape.above):
        body = Project(node.outputs + passed, body) if isinstance(node, Project) else type(node)(node.predicate, body)
    names = tuple(c.name for c in stored.columns) + carried
    return body if names_of(body) == names else Project(tuple(Named(n, Ref(n)) for n in names), body)


def _function(part: Part) -> str:
    return part.sum if part.sum is not None else "min"


def _state(measure: Measure, below: Schema, prefix: str, shown: str | None) -> State:
    own = shown if shown is not None else f"{prefix}_value"
    argument = type_of(measure.args[0], below) if measure.args else ""
    count = Part(f"{prefix}_n", "bigint", "count")
    match measure.function:
        case "count":
            return State(measure, (Part(own, "bigint", "count", own=True),), argument)
        case "count_if":
            return State(measure, (Part(own, "bigint", "true", own=True),), argument)
        case "sum":
            return State(measure, (Part(own, measure.type, "sum", own=True), count), argument)
        case "avg" | "mean":
            return State(measure, (Part(f"{prefix}_sum", _sum_type(argument), "sum"), count), argument)
        case function if function in EXTREMES:
            return State(measure, (Part(own, measure.type, None, own=True),), argument)
        case function if function in BOOLEANS:
            return State(measure, (Part(f"{prefix}_true", "bigint", "true"), count), argument)
        case _:
            sums = Part(f"{prefix}_s1", "decimal(38,0)", "unscaled"), Part(f"{prefix}_s2", "decimal(38,0)", "square")
            return State(measure, (*sums, count), argument)


def _is_exact(type_name: str) -> bool:
    return type_name in (*INTEGRAL, "bigint") or type_name.startswith("decimal")


def _sum_type(argument: str) -> str:
    precision, scale = digits(argument)
    return f"decimal({min(38, precision + 10)},{scale})"


def regroup_query(shape: Grouped, stored: Layout, affected: Relation) -> Relation:
    """The stored query over the input ⋉ the affected keys; over all of it where there are no keys."""
    if not shape.aggregate.keys:
        return stored_query(shape, stored, shape.aggregate.child)
    child = shape.aggregate.child
    aggregate, child, _ = with_key_columns(shape.aggregate, child, child)
    return stored_query(Grouped(aggregate, shape.above), stored, Restrict(key_columns(aggregate), child, affected))

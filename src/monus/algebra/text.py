"""Relations as text that reads like the papers and parses back: parse(to_text(r)) == r.

    Π[name, a < b AS c](σ[score = 'High'](customer(custId int) ⋈[custId = `custId#2`] sales(`custId#2` int)))

Two layouts of one grammar: on one line, binary operators stand between their inputs in parentheses;
indented, every operator stands before its inputs, one level less deep. Handles of opaque expressions
and of measures do not survive: `handles_of` collects them by their text and `parse` takes them back.
"""

from __future__ import annotations

from typing import Any, assert_never

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
    Measure,
    Min,
    Monus,
    Named,
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
    scalars_of,
    walk,
)
from monus.algebra.scalars import And, Compare, IsNull, Literal, Not, Opaque, Or, Ref, Scalar, Schema
from monus.algebra.text_parser import parse
from monus.algebra.text_tokens import identifier, literal, quoted, table_name, type_name, value
from monus.errors import AlgebraInvalid

__all__ = ["handles_of", "measure_text", "parse", "scalar_text", "to_text"]


def to_text(relation: Relation, indent: bool = False, schemas: bool = True) -> str:
    """The relation on one line, or as an indented tree; without the schemas it is for people only."""
    return "\n".join(_lines(relation, schemas, 0)) if indent else _line(relation, schemas)


def handles_of(relation: Relation) -> dict[str, Any]:
    """What `parse` needs to rebuild the relation with its handles."""
    handles: dict[str, Any] = {}
    for node in walk(relation):
        for scalar in _scalars(node):
            _collect_handles(scalar, handles)
        if isinstance(node, Aggregate):
            handles |= {measure_text(m): m.handle for m in node.measures if m.handle is not None}
    return handles


def _line(relation: Relation, schemas: bool) -> str:
    head = _head(relation, schemas)
    match relation:
        case Empty() | Rows() | Table() | Change():
            return head
        case (
            UnionAll() | Monus() | Min() | Max() | Except() | Intersect() | Product() | Join() | Restrict()
        ):  # fmt: skip
            left, right = children(relation)
            return f"({_line(left, schemas)} {head} {_line(right, schemas)})"
        case Select() | Project() | Distinct() | Aggregate() | Negate() | Affected() | Shared():
            inner = _line(relation.child, schemas)
            return head + (inner if inner.startswith("(") else f"({inner})")
        case Recount():
            return " ".join([head, *(_line(part, schemas) for part in children(relation))])
        case _:
            assert_never(relation)


def _lines(relation: Relation, schemas: bool, depth: int) -> list[str]:
    lines = ["  " * depth + _head(relation, schemas)]
    for child in children(relation):
        lines += _lines(child, schemas, depth + 1)
    return lines


def _head(relation: Relation, schemas: bool) -> str:
    """The operator with what it is told in brackets, without its inputs."""
    match relation:
        case Empty(schema):
            return "φ" + _schema(schema, schemas)
        case Rows(schema, rows):
            return f"rows{_schema(schema, schemas)}{{{', '.join(_row(row) for row in rows)}}}"
        case Table(name, schema):
            return table_name(name) + _schema(schema, schemas)
        case Change(name, schema):
            return "Δ" + identifier(name) + _schema(schema, schemas)
        case Select(predicate):
            return f"σ[{scalar_text(predicate)}]"
        case Project(outputs):
            return f"Π[{_named(outputs)}]"
        case Distinct():
            return "ε"
        case UnionAll():
            return "⊎"
        case Monus():
            return "∸"
        case Min():
            return "min"
        case Max():
            return "max"
        case Except():
            return "except"
        case Intersect():
            return "intersect"
        case Product():
            return "×"
        case Join(condition):
            return f"⋈[{scalar_text(condition)}]"
        case Aggregate(keys, measures):
            named = ", ".join(f"{measure_text(m)} AS {identifier(m.name)} {type_name(m.type)}" for m in measures)
            return f"γ[{_named(keys)};{' ' if named else ''}{named}]"
        case Negate():
            return "−"
        case Restrict(keys):
            return f"⋉[{', '.join(identifier(key) for key in keys)}]"
        case Affected(keys):
            return f"affected[{_named(keys)}]"
        case Recount():
            sides = "" if relation.right is None and relation.right_change is None else ", both"
            if (relation.right is None) != (relation.right_change is None):
                raise AlgebraInvalid("A recount has a right side without its change, or the change without the side.")
            return f"recount[{identifier(relation.operator)}{sides}]"
        case Shared():
            return "shared"
        case _:
            assert_never(relation)


def _schema(schema: Schema, wanted: bool) -> str:
    columns = ", ".join(f"{identifier(column.name)} {type_name(column.type)}" for column in schema)
    return f"({columns})" if wanted else ""


def _row(row: tuple[Any, ...]) -> str:
    return f"({', '.join(value(item) for item in row)})"


def _named(columns: tuple[Named, ...]) -> str:
    return ", ".join(
        identifier(column.name)
        if column.scalar == Ref(column.name)
        else f"{scalar_text(column.scalar)} AS {identifier(column.name)}"
        for column in columns
    )


def measure_text(measure: Measure) -> str:
    """The call without its name and type: the key of its handle."""
    if len(measure.params) != len(measure.bound):
        raise AlgebraInvalid(
            f"'{measure.function}' has {len(measure.params)} parameters but {len(measure.bound)} are bound."
        )
    args = ", ".join(scalar_text(arg) for arg in measure.args)
    call = f"{identifier(measure.function)}({'DISTINCT ' if measure.distinct else ''}{args})"
    if measure.params:
        call += _bindings(measure.params, measure.bound)
    return call if measure.filter is None else f"{call} FILTER ({scalar_text(measure.filter)})"


def _bindings(params: tuple[str, ...], args: tuple[Scalar, ...]) -> str:
    pairs = (
        identifier(param) if arg == Ref(param) else f"{identifier(param)} := {scalar_text(arg)}"
        for param, arg in zip(params, args, strict=True)
    )
    return f"{{{', '.join(pairs)}}}"


def scalar_text(scalar: Scalar) -> str:
    return _scalar(scalar)[0]


# How tightly a scalar holds together as text: an operand that holds less tightly needs parentheses.
_OR, _AND, _NOT, _COMPARISON, _ATOM = range(5)


def _scalar(scalar: Scalar) -> tuple[str, int]:
    match scalar:
        case Ref(name):
            return identifier(name), _ATOM
        case Literal():
            return literal(scalar.value, scalar.type), _ATOM
        case Opaque():
            bindings = _bindings(scalar.params, scalar.args)
            return f"{quoted(scalar.text, chr(34))}:{type_name(scalar.type)}{bindings}", _ATOM
        case Compare(op, left, right):
            return f"{_operand(left, _ATOM)} {op} {_operand(right, _ATOM)}", _COMPARISON
        case IsNull(operand):
            return f"{_operand(operand, _ATOM)} IS NULL", _COMPARISON
        case Not(IsNull(operand)):
            return f"{_operand(operand, _ATOM)} IS NOT NULL", _COMPARISON
        case Not(operand):
            return f"NOT {_operand(operand, _NOT)}", _NOT
        case And(left, right):
            return f"{_operand(left, _AND)} AND {_operand(right, _NOT)}", _AND
        case Or(left, right):
            return f"{_operand(left, _OR)} OR {_operand(right, _AND)}", _OR
        case _:
            assert_never(scalar)


def _operand(scalar: Scalar, at_least: int) -> str:
    text, level = _scalar(scalar)
    return text if level >= at_least else f"({text})"


def _scalars(relation: Relation) -> tuple[Scalar, ...]:
    match relation:
        case Select(predicate):
            return (predicate,)
        case Join(condition):
            return (condition,)
        case Project(outputs):
            return tuple(output.scalar for output in outputs)
        case Affected(keys):
            return tuple(key.scalar for key in keys)
        case Aggregate(keys, measures):
            return (*(key.scalar for key in keys), *(scalar for m in measures for scalar in scalars_of(m)))
        case _:
            return ()


def _collect_handles(scalar: Scalar, handles: dict[str, Any]) -> None:
    match scalar:
        case Opaque():
            if scalar.handle is not None:
                handles[scalar.text] = scalar.handle
            for arg in scalar.args:
                _collect_handles(arg, handles)
        case Compare(_, left, right) | And(left, right) | Or(left, right):
            _collect_handles(left, handles)
            _collect_handles(right, handles)
        case Not(operand) | IsNull(operand):
            _collect_handles(operand, handles)
        case Ref() | Literal():
            pass
        case _:
            assert_never(scalar)

"""Scalars: a small closed set that rules look into, and opaque expressions for everything else.

Comparison, AND, OR and NOT follow SQL's three-valued logic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, assert_never
from typing import Literal as OneOf

from monus.errors import AlgebraInvalid

ComparisonOp: TypeAlias = OneOf["=", "<>", "<", "<=", ">", ">=", "<=>"]
COMPARISONS: tuple[ComparisonOp, ...] = ("=", "<>", "<", "<=", ">", ">=", "<=>")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a schema; `type` is Spark's name of the type, such as `decimal(10,2)`."""

    name: str
    type: str


Schema: TypeAlias = tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of a column of the input."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any
    type: str


@dataclass(frozen=True, slots=True)
class Compare:
    op: ComparisonOp
    left: Scalar
    right: Scalar

    def __post_init__(self) -> None:
        if self.op not in COMPARISONS:
            raise AlgebraInvalid(f"'{self.op}' is not a comparison.", f"Use one of {' '.join(COMPARISONS)}.")


@dataclass(frozen=True, slots=True)
class And:
    left: Scalar
    right: Scalar


@dataclass(frozen=True, slots=True)
class Or:
    left: Scalar
    right: Scalar


@dataclass(frozen=True, slots=True)
class Not:
    operand: Scalar


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Scalar


@dataclass(frozen=True, slots=True)
class Opaque:
    """An expression that rules do not look into.

    `handle` is a resolved Spark expression, or a Python callable of the arguments where the
    reference interpreter runs. `params` are the names that the handle knows its inputs by,
    `args` what they are bound to now: substitution changes `args` and never the handle.
    """

    text: str
    type: str
    params: tuple[str, ...]
    args: tuple[Scalar, ...]
    handle: Any = field(compare=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if len(self.params) != len(self.args):
            raise AlgebraInvalid(f"'{self.text}' has {len(self.params)} parameters but {len(self.args)} arguments.")


Scalar: TypeAlias = Ref | Literal | Compare | And | Or | Not | IsNull | Opaque

TRUE = Literal(True, "boolean")


def columns_read(scalar: Scalar) -> frozenset[str]:
    """The names of the columns that the scalar reads."""
    return frozenset(ref.name for ref in refs(scalar))


def refs(scalar: Scalar) -> Iterator[Ref]:
    match scalar:
        case Ref():
            yield scalar
        case Literal():
            return
        case Compare(_, left, right) | And(left, right) | Or(left, right):
            yield from refs(left)
            yield from refs(right)
        case Not(operand) | IsNull(operand):
            yield from refs(operand)
        case Opaque():
            for arg in scalar.args:
                yield from refs(arg)
        case _:
            assert_never(scalar)


def rebuild(scalar: Scalar, leaf: Callable[[Ref], Scalar]) -> Scalar:
    """The scalar with every column reference replaced by what `leaf` gives for it."""
    match scalar:
        case Ref():
            return leaf(scalar)
        case Literal():
            return scalar
        case Compare(op, left, right):
            return Compare(op, rebuild(left, leaf), rebuild(right, leaf))
        case And(left, right):
            return And(rebuild(left, leaf), rebuild(right, leaf))
        case Or(left, right):
            return Or(rebuild(left, leaf), rebuild(right, leaf))
        case Not(operand):
            return Not(rebuild(operand, leaf))
        case IsNull(operand):
            return IsNull(rebuild(operand, leaf))
        case Opaque():
            return replace(scalar, args=tuple(rebuild(arg, leaf) for arg in scalar.args))
        case _:
            assert_never(scalar)


def substitute(scalar: Scalar, by: Mapping[str, Scalar]) -> Scalar:
    """The scalar with columns replaced simultaneously; columns that `by` does not name stay."""
    return rebuild(scalar, lambda ref: by.get(ref.name, ref))


def conjuncts(scalar: Scalar) -> tuple[Scalar, ...]:
    """The parts of a conjunction, TRUE left out."""
    if isinstance(scalar, And):
        return conjuncts(scalar.left) + conjuncts(scalar.right)
    return () if scalar == TRUE else (scalar,)


def conjunction(parts: tuple[Scalar, ...]) -> Scalar:
    """The AND of all parts; TRUE for none."""
    if not parts:
        return TRUE
    result = parts[0]
    for part in parts[1:]:
        result = And(result, part)
    return result


def type_of(scalar: Scalar, schema: Schema) -> str:
    match scalar:
        case Ref(name):
            for column in schema:
                if column.name == name:
                    return column.type
            raise AlgebraInvalid(f"There is no column '{name}' in ({', '.join(c.name for c in schema)}).")
        case Literal() | Opaque():
            return scalar.type
        case Compare() | And() | Or() | Not() | IsNull():
            return "boolean"
        case _:
            assert_never(scalar)

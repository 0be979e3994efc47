"""The words of the algebra's text: identifiers, types and values, as they are written and as they are read.

An identifier that is not a plain word, or that the grammar uses, stands in backticks. A value shows
its Python type: 5 is an integer, 5.0D a double, 5.0BD a decimal, X'00' bytes, DATE'2020-01-31' a date.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from monus.errors import AlgebraInvalid

# What a name cannot be unless it is quoted: anywhere, and where a relation is expected.
RESERVED = frozenset({"AND", "OR", "NOT", "IS", "NULL", "TRUE", "FALSE", "AS", "DISTINCT", "FILTER", "NaN", "Infinity"})
OPERATORS = frozenset({"rows", "recount", "shared", "affected", "min", "max", "except", "intersect"})
# The type that a literal has when the text does not say.
_TYPES = {bool: "boolean", int: "int", float: "double", str: "string", bytes: "binary", date: "date"}
_TYPES |= {datetime: "timestamp"}

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_TYPE = re.compile(r"[a-z_][a-z0-9_]*(\([0-9]+(,[0-9]+)?\))?")
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?:BD|D)?)
    |(?P<infinity>-?Infinity\b)
    |(?P<typed>(?:DATE|TIMESTAMP|TIME|INTERVAL|X)'(?:[^'])*')
    |(?P<string>'(?:[^']|'')*')
    |(?P<opaque>"(?:[^"]|"")*")
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<symbol><=>|<>|<=|>=|:=|[φσΠε⊎∸×⋈γ−⋉Δ()\[\]{},;:=<>])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    position: int


def tokens(text: str) -> Iterator[Token]:
    """The tokens of the text, spaces left out, with one of kind `end` at the end."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise invalid(f"{text[position]!r} cannot stand here", position)
        if match.lastgroup != "space":
            yield Token(match.lastgroup, match.group(), position)
        position = match.end()
    yield Token("end", "the end", position)


def invalid(what: str, position: int) -> AlgebraInvalid:
    return AlgebraInvalid(
        f"The text of a relation is wrong at position {position}: {what}.",
        "Compare it with what `to_text` writes.",
        position=position,
    )


def identifier(name: str) -> str:
    return name if _PLAIN.fullmatch(name) and name not in RESERVED else quoted(name, "`")


def table_name(name: str) -> str:
    return quoted(name, "`") if name in OPERATORS else identifier(name)


def type_name(name: str) -> str:
    return name if _PLAIN_TYPE.fullmatch(name) and name not in RESERVED else quoted(name, "`")


def quoted(text: str, quote: str) -> str:
    return quote + text.replace(quote, quote * 2) + quote


def unquoted(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0])


def literal(item: Any, type_: str) -> str:
    """The value, with its type where the value alone does not tell it."""
    return value(item) if type_ == implied_type(item) else f"{value(item)}:{type_name(type_)}"


def implied_type(item: Any) -> str | None:
    return "void" if item is None else _TYPES.get(type(item))


def value(item: Any) -> str:
    match item:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if item else "FALSE"
        case int():
            return str(int(item))
        case float():
            return "NaN" if math.isnan(item) else _float(item)
        case Decimal() if item.is_finite():
            return f"{item}BD"
        case str():
            return quoted(item, "'")
        case bytes() | bytearray():
            return f"X'{item.hex()}'"
        case datetime():
            return f"TIMESTAMP'{item.isoformat(' ')}'"
        case date():
            return f"DATE'{item.isoformat()}'"
        case time():
            return f"TIME'{item.isoformat()}'"
        case timedelta():
            return f"INTERVAL'{item // timedelta(microseconds=1)}'"
        case tuple():
            return f"({', '.join(value(each) for each in item)})"
        case list():
            return f"[{', '.join(value(each) for each in item)}]"
        case dict():
            return f"{{{', '.join(f'{value(k)}: {value(v)}' for k, v in item.items())}}}"
        case _:
            raise AlgebraInvalid(f"A value of {type(item).__name__} cannot be written as text.")


def number(text: str) -> int | float | Decimal:
    """Reads what `value` wrote."""
    if text.endswith("BD"):
        return Decimal(text[:-2])
    return float(text[:-1]) if text.endswith("D") else int(text)


def typed(token: Token) -> Any:
    """DATE'…' and its kind."""
    word, content = token.text.split("'", 1)
    content = content[:-1]
    try:
        match word:
            case "DATE":
                return date.fromisoformat(content)
            case "TIMESTAMP":
                return datetime.fromisoformat(content)
            case "TIME":
                return time.fromisoformat(content)
            case "INTERVAL":
                return timedelta(microseconds=int(content))
            case _:
                return bytes.fromhex(content)
    except ValueError as error:
        raise invalid(f"{token.text} is no such value", token.position) from error


def _float(item: float) -> str:
    if math.isinf(item):
        return "Infinity" if item > 0 else "-Infinity"
    return f"{item!r}D"

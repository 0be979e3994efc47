"""The parser of the algebra's text, by recursive descent; `text.py` says what the text looks like.

    relation := leaf | prefix relation… | '(' relation [infix relation] ')'

Every operator knows how many inputs it has, so that operators written before their inputs need no
parentheses, and both layouts of the text are one grammar.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

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
)
from monus.algebra.scalars import (
    COMPARISONS,
    And,
    Column,
    Compare,
    ComparisonOp,
    IsNull,
    Literal,
    Not,
    Opaque,
    Or,
    Ref,
    Scalar,
    Schema,
)
from monus.algebra.text_tokens import RESERVED, Token, implied_type, invalid, number, tokens, typed, unquoted
from monus.errors import AlgebraInvalid

Item = TypeVar("Item")

_NO_HANDLES: Mapping[str, Any] = {}
_PLAIN_BINARY: Mapping[str, Callable[[Relation, Relation], Relation]] = {
    "⊎": UnionAll,
    "∸": Monus,
    "×": Product,
    "min": Min,
    "max": Max,
    "except": Except,
    "intersect": Intersect,
}


def parse(text: str, handles: Mapping[str, Any] = _NO_HANDLES) -> Relation:
    """The relation that `to_text` wrote; `handles` are those of opaque expressions and measures by their text."""
    parser = _Parser(text, handles)
    relation = parser.relation()
    parser.expect("end")
    return relation


class _Parser:
    def __init__(self, text: str, handles: Mapping[str, Any]) -> None:
        self._text = text
        self._handles = handles
        self._tokens = list(tokens(text))
        self._at = 0

    # -- relations

    def relation(self) -> Relation:
        start = self._token.position
        try:
            return self._relation()
        except AlgebraInvalid as error:
            if "position" in error.fields:
                raise
            raise AlgebraInvalid(error.message, error.hint, position=start) from error

    def _relation(self) -> Relation:
        if self._takes("("):
            left = self.relation()
            result = left if self._sees(")") else self._infix(left)
            self.expect(")")
            return result
        if self._at_binary():
            build = self._binary()
            return build(self.relation(), self.relation())
        if self._takes("φ"):
            return Empty(self._schema())
        if self._takes("Δ"):
            return Change(self._identifier(), self._schema())
        if self._takes("rows"):
            return Rows(self._schema(), self._bracketed("{", "}", self._row))
        if self._takes("σ"):
            predicate = self._in_brackets(self._scalar)
            return Select(predicate, self.relation())
        if self._takes("Π"):
            return Project(self._bracketed("[", "]", self._named), self.relation())
        if self._takes("affected"):
            return Affected(self._bracketed("[", "]", self._named), self.relation())
        if self._takes("ε"):
            return Distinct(self.relation())
        if self._takes("−"):
            return Negate(self.relation())
        if self._takes("shared"):
            return Shared(self.relation())
        if self._takes("γ"):
            return self._aggregate()
        if self._takes("recount"):
            return self._recount()
        if self._at_identifier():
            return Table(self._identifier(), self._schema())
        raise self._unexpected("a relation")

    def _infix(self, left: Relation) -> Relation:
        if not self._at_binary():
            raise self._unexpected("an operator or ')'")
        return self._binary()(left, self.relation())

    def _at_binary(self) -> bool:
        # A quoted identifier keeps its backticks, so that its text is never an operator.
        return self._token.text in _PLAIN_BINARY or self._token.text in ("⋈", "⋉")

    def _binary(self) -> Callable[[Relation, Relation], Relation]:
        operator = self._next().text
        if operator == "⋈":
            condition = self._in_brackets(self._scalar)
            return lambda left, right: Join(condition, left, right)
        if operator == "⋉":
            keys = self._bracketed("[", "]", self._identifier)
            return lambda left, right: Restrict(keys, left, right)
        return _PLAIN_BINARY[operator]

    def _aggregate(self) -> Relation:
        self.expect("[")
        keys = self._list(self._named, ";")
        self.expect(";")
        measures = self._list(self._measure, "]")
        self.expect("]")
        return Aggregate(keys, measures, self.relation())

    def _recount(self) -> Relation:
        self.expect("[")
        operator = self._identifier()
        both = self._takes(",")
        if both:
            self.expect("both")
        self.expect("]")
        parts = tuple(self.relation() for _ in range(4 if both else 2))
        return Recount(operator, *parts)

    # -- what stands in brackets

    def _schema(self) -> Schema:
        return self._bracketed("(", ")", lambda: Column(self._identifier(), self._type()))

    def _named(self) -> Named:
        scalar = self._scalar()
        if self._takes("AS"):
            return Named(self._identifier(), scalar)
        if isinstance(scalar, Ref):
            return Named(scalar.name, scalar)
        raise self._unexpected("AS and a name")

    def _measure(self) -> Measure:
        start = self._token.position
        function = self._identifier()
        self.expect("(")
        distinct = self._takes("DISTINCT")
        args = self._list(self._scalar, ")")
        self.expect(")")
        bindings = self._bracketed("{", "}", self._binding) if self._sees("{") else ()
        condition: Scalar | None = None
        if self._takes("FILTER"):
            self.expect("(")
            condition = self._scalar()
            self.expect(")")
        call = self._text[start : self._tokens[self._at - 1].position + len(self._tokens[self._at - 1].text)]
        self.expect("AS")
        name, type_ = self._identifier(), self._type()
        params, bound = tuple(param for param, _ in bindings), tuple(scalar for _, scalar in bindings)
        return Measure(name, function, args, type_, distinct, condition, params, bound, self._handles.get(call))

    def _binding(self) -> tuple[str, Scalar]:
        param = self._identifier()
        return param, self._scalar() if self._takes(":=") else Ref(param)

    def _type(self) -> str:
        if self._token.kind == "quoted":
            return unquoted(self._next().text)
        if self._token.kind != "word" or self._token.text in RESERVED:
            raise self._unexpected("a type")
        name = self._next().text
        if self._sees("(") and self._tokens[self._at + 1].kind == "number":
            numbers = self._bracketed("(", ")", lambda: self._next().text)
            name += f"({','.join(numbers)})"
        return name

    # -- scalars, the loosest operator first

    def _scalar(self) -> Scalar:
        result = self._conjunction()
        while self._takes("OR"):
            result = Or(result, self._conjunction())
        return result

    def _conjunction(self) -> Scalar:
        result = self._negation()
        while self._takes("AND"):
            result = And(result, self._negation())
        return result

    def _negation(self) -> Scalar:
        return Not(self._negation()) if self._takes("NOT") else self._comparison()

    def _comparison(self) -> Scalar:
        left = self._atom()
        if self._takes("IS"):
            negated = self._takes("NOT")
            self.expect("NULL")
            return Not(IsNull(left)) if negated else IsNull(left)
        if self._token.text in COMPARISONS:
            return Compare(cast(ComparisonOp, self._next().text), left, self._atom())
        return left

    def _atom(self) -> Scalar:
        if self._takes("("):
            # A parenthesis opens a group of scalars, or a value of a struct type.
            return self._group_or_struct()
        if self._token.kind == "opaque":
            text = unquoted(self._next().text)
            self.expect(":")
            type_ = self._type()
            bindings = self._bracketed("{", "}", self._binding)
            params, args = tuple(param for param, _ in bindings), tuple(scalar for _, scalar in bindings)
            return Opaque(text, type_, params, args, self._handles.get(text))
        if self._at_identifier():
            return Ref(self._identifier())
        item = self._value()
        type_ = self._type() if self._takes(":") else implied_type(item)
        if type_ is None:
            raise self._unexpected("':' and the type of the value")
        return Literal(item, type_)

    def _group_or_struct(self) -> Scalar:
        opened = self._at
        failed: AlgebraInvalid | None = None
        try:
            inner = self._scalar()
            self.expect(")")
            if not self._sees(":"):
                return inner
        except AlgebraInvalid as error:
            failed = error
        self._at = opened
        try:
            item = self._list(self._value, ")")
            self.expect(")")
            self.expect(":")
        except AlgebraInvalid as error:
            raise failed or error from None
        return Literal(item, self._type())

    # -- values

    def _row(self) -> tuple[Any, ...]:
        return self._bracketed("(", ")", self._value)

    def _value(self) -> Any:
        token = self._token
        if self._sees("("):
            return self._row()
        if self._sees("["):
            return list(self._bracketed("[", "]", self._value))
        if self._sees("{"):
            return dict(self._bracketed("{", "}", self._entry))
        self._next()
        match token.kind:
            case "number":
                return self._number(token)
            case "string":
                return unquoted(token.text)
            case "typed":
                return typed(token)
            case "infinity":
                return float(token.text)
        words: Mapping[str, Any] = {"NULL": None, "TRUE": True, "FALSE": False, "NaN": math.nan}
        if token.kind == "word" and token.text in words:
            return words[token.text]
        self._at -= 1
        raise self._unexpected("a value")

    def _entry(self) -> tuple[Any, Any]:
        key = self._value()
        self.expect(":")
        return key, self._value()

    def _number(self, token: Token) -> int | float | Any:
        try:
            return number(token.text)
        except ValueError as error:
            raise invalid(f"{token.text} needs D or BD", token.position) from error

    # -- tokens

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self._token
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _sees(self, text: str) -> bool:
        return self._token.kind in ("symbol", "word") and self._token.text == text

    def _takes(self, text: str) -> bool:
        if not self._sees(text):
            return False
        self._next()
        return True

    def expect(self, what: str) -> None:
        if what == "end":
            if self._token.kind != "end":
                raise self._unexpected("the end")
        elif not self._takes(what):
            raise self._unexpected(f"'{what}'")

    def _at_identifier(self) -> bool:
        token = self._token
        return token.kind == "quoted" or (token.kind == "word" and token.text not in RESERVED)

    def _identifier(self) -> str:
        if not self._at_identifier():
            raise self._unexpected("a name")
        token = self._next()
        return unquoted(token.text) if token.kind == "quoted" else token.text

    def _list(self, item: Callable[[], Item], close: str) -> tuple[Item, ...]:
        if self._sees(close):
            return ()
        items = [item()]
        while self._takes(","):
            items.append(item())
        return tuple(items)

    def _bracketed(self, opening: str, closing: str, item: Callable[[], Item]) -> tuple[Item, ...]:
        self.expect(opening)
        items = self._list(item, closing)
        self.expect(closing)
        return items

    def _in_brackets(self, item: Callable[[], Item]) -> Item:
        self.expect("[")
        result = item()
        self.expect("]")
        return result

    def _unexpected(self, wanted: str) -> AlgebraInvalid:
        found = self._token.text if self._token.kind == "end" else repr(self._token.text)
        return invalid(f"{wanted} was expected, not {found}", self._token.position)

"""A position in the tokens of one statement: take what fits, or say where and what was expected instead."""

from __future__ import annotations

import re
from typing import NoReturn

from monus.errors import StatementInvalid
from monus.sql.tokens import Kind, Token, name_value, string_value, tokenize

# Spark refuses other letters without back-ticks, so a view of such a name could not be queried either.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+")
_MOST_DIGITS = 9


class Cursor:
    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = list(tokenize(text))
        self._at = 0

    def peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def take(self) -> Token:
        token = self.peek()
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def previous(self) -> Token:
        """The token taken last."""
        return self._tokens[self._at - 1]

    def sees(self, *words: str) -> bool:
        """Whether exactly these words come next."""
        return all(self.peek(ahead).is_word(word) for ahead, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Take these words if all of them come next."""
        if not self.sees(*words):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str, hint: str = "") -> None:
        for word in words:
            if not self.accept(word):
                self.fail(word, hint)

    def one_of(self, *words: str) -> str:
        """Take one of these words, and say which."""
        for word in words:
            if self.accept(word):
                return word
        self.fail(" or ".join(words))

    def accept_symbol(self, symbol: str) -> bool:
        if self.peek().is_symbol(symbol):
            self.take()
            return True
        return False

    def expect_symbol(self, symbol: str, hint: str = "") -> None:
        if not self.accept_symbol(symbol):
            self.fail(f"'{symbol}'", hint)

    def name(self, what: str) -> str:
        """A name: any word, keywords included, or anything in back-ticks."""
        token = self.peek()
        if token.kind is Kind.WORD:
            if not _PLAIN_NAME.fullmatch(token.text):
                self.fail(what, hint=f"Write `{token.text}` in back-ticks.")
            return self.take().text
        if token.kind is Kind.NAME and len(token.text) > 2:
            return name_value(self.take())
        if token.kind is Kind.STRING:
            self.fail(what, hint="A name stands in back-ticks, not in quotes.")
        self.fail(what)

    def qualified_name(self, what: str) -> tuple[str, ...]:
        """A name of one or more parts: `a.b`."""
        parts = [self.name(what)]
        while self.accept_symbol("."):
            parts.append(self.name(what))
        if self.peek().is_symbol("-"):
            self.fail("the end of the name", hint="A name with other characters than a-z, 0-9 and _ needs back-ticks.")
        return tuple(parts)

    def names_in_parentheses(self, what: str) -> tuple[str, ...]:
        self.expect_symbol("(")
        names = [self.name(what)]
        while self.accept_symbol(","):
            names.append(self.name(what))
        if not self.accept_symbol(")"):
            self.fail("',' or ')'")
        return tuple(names)

    def string(self, what: str) -> str:
        """A string; several in a row are one, as in Spark."""
        if self.peek().kind is not Kind.STRING:
            self.fail(what)
        value = ""
        while self.peek().kind is Kind.STRING:
            value += string_value(self.take())
        return value

    def positive_integer(self, what: str) -> int:
        token = self.peek()
        is_plain = token.kind is Kind.NUMBER and token.text.isdigit() and len(token.text) <= _MOST_DIGITS
        if not is_plain or int(token.text) == 0:
            self.fail(what)
        return int(self.take().text)

    def at_end(self) -> bool:
        """Whether nothing but semicolons is left."""
        return all(token.kind is Kind.END or token.is_symbol(";") for token in self._tokens[self._at :])

    def expect_end(self) -> None:
        if self.at_end():
            return
        if self.peek().is_symbol(";"):
            self.take()
            self.fail("the end of the statement", hint="Give one statement at a time, or run the text as a script.")
        self.fail("the end of the statement")

    def fail(self, expected: str, hint: str = "") -> NoReturn:
        token = self.peek()
        before = self.text[: token.start]
        line = len(re.findall(r"\r\n|\r|\n", before)) + 1
        column = len(re.split(r"\r\n|\r|\n", before)[-1]) + 1
        match token.kind:
            case Kind.END:
                found = "the statement ends here"
            case Kind.UNFINISHED:
                found = f"{_shorten(token.text)} has no end"
            case _:
                found = f"found {_shorten(token.text)}"
        raise StatementInvalid(
            f"Line {line}, column {column}: expected {expected}, but {found}.",
            hint or "Correct the statement there.",
            line=line,
            column=column,
            expected=expected,
        )


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."

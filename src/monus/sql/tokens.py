"""Spark SQL as a sequence of tokens, exactly as far as Monus has to understand it.

A statement may hold any query, so nothing here knows Spark's grammar; what must be right is where strings,
quoted names and comments begin and end, because a semicolon or a keyword inside them means nothing. The rules
are those of Spark's lexer:

* strings stand in '..' or "..", with a backslash before any character, or raw as r'..' and r"..";
* quoted names stand in back-ticks, a doubled one being the character itself;
* `--` runs to the end of the line, and over it after a backslash; `/* */` nests; `/*+` is a hint, not a comment;
* `scheme://path` is one word, so that two hyphens in it are no comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    WORD = auto()
    NUMBER = auto()
    NAME = auto()  # in back-ticks
    STRING = auto()
    SYMBOL = auto()
    UNFINISHED = auto()  # a string, quoted name or comment that never ends
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """`text` as it was written, at `start` up to `end` of the whole text."""

    kind: Kind
    text: str
    start: int
    end: int

    def is_word(self, word: str) -> bool:
        return self.kind is Kind.WORD and self.text.upper() == word

    def is_symbol(self, symbol: str) -> bool:
        return self.kind is Kind.SYMBOL and self.text == symbol


_SPACE = r"[ \t\n\f\r\u000B\u00A0\u1680\u2000-\u200A\u2028\u202F\u205F\u3000]+"
_LINE_COMMENT = r"--(?:\\\n|[^\r\n])*"
_RAW_STRING = r"""[rR](?:'[^']*'|"[^"]*")"""
_STRING = r"""'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+\""""
_QUOTED_NAME = r"`(?:[^`]|``)*+`"
_URI = r"[^\W\d_]+://[\w/\-.?=&#%]+"
# A digit may begin a name in Spark, unless the whole reads as a number with its type: 1L, 2e5, 3BD.
_NUMBER = r"[0-9]+(?:[eE][+-]?[0-9]+)?(?:[lLsSyYfFdD]|[bB][dD])?(?!\w)"

_TOKEN = re.compile(
    f"(?P<skip>{_SPACE}|{_LINE_COMMENT})"
    f"|(?P<STRING>{_RAW_STRING}|{_STRING})"
    f"|(?P<NAME>{_QUOTED_NAME})"
    f"|(?P<NUMBER>{_NUMBER})"
    rf"|(?P<WORD>{_URI}|\w+)"
    "|(?P<UNFINISHED>['\"`].*)"
    r"|(?P<SYMBOL>/\*\+|\*/|.)",
    re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")


def tokenize(text: str) -> Iterator[Token]:
    """The tokens of the text without white space and comments, and one END after the last of them."""
    position = 0
    while position < len(text):
        if text.startswith("/*", position) and not text.startswith("/*+", position):
            end = _end_of_comment(text, position)
            if end is None:
                yield Token(Kind.UNFINISHED, text[position:], position, len(text))
                position = len(text)
            else:
                position = end
            continue
        match = _TOKEN.match(text, position)
        assert match is not None  # the last alternative takes any character
        assert match.lastgroup is not None
        if match.lastgroup != "skip":
            yield Token(Kind[match.lastgroup], match.group(), position, match.end())
        position = match.end()
    yield Token(Kind.END, "", len(text), len(text))


def _end_of_comment(text: str, start: int) -> int | None:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return None


_ESCAPE = re.compile(
    r"\\(?:u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<octal>[01][0-7]{2})|(?P<char>.))", re.DOTALL
)
# Spark keeps the backslash of \% and \_, which mean something to LIKE.
_CHARACTERS = {
    "0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_",
}  # fmt: skip


def string_value(token: Token) -> str:
    """What a STRING token stands for."""
    if token.text[0] in "rR":
        return token.text[2:-1]
    quote = token.text[0]
    return re.sub(
        rf"{_ESCAPE.pattern}|(?P<twice>{quote}{quote})",
        lambda match: quote if match["twice"] else _unescape(match),
        token.text[1:-1],
        flags=re.DOTALL,
    )


def _unescape(match: re.Match[str]) -> str:
    if code := match["short"] or match["long"]:
        number = int(code, 16)
        return chr(number) if number <= 0x10FFFF else match.group()
    if match["octal"]:
        return chr(int(match["octal"], 8))
    return _CHARACTERS.get(match["char"], match["char"])


def name_value(token: Token) -> str:
    """The name that a NAME token quotes."""
    return token.text[1:-1].replace("``", "`")

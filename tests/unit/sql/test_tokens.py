"""Where strings, quoted names and comments begin and end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monus.sql.tokens import Kind, name_value, string_value, tokenize


def kinds_and_texts(text: str) -> list[tuple[str, str]]:
    return [(token.kind.name, token.text) for token in tokenize(text)][:-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a -- b ; ' c\nd", ["a", "d"]),
        ("a -- b \\\n still a comment\nd", ["a", "d"]),
        ("a -- b \r\nd", ["a", "d"]),
        ("a /* b /* c */ ; ' */ d", ["a", "d"]),
        ("a /* b /*+ c */ d", ["a", "d"]),
        ("a /**/ d", ["a", "d"]),
        ("SELECT /*+ BROADCAST(t) */ 1", ["SELECT", "/*+", "BROADCAST", "(", "t", ")", "*/", "1"]),
        ("'a;b' \"c;d\" `e;f`", ["'a;b'", '"c;d"', "`e;f`"]),
        (r"'it\'s' x", [r"'it\'s'", "x"]),
        ("'it''s' x", ["'it''s'", "x"]),
        ("'' x", ["''", "x"]),
        (r"'\\' x", [r"'\\'", "x"]),
        (r"r'\' x", [r"r'\'", "x"]),
        (r'R"\" x', [r'R"\"', "x"]),
        (r"bar'\'' x", ["bar", r"'\''", "x"]),
        ("`a``b` x", ["`a``b`", "x"]),
        ("'--' x", ["'--'", "x"]),
        ("`/*` x", ["`/*`", "x"]),
        ("delta.s3://bucket/a--b x", ["delta", ".", "s3", ":", "/", "/", "bucket", "/", "a"]),
        ("gs://bucket/a--b x", ["gs://bucket/a--b", "x"]),
        ("a\u00a0b\u3000c", ["a", "b", "c"]),
        ("1e5 1a 12L 3.5", ["1e5", "1a", "12L", "3", ".", "5"]),
        ("a->b - -1", ["a", "-", ">", "b", "-", "-", "1"]),
    ],
)
def test_what_counts(text: str, expected: list[str]) -> None:
    assert [token.text for token in tokenize(text)][:-1] == expected


def test_kinds() -> None:
    assert kinds_and_texts("a1 1a 12L 1e-5 `x` 'y' ;") == [
        ("WORD", "a1"),
        ("WORD", "1a"),
        ("NUMBER", "12L"),
        ("NUMBER", "1e-5"),
        ("NAME", "`x`"),
        ("STRING", "'y'"),
        ("SYMBOL", ";"),
    ]


@pytest.mark.parametrize("text", ["'abc; d", '"abc', "`abc", "/* abc /* */", "'abc\\'"])
def test_without_an_end(text: str) -> None:
    assert kinds_and_texts("x " + text) == [("WORD", "x"), ("UNFINISHED", text)]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"'a\nb\tc'", "a\nb\tc"),
        (r"'it\'s'", "it's"),
        ("'it''s'", "it's"),
        ('"say ""x"" or \'y\'"', "say \"x\" or 'y'"),
        (r"'\\'", "\\"),
        (r"'\u0041\U0001F600\101'", "A\U0001f600A"),
        (r"'\UFFFFFFFF'", r"\UFFFFFFFF"),
        (r"'100\% a\_b \q'", r"100\% a\_b q"),
        (r"r'\n\'", r"\n" + "\\"),
    ],
)
def test_string_value(written: str, value: str) -> None:
    (token, _) = tokenize(written)
    assert string_value(token) == value


def test_name_value() -> None:
    (token, _) = tokenize("`a``b c`")
    assert name_value(token) == "a`b c"


@given(st.text(alphabet="'\"`\\-*/+;rR aé0\n\r.:", max_size=30))
def test_any_text_gives_tokens_in_order_that_say_what_they_cover(text: str) -> None:
    tokens = list(tokenize(text))
    assert tokens[-1].kind is Kind.END
    assert all(token.text == text[token.start : token.end] for token in tokens)
    assert all(one.end <= other.start for one, other in pairwise(tokens))


@given(st.text(max_size=30))
def test_a_quoted_name_survives(name: str) -> None:
    (token, _) = tokenize("`" + name.replace("`", "``") + "`")
    assert (token.kind, name_value(token)) == (Kind.NAME, name)


@given(st.text(max_size=30))
def test_a_quoted_string_survives(text: str) -> None:
    (token, _) = tokenize("'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'")
    assert (token.kind, string_value(token)) == (Kind.STRING, text)

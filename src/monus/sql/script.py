"""A script is statements with semicolons between them."""

from __future__ import annotations

from monus.sql.tokens import Kind, tokenize


def split_script(text: str) -> list[str]:
    """The statements of a script, without their semicolons and with the comments before them.

    Semicolons in strings, quoted names and comments do not count, and statements that say nothing are left out.
    Compound statements (BEGIN ... END) are not kept together.
    """
    statements: list[str] = []
    start = 0
    says_something = False
    for token in tokenize(text):
        if token.is_symbol(";") or token.kind is Kind.END:
            if says_something:
                statements.append(text[start : token.start].strip())
            start = token.end
            says_something = False
        else:
            says_something = True
    return statements

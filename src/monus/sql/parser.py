"""From the text of one statement to its value.

`parse_statement` answers None for what is not a statement of Monus: Spark gets it unchanged. The first words
decide, and only words that begin no statement of Spark count; once they match, anything that does not fit is an
error of ours, because Spark's message about it would mislead.
"""

from __future__ import annotations

from dataclasses import dataclass

from monus.sql.cursor import Cursor
from monus.sql.mode import Mode, read_mode
from monus.sql.policy import Policy, read_policy
from monus.sql.statements import (
    Alteration,
    AlterView,
    BeginTransaction,
    Commit,
    CreateAssertion,
    CreateView,
    DropAssertion,
    DropView,
    ExplainCreate,
    ExplainView,
    Name,
    PropagateView,
    Rebuild,
    RefreshView,
    RenameTo,
    Rollback,
    SetMode,
    SetPolicy,
    ShowAssertions,
    ShowRefreshes,
    ShowViews,
    Statement,
    VerifyView,
)
from monus.sql.tokens import Kind

VIEW_NAME = "the name of a view"
COLUMN_NAME = "the name of a column"
ASSERTION_NAME = "the name of an assertion"

_CHECK = "An assertion is CHECK (NOT EXISTS (query)), where the query finds the rows that must not be there."


def parse_statement(text: str) -> Statement | None:
    """The statement, or None when it is Spark's."""
    cursor = Cursor(text)
    statement = _read_statement(cursor)
    if statement is not None:
        cursor.expect_end()
    return statement


def _read_statement(cursor: Cursor) -> Statement | None:
    if _sees_create(cursor):
        return _read_create(cursor)
    if cursor.sees("EXPLAIN"):
        return _read_explain(cursor)
    if cursor.accept("REFRESH", "MATERIALIZED", "VIEW"):
        return _read_refresh(cursor)
    # REFRESH takes a bare path in Spark, which would swallow the mistake without a word.
    if cursor.sees("REFRESH", "MATERIALIZED") and cursor.peek(2).kind in (Kind.WORD, Kind.NAME):
        cursor.expect("REFRESH", "MATERIALIZED", "VIEW")
    if cursor.accept("PROPAGATE"):
        return PropagateView(_read_view(cursor))
    if cursor.accept("VERIFY"):
        return VerifyView(_read_view(cursor))
    if cursor.accept("SHOW", "MATERIALIZED"):
        cursor.expect("VIEWS")
        return ShowViews()
    if cursor.accept("SHOW", "REFRESHES"):
        cursor.expect("OF")
        return ShowRefreshes(cursor.qualified_name(VIEW_NAME))
    if cursor.sees("ALTER", "MATERIALIZED"):
        cursor.expect("ALTER")
        return AlterView(_read_view(cursor), _read_alteration(cursor))
    if cursor.sees("DROP", "MATERIALIZED"):
        cursor.expect("DROP", "MATERIALIZED", "VIEW")
        if_exists = cursor.accept("IF", "EXISTS")
        return DropView(cursor.qualified_name(VIEW_NAME), if_exists)
    return _read_of_assertions(cursor) or _read_transaction(cursor)


def _read_of_assertions(cursor: Cursor) -> Statement | None:
    if cursor.sees("CREATE", "ASSERTION") or cursor.sees("CREATE", "OR", "REPLACE", "ASSERTION"):
        return _read_assertion(cursor)
    if cursor.accept("DROP", "ASSERTION"):
        if_exists = cursor.accept("IF", "EXISTS")
        return DropAssertion(cursor.qualified_name(ASSERTION_NAME), if_exists)
    if cursor.accept("SHOW", "ASSERTIONS"):
        return ShowAssertions()
    return None


def _read_transaction(cursor: Cursor) -> Statement | None:
    if cursor.accept("BEGIN", "TRANSACTION"):
        return BeginTransaction()
    if cursor.accept("COMMIT"):
        return Commit()
    if cursor.accept("ROLLBACK"):
        return Rollback()
    if cursor.sees("BEGIN") and (cursor.peek(1).kind is Kind.END or cursor.peek(1).is_symbol(";")):
        cursor.take()
        cursor.fail("TRANSACTION")
    return None


def _read_view(cursor: Cursor) -> Name:
    cursor.expect("MATERIALIZED", "VIEW")
    return cursor.qualified_name(VIEW_NAME)


def _read_refresh(cursor: Cursor) -> RefreshView:
    name = cursor.qualified_name(VIEW_NAME)
    full = cursor.accept("FULL")
    partial = not full and cursor.accept("PARTIAL")
    if not full and not partial and not cursor.at_end() and not cursor.peek().is_symbol(";"):
        cursor.fail("FULL, PARTIAL or the end of the statement")
    return RefreshView(name, full, partial)


def _read_explain(cursor: Cursor) -> Statement | None:
    if cursor.sees("EXPLAIN", "MATERIALIZED"):
        cursor.take()
        return ExplainView(_read_view(cursor))
    # EXPLAIN EXTENDED, FORMATTED and so on are Spark's, and mean nothing for a view that it cannot create.
    detail = cursor.peek(1).text.upper() in ("EXTENDED", "CODEGEN", "FORMATTED", "COST")
    if _sees_create(cursor, 2 if detail else 1):
        cursor.take()
        if detail:
            cursor.fail("CREATE", hint="Materialized views are explained without a level of detail.")
        return ExplainCreate(_read_create(cursor))
    return None


def _read_alteration(cursor: Cursor) -> Alteration:
    if cursor.accept("SET", "REFRESH"):
        return SetPolicy(read_policy(cursor))
    if cursor.accept("SET", "MODE"):
        return SetMode(read_mode(cursor))
    if cursor.accept("RENAME"):
        cursor.expect("TO")
        return RenameTo(cursor.qualified_name(VIEW_NAME))
    if cursor.accept("REBUILD"):
        return Rebuild()
    cursor.fail("SET REFRESH, SET MODE, RENAME TO or REBUILD")


def _sees_create(cursor: Cursor, ahead: int = 0) -> bool:
    words = [cursor.peek(ahead + i) for i in range(4)]
    if not words[0].is_word("CREATE"):
        return False
    return words[1].is_word("MATERIALIZED") or (
        words[1].is_word("OR") and words[2].is_word("REPLACE") and words[3].is_word("MATERIALIZED")
    )


def _read_create(cursor: Cursor) -> CreateView:
    cursor.expect("CREATE")
    or_replace = cursor.accept("OR", "REPLACE")
    cursor.expect("MATERIALIZED", "VIEW")
    if or_replace and cursor.sees("IF", "NOT"):
        cursor.fail(VIEW_NAME, hint="OR REPLACE and IF NOT EXISTS exclude each other.")
    if_not_exists = cursor.sees("IF", "NOT")
    if if_not_exists:
        cursor.expect("IF", "NOT", "EXISTS")
    name = cursor.qualified_name(VIEW_NAME)
    columns = cursor.names_in_parentheses(COLUMN_NAME) if cursor.peek().is_symbol("(") else ()
    clauses = _read_clauses(cursor)
    return CreateView(
        name=name,
        query=_read_query(cursor),
        columns=columns,
        comment=clauses.comment,
        partitioned_by=clauses.partitioned_by,
        cluster_by=clauses.cluster_by,
        policy=clauses.policy,
        mode=clauses.mode,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
    )


@dataclass(slots=True)
class _Clauses:
    """What stands between the name and AS, filled in as it is met."""

    comment: str | None = None
    partitioned_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    policy: Policy | None = None
    mode: Mode | None = None


def _read_clauses(cursor: Cursor) -> _Clauses:
    """The clauses in any order, each at most once, up to and with AS."""
    clauses = _Clauses()
    open_clauses = ["COMMENT", "PARTITIONED BY", "CLUSTER BY", "REFRESH", "MODE"]
    while not cursor.accept("AS"):
        clause = next((known for known in open_clauses if cursor.sees(known.split()[0])), None)
        if clause is None:
            cursor.fail(", ".join(open_clauses) + (" or AS" if open_clauses else "AS"))
        cursor.expect(*clause.split())
        open_clauses.remove(clause)
        match clause:
            case "COMMENT":
                clauses.comment = cursor.string("a comment in quotes")
            case "REFRESH":
                clauses.policy = read_policy(cursor)
            case "MODE":
                clauses.mode = read_mode(cursor)
            case "PARTITIONED BY":
                clauses.partitioned_by = cursor.names_in_parentheses(COLUMN_NAME)
                open_clauses = [other for other in open_clauses if other != "CLUSTER BY"]
            case "CLUSTER BY":
                clauses.cluster_by = cursor.names_in_parentheses(COLUMN_NAME)
                open_clauses = [other for other in open_clauses if other != "PARTITIONED BY"]
    return clauses


def _read_query(cursor: Cursor) -> str:
    """The text from AS to the end of the last token before a semicolon, whatever it says: Spark will judge it.

    A comment after the last token is left out, so that the query can be put into parentheses.
    """
    start = cursor.previous().end
    if cursor.peek().kind is Kind.END or cursor.peek().is_symbol(";"):
        cursor.fail("a query")
    while cursor.peek().kind is not Kind.END and not cursor.peek().is_symbol(";"):
        cursor.take()
    return cursor.text[start : cursor.previous().end].strip()


def _read_assertion(cursor: Cursor) -> CreateAssertion:
    cursor.expect("CREATE")
    cursor.expect("ASSERTION", hint="An assertion is not replaced: drop it, then create it.")
    if cursor.sees("IF", "NOT"):
        cursor.fail(ASSERTION_NAME, hint="Leave IF NOT EXISTS out, or say DROP ASSERTION IF EXISTS before.")
    name = cursor.qualified_name(ASSERTION_NAME)
    cursor.expect("CHECK", hint=_CHECK)
    cursor.expect_symbol("(", hint=_CHECK)
    cursor.expect("NOT", "EXISTS", hint=_CHECK)
    cursor.expect_symbol("(", hint=_CHECK)
    query = _read_query_in_parentheses(cursor)
    cursor.expect_symbol(")", hint=f"{_CHECK} What else must hold is an assertion of its own.")
    return CreateAssertion(name, query)


def _read_query_in_parentheses(cursor: Cursor) -> str:
    """The text after the opening parenthesis, up to the end of the last token before the closing one."""
    start = cursor.previous().end
    if cursor.peek().is_symbol(")"):
        cursor.fail("a query")
    depth = 1
    while True:
        token = cursor.peek()
        if token.kind in (Kind.END, Kind.UNFINISHED) or token.is_symbol(";"):
            cursor.fail("')'")
        if token.is_symbol("("):
            depth += 1
        elif token.is_symbol(")"):
            depth -= 1
        if depth == 0:
            query = cursor.text[start : cursor.previous().end].strip()
            cursor.take()
            return query
        cursor.take()

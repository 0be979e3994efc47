"""Statements of Monus become values, statements of Spark are left alone, and half of one is an error."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monus.errors import StatementInvalid
from monus.sql.mode import Mode
from monus.sql.parser import parse_statement
from monus.sql.policy import Every, Immediate, Interval, Lazy, OnDemand, OnQuery
from monus.sql.statements import (
    AlterView,
    BeginTransaction,
    Commit,
    CreateAssertion,
    CreateView,
    DropAssertion,
    DropView,
    ExplainCreate,
    ExplainView,
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


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", CreateView(("v",), "SELECT 1")),
        ("create materialized view v as select 1;", CreateView(("v",), "select 1")),
        (
            "CREATE OR REPLACE MATERIALIZED VIEW a.b AS SELECT 1",
            CreateView(("a", "b"), "SELECT 1", or_replace=True),
        ),
        (
            "CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1",
            CreateView(("v",), "SELECT 1", if_not_exists=True),
        ),
        (
            "CREATE MATERIALIZED VIEW v (a, `b c`) COMMENT 'it''s' 'fine' PARTITIONED BY (a) "
            "REFRESH ON DEMAND USING COMBINED MODE STRICT AS SELECT 1, 2",
            CreateView(
                ("v",),
                "SELECT 1, 2",
                columns=("a", "b c"),
                comment="it'sfine",
                partitioned_by=("a",),
                policy=OnDemand("COMBINED"),
                mode=Mode.STRICT,
            ),
        ),
        (
            "CREATE MATERIALIZED VIEW v MODE FULL REFRESH EVERY 1 HOUR PARTIAL PROPAGATE WHEN IDLE "
            'CLUSTER BY (a, b) COMMENT "x" AS SELECT 1',
            CreateView(
                ("v",),
                "SELECT 1",
                comment="x",
                cluster_by=("a", "b"),
                policy=Every(Interval(1, "HOUR"), partial=True, propagate_when_idle=True),
                mode=Mode.FULL,
            ),
        ),
        ("CREATE MATERIALIZED VIEW v REFRESH LAZY AS SELECT 1", CreateView(("v",), "SELECT 1", policy=Lazy())),
        (
            "CREATE MATERIALIZED VIEW v REFRESH ON QUERY PARTIAL AS SELECT 1",
            CreateView(("v",), "SELECT 1", policy=OnQuery(partial=True)),
        ),
        ("REFRESH MATERIALIZED VIEW v", RefreshView(("v",))),
        ("REFRESH MATERIALIZED VIEW v FULL;", RefreshView(("v",), full=True)),
        ("refresh materialized view `a.b`.c partial", RefreshView(("a.b", "c"), partial=True)),
        ("REFRESH MATERIALIZED VIEW full FULL", RefreshView(("full",), full=True)),
        ("PROPAGATE MATERIALIZED VIEW v", PropagateView(("v",))),
        ("EXPLAIN MATERIALIZED VIEW v", ExplainView(("v",))),
        (
            "EXPLAIN CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1;",
            ExplainCreate(CreateView(("v",), "SELECT 1", or_replace=True)),
        ),
        ("VERIFY MATERIALIZED VIEW v", VerifyView(("v",))),
        ("SHOW MATERIALIZED VIEWS", ShowViews()),
        ("SHOW REFRESHES OF v", ShowRefreshes(("v",))),
        ("ALTER MATERIALIZED VIEW v SET REFRESH IMMEDIATE", AlterView(("v",), SetPolicy(Immediate()))),
        ("ALTER MATERIALIZED VIEW v SET MODE AUTO", AlterView(("v",), SetMode(Mode.AUTO))),
        ("ALTER MATERIALIZED VIEW v RENAME TO w", AlterView(("v",), RenameTo(("w",)))),
        ("ALTER MATERIALIZED VIEW v REBUILD", AlterView(("v",), Rebuild())),
        ("DROP MATERIALIZED VIEW v", DropView(("v",))),
        ("DROP MATERIALIZED VIEW IF EXISTS v", DropView(("v",), if_exists=True)),
        ("DROP MATERIALIZED VIEW if", DropView(("if",))),
        ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1))", CreateAssertion(("a",), "SELECT 1")),
        (
            "create assertion `no debts`.x\ncheck(not exists(select * from t where b < 0));",
            CreateAssertion(("no debts", "x"), "select * from t where b < 0"),
        ),
        ("CREATE ASSERTION check CHECK (NOT EXISTS (SELECT 1))", CreateAssertion(("check",), "SELECT 1")),
        ("CREATE ASSERTION if CHECK (NOT EXISTS (SELECT 1))", CreateAssertion(("if",), "SELECT 1")),
        ("DROP ASSERTION a", DropAssertion(("a",))),
        ("drop assertion if exists `a b`;", DropAssertion(("a b",), if_exists=True)),
        ("DROP ASSERTION if", DropAssertion(("if",))),
        ("SHOW ASSERTIONS", ShowAssertions()),
        ("BEGIN TRANSACTION", BeginTransaction()),
        ("COMMIT", Commit()),
        ("ROLLBACK ;;", Rollback()),
        ("-- why\n/* and /* how */ */ COMMIT -- now", Commit()),
    ],
)
def test_statements(text: str, statement: Statement) -> None:
    assert parse_statement(text) == statement


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-- CREATE MATERIALIZED VIEW v AS SELECT 1",
        "SELECT 1",
        "CREATE TABLE t (a INT)",
        "CREATE VIEW v AS SELECT 1",
        "CREATE OR REPLACE TEMP VIEW materialized AS SELECT 1",
        "CREATE TABLE materialized AS SELECT 1",
        "CREATE TABLE assertion AS SELECT 1",
        "CREATE OR REPLACE VIEW assertion AS SELECT 1",
        "REFRESH TABLE t",
        "REFRESH MATERIALIZED",
        "REFRESH '/a/path'",
        "EXPLAIN SELECT 1",
        "EXPLAIN EXTENDED SELECT 1",
        "EXPLAIN CREATE TABLE t AS SELECT 1",
        "SHOW TABLES",
        "SHOW VIEWS",
        "ALTER VIEW v AS SELECT 1",
        "DROP VIEW v",
        "DROP TABLE materialized",
        "DROP TABLE assertion",
        "SHOW TABLES LIKE 'assertions'",
        "BEGIN SELECT 1; END",
        "SELECT 'CREATE MATERIALIZED VIEW v AS SELECT 1'",
        "SELECT 'never ends",
        "/* never ends CREATE MATERIALIZED VIEW v AS SELECT 1",
        "`CREATE` MATERIALIZED VIEW v AS SELECT 1",
    ],
)
def test_what_is_left_to_spark(text: str) -> None:
    assert parse_statement(text) is None


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 'a AS b; REFRESH LAZY' AS as, \";\" FROM t",
        "WITH c AS (SELECT 1 AS as) SELECT * FROM c",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "FROM t SELECT a",
        "VALUES (1), (2)",
        "SELECT /*+ BROADCAST(t) */ * FROM t /* ; */ WHERE a <> r'\\'",
        "-- the reason;\nSELECT 1 -- inside;\n, 2",
        "SELECT 1\n\n  ,  `odd ``name;` FROM `a b`.c",
        "SELECT transform(a, x -> x + 1), a:b::int, t.a[0] FROM gs://bucket/a--b",
        "SELEKT nonsense (",
        "SELECT 'never ends",
    ],
)
def test_the_query_is_kept_as_written(query: str) -> None:
    parsed = parse_statement(f"CREATE MATERIALIZED VIEW v REFRESH LAZY AS\n{query}")
    assert isinstance(parsed, CreateView)
    assert parsed.query == query


def test_the_query_ends_before_its_last_comment() -> None:
    parsed = parse_statement("CREATE MATERIALIZED VIEW v AS SELECT 1 -- one;\n ; -- done; really")
    assert isinstance(parsed, CreateView)
    assert parsed.query == "SELECT 1"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT (1 + (2)) FROM (SELECT * FROM t) WHERE a IN (1, 2)",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "(SELECT 1)",
        "SELECT ')' AS `)`, \"(((\" FROM t WHERE a <> r'\\'",
        "SELECT 1 /* ) ; /* ) */ ( */ , 2 -- ) ;\n, 3",
        "-- who owes (too much\nSELECT 1",
        "SELECT /*+ BROADCAST(t) */ * FROM t",
        "SELECT * FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
        "SELEKT nonsense",
    ],
)
def test_the_query_of_an_assertion_is_kept_as_written(query: str) -> None:
    text = f"CREATE ASSERTION a CHECK ( NOT EXISTS (\n{query}\n) ) ; -- done)"
    assert parse_statement(text) == CreateAssertion(("a",), query)


def test_the_query_of_an_assertion_ends_before_its_last_comment() -> None:
    parsed = parse_statement("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1 -- one)\n /* ) */ ))")
    assert parsed == CreateAssertion(("a",), "SELECT 1")


KEYWORDS = [
    "union",
    "except",
    "view",
    "as",
    "select",
    "if",
    "refresh",
    "mode",
    "comment",
    "full",
    "materialized",
    "_1",
    "1a",
]


@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords_are_names(name: str) -> None:
    assert parse_statement(f"CREATE MATERIALIZED VIEW {name} AS SELECT 1") == CreateView((name,), "SELECT 1")
    assert parse_statement(
        f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} ({name}) MODE AUTO AS SELECT 1"
    ) == CreateView((name,), "SELECT 1", columns=(name,), mode=Mode.AUTO, if_not_exists=True)
    assert parse_statement(f"REFRESH MATERIALIZED VIEW {name}.{name} PARTIAL") == RefreshView(
        (name, name), partial=True
    )
    assert parse_statement(f"DROP MATERIALIZED VIEW IF EXISTS {name}") == DropView((name,), if_exists=True)


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=3))
def test_any_name_in_back_ticks(parts: list[str]) -> None:
    quoted = ".".join("`" + part.replace("`", "``") + "`" for part in parts)
    assert parse_statement(f"CREATE MATERIALIZED VIEW {quoted} AS SELECT 1") == CreateView(tuple(parts), "SELECT 1")


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("CREATE MATERIALIZED v AS SELECT 1", 1, 21, "VIEW"),
        ("CREATE MATERIALIZED VIEW", 1, 25, "the name of a view"),
        ("CREATE MATERIALIZED VIEW v", 1, 27, "COMMENT, PARTITIONED BY, CLUSTER BY, REFRESH, MODE or AS"),
        ("CREATE MATERIALIZED VIEW v SELECT 1", 1, 28, "COMMENT, PARTITIONED BY, CLUSTER BY, REFRESH, MODE or AS"),
        ("CREATE MATERIALIZED VIEW v AS", 1, 30, "a query"),
        ("CREATE MATERIALIZED VIEW v AS ;", 1, 31, "a query"),
        ("CREATE MATERIALIZED VIEW 'v' AS SELECT 1", 1, 26, "the name of a view"),
        ("CREATE MATERIALIZED VIEW `` AS SELECT 1", 1, 26, "the name of a view"),
        ("CREATE MATERIALIZED VIEW 12 AS SELECT 1", 1, 26, "the name of a view"),
        ("CREATE MATERIALIZED VIEW 1e5 AS SELECT 1", 1, 26, "the name of a view"),
        ("CREATE MATERIALIZED VIEW größe AS SELECT 1", 1, 26, "the name of a view"),
        ("CREATE MATERIALIZED VIEW a. AS SELECT 1", 1, 32, "COMMENT, PARTITIONED BY, CLUSTER BY, REFRESH, MODE or AS"),
        ("CREATE MATERIALIZED VIEW a-b AS SELECT 1", 1, 27, "the end of the name"),
        ("CREATE MATERIALIZED VIEW v () AS SELECT 1", 1, 29, "the name of a column"),
        ("CREATE MATERIALIZED VIEW v (a INT) AS SELECT 1", 1, 31, "',' or ')'"),
        ("CREATE MATERIALIZED VIEW v COMMENT x AS SELECT 1", 1, 36, "a comment in quotes"),
        ("CREATE MATERIALIZED VIEW v COMMENT 'x AS SELECT 1", 1, 36, "a comment in quotes"),
        ("CREATE MATERIALIZED VIEW v PARTITIONED (a) AS SELECT 1", 1, 40, "BY"),
        (
            "CREATE MATERIALIZED VIEW v PARTITIONED BY (a)\nCLUSTER BY (a) AS SELECT 1",
            2,
            1,
            "COMMENT, REFRESH, MODE or AS",
        ),
        (
            "CREATE MATERIALIZED VIEW v\r\n  MODE AUTO\r\n  MODE AUTO AS SELECT 1",
            3,
            3,
            "COMMENT, PARTITIONED BY, CLUSTER BY, REFRESH or AS",
        ),
        ("CREATE MATERIALIZED VIEW v REFRESH AS SELECT 1", 1, 36, "IMMEDIATE, LAZY, ON QUERY, ON DEMAND or EVERY"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1; SELECT 2", 1, 41, "the end of the statement"),
        ("CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1", 1, 37, "the name of a view"),
        ("CREATE MATERIALIZED VIEW IF NOT v AS SELECT 1", 1, 33, "EXISTS"),
        ("REFRESH MATERIALIZED big_sales", 1, 22, "VIEW"),
        ("REFRESH MATERIALIZED VIEW v NOW", 1, 29, "FULL, PARTIAL or the end of the statement"),
        ("REFRESH MATERIALIZED VIEW v FULL PARTIAL", 1, 34, "the end of the statement"),
        ("REFRESH MATERIALIZED VIEW v; COMMIT", 1, 30, "the end of the statement"),
        ("PROPAGATE v", 1, 11, "MATERIALIZED"),
        ("VERIFY MATERIALIZED VIEW", 1, 25, "the name of a view"),
        ("EXPLAIN MATERIALIZED v", 1, 22, "VIEW"),
        ("EXPLAIN FORMATTED CREATE MATERIALIZED VIEW v AS SELECT 1", 1, 9, "CREATE"),
        ("SHOW MATERIALIZED VIEW", 1, 19, "VIEWS"),
        ("SHOW REFRESHES v", 1, 16, "OF"),
        ("ALTER MATERIALIZED VIEW v", 1, 26, "SET REFRESH, SET MODE, RENAME TO or REBUILD"),
        ("ALTER MATERIALIZED VIEW v SET POLICY LAZY", 1, 27, "SET REFRESH, SET MODE, RENAME TO or REBUILD"),
        ("ALTER MATERIALIZED VIEW v RENAME w", 1, 34, "TO"),
        ("DROP MATERIALIZED VIEW IF EXISTS", 1, 33, "the name of a view"),
        ("DROP MATERIALIZED VIEW v /* why", 1, 26, "the end of the statement"),
        ("CREATE ASSERTION", 1, 17, "the name of an assertion"),
        ("CREATE ASSERTION a", 1, 19, "CHECK"),
        ("CREATE ASSERTION a AS SELECT 1", 1, 20, "CHECK"),
        ("CREATE ASSERTION a CHECK", 1, 25, "'('"),
        ("CREATE ASSERTION a CHECK NOT EXISTS (SELECT 1)", 1, 26, "'('"),
        ("CREATE ASSERTION a CHECK (EXISTS (SELECT 1))", 1, 27, "NOT"),
        ("CREATE ASSERTION a CHECK (x > 0)", 1, 27, "NOT"),
        ("CREATE ASSERTION a CHECK ((NOT EXISTS (SELECT 1)))", 1, 27, "NOT"),
        ("CREATE ASSERTION a CHECK (NOT (SELECT 1))", 1, 31, "EXISTS"),
        ("CREATE ASSERTION a CHECK (NOT EXISTS SELECT 1)", 1, 38, "'('"),
        ("CREATE ASSERTION a CHECK (NOT EXISTS ())", 1, 39, "a query"),
        ("CREATE ASSERTION a CHECK (NOT EXISTS (/* ) */ ))", 1, 47, "a query"),
        ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1)", 1, 48, "')'"),
        ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT (1))", 1, 50, "')'"),
        ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1 -- ))", 1, 53, "')'"),
        ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1;))", 1, 47, "')'"),
        ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 'x))", 1, 46, "')'"),
        ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1 /* x))", 1, 48, "')'"),
        ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1) AND NOT EXISTS (SELECT 2))", 1, 49, "')'"),
        ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1)) DEFERRABLE", 1, 50, "the end of the statement"),
        ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1)))", 1, 49, "the end of the statement"),
        ("CREATE OR REPLACE ASSERTION a CHECK (NOT EXISTS (SELECT 1))", 1, 8, "ASSERTION"),
        ("CREATE ASSERTION IF NOT EXISTS a CHECK (NOT EXISTS (SELECT 1))", 1, 18, "the name of an assertion"),
        ("DROP ASSERTION", 1, 15, "the name of an assertion"),
        ("DROP ASSERTION IF EXISTS", 1, 25, "the name of an assertion"),
        ("DROP ASSERTION a CASCADE", 1, 18, "the end of the statement"),
        ("SHOW ASSERTIONS OF t", 1, 17, "the end of the statement"),
        ("BEGIN", 1, 6, "TRANSACTION"),
        ("BEGIN;", 1, 6, "TRANSACTION"),
        ("BEGIN TRANSACTION NOW", 1, 19, "the end of the statement"),
        ("COMMIT WORK", 1, 8, "the end of the statement"),
    ],
)
def test_malformed(text: str, line: int, column: int, expected: str) -> None:
    with pytest.raises(StatementInvalid) as caught:
        parse_statement(text)
    fields = caught.value.fields
    assert (fields["line"], fields["column"], fields["expected"]) == (line, column, expected)
    assert f"Line {line}, column {column}: expected {expected}, but " in str(caught.value)


def test_messages_say_what_to_do() -> None:
    with pytest.raises(StatementInvalid, match="back-ticks"):
        parse_statement("REFRESH MATERIALIZED VIEW größe")
    with pytest.raises(StatementInvalid, match="one statement at a time"):
        parse_statement("COMMIT; COMMIT")
    with pytest.raises(StatementInvalid, match=r"CHECK \(NOT EXISTS \(query\)\), where the query finds the rows"):
        parse_statement("CREATE ASSERTION a CHECK (x > 0)")
    with pytest.raises(StatementInvalid, match="an assertion of its own"):
        parse_statement("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT 1) AND NOT EXISTS (SELECT 2))")
    with pytest.raises(StatementInvalid, match="DROP ASSERTION IF EXISTS"):
        parse_statement("CREATE ASSERTION IF NOT EXISTS a CHECK (NOT EXISTS (SELECT 1))")
    with pytest.raises(StatementInvalid, match="drop it, then create it"):
        parse_statement("CREATE OR REPLACE ASSERTION a CHECK (NOT EXISTS (SELECT 1))")


PIECES = ["CREATE", "MATERIALIZED", "VIEW", "v", "AS", "SELECT", "REFRESH", "MODE", "ON", "1", "\n"]
PIECES += ["ASSERTION", "CHECK", "NOT", "EXISTS"]
SIGNS = ["(", ")", ",", ".", ";", "'", "`", '"', "/*", "*/", "--"]


@given(st.lists(st.sampled_from(PIECES + SIGNS)))
def test_any_words_are_a_statement_or_nothing_or_our_error(words: list[str]) -> None:
    with suppress(StatementInvalid):
        parse_statement(" ".join(words))

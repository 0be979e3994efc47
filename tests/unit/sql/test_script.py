"""Scripts are split at semicolons that are not part of something else."""

from __future__ import annotations

import pytest

from monus.sql.parser import parse_statement
from monus.sql.script import split_script
from monus.sql.statements import CreateAssertion, DropAssertion, ShowAssertions


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("", []),
        (" ; ;\n;", []),
        ("-- nothing; at all", []),
        ("/* nothing; at all", ["/* nothing; at all"]),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1"]),
        ("SELECT 1; SELECT 2 ;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';'; SELECT \";\"; SELECT `;`", ["SELECT ';'", 'SELECT ";"', "SELECT `;`"]),
        ("SELECT 1 -- a;b\n; SELECT 2", ["SELECT 1 -- a;b", "SELECT 2"]),
        ("SELECT 1 /* a; /* b; */ c; */ ; SELECT 2", ["SELECT 1 /* a; /* b; */ c; */", "SELECT 2"]),
        ("-- first\nSELECT 1;\n-- second\nSELECT 2;\n-- bye", ["-- first\nSELECT 1", "-- second\nSELECT 2"]),
        (r"SELECT '\';'; SELECT r'\'; SELECT 3", [r"SELECT '\';'", r"SELECT r'\'", "SELECT 3"]),
        ("SELECT 'never; ends; SELECT 2", ["SELECT 'never; ends; SELECT 2"]),
        ("SELECT 1;\r\nSELECT 2;\r\n", ["SELECT 1", "SELECT 2"]),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT 'a;b';REFRESH MATERIALIZED VIEW v;",
            ["CREATE MATERIALIZED VIEW v AS SELECT 'a;b'", "REFRESH MATERIALIZED VIEW v"],
        ),
        (
            "CREATE ASSERTION a CHECK (NOT EXISTS (SELECT ';' /* ; */\n FROM t)); SHOW ASSERTIONS; DROP ASSERTION a;",
            [
                "CREATE ASSERTION a CHECK (NOT EXISTS (SELECT ';' /* ; */\n FROM t))",
                "SHOW ASSERTIONS",
                "DROP ASSERTION a",
            ],
        ),
        (
            "BEGIN TRANSACTION; INSERT INTO t VALUES (1); COMMIT; ROLLBACK",
            ["BEGIN TRANSACTION", "INSERT INTO t VALUES (1)", "COMMIT", "ROLLBACK"],
        ),
    ],
)
def test_split(script: str, statements: list[str]) -> None:
    assert split_script(script) == statements


def test_each_statement_of_a_script_can_be_parsed() -> None:
    script = """
        CREATE ASSERTION no_debts CHECK (NOT EXISTS (SELECT * FROM accounts -- one; row
            WHERE balance < 0));
        SHOW ASSERTIONS; DROP ASSERTION IF EXISTS no_debts;
    """
    assert [parse_statement(statement) for statement in split_script(script)] == [
        CreateAssertion(("no_debts",), "SELECT * FROM accounts -- one; row\n            WHERE balance < 0"),
        ShowAssertions(),
        DropAssertion(("no_debts",), if_exists=True),
    ]

"""The statements of Monus and of Spark through `wh.sql`, as somebody meets them who has just installed it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import monus
from monus.errors import (
    AssertionViolated,
    DefinitionInvalid,
    DuplicateColumns,
    InUse,
    NameExists,
    NotIncremental,
    NotSupported,
    StatementInvalid,
    TransactionClosed,
    UnknownAssertion,
    UnknownColumn,
    UnknownTable,
    UnknownView,
    ViewIsClosedToDml,
)
from tests.spark.picture import refused


@pytest.fixture(scope="module")
def wh(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[monus.Warehouse]:
    """sales ← per_item ← items_over, and an empty table."""
    wh = monus.connect(tmp_path_factory.mktemp("statements") / "wh", spark=spark)
    wh.sql("CREATE TABLE sales (item INT, quantity INT, price DECIMAL(10,2))")
    wh.sql("CREATE TABLE other (item INT, name STRING)")
    wh.sql("INSERT INTO sales VALUES (1, 2, 3.50), (1, 2, 3.50), (2, 5, 1.00)")
    wh.sql("CREATE MATERIALIZED VIEW per_item AS SELECT item, avg(quantity) AS a FROM sales GROUP BY item")
    wh.sql("CREATE MATERIALIZED VIEW items_over AS SELECT item FROM per_item WHERE a > 1")
    yield wh
    wh.close()


def rows(wh: monus.Warehouse, text: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in wh.sql(text).collect())


# -- what Monus adds


def test_statements_answer_with_dataframes(wh: monus.Warehouse) -> None:
    wh.sql("INSERT INTO sales VALUES (3, 9, 1.00);")
    (done,) = wh.sql("-- bring it up to date\nREFRESH MATERIALIZED VIEW per_item;").collect()
    assert (done.view, done.incremental, done.rows_inserted) == ("per_item", True, 1)
    (checked,) = wh.sql("/* is it right? */ VERIFY MATERIALIZED VIEW default.per_item").collect()
    assert (checked.view, checked.ok, checked.missing, checked.extra) == ("per_item", True, 0, 0)
    shown = {row.name: row for row in wh.sql("SHOW MATERIALIZED VIEWS").collect()}
    assert set(shown) == {"per_item", "items_over"}
    assert (shown["per_item"].fresh, shown["items_over"].fresh) == (True, False)
    assert shown["items_over"].behind == 1
    refreshes = wh.sql("SHOW REFRESHES OF per_item").collect()
    assert [row.code for row in refreshes][-1] == "FIRST"
    assert len(refreshes) == 2
    (full,) = wh.sql("REFRESH MATERIALIZED VIEW items_over FULL").collect()
    assert (full.strategy, full.code) == ("full", "REQUESTED")


def test_explain(wh: monus.Warehouse) -> None:
    text = "\n".join(row.plan for row in wh.sql("EXPLAIN MATERIALIZED VIEW per_item").collect())
    for words in ("Materialized view per_item: incremental", "reads sales", "The query", "Maintained by", "Δsales"):
        assert words in text, text
    assert "table sales: its log between two versions, consolidated" in text
    views = wh.views()
    query = "SELECT item, rank() OVER (ORDER BY quantity) AS r FROM sales"
    text = "\n".join(r.plan for r in wh.sql(f"EXPLAIN CREATE MATERIALIZED VIEW ranked AS {query}").collect())
    assert "refreshed in full" in text and "Window" in text
    assert wh.views() == views
    assert wh.sql("EXPLAIN SELECT * FROM per_item").collect()


def test_create_if_not_exists_and_or_replace(wh: monus.Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW once AS SELECT item FROM sales")
    assert wh.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS once AS SELECT 1 AS x").collect() == []
    assert wh.view("ONCE").definition == "SELECT item FROM sales"
    wh.sql("CREATE OR REPLACE MATERIALIZED VIEW once COMMENT 'again' AS SELECT item, price FROM sales WHERE item < 3")
    assert wh.sql("SELECT * FROM once").columns == ["item", "price"]
    assert wh.view("once").verify().ok
    assert [record.view for record in wh.view("once").history()] == ["once", "once"]
    wh.sql("INSERT INTO sales VALUES (2, 7, 7.00)")
    assert wh.view("once").refresh().incremental
    assert wh.view("once").verify().ok
    assert wh.spark.table("once").count() == rows(wh, "SELECT count(*) FROM once")[0][0]
    with refused(wh, DefinitionInvalid, "cannot be computed", "CAST_INVALID_INPUT"):
        wh.sql("CREATE OR REPLACE MATERIALIZED VIEW once AS SELECT CAST(concat('x', item) AS INT) AS n FROM sales")
    with refused(wh, DefinitionInvalid, "would read itself"):
        wh.sql("CREATE OR REPLACE MATERIALIZED VIEW once AS SELECT item FROM once")
    with refused(wh, InUse, "per_item", "items_over"):
        wh.sql("CREATE OR REPLACE MATERIALIZED VIEW per_item AS SELECT item FROM sales")
    wh.sql("DROP MATERIALIZED VIEW once")
    assert "once" not in wh.views()
    wh.sql("DROP MATERIALIZED VIEW IF EXISTS once")
    with refused(wh, UnknownView, "once"):
        wh.sql("DROP MATERIALIZED VIEW once")


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("REFRESH MATERIALIZED VIEW nobody", UnknownView, "nobody"),
        ("REFRESH MATERIALIZED VIEW sales", UnknownView, "sales"),
        ("VERIFY MATERIALIZED VIEW elsewhere.per_item", UnknownView, "elsewhere.per_item"),
        ("CREATE MATERIALIZED VIEW x.y.z AS SELECT 1 AS a", StatementInvalid, "x.y.z"),
        ("CREATE MATERIALIZED VIEW `` AS SELECT 1 AS a", StatementInvalid, "name"),
        ("CREATE MATERIALIZED VIEW `__x` AS SELECT 1 AS a", StatementInvalid, "__x"),
        ("CREATE MATERIALIZED VIEW x", StatementInvalid, "AS"),
        ("CREATE MATERIALIZED VIEW x AS SELEC item FROM sales", DefinitionInvalid, "SELEC"),
        ("CREATE MATERIALIZED VIEW x AS INSERT INTO sales VALUES (1, 1, 1)", DefinitionInvalid, "not a query"),
        ("CREATE MATERIALIZED VIEW x AS WITH a AS (SELECT 1) INSERT INTO sales SELECT 1, 1, 1", DefinitionInvalid, ""),
        ("CREATE MATERIALIZED VIEW x AS SHOW TABLES", DefinitionInvalid, "not a query"),
        ("CREATE MATERIALIZED VIEW x AS SELECT * FROM nowhere", UnknownTable, "nowhere"),
        ("CREATE MATERIALIZED VIEW x AS SELECT nothing FROM sales", UnknownColumn, "nothing"),
        ("CREATE MATERIALIZED VIEW x AS SELECT item, item FROM sales", DuplicateColumns, "item"),
        ("CREATE MATERIALIZED VIEW x AS SELECT item, price AS ITEM FROM sales", DuplicateColumns, "item"),
        ("CREATE MATERIALIZED VIEW x (a) AS SELECT item, price FROM sales", DefinitionInvalid, "1 columns"),
        ("CREATE MATERIALIZED VIEW x (a, a) AS SELECT item, price FROM sales", DuplicateColumns, "a"),
        ("CREATE MATERIALIZED VIEW x AS SELECT item AS `__w` FROM sales", DefinitionInvalid, "__w"),
        ("CREATE MATERIALIZED VIEW x AS SELECT NULL AS n FROM sales", DefinitionInvalid, "'n'"),
        ("CREATE MATERIALIZED VIEW x PARTITIONED BY (z) AS SELECT item FROM sales", DefinitionInvalid, "'z'"),
        ("CREATE MATERIALIZED VIEW x AS SELECT CAST('a' AS INT) AS n FROM sales", DefinitionInvalid, "CAST_INVALID"),
        ("CREATE MATERIALIZED VIEW x MODE STRICT AS SELECT rand() AS r FROM sales", NotIncremental, "rand"),
        ("CREATE MATERIALIZED VIEW x MODE STRICT AS SELECT item FROM sales LIMIT 1", NotIncremental, "Limit"),
        ("CREATE MATERIALIZED VIEW per_item AS SELECT item FROM sales", NameExists, "view 'per_item'"),
        ("CREATE MATERIALIZED VIEW Sales AS SELECT item FROM sales", NameExists, "table 'Sales'"),
        ("CREATE OR REPLACE MATERIALIZED VIEW sales AS SELECT 1 AS a", NameExists, "table 'sales'"),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS sales AS SELECT 1 AS a", NameExists, "sales"),
        ("DROP MATERIALIZED VIEW per_item", InUse, "items_over"),
        ("DROP MATERIALIZED VIEW sales", UnknownView, "sales"),
        ("COMMIT", TransactionClosed, "No transaction is open"),
        ("ROLLBACK", TransactionClosed, "No transaction is open"),
        ("ALTER MATERIALIZED VIEW nowhere REBUILD", UnknownView, "nowhere"),
        ("ALTER MATERIALIZED VIEW per_item RENAME TO renamed", InUse, "items_over"),
        ("ALTER MATERIALIZED VIEW items_over RENAME TO sales", NameExists, "sales"),
        ("ALTER MATERIALIZED VIEW items_over RENAME TO `__x`", StatementInvalid, "__x"),
        ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT * FROM sales))", AssertionViolated, "'a'"),
        ("CREATE ASSERTION a CHECK (NOT EXISTS (SELECT * FROM nowhere))", UnknownTable, "nowhere"),
        ("CREATE ASSERTION a CHECK (EXISTS (SELECT * FROM sales))", StatementInvalid, "NOT"),
        ("DROP ASSERTION a", UnknownAssertion, "'a'"),
    ],
)
def test_a_bad_statement_says_so_and_changes_nothing(
    wh: monus.Warehouse, text: str, kind: type[monus.MonusError], said: str
) -> None:
    with refused(wh, kind, said):
        wh.sql(text)


def test_create_view_takes_the_same_mistakes(wh: monus.Warehouse) -> None:
    with refused(wh, StatementInvalid):
        wh.create_view("x", "SELECT item FROM sales", refresh="SOMETIMES")
    with refused(wh, StatementInvalid):
        wh.create_view("x", "SELECT item FROM sales", mode="perhaps")
    with refused(wh, StatementInvalid):
        wh.create_view("", "SELECT item FROM sales")
    with refused(wh, UnknownTable, "nobody"):
        wh.table("nobody")
    with refused(wh, UnknownView, "nobody"):
        wh.view("nobody")


# -- what is Spark's


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO {} VALUES (1, 1)",
        "INSERT OVERWRITE {} SELECT 1, 1",
        "INSERT INTO {} REPLACE WHERE item = 1 SELECT 1, 1",
        "WITH a AS (SELECT 1, 1) INSERT INTO {} SELECT * FROM a",
        "FROM other INSERT INTO {} SELECT item, 1 INSERT INTO other SELECT *",
        "UPDATE {} SET item = 1",
        "UPDATE {} AS u SET u.item = 1",
        "DELETE FROM {} WHERE item = 1",
        "MERGE INTO {} AS t USING other AS o ON t.item = o.item WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE {}",
        "ALTER TABLE {} ADD COLUMN x INT",
        "ALTER TABLE {} RENAME TO renamed",
        "ALTER TABLE {} SET TBLPROPERTIES ('a' = '1')",
        "ALTER TABLE {} CLUSTER BY (item)",
        "ALTER TABLE {} ADD CONSTRAINT positive CHECK (item > 0)",
        "COMMENT ON TABLE {} IS 'mine'",
        "RESTORE TABLE {} TO VERSION AS OF 0",
        "REORG TABLE {} APPLY (PURGE)",
        "VACUUM {}",
        "DROP TABLE {}",
        "DROP TABLE IF EXISTS {}",
        "DROP VIEW {}",
    ],
)
def test_a_view_is_closed_to_changes(wh: monus.Warehouse, text: str) -> None:
    with refused(wh, ViewIsClosedToDml, "'per_item'"):
        wh.sql(text.format("per_item"))


def test_a_view_is_closed_by_every_name(wh: monus.Warehouse) -> None:
    path = wh._catalog.view("per_item").location
    for name in ("PER_ITEM", "default.per_item", "spark_catalog.default.`per_item`", f"delta.`{path}`"):
        with refused(wh, ViewIsClosedToDml, "'per_item'"):
            wh.sql(f"DELETE FROM {name}")
    wh.sql("CREATE TEMPORARY VIEW door AS SELECT * FROM per_item")
    with refused(wh, ViewIsClosedToDml, "'per_item'"):
        wh.sql("UPDATE door SET item = 1")
    wh.sql("DROP VIEW door")


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("SELECT * FROM nowhere", UnknownTable, "nowhere"),
        ("SELECT nothing FROM sales", UnknownColumn, "nothing"),
        ("SELECT `__count` FROM per_item", UnknownColumn, "__count"),
        ("INSERT INTO nowhere VALUES (1)", UnknownTable, "nowhere"),
        ("INSERT INTO sales VALUES ('a', 1, 1)", StatementInvalid, "CAST_INVALID_INPUT"),
        ("INSERT INTO sales VALUES (1)", StatementInvalid, "INSERT_COLUMN_ARITY_MISMATCH"),
        ("UPDATE sales SET nothing = 1", UnknownColumn, "nothing"),
        ("SELEC 1", StatementInvalid, "PARSE_SYNTAX_ERROR"),
        ("SELECT 1; SELECT 2", StatementInvalid, "PARSE_SYNTAX_ERROR"),
        ("", StatementInvalid, ""),
        ("DROP TABLE nowhere", UnknownTable, "nowhere"),
        ("DROP TABLE sales", InUse, "per_item"),
        ("DROP TABLE default.sales", InUse, "per_item"),
        ("CREATE TABLE sales (a INT)", NameExists, "'sales'"),
        ("CREATE TABLE per_item (a INT)", NameExists, "'per_item'"),
        ("CREATE TABLE IF NOT EXISTS per_item (a INT)", NameExists, "'per_item'"),
        ("CREATE OR REPLACE TABLE sales (a INT)", InUse, "'sales'"),
        ("CREATE TABLE x (a INT, a INT)", StatementInvalid, "COLUMN_ALREADY_EXISTS"),
        ("CREATE TABLE x (a INT) USING parquet", StatementInvalid, "parquet"),
        ("CREATE TABLE elsewhere.x (a INT)", StatementInvalid, "elsewhere.x"),
        ("CREATE TABLE x AS SELECT nothing FROM sales", UnknownColumn, "nothing"),
        ("CREATE TABLE x AS SELECT CAST(concat('a', item) AS INT) AS n FROM sales", StatementInvalid, "CAST_INVALID"),
        ("CREATE TABLE x LIKE sales", NotSupported, "LIKE"),
        ("CREATE TABLE x SHALLOW CLONE sales", NotSupported, "CLONE"),
        ("CREATE VIEW sales AS SELECT 1 AS a", NameExists, "sales"),
        ("CREATE OR REPLACE VIEW per_item AS SELECT 1 AS a", NameExists, "per_item"),
        ("ALTER TABLE sales RENAME TO sold", NotSupported, "sales"),
        ("BEGIN SELECT 1; END", NotSupported, "script"),
        ("EXECUTE IMMEDIATE 'DELETE FROM per_item'", NotSupported, "EXECUTE"),
    ],
)
def test_a_bad_statement_of_spark_is_typed_and_changes_nothing(
    wh: monus.Warehouse, text: str, kind: type[monus.MonusError], said: str
) -> None:
    with refused(wh, kind, said):
        wh.sql(text)


def test_plain_commands_are_spark_s(wh: monus.Warehouse) -> None:
    before = wh.spark.conf.get("spark.sql.session.timeZone")
    wh.sql("SET spark.sql.session.timeZone = Asia/Tokyo")
    assert wh.spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    wh.sql(f"SET spark.sql.session.timeZone = {before}")
    assert rows(wh, "SELECT 1 AS a UNION ALL SELECT item FROM other;") == [(1,)]
    assert rows(wh, "SELECT item FROM items_over UNION ALL SELECT 0 WHERE false") == rows(wh, "TABLE items_over")
    assert [row[0] for row in wh.sql("DESCRIBE per_item").collect()] == ["item", "a"]
    assert [row[0] for row in wh.sql("SHOW COLUMNS IN per_item").collect()] == ["item", "a"]
    assert wh.sql("DESCRIBE HISTORY sales").count() >= 2
    wh.sql("OPTIMIZE sales")
    wh.sql("CREATE DATABASE IF NOT EXISTS elsewhere_db")
    wh.sql("USE elsewhere_db")
    try:
        wh.sql("CREATE TABLE made_there (a INT)")
        wh.sql("INSERT INTO made_there VALUES (1)")
        assert rows(wh, "SELECT a FROM made_there, items_over WHERE item = 1") == [(1,)]
        wh.sql("DROP TABLE made_there")
    finally:
        wh.sql("USE default")
        wh.sql("DROP DATABASE elsewhere_db CASCADE")


def test_tables_come_and_go(wh: monus.Warehouse) -> None:
    wh.sql("CREATE TABLE IF NOT EXISTS passing (`a b` INT) COMMENT 'x'")
    wh.sql("CREATE TABLE IF NOT EXISTS passing (other INT)")
    wh.sql("INSERT INTO passing VALUES (1)")
    assert wh.table("passing").columns == ["a b"]
    assert (wh.root / "tables" / "passing").is_dir()
    wh.sql("CREATE TABLE copied AS SELECT * FROM per_item")
    assert wh.table("copied").columns == ["item", "a"]
    wh.spark.sql("DROP TABLE copied")  # by plain Spark: the name is gone, the table is not
    assert wh.sql("SELECT * FROM copied").columns == ["item", "a"]
    wh.sql("DROP TABLE passing")
    wh.sql("DROP TABLE copied")
    assert not (wh.root / "tables" / "passing").exists()
    assert "passing" not in wh.tables()
    with refused(wh, UnknownTable, "passing"):
        wh.sql("SELECT * FROM passing")


def test_a_table_with_a_location_keeps_its_files(wh: monus.Warehouse, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("outside") / "a #1?%20"
    wh.sql(f"CREATE TABLE outside (a INT) LOCATION '{place}'")
    wh.sql("INSERT INTO outside VALUES (1)")
    wh.sql("DROP TABLE outside")
    assert list(place.glob("*.parquet"))


def test_hidden_columns_never_show(wh: monus.Warehouse) -> None:
    assert any(name.startswith("__") for name in wh.spark.table("per_item").columns)
    for text in (
        "SELECT * FROM per_item",
        "SELECT per_item.* FROM per_item",
        "SELECT default.per_item.* FROM default.per_item",
        "SELECT spark_catalog.default.per_item.* FROM spark_catalog.default.per_item",
        "SELECT p.* FROM per_item AS p WHERE p.item IN (SELECT item FROM per_item)",
        "SELECT * FROM (SELECT * FROM per_item) AS p",
        "WITH p AS (SELECT * FROM per_item) SELECT * FROM p",
        "TABLE per_item",
        "FROM per_item SELECT *",
        "FROM per_item |> WHERE item > 0",
        "SELECT * FROM per_item VERSION AS OF 1",
        "SELECT p.* FROM default.per_item VERSION AS OF 1 AS p",
        f"SELECT * FROM delta.`{wh._catalog.view('per_item').location}`",
    ):
        assert wh.sql(text).columns == ["item", "a"], text
    joined = wh.sql("SELECT * FROM per_item AS a JOIN per_item AS b ON a.item = b.item")
    assert joined.columns == ["item", "a", "item", "a"]
    assert joined.count() == wh.table("per_item").count()


def test_a_common_table_expression_hides_a_view(wh: monus.Warehouse) -> None:
    assert rows(wh, "WITH per_item AS (SELECT 7 AS x) SELECT * FROM per_item") == [(7,)]
    assert rows(wh, "WITH a AS (SELECT count(*) AS n FROM Per_Item), per_item AS (SELECT n FROM a) TABLE per_item") == [
        (wh.table("per_item").count(),)
    ]
    assert wh.sql("WITH a AS (WITH per_item AS (SELECT 7 AS x) TABLE per_item) SELECT * FROM a, per_item").columns == [
        "x", "item", "a",
    ]  # fmt: skip
    text = "WITH RECURSIVE per_item(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM per_item WHERE x < 3) TABLE per_item"
    assert rows(wh, text) == [(1,), (2,), (3,)]


# -- names


@pytest.mark.parametrize("name", ["except", "..", "MiXed", "1st"])
def test_any_name_is_a_table(wh: monus.Warehouse, name: str) -> None:
    wh.sql(f"CREATE TABLE `{name}` (k INT)")
    wh.sql(f"INSERT INTO `{name}` VALUES (1), (2)")
    wh.sql(f"DELETE FROM `{name}` WHERE k = 2")
    assert rows(wh, f"SELECT `{name}`.k FROM `{name}`") == rows(wh, f"SELECT k FROM `{name.lower()}`") == [(1,)]
    assert [row.k for row in wh.spark.table(f"`{name}`").collect()] == [1]
    assert name in wh.tables()
    wh.sql(f"DROP TABLE `{name}`")
    assert name not in wh.tables()
    assert (wh.root / "tables" / "sales").is_dir()


def test_names_of_any_characters(wh: monus.Warehouse) -> None:
    """A space, a dot, a back-tick, a hyphen, letters beyond ASCII: nothing that Spark's own catalog takes."""
    name, view = "größe a.b`x-1", "view: größe a.b`x-1"
    table, quoted = "`größe a.b``x-1`", "`view: größe a.b``x-1`"
    wh.sql(f"CREATE TABLE {table} (k INT, v INT)")
    wh.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    wh.sql(f"CREATE MATERIALIZED VIEW {quoted} AS SELECT k, avg(v) AS m FROM {table} GROUP BY k")
    wh.sql(f"UPDATE {table} SET v = 5 WHERE k = 1")
    assert wh.view(view).refresh().incremental
    assert wh.view(view).verify().ok
    assert rows(wh, f"SELECT * FROM {quoted}") == [(1, 5.0), (2, 2.0)]
    assert rows(wh, f"SELECT {table}.k FROM {table} WHERE v = 5") == [(1,)]
    # Plain Spark reads both by name too.
    assert sorted(tuple(row) for row in wh.spark.sql(f"SELECT * FROM {quoted}").collect()) == [(1, 5.0), (2, 2.0)]
    assert wh.spark.table(table).columns == ["k", "v"]
    with refused(wh, ViewIsClosedToDml, f"'{view}'"):
        wh.sql(f"DELETE FROM {quoted}")
    with refused(wh, InUse, view):
        wh.sql(f"DROP TABLE {table}")
    wh.sql(f"TRUNCATE TABLE {table}")
    wh.sql(f"DROP MATERIALIZED VIEW {quoted}")
    wh.sql(f"DROP TABLE {table}")
    assert name not in wh.tables() and view not in wh.views()
    with pytest.raises(AnalysisException):
        wh.spark.table(table)


def test_unquoted_keywords_are_names(wh: monus.Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW union AS SELECT item FROM sales")
    assert wh.sql("SELECT union.item FROM union").columns == ["item"]
    wh.sql("DROP MATERIALIZED VIEW union")

"""Definitions mean the same in every process: texts with what they read, and DataFrames as text."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import monus
from monus.errors import DefinitionNotStorable, NameExists, UnknownTable
from tests.spark.picture import refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("definitions") / "wh #1 of 100%"


@pytest.fixture(scope="module")
def wh(spark: SparkSession, folder: Path) -> Iterator[monus.Warehouse]:
    wh = monus.connect(folder, spark=spark)
    wh.sql("CREATE TABLE sales (cust INT, item INT, quantity INT, at TIMESTAMP)")
    wh.sql("CREATE TABLE customer (cust INT, name STRING)")
    wh.sql("INSERT INTO sales VALUES (1, 10, 2, '2026-01-01 23:30:00'), (2, 11, 5, '2026-01-02 00:30:00')")
    wh.sql("INSERT INTO customer VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    wh.sql("CREATE MATERIALIZED VIEW per_cust AS SELECT cust, avg(quantity) AS mean FROM sales GROUP BY cust")
    yield wh
    wh.close()


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


# -- SQL views


def test_views_are_looked_through_by_queries(wh: monus.Warehouse, spark: SparkSession) -> None:
    """Temporary or permanent, made by Monus or by plain Spark, over a materialized view."""
    wh.sql("CREATE TEMPORARY VIEW seen AS SELECT * FROM per_cust")
    spark.sql("CREATE TEMPORARY VIEW plain AS SELECT * FROM per_cust")
    wh.sql("CREATE VIEW kept(c, m) AS SELECT * FROM per_cust WHERE mean > 1")
    try:
        assert wh.sql("SELECT * FROM seen").columns == ["cust", "mean"]
        assert spark.sql("SELECT * FROM seen").columns == ["cust", "mean"]
        assert wh.sql("SELECT * FROM kept").columns == ["c", "m"]
        assert rows(wh.sql("SELECT kept.c FROM default.kept, seen WHERE c = cust")) == [(1,), (2,)]
        # What plain Spark saw when it made the view stays in it.
        assert "__count" in spark.sql("SELECT * FROM plain").columns
        with refused(wh, NameExists, "temporary view 'seen'"):
            wh.sql("CREATE MATERIALIZED VIEW seen AS SELECT cust FROM sales")
        with refused(wh, NameExists, "'kept'"):
            wh.sql("CREATE MATERIALIZED VIEW kept AS SELECT cust FROM sales")
    finally:
        for name in ("seen", "plain", "kept"):
            spark.sql(f"DROP VIEW {name}")


def test_definitions_keep_the_sql_views_that_they_read(wh: monus.Warehouse, spark: SparkSession, folder: Path) -> None:
    """A temporary view over one of the same name as a table, one made from a DataFrame, a permanent one."""
    spark.sql("CREATE TEMPORARY VIEW sales AS SELECT cust AS c, quantity AS q FROM default.sales WHERE item < 100")
    spark.sql("CREATE TEMPORARY VIEW large(who) AS SELECT c FROM sales WHERE q > 1")
    spark.sql("CREATE VIEW known AS SELECT cust AS k, name FROM customer")
    spark.table("known").where("k < 3").createOrReplaceTempView("framed")
    hidden = wh._definitions.of(wh.table("sales").select("item"))
    assert "`default`.`sales`" in hidden.text
    try:
        wh.sql(
            "CREATE MATERIALIZED VIEW through AS SELECT who, framed.name, known.name AS again "
            "FROM large JOIN framed ON who = framed.k JOIN known ON known.k = who"
        )
    finally:
        for name in ("sales", "large", "known", "framed"):
            spark.sql(f"DROP VIEW {name}")
    spark.sql("CREATE TEMPORARY VIEW known AS SELECT 1 AS something_else")
    try:
        wh.sql("INSERT INTO sales VALUES (2, 11, 7, NULL), (1, 200, 7, NULL)")
        assert wh.view("through").refresh().incremental
        assert rows(wh.table("through")) == [(1, "a", "a"), (2, "b", "b"), (2, "b", "b")]
        assert wh.view("through").verify().ok
        again = monus.connect(folder, spark=spark)
        again.sql("INSERT INTO sales VALUES (1, 1, 9, NULL)")
        assert again.view("through").refresh().incremental
        assert again.view("through").verify().ok
        assert rows(again.table("through"))[0] == rows(again.table("through"))[1] == (1, "a", "a")
        again.close()
        assert "sales" in [row.tableName for row in spark.sql("SHOW TABLES").collect()]
    finally:
        spark.sql("DROP VIEW known")
        wh.sql("DROP MATERIALIZED VIEW through")


def test_definitions_of_every_shape(wh: monus.Warehouse) -> None:
    """A name that a common table expression hides, a subquery, qualified names, a view with itself."""
    wh.sql(
        "CREATE MATERIALIZED VIEW shapes AS WITH customer AS (SELECT cust, mean FROM default.per_cust) "
        "SELECT a.cust, b.mean, c.name FROM customer AS a JOIN spark_catalog.default.per_cust AS b ON a.cust = b.cust "
        "JOIN (SELECT * FROM default.customer) AS c ON c.cust = a.cust"
    )
    assert wh.view("shapes").explain().incremental
    assert set(wh.view("shapes").explain().sources) == {"per_cust", "customer"}
    wh.sql("INSERT INTO sales VALUES (3, 1, 1, NULL)")
    wh.refresh()
    assert wh.view("shapes").verify().ok
    assert (3, 1.0, "c") in rows(wh.table("shapes"))
    wh.sql("DROP MATERIALIZED VIEW shapes")


def test_what_lives_in_the_session_only_is_refused(wh: monus.Warehouse, spark: SparkSession) -> None:
    spark.udf.register("twice", lambda x: 2 * x, "int")
    spark.sql("CREATE TEMPORARY FUNCTION thrice(x INT) RETURNS INT RETURN 3 * x")
    spark.createDataFrame([(1,)], "a int").createOrReplaceTempView("here_only")
    try:
        for text, said in (
            ("SELECT twice(cust) AS t FROM sales", "'twice'"),
            ("SELECT thrice(cust) AS t FROM sales", "'thrice'"),
            ("SELECT cust FROM sales WHERE cust IN (SELECT twice(cust) FROM customer)", "'twice'"),
            ("SELECT cust FROM sales JOIN here_only ON a = cust", "made in this process"),
        ):
            with refused(wh, DefinitionNotStorable, said):
                wh.create_view("x", text)
    finally:
        spark.sql("DROP TEMPORARY FUNCTION twice")
        spark.sql("DROP TEMPORARY FUNCTION thrice")
        spark.sql("DROP VIEW here_only")


# -- DataFrames


def _join(wh: monus.Warehouse) -> DataFrame:
    return wh.table("sales").join(wh.table("customer"), "cust").where(F.col("quantity") > 1).select("name", "item")


def _group(wh: monus.Warehouse) -> DataFrame:
    grouped = wh.spark.table("sales").groupBy((F.col("item") % 2).alias("odd"))
    return grouped.agg(F.sum("quantity").alias("q"), F.countDistinct("cust"), F.max("at").alias("last")).where("q > 0")


def _self_join(wh: monus.Warehouse) -> DataFrame:
    a, b = wh.table("per_cust").alias("a"), wh.table("per_cust").alias("b")
    return a.join(b, F.col("a.cust") < F.col("b.cust")).select(F.col("a.cust").alias("x"), F.col("b.mean").alias("y"))


def _sets(wh: monus.Warehouse) -> DataFrame:
    sales = wh.spark.table("sales")
    both = sales.select("cust").unionByName(sales.selectExpr("item AS cust")).union(wh.table("per_cust").select("cust"))
    return both.exceptAll(sales.select("item")).intersect(both).distinct()


def _outer(wh: monus.Warehouse) -> DataFrame:
    sales, customer = wh.spark.table("sales"), wh.spark.table("customer")
    return customer.join(sales, ["cust"], "left").join(sales.select("item"), ["item"], "left_anti").dropDuplicates()


def _window(wh: monus.Warehouse) -> DataFrame:
    order = Window.partitionBy("cust").orderBy(F.desc("quantity"), "item")
    return wh.spark.table("sales").withColumn("r", F.row_number().over(order)).where("r < 3").drop("at")


def _ordered(wh: monus.Warehouse) -> DataFrame:
    return wh.spark.table("sales").orderBy(F.col("quantity").desc_nulls_last()).limit(2).select("item", F.lit("it's"))


def _exploded(wh: monus.Warehouse) -> DataFrame:
    split = wh.spark.table("customer").select("cust", F.explode(F.split("name", "")).alias("letter"))
    return split.withColumn("day", F.lit("2026-01-01").cast("date")).withColumn("d", F.lit(1.50).cast("decimal(9,3)"))


def _text_and_more(wh: monus.Warehouse) -> DataFrame:
    return wh.sql("WITH a AS (SELECT cust, mean FROM per_cust) SELECT * FROM a").where("mean IS NOT NULL")


def _literal(wh: monus.Warehouse) -> DataFrame:
    sales = wh.spark.table("sales")
    return sales.select("cust", F.coalesce("quantity", F.lit(0)), F.date_trunc("day", "at").alias("d"))


@pytest.mark.parametrize(
    ("build", "incremental"),
    [
        (_join, True), (_group, True), (_self_join, True), (_sets, True), (_outer, False), (_window, False),
        (_ordered, False), (_exploded, False), (_text_and_more, True), (_literal, True),
    ],
)  # fmt: skip
def test_a_dataframe_is_stored_as_text(
    wh: monus.Warehouse, build: Callable[[monus.Warehouse], DataFrame], incremental: bool
) -> None:
    frame = build(wh)
    definition = wh._definitions.of(frame)
    explained = wh.explain_create("x", frame)
    assert explained.incremental == incremental, explained.reasons
    again = wh._plans.analyse(definition).frame
    assert again.schema.simpleString() == frame.schema.simpleString()
    assert rows(again) == rows(frame), definition.text


def test_dataframe_views_are_views(wh: monus.Warehouse, spark: SparkSession, folder: Path) -> None:
    wh.create_view("from_frame", _group(wh), mode="strict")
    wh.create_view("from_text", spark.sql("SELECT cust, item FROM sales WHERE item > 10"))
    assert wh.view("from_text").definition == "SELECT cust, item FROM sales WHERE item > 10"
    again = monus.connect(folder, spark=spark)
    again.sql("UPDATE sales SET quantity = 100 WHERE item = 10")
    again.sql("INSERT INTO sales VALUES (5, 12, 1, NULL)")
    for name in ("from_frame", "from_text"):
        assert again.view(name).refresh().incremental
        assert again.view(name).verify().ok
        again.sql(f"DROP MATERIALIZED VIEW {name}")
    again.close()


def test_a_dataframe_that_has_no_text_is_refused_by_name(
    wh: monus.Warehouse, spark: SparkSession, tmp_path: Path
) -> None:
    sales = spark.table("sales")
    spark.range(3).write.format("delta").save(str(tmp_path / "stranger"))
    for frame, said in (
        (sales.select(F.udf(lambda x: x, "int")("cust").alias("u")), "user function"),
        (sales.select(F.transform(F.array("cust"), lambda x: x + 1).alias("l")), "lambda"),
        (spark.createDataFrame([(1,)], "a int"), "made in this process"),
        (sales.sample(0.5), "Sample"),
        (sales.dropDuplicates(["cust"]), "Deduplicate"),
        (spark.read.format("delta").load(str(tmp_path / "stranger")), "does not know"),
        (spark.read.format("delta").option("versionAsOf", 1).table("sales"), "at one version"),
        (spark.table("per_cust").select("__count"), "__count"),
    ):
        with refused(wh, DefinitionNotStorable, said):
            wh.create_view("x", frame)
    with refused(wh, UnknownTable, "does not know"):
        wh.create_view("x", f"SELECT * FROM delta.`{tmp_path / 'stranger'}`")


def test_a_dataframe_of_other_settings_is_refused(wh: monus.Warehouse, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        frame = spark.sql("SELECT CAST(name AS INT) AS n FROM customer")
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")
    with refused(wh, DefinitionNotStorable, "CAST"):
        wh.create_view("x", frame)


# -- another process


def test_definitions_survive_the_process(wh: monus.Warehouse, spark: SparkSession, folder: Path) -> None:
    """A process with another time zone and ANSI mode goes on incrementally, with the settings of the definition."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.sql("CREATE TEMPORARY VIEW dated AS SELECT item, CAST(date(at) AS STRING) AS day FROM sales")
    try:
        query = "SELECT day, CAST(day AS INT) AS n, count(*) AS c FROM dated GROUP BY ALL"
        wh.sql(f"CREATE MATERIALIZED VIEW by_day AS {query}")
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
        spark.conf.set("spark.sql.ansi.enabled", "true")
        spark.sql("DROP VIEW dated")
    wh.sql("INSERT INTO sales VALUES (9, 10, 1, TIMESTAMP '2026-03-01 23:30:00 UTC')")
    script = Path(__file__).with_name("second_process.py")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, str(script), str(folder), "by_day"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "2026-03-02 None 1" in done.stdout
    # What the other process published is what this one reads, and goes on from.
    assert ("2026-03-02", None, 1) in rows(wh.sql("SELECT * FROM by_day WHERE day = '2026-03-02'"))
    assert wh.view("by_day").refresh().code == "NO_CHANGE"
    assert wh.view("by_day").verify().ok

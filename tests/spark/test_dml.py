"""What a staged statement would do is what Spark and Delta do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.dml_lab import DATABASE, Lab


@pytest.fixture(scope="module")
def lab(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    folder = tmp_path_factory.mktemp("dml")
    session.sql(f"CREATE DATABASE {DATABASE} LOCATION '{folder}/database'")
    session.catalog.setCurrentDatabase(DATABASE)
    lab = Lab(session, folder)
    lab.make(
        "t",
        "id INT, name STRING, amount DECIMAL(10,2), day DATE, s STRUCT<a: INT, b: STRING>",
        "(1, 'one', 1.50, DATE'2024-01-01', named_struct('a', 1, 'b', 'x')),"
        "(1, 'one', 1.50, DATE'2024-01-01', named_struct('a', 1, 'b', 'x')),"
        "(2, 'two', NULL, NULL, named_struct('a', NULL, 'b', 'y')), (3, NULL, -3.25, DATE'2024-02-29', NULL),"
        "(4, '', 99999999.99, DATE'1969-12-31', named_struct('a', 4, 'b', NULL)), (NULL, NULL, NULL, NULL, NULL),"
        "(NULL, NULL, NULL, NULL, NULL)",
    )
    lab.make(
        "p",
        "id INT, p INT, region STRING, v STRING",
        "(1, 1, 'n', 'a'), (2, 1, 's', 'b'), (3, 2, 'n', 'c'), (3, 2, 'n', 'c'), (4, NULL, NULL, 'd')",
        "PARTITIONED BY (p, region)",
    )
    lab.make(
        "src",
        "id INT, name STRING, amount DECIMAL(12,4), day DATE",
        "(1, 'uno', 10.1250, DATE'2025-01-01'), (2, NULL, NULL, NULL), (7, 'sette', 7, NULL), (NULL, 'null', 0, NULL)",
    )
    lab.make("pairs", "id INT, name STRING", "(1, 'a'), (1, 'b'), (8, 'c'), (8, 'c')")
    lab.make(
        "odd",
        "`a b` INT, `Name` STRING, `x.y` INT",
        "(1, 'one', 10), (2, 'two', 20), (2, 'two', 20)",
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    )
    lab.make(
        "g",
        "id INT NOT NULL, twice INT GENERATED ALWAYS AS (id * 2), label STRING DEFAULT 'none', `at` DATE",
        "(1, 2, 'a', DATE'2024-01-01'), (2, 4, 'b', NULL), (2, 4, 'b', NULL)",
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    )
    lab.make(
        "w",
        "i TINYINT, l BIGINT, f FLOAT, d DOUBLE, b BOOLEAN, z TIMESTAMP, n TIMESTAMP_NTZ, x BINARY, "
        "a ARRAY<INT>, m MAP<STRING, INT>, c CHAR(4), vc VARCHAR(3)",
        "(1, 2, 0.5, 0.25, true, TIMESTAMP'2024-01-01 01:00:00', TIMESTAMP_NTZ'2024-01-01 01:00:00', X'01',"
        " array(1, NULL), map('k', 1), 'x', 'abc')",
    )
    yield lab
    session.sql(f"DROP DATABASE {DATABASE} CASCADE")


STATEMENTS = [
    # INSERT
    "INSERT INTO {t} VALUES (9, 'nine', 9.999, '2024-05-05', named_struct('a', 1, 'b', 'z')), (9, NULL, 1, NULL, NULL)",
    "INSERT INTO {t} SELECT id, name, amount, day, NULL FROM {src}",
    "INSERT INTO {t} SELECT * FROM {t}",
    "INSERT INTO {t} SELECT a.* FROM {t} a JOIN {t} b ON a.id = b.id WHERE a.amount IN (SELECT amount FROM {t})",
    "INSERT INTO {t} (name, ID) VALUES ('x', 1L), (DEFAULT, 2)",
    "INSERT INTO {t} BY NAME SELECT '7' AS AMOUNT, 5 AS id",
    "INSERT INTO {t} SELECT id, name, NULL, NULL, named_struct('q', id, 'r', id) FROM {src}",
    "WITH x AS (SELECT * FROM {src} WHERE id > 0) INSERT INTO {t} SELECT x.*, NULL FROM x JOIN x AS y ON x.id = y.id",
    "INSERT INTO {p} PARTITION (p = 1, region) SELECT id, 'v', name FROM {src}",
    "INSERT INTO {p} VALUES (5, 5, '', ''), (5, 5, NULL, NULL)",
    "FROM {src} INSERT INTO {t} (id) SELECT id INSERT INTO {p} (id, v) SELECT id, name WHERE id > 1",
    "FROM {t} INSERT INTO {p} SELECT id, id, name, name INSERT INTO {t} (id) SELECT id WHERE id = 1",
    "INSERT INTO {odd} (`X.Y`, `A B`) VALUES (1, 2)",
    "INSERT INTO {odd} BY NAME SELECT 1 AS `x.y`, 2 AS name, 3 AS `a b`",
    "INSERT INTO {g} (id) SELECT id FROM {src} WHERE id IS NOT NULL",
    "INSERT INTO {g} (id, at, label) VALUES (5, DATE'2024-01-01', DEFAULT)",
    "INSERT INTO {g} VALUES (6, 12, DEFAULT, DEFAULT)",
    "INSERT INTO {w} SELECT i + 1, i, 1, 1.5, NULL, '2024-01-01', DATE'2024-01-01', NULL, array(i), m, 'ab', 'c'"
    " FROM {w}",
    "INSERT INTO {w} (l, c) VALUES (1, 'zz')",
    # OVERWRITE
    "INSERT OVERWRITE {t} SELECT id, name, amount, day, NULL FROM {src}",
    "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id = 1",
    "INSERT OVERWRITE {t} (id, name) SELECT id, name FROM {src} WHERE id > 100",
    "INSERT OVERWRITE {p} PARTITION (p = 1, region = 'n') SELECT id, name FROM {src}",
    "INSERT OVERWRITE {p} PARTITION (p = 1, region) SELECT id, name, 's' FROM {src}",
    "INSERT OVERWRITE {p} PARTITION (p = 2, region = 'n') SELECT id, v FROM {p}",
    "INSERT INTO {p} REPLACE WHERE p = 1 SELECT id, 1, name, name FROM {src}",
    "INSERT INTO {p} REPLACE WHERE v < 'c' AND id IS NOT NULL SELECT id + 10, p, region, 'a' FROM {p} WHERE p = 2",
    "INSERT INTO {p} REPLACE WHERE p IS NULL OR p = 2 SELECT id, NULL, NULL, name FROM {src} LIMIT 2",
    # UPDATE
    "UPDATE {t} SET amount = amount * 2 - id, name = upper(name) WHERE id < 4",
    "UPDATE {t} SET id = 0",
    "UPDATE {t} SET id = id WHERE id = 1",
    "UPDATE {t} AS q SET q.s.a = q.id + 1 WHERE q.s IS NOT NULL",
    "UPDATE {t} SET s.b = name, day = '2020-02-29', amount = DEFAULT WHERE id IS NULL OR id = 2",
    "UPDATE {t} SET name = id, s = named_struct('a', 9L, 'b', amount) WHERE day >= '2024-01-01'",
    "UPDATE {t} SET id = (SELECT max(id) FROM {src}) WHERE id = 1",
    "UPDATE {t} SET id = (SELECT count(*) FROM {t}) WHERE id = 3",
    "UPDATE {p} SET p = id, region = NULLIF(region, 'n') WHERE v <> 'a'",
    "UPDATE {p} SET region = '' WHERE id = 1",
    "UPDATE {odd} SET `A B` = `x.y` + 1, name = `Name` || ' ' WHERE `a b` = 2",
    "UPDATE {g} SET id = id + 10, label = DEFAULT WHERE at IS NULL",
    "UPDATE {w} SET c = 'y', vc = 'z', m = map('a', i), a = array_append(a, 3), f = d WHERE vc = 'abc'",
    "UPDATE {w} SET i = i + 1 WHERE z < current_timestamp()",
    "WITH x AS (SELECT 1) UPDATE {t} SET id = 5 WHERE id = 1",
    # DELETE
    "DELETE FROM {t}",
    "DELETE FROM {t} WHERE true",
    "DELETE FROM {t} WHERE id = 1",
    "DELETE FROM {t} AS q WHERE NOT q.id > 1",
    "DELETE FROM {t} WHERE s.a IS NULL AND name IS NULL",
    "DELETE FROM {t} WHERE id = 77",
    "DELETE FROM {p} WHERE p = 2 OR region IS NULL",
    "DELETE FROM {odd} WHERE `x.y` = 20",
    "TRUNCATE TABLE {p}",
    # MERGE
    "MERGE INTO {t} AS t USING {src} AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name, amount = s.amount",
    "MERGE INTO {t} t USING {src} s ON t.id <=> s.id WHEN MATCHED AND s.amount IS NULL THEN DELETE"
    " WHEN MATCHED THEN UPDATE SET t.s.b = s.name, day = s.day"
    " WHEN NOT MATCHED AND s.id < 5 THEN INSERT (id) VALUES (-1)"
    " WHEN NOT MATCHED THEN INSERT (name, id, amount) VALUES (s.name, s.id, s.amount + 1)"
    " WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET name = 'left', amount = t.amount - 1"
    " WHEN NOT MATCHED BY SOURCE AND t.id > 3 THEN DELETE",
    "MERGE INTO {t} t USING {src} s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "MERGE INTO {t} t USING {pairs} s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "MERGE INTO {t} t USING {pairs} s ON t.id = s.id WHEN MATCHED THEN DELETE"
    " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)"
    " WHEN NOT MATCHED BY SOURCE AND t.id = 2 THEN UPDATE SET name = 'x' WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "MERGE INTO {t} t USING {pairs} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)",
    "MERGE INTO {t} t USING (SELECT id, max(name) AS name FROM {t} GROUP BY id) s ON t.id = s.id + 1"
    " WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id * 100, s.name)",
    "MERGE INTO {t} t USING (SELECT DISTINCT id, amount FROM {t} WHERE id > 1) s ON t.id = s.id AND t.amount > s.id"
    " WHEN MATCHED THEN UPDATE SET amount = s.amount - 1",
    "MERGE INTO {t} t USING (SELECT 1 AS k) s ON false WHEN NOT MATCHED THEN INSERT (id) VALUES (k)",
    "MERGE INTO {t} t USING (SELECT 3 AS k) s ON t.id < s.k WHEN MATCHED AND t.amount > 1 THEN UPDATE SET id = k"
    " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET id = -1",
    "WITH x AS (SELECT * FROM {src}) MERGE INTO {t} t USING x ON t.id = x.id WHEN MATCHED THEN DELETE",
    "MERGE INTO {p} t USING (SELECT 1 AS id, 9 AS p, '' AS region, 'q' AS v UNION ALL SELECT 10, 9, NULL, NULL) s"
    " ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "MERGE INTO {odd} t USING (SELECT 2 AS `A B`, 'z' AS name, 5L AS `x.y` UNION ALL SELECT 3, 'y', 6) s"
    " ON t.`a b` = s.`a b` WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "MERGE INTO {g} t USING {src} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = s.id + 20"
    " WHEN NOT MATCHED AND s.id > 2 THEN INSERT (id) VALUES (s.id)",
]  # fmt: skip


@pytest.mark.parametrize("text", STATEMENTS, ids=[f"{i}-{text.split()[0]}" for i, text in enumerate(STATEMENTS)])
def test_staged_as_run(lab: Lab, text: str) -> None:
    lab.check(text)

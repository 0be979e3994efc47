"""What cannot be maintained is named, beyond what Spark itself takes for not deterministic; what can be is not refused.

Only analysed, never run: `explain_create` costs no job.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import monus
from monus.errors import NotIncremental

INCREMENTAL = ""
QUERIES: dict[str, str] = {
    # the clock, the session, no defined answer
    "SELECT * FROM r WHERE d >= current_date() - INTERVAL 7 DAYS": "READS_CLOCK",
    "SELECT a, now() AS at FROM r": "READS_CLOCK",
    "SELECT a, unix_timestamp() AS at FROM r": "READS_CLOCK",
    "SELECT a, localtimestamp() AS at FROM r": "READS_CLOCK",
    "SELECT a, current_user() AS who FROM r": "READS_SESSION",
    "SELECT a, current_database() AS here FROM r": "READS_SESSION",
    "SELECT a, rand() AS x FROM r": "NOT_DETERMINISTIC",
    "SELECT a, rand(7) AS x FROM r": "NOT_DETERMINISTIC",
    "SELECT a, uuid() AS x FROM r": "NOT_DETERMINISTIC",
    "SELECT a, monotonically_increasing_id() AS x FROM r": "NOT_DETERMINISTIC",
    "SELECT a, shuffle(array(a, b)) AS x FROM r": "NOT_DETERMINISTIC",
    "SELECT a, input_file_name() AS x FROM r": "NOT_DETERMINISTIC",
    "SELECT a, _metadata.file_path AS x FROM r": "METADATA_COLUMN",
    "SELECT count(*) AS n FROM r WHERE rand() < 0.5": "NOT_DETERMINISTIC",
    "SELECT a, count(*) AS n FROM r GROUP BY a HAVING max(d) < current_date()": "READS_CLOCK",
    "SELECT a, sort_array(collect_list(b) FILTER (WHERE d < current_date())) AS x FROM r GROUP BY a": "READS_CLOCK",
    # aggregates that depend on the order of rows
    "SELECT a, collect_list(b) AS x FROM r GROUP BY a": "ORDER_SENSITIVE",
    "SELECT a, array_agg(b) AS x FROM r GROUP BY a": "ORDER_SENSITIVE",
    "SELECT a, collect_set(b) AS x FROM r GROUP BY a": "ORDER_SENSITIVE",
    "SELECT a, first(b) AS x FROM r GROUP BY a": "ORDER_SENSITIVE",
    "SELECT a, last(b) AS x FROM r GROUP BY a": "ORDER_SENSITIVE",
    "SELECT a, any_value(b) AS x FROM r GROUP BY a": "ORDER_SENSITIVE",
    "SELECT a, mode(b) AS x FROM r GROUP BY a": "ORDER_SENSITIVE",
    "SELECT a, max_by(b, d) AS x FROM r GROUP BY a": "ORDER_SENSITIVE",
    "SELECT a, min_by(b, struct(d, a)) AS x FROM r GROUP BY a": "ORDER_SENSITIVE",
    "SELECT a, percentile_approx(b, 0.5) AS x FROM r GROUP BY a": "ORDER_SENSITIVE",
    "SELECT a, concat_ws(',', collect_list(t)) AS x FROM r GROUP BY a": "ORDER_SENSITIVE",
    # where the order cannot show
    "SELECT a, sort_array(collect_list(b)) AS x FROM r GROUP BY a": INCREMENTAL,
    "SELECT a, size(collect_set(b)) AS x FROM r GROUP BY a": INCREMENTAL,
    "SELECT a, max_by(b, struct(d, b)) AS x FROM r GROUP BY a": INCREMENTAL,
    "SELECT a, min_by(b, b) AS x FROM r GROUP BY a": INCREMENTAL,
    # no order, no sample
    "SELECT * FROM r LIMIT 3": "OPERATOR",
    "SELECT * FROM r ORDER BY a LIMIT 3": "OPERATOR",
    "SELECT * FROM r TABLESAMPLE (10 PERCENT)": "OPERATOR",
    # operators
    "SELECT r.a, s.c FROM r LEFT JOIN s ON r.a = s.a": "JOIN_TYPE",
    "SELECT r.a FROM r LEFT SEMI JOIN s ON r.a = s.a": "JOIN_TYPE",
    "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a)": "SUBQUERY",
    "SELECT a FROM r WHERE a NOT IN (SELECT a FROM s)": "SUBQUERY",
    "SELECT a, (SELECT max(c) FROM s) AS m FROM r": "SUBQUERY",
    "SELECT a, rank() OVER (PARTITION BY a ORDER BY b) AS x FROM r": "OPERATOR",
    "SELECT a, b, sum(b) AS x FROM r GROUP BY ROLLUP (a, b)": "OPERATOR",
    "SELECT a, explode(array(a, b)) AS x FROM r": "OPERATOR",
    "SELECT * FROM r VERSION AS OF 0": "TIME_TRAVEL",
    # all of these are Spark's to resolve, and maintained
    "SELECT * FROM r JOIN s USING (a)": INCREMENTAL,
    "SELECT * FROM r NATURAL JOIN s": INCREMENTAL,
    "SELECT a, sum(b) AS x FROM r GROUP BY 1": INCREMENTAL,
    "SELECT a, sum(b) AS x FROM r GROUP BY ALL": INCREMENTAL,
    "SELECT upper(t) AS u, count(*) AS n FROM r GROUP BY u HAVING n > 1": INCREMENTAL,
    "WITH q AS (SELECT a, b FROM r WHERE b > 0) SELECT x.a, y.b FROM q x JOIN q y ON x.a = y.a": INCREMENTAL,
    "SELECT r.* FROM r JOIN (VALUES (1, 'one'), (2, 'two')) v (a, w) ON r.a = v.a": INCREMENTAL,
    "SELECT transform(array(a, b), x -> x + a) AS x FROM r": INCREMENTAL,
    "SELECT from_json(t, 'x INT, y STRING').x AS x FROM r": INCREMENTAL,
    "SELECT a FROM r UNION SELECT a FROM s EXCEPT SELECT c FROM s INTERSECT ALL SELECT a FROM r": INCREMENTAL,
    "SELECT a, b FROM r ORDER BY a": INCREMENTAL,
}


@pytest.fixture(scope="module")
def wh(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[monus.Warehouse]:
    folder: Path = tmp_path_factory.mktemp("reasons")
    opened = monus.connect(folder / "warehouse", spark=spark)
    opened.sql("CREATE TABLE r (a INT, b INT, d DATE, t STRING)")
    opened.sql("CREATE TABLE s (a INT, c INT)")
    yield opened
    for name in ("r", "s"):
        opened.sql(f"DROP TABLE {name}")
    opened.close()


@pytest.mark.parametrize(("query", "code"), QUERIES.items())
def test_what_is_incremental_and_why_not(wh: monus.Warehouse, query: str, code: str) -> None:
    found = wh.explain_create("v", query)
    assert found.incremental == (code == INCREMENTAL), str(found)
    assert [reason.code for reason in found.reasons] == ([code] if code else [])
    for reason in found.reasons:
        assert reason.operator and reason.sentence.endswith(".")


@pytest.mark.parametrize("query", [query for query, code in QUERIES.items() if code][::6])
def test_strict_refuses_with_the_same_reason(wh: monus.Warehouse, query: str) -> None:
    with pytest.raises(NotIncremental) as refused:
        wh.create_view("v", query, mode="strict")
    assert refused.value.fields["reason"] == QUERIES[query]
    assert wh.views() == []

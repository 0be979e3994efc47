"""SIGKILL of a real process in the middle of every operation at once, each on a view of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import monus
from monus.maintenance.fault_points import FaultPoint
from tests.spark.crashes import is_right, rows_of
from tests.spark.killed import MOMENTS, NEW_VIEW

ROOT = Path(__file__).parents[2]
DEFINITIONS = {
    "appended": "SELECT k FROM t WHERE k >= 100",
    "rewritten": "SELECT k, x FROM t",
    "merged": "SELECT k, g, x FROM t",
    "propagated": "SELECT g, count(*) n FROM t GROUP BY g",
    "folded": "SELECT g, sum(x) s FROM t GROUP BY g",
    "recomputed": "SELECT g, min(x) m FROM t GROUP BY g",
}
READER = "SELECT x, count(*) c FROM rewritten GROUP BY x"


def test_a_killed_process(spark: SparkSession, warehouse_path: Path) -> None:
    with monus.connect(warehouse_path, spark=spark) as warehouse:
        warehouse.sql("CREATE TABLE t (k INT, g INT, x INT)")
        warehouse.sql("INSERT INTO t VALUES (1, 1, 1), (2, 1, 5), (2, 1, 5), (3, 2, 7), (4, NULL, NULL)")
        for name, text in DEFINITIONS.items():
            warehouse.create_view(name, text)
        warehouse.create_view("reader", READER)
        warehouse.sql("INSERT INTO t VALUES (100, 3, 3)")
        warehouse.view("folded").propagate()
        warehouse.sql("UPDATE t SET x = x + 1 WHERE k = 1")
        before = {name: rows_of(warehouse.table(name)) for name in DEFINITIONS}

    killed = subprocess.run(
        [sys.executable, "-m", "tests.spark.killed", str(warehouse_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    with monus.connect(warehouse_path, spark=spark) as warehouse:  # waits until its JVM has ended as well
        for name in DEFINITIONS:
            assert warehouse._catalog.outstanding_intent(name) is None
            was_folded = MOMENTS[name] is FaultPoint.COMMITTED and name != "propagated"
            assert (rows_of(warehouse.table(name)) != before[name]) == was_folded
        assert "created" not in warehouse.views()
        warehouse.create_view("created", NEW_VIEW)
        for done in warehouse.refresh():
            assert done.incremental
        for name in (*DEFINITIONS, "reader", "created"):
            assert is_right(warehouse, name)
        assert warehouse.view("rewritten").verify().ok
        assert warehouse.view("reader").verify().ok

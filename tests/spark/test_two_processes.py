"""Two processes, each with a Spark of its own, write, refresh and read on one warehouse at once.

This process is one of them. Whoever is in somebody's way is told so (TransactionConflict, ViewBusy) and tries again;
no other error may occur, no committed change be lost or doubled, and no reader see a part of a transaction.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import monus
from monus.maintenance.pins import Pins
from tests.spark.crashes import rows_of
from tests.spark.working_process import ACCOUNTS, BALANCE, VIEWS, make, work

ROOT = Path(__file__).parents[2]
SEED = int(os.environ.get("MONUS_SEED", "4"))
SECONDS = float(os.environ.get("MONUS_SECONDS", "0"))
DONE = ("transfer", "bump_with_transfer", "move", "bump", "note", "own", "refresh", "propagate", "partial_refresh",
        "refresh_all", "read")  # fmt: skip


def test_two_processes_at_once(spark: SparkSession, warehouse_path: Path) -> None:
    """Everything once in each process, while the other does it too."""
    two_processes(spark, warehouse_path, SECONDS)


@pytest.mark.slow
def test_two_processes_for_minutes(spark: SparkSession, warehouse_path: Path) -> None:
    two_processes(spark, warehouse_path, SECONDS or 180.0)


def two_processes(spark: SparkSession, folder: Path, seconds: float) -> None:
    scratch = folder.parent
    logs = [scratch / f"log_{number}" for number in range(2)]
    words = [str(folder), "1", str(seconds), str(SEED), str(logs[1])]
    with (scratch / "stderr").open("w") as stderr:
        other = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.working_process", *words],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
        )  # fmt: skip
        try:
            with monus.connect(folder, spark=spark) as wh:
                make(wh)
                assert other.stdout is not None and other.stdout.readline() == "started\n", told(scratch)
                assert other.stdin is not None
                other.stdin.write("go\n")
                other.stdin.flush()
                ours = work(wh, 0, seconds, SEED, logs[0])
                theirs, _ = other.communicate(timeout=600 + seconds)
                assert other.returncode == 0, told(scratch)
                for number, counts in enumerate([ours, Counter(json.loads(theirs))]):
                    sys.stdout.write(f"process {number}, seed {SEED}: {dict(sorted(counts.items()))}\n")
                    assert not [kind for kind in DONE if not counts[kind]], counts
                check_end(wh, [json.loads(line) for log in logs for line in log.read_text().splitlines()])
        finally:
            other.kill()
            other.wait()


def told(scratch: Path) -> str:
    return (scratch / "stderr").read_text()[-10_000:]


def check_end(wh: monus.Warehouse, log: list[dict[str, Any]]) -> None:
    """The tables are the sum of what both committed, and every view is under its invariant."""
    balances, counters = dict.fromkeys(range(ACCOUNTS), BALANCE), Counter({0: 0, 1: 0})
    transfers = [line["transfer"] for line in log if "transfer" in line]
    for _, source, target, amount in transfers:
        balances[source] -= amount
        balances[target] += amount
    counters.update(line["counter"] for line in log if "counter" in line)
    assert rows_of(wh.sql("SELECT id, balance FROM a UNION ALL SELECT id, balance FROM b")) == sorted(balances.items())
    journal = "SELECT seq, source, target, amount FROM journal"
    assert rows_of(wh.sql(journal)) == sorted(map(tuple, transfers), key=repr)
    assert dict(rows_of(wh.sql("SELECT * FROM counters"))) == counters
    own = Counter(line["own"] for line in log if "own" in line)
    assert dict(rows_of(wh.sql("SELECT k, sum(n) FROM (TABLE own_0 UNION ALL TABLE own_1) GROUP BY k"))) == own
    for which in ("first", "second"):
        notes = sorted([(line[which],) for line in log if which in line], key=repr)
        assert rows_of(wh.sql(f"SELECT seq FROM {which}_notes")) == notes

    assert not wh._catalog.ledger().outstanding
    for name in (*wh.tables(), *wh._catalog.dependency_order()):
        assert wh._catalog.holder(name) is None, name
    assert not list((wh.root / "staging").glob("*"))
    for name in VIEWS:
        found = wh.view(name).verify()
        assert found.ok, (name, [each.name for each in found.checks if not each.ok])
        assert wh._catalog.outstanding_intent(name) is None
        history = wh.view(name).history()
        assert not [done for done in history if done.error], name
        assert not [done for done in history[:-1] if done.strategy == "full"], name  # but for the first
    wh.refresh()
    for name, (query, _) in VIEWS.items():
        assert rows_of(wh.table(name)) == rows_of(wh.sql(query)), name


def test_what_is_read_together_is_of_one_moment(spark: SparkSession, warehouse_path: Path) -> None:
    """Two statements, one after the other: nobody sees the second without the first."""
    with monus.connect(warehouse_path, spark=spark) as wh:
        wh.sql("CREATE TABLE a (k INT)")
        wh.sql("CREATE TABLE b (k INT)")
        pins = Pins(spark, wh._catalog)
        pins.table(wh._catalog.table("a"))
        wh.sql("INSERT INTO a VALUES (1)")
        wh.sql("INSERT INTO b VALUES (1)")
        pins.table(wh._catalog.table("b"))
        assert not pins.still_hold()

"""Every state of the disk that a process can leave when it dies: the folder as it is at each fault point reached.

An operation is run once, and at each fault point the warehouse's folder is kept (an image). Put back, it is what a
process leaves that died there; nothing that Python would do on the way out is in it. Several operations can run side
by side, each waiting at its next fault point for the others, so that one image has all of them in the middle.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from monus.maintenance.fault_points import FaultPoint, listening
from monus.store import listing

SECONDS = 300.0
Action = Callable[[], object]


# -- running up to fault points


Reached = tuple[FaultPoint, int]
"""A fault point, and the how manieth time it was reached."""


@dataclass(frozen=True)
class Step:
    """What every operation that is not done has just reached."""

    number: int
    at: Mapping[str, Reached]

    def __str__(self) -> str:
        names = sorted({f"{point.name.lower()} {nth}" for point, nth in self.at.values()})
        return f"{self.number} {', '.join(names)}"


def stepped(actions: Mapping[str, Action], at_step: Callable[[Step], None]) -> None:
    """Do all at once, in step: whenever each is at its next fault point or done, `at_step` is called."""
    changed = threading.Condition()
    busy, at, failed = set(actions), dict[str, Reached](), list[BaseException]()
    counts = {name: Counter[FaultPoint]() for name in actions}

    def wait(point: FaultPoint) -> None:
        name = threading.current_thread().name
        if name in actions:
            with changed:
                counts[name][point] += 1
                at[name] = (point, counts[name][point])
                changed.notify_all()
                if not changed.wait_for(lambda: name not in at, SECONDS):
                    raise TimeoutError(name)

    def work(name: str) -> None:
        try:
            actions[name]()
        except BaseException as error:
            failed.append(error)
        with changed:
            busy.discard(name)
            changed.notify_all()

    threads = [threading.Thread(target=work, args=(name,), name=name, daemon=True) for name in actions]
    with listening(wait):
        for thread in threads:
            thread.start()
        number = 0
        while True:
            with changed:
                if not changed.wait_for(lambda: busy <= at.keys(), SECONDS):
                    raise TimeoutError(f"{sorted(busy - at.keys())} did not reach a fault point")
                if not busy:
                    break
                now = dict(at)
            at_step(Step(number, now))
            with changed:
                at.clear()
                changed.notify_all()
            number += 1
    for thread in threads:
        thread.join()
    for error in failed:
        raise error


# -- images of the disk


def keep(folder: Path, image: Path) -> None:
    """The folder as it is at this moment. The catalog is copied by SQLite: part of it may still be in its log."""
    shutil.copytree(folder, image, ignore=shutil.ignore_patterns("catalog.db*"))
    with closing(sqlite3.connect(folder / "catalog.db")) as now, closing(sqlite3.connect(image / "catalog.db")) as kept:
        now.backup(kept)


def put_back(image: Path, folder: Path, spark: SparkSession) -> None:
    """Every warehouse at the folder must be closed.

    Delta keeps the logs of tables by path, and we their files; neither expects a table to go back. What did not change
    is not forgotten: to look it up again takes a job for every table.
    """
    before = _logs(folder)
    shutil.rmtree(folder)
    shutil.copytree(image, folder)
    after = _logs(folder)
    listing._known.clear()
    jvm: Any = spark._jvm
    for path in before.keys() | after.keys():
        if before.get(path) != after.get(path):
            table = jvm.org.apache.hadoop.fs.Path(str(folder / path))
            jvm.org.apache.spark.sql.delta.DeltaLog.invalidateCache(spark._jsparkSession, table)


def forget_logs(spark: SparkSession) -> None:
    """Of all tables."""
    listing._known.clear()
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def _logs(folder: Path) -> dict[Path, dict[str, bytes]]:
    return {
        log.parent.relative_to(folder): {file.name: file.read_bytes() for file in log.iterdir() if file.is_file()}
        for log in folder.glob("*/*/_delta_log")
    }


_CATALOG = {  # with the column that names the table or view
    "SELECT key, policy, table_id, unusable_code, batch, version, pending_from, vector, pending_vector FROM views": 0,
    "SELECT resource, last_number, outstanding, token IS NULL FROM leases": 0,
    "SELECT view_key, number, operation, to_state FROM intents": 0,
    "SELECT view_key, number, operation, version, from_vector, to_vector, has_rows FROM batches": 0,
    "SELECT location FROM dropped": None,
    "SELECT sequence, staging, applied_at IS NULL FROM transactions": None,
    "SELECT sequence, resource_key, number, before, reached, note FROM transaction_parts JOIN transactions "
    "ON transaction_id = id": 1,
}


def pieces(folder: Path) -> dict[str, str]:
    """All that later operations depend on, and the table or view that it belongs to, or "".

    That is the catalog, and the log of every table but for the names of files.
    """
    found = {str(path): "" for path in folder.glob("staging/*")}
    with closing(sqlite3.connect(folder / "catalog.db")) as database:
        for query, column in _CATALOG.items():
            for row in database.execute(query):
                found[json.dumps([query, row])] = "" if column is None else row[column]
    for log in sorted(folder.glob("*/*/_delta_log")):
        files = [path.read_text().splitlines() for path in sorted(log.glob("*.json"))]
        commits = [sorted(_outline(json.loads(line)) for line in lines) for lines in files]
        found[json.dumps([str(log.relative_to(folder)), commits])] = log.parent.name
    return found


def _outline(action: dict[str, Any]) -> str:
    kind, body = next(iter(action.items()))
    if kind == "commitInfo":
        return f"commit {body['operation']}"
    if kind == "txn":
        return f"txn {body['appId']} {body['version']}"
    vector = (body.get("deletionVector") or {}).get("cardinality")
    with suppress(KeyError):
        return f"{kind} {json.loads(body['stats'] or '{}').get('numRecords')} {body.get('partitionValues')} {vector}"
    return f"{kind} {body.get('partitionValues')} {vector}"

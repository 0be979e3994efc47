"""Ending an operation at a fault point, as if its process had died there.

Inside one process death is played: the warehouse's catalog is closed, so that nothing that runs on the way out can
write to it, and the owner that the leases name becomes a process that is dead.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import monus
from monus.errors import TransactionOutstanding, WarehouseClosed
from monus.maintenance.fault_points import FaultPoint, listening


class Crash(BaseException):
    """Not an Exception: nobody may handle it."""


def crash(
    warehouse: monus.Warehouse, point: FaultPoint, action: Callable[[], object], keeps_names: bool = False
) -> bool:
    """Do this and die at the point; whether the point was reached. A metastore keeps the names of a dead process."""
    reached = []

    def die(at: FaultPoint) -> None:
        if at is point:
            reached.append(at)
            warehouse._catalog.close()
            raise Crash(at)

    with listening(die), suppress(Crash, WarehouseClosed, TransactionOutstanding):
        action()
    if not keeps_names:
        warehouse._names.close()
    return bool(reached)


def reopen(folder: Path, spark: SparkSession, **options: Any) -> monus.Warehouse:
    """The warehouse after the process that had it open died."""
    bury_owners(folder)
    return monus.connect(folder, spark=spark, **options)


def bury_owners(folder: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with closing(sqlite3.connect(folder / "catalog.db")) as database, database:
        held = database.execute("SELECT resource, owner FROM leases WHERE token IS NOT NULL").fetchall()
        for resource, owner in held:
            dead = json.dumps(json.loads(owner) | {"processes": [[gone.pid, "0"]]})
            database.execute("UPDATE leases SET owner = ? WHERE resource = ?", (dead, resource))
    for path in folder.glob("staging/*/owner.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"processes": [[gone.pid, "0"]]}))


@contextmanager
def counting() -> Iterator[Counter[FaultPoint]]:
    """The fault points that are reached."""
    found: Counter[FaultPoint] = Counter()
    with listening(lambda point: found.update([point])):
        yield found


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def is_right(warehouse: monus.Warehouse, name: str) -> bool:
    """Whether a refreshed view, read by plain Delta, is what its query says now."""
    path = warehouse._catalog.view(name).location
    stored = warehouse.spark.read.format("delta").load(path)
    shown = stored.select([column for column in stored.columns if not column.startswith("__")])
    return rows_of(shown) == rows_of(warehouse.sql(warehouse.view(name).definition))

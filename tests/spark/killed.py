"""A process that begins one operation on each of several views, and is killed when all are in the middle.

Run as a program with the folder of a warehouse; see `test_kill.py`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

import monus
from monus.maintenance import applying
from monus.maintenance.fault_points import FaultPoint, listening

NEW_VIEW = "SELECT g, max(x) m FROM t GROUP BY g"
MOMENTS = {
    "appended": FaultPoint.COMMITTED,
    "rewritten": FaultPoint.COMMITTED,
    "merged": FaultPoint.COMMITTED,
    "propagated": FaultPoint.BATCH_APPENDED,
    "folded": FaultPoint.COMMITTED,
    "recomputed": FaultPoint.INTENT_WRITTEN,
    "created": FaultPoint.TABLE_RECORDED,
}


def run(folder: str) -> None:
    warehouse = monus.connect(folder)
    choose_way = applying.choose_way
    applying.choose_way = lambda *known: "merge" if _name() == "merged" else choose_way(*known)
    all_there = threading.Barrier(len(MOMENTS), action=lambda: os.kill(os.getpid(), signal.SIGKILL))

    def wait(point: FaultPoint) -> None:
        if MOMENTS.get(_name()) is point:
            all_there.wait()

    operations: dict[str, Callable[[], object]] = {
        "appended": lambda: warehouse.view("appended").refresh(),
        "rewritten": lambda: warehouse.view("rewritten").refresh(),
        "merged": lambda: warehouse.view("merged").refresh(),
        "propagated": lambda: warehouse.view("propagated").propagate(),
        "folded": lambda: warehouse.view("folded").partial_refresh(),
        "recomputed": lambda: warehouse.view("recomputed").refresh(full=True),
        "created": lambda: warehouse.create_view("created", NEW_VIEW),
    }

    def work(name: str) -> None:
        try:
            operations[name]()
        finally:
            os._exit(3)  # whoever ends here was not killed

    with listening(wait):
        threads = [threading.Thread(target=work, args=(name,), name=name) for name in operations]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _name() -> str:
    return threading.current_thread().name


if __name__ == "__main__":
    run(sys.argv[1])

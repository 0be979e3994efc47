"""A process that does a round of operations in step, and is killed at one of the steps.

Run as a program with the folder of a warehouse, the name of the round and the number of the step; see
`test_fault_matrix.py`. It tells what was done by then; where all was done before, it ends as usual.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import monus
from tests.spark.fault_matrix import Step, stepped
from tests.spark.fault_rounds import ROUNDS, done_at
from tests.spark.quick_spark import quick_session


def run(folder: str, name: str, number: int) -> None:
    round_, done = ROUNDS[name], set[str]()

    def at_step(step: Step) -> None:
        done.update(done_at(round_, step))
        if step.number == number:
            sys.stdout.write(json.dumps({"step": str(step), "done": sorted(done)}) + "\n")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    with tempfile.TemporaryDirectory() as scratch:
        spark = quick_session(Path(scratch), "monus-killed")
        with monus.connect(folder, spark=spark) as wh:
            stepped({key: lambda o=o: o.act(wh) for key, o in round_.operations.items()}, at_step)  # type: ignore[misc]
        spark.stop()


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]))

"""`make fuzz`: random sequences end to end for as long as one likes; a failure prints its seed."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.spark.end_to_end import Sequence, close_warehouse, open_warehouse
from tests.spark.quick_spark import quick_session

PER_WAREHOUSE = 15


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; by default a random one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", action="store_true", help="only this one seed")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**9)
    print(f"first seed {seed}; make fuzz SEED={seed} repeats this run", flush=True)
    deadline = time.monotonic() + 60 * arguments.minutes
    root = Path(tempfile.mkdtemp(prefix="monus-fuzz-"))
    spark = quick_session(root, "monus-fuzz")
    done, failed, strategies = 0, 0, Counter[str]()
    try:
        while time.monotonic() < deadline and not (arguments.once and done):
            first = seed + done - done % PER_WAREHOUSE
            warehouse = open_warehouse(spark, root / str(first), random.Random(first))
            for i in range(PER_WAREHOUSE):
                sequence = Sequence(warehouse, first + i, arguments.rounds)
                try:
                    sequence.run()
                except Exception:
                    failed += 1
                    print(f"FAILED at seed {first + i} (warehouse of seed {first})", flush=True)
                    print("\n".join(sequence.log), flush=True)
                    traceback.print_exc(file=sys.stdout)
                done += 1
                strategies += sequence.strategies
                if time.monotonic() > deadline or arguments.once:
                    break
            print(f"{done} sequences, {failed} failed; {dict(strategies)}", flush=True)
            close_warehouse(warehouse)
            shutil.rmtree(root / str(first), ignore_errors=True)
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)
    print(f"{done} sequences from seed {seed}, {failed} failed; {dict(strategies)}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

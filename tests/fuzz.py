"""`make fuzz`: random sequences end to end for as long as one likes; a failure prints its seed.

`views`: views, changes and refreshes (`end_to_end`); `scenarios`: transactions under every policy, compared with a
model after each step (`scenario_sequences`); `both`, the default: one of each for every seed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import monus
from tests.spark.end_to_end import Sequence, close_warehouse, open_warehouse
from tests.spark.quick_spark import quick_session
from tests.spark.scenario_coverage import EXPECTED, never
from tests.spark.scenario_sequences import Scenarios

PER_WAREHOUSE = 15


@dataclass
class Tally:
    """What has been run so far, by kind, and what happened in it."""

    done: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    strategies: Counter[str] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)

    def run(self, kind: str, warehouse: monus.Warehouse, seed: int, rounds: int, first: int) -> None:
        sequence = Sequence(warehouse, seed, rounds) if kind == "views" else Scenarios(warehouse, seed, 2 * rounds)
        try:
            sequence.run()
        except Exception as error:
            self.failed[kind] += 1
            print(f"FAILED: {kind} of seed {seed} (warehouse of seed {first})", flush=True)
            log = "\n".join(sequence.log)
            if log not in str(error):
                print(log, flush=True)
            traceback.print_exc(file=sys.stdout)
        self.done[kind] += 1
        self.strategies += sequence.strategies
        if isinstance(sequence, Scenarios):
            self.happened += sequence.happened

    def __str__(self) -> str:
        counts = [f"{n} sequences of {kind}, {self.failed[kind]} failed" for kind, n in sorted(self.done.items())]
        return f"{'; '.join(counts) or 'nothing run'}; {dict(self.strategies)}"

    def told(self) -> str:
        """How often each thing happened in the scenarios; what never did, last."""
        counts = [f"  {n:6}  {what}" for what, n in sorted(self.happened.items())]
        missing = never(self.happened)
        return "\n".join(
            [*counts, f"  of {len(EXPECTED)} that are expected, {len(missing)} never: {', '.join(missing)}"]
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; by default a random one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", action="store_true", help="only this one seed")
    parser.add_argument("--kind", choices=["views", "scenarios", "both"], default="both")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**9)
    kinds = ["views", "scenarios"] if arguments.kind == "both" else [arguments.kind]
    print(f"first seed {seed}; make fuzz SEED={seed} ARGS='--kind {arguments.kind}' repeats this run", flush=True)
    deadline = time.monotonic() + 60 * arguments.minutes
    root = Path(tempfile.mkdtemp(prefix="monus-fuzz-"))
    spark = quick_session(root, "monus-fuzz")
    tally, first = Tally(), seed
    try:
        while time.monotonic() < deadline:
            warehouse = open_warehouse(spark, root / str(first), random.Random(first))
            for number in range(first, first + PER_WAREHOUSE):
                for kind in kinds:
                    tally.run(kind, warehouse, number, arguments.rounds, first)
                if time.monotonic() > deadline or arguments.once:
                    break
            print(tally, flush=True)
            close_warehouse(warehouse)
            shutil.rmtree(root / str(first), ignore_errors=True)
            if arguments.once:
                break
            first += PER_WAREHOUSE
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)
    if "scenarios" in kinds:
        print(f"what happened in the scenarios:\n{tally.told()}")
    print(f"from seed {seed}: {tally}")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Another process that refreshes a view whenever it is told to, and says how many commits that took."""

from __future__ import annotations

import sys
from pathlib import Path

import monus
from tests.spark.quick_spark import quick_session


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def main(folder: str, view: str, scratch: str) -> None:
    spark = quick_session(Path(scratch) / "rival")
    with monus.connect(folder, spark=spark) as wh:
        wh.view(view).refresh()
        say("ready")
        for line in sys.stdin:
            if line != "refresh\n":
                break
            done = wh.view(view).refresh()
            assert isinstance(done, monus.Refresh)
            say(done.commits)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

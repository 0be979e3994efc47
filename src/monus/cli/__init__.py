"""The command line: `monus run FOLDER` maintains a warehouse's views in a process of its own."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from monus.errors import MonusError
from monus.warehouse import connect

__all__ = ["main"]


def main(words: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(words)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stop = threading.Event()
    if not Path(options.folder).is_dir():
        sys.stderr.write(f"There is no folder {options.folder}; monus.connect(folder) makes a warehouse.\n")
        return 1
    try:
        with connect(options.folder, catalog=options.catalog) as warehouse:
            for number in (signal.SIGINT, signal.SIGTERM):  # only now: Spark sets a handler of its own
                signal.signal(number, lambda *_: stop.set())
            with warehouse.maintenance(options.seconds, options.busy_cpu):
                sys.stdout.write(f"Maintaining {warehouse.root}; Ctrl-C ends it.\n")
                sys.stdout.flush()
                stop.wait()
    except MonusError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("monus", description="Materialized views on Spark and Delta Lake, kept fresh.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run",
        help="maintain the views of a warehouse until stopped: what is due by the clock, and lazy views when idle",
    )
    run.add_argument("folder", help="the warehouse's folder")
    run.add_argument("--catalog", help="the URL of the catalog, if it is not in the folder")
    run.add_argument("--seconds", type=_positive, default=2.0, help="how long to sleep between two looks (2)")
    run.add_argument(
        "--busy-cpu", type=_positive, default=0.9, help="the part of the CPU from which on lazy views wait (0.9)"
    )
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be above zero")
    return value

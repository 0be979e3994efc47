"""The command: `python -m bench`, or `make bench ARGS="--changes customers_100 --repeats 3"`."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import monus
from bench import environment, markdown, output, retail_day
from bench.case import Case, Say, Scale
from bench.cases.registry import CASES
from bench.results import Outcome, Report
from bench.runner import Plan, Runner

ROOT = Path(__file__).parent
DEFAULT_REPEATS = 5
RETAIL_DAY = "retail_day"  # measured in its own way


def arguments(words: list[str], environ: dict[str, str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Incremental against full, in one run.")
    parser.add_argument(
        "--case", choices=sorted([*CASES, RETAIL_DAY]), action="append", help="only this case; may be repeated"
    )
    parser.add_argument("--changes", nargs="+", metavar="CHANGE", help="only these changes")
    parser.add_argument("--repeats", type=_positive, default=DEFAULT_REPEATS, help="measured rounds (default: 5)")
    parser.add_argument("--warmups", type=int, default=1, help="rounds before them that do not count (default: 1)")
    factor = float(environ.get("SF") or 1)
    parser.add_argument("--sf", type=float, default=factor, help="scale factor (default: $SF, or 1)")
    parser.add_argument("--mode", choices=("incremental", "auto"), default="incremental", help="mode of the views")
    parser.add_argument("--out", type=Path, default=ROOT / "results", help="folder of the results")
    parser.add_argument("--hours", type=_positive, default=retail_day.HOURS, help="of retail_day (default: 24)")
    parser.add_argument("--list", action="store_true", help="name the cases and their changes, and end")
    found = parser.parse_args(words)
    known = {change.name for case in _cases(found) for change in case.changes}
    unknown = sorted(set(found.changes or ()) - known)
    if unknown:
        parser.error(f"no change {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return found


def plan_of(case: Case, found: argparse.Namespace) -> Plan:
    changes = tuple(change for change in case.changes if not found.changes or change.name in found.changes)
    scale = Scale(found.sf, ROOT / "data" / case.name / f"sf{found.sf:g}")
    return Plan(case, changes, scale, found.repeats, found.warmups, found.mode)


def is_trial(plan: Plan) -> bool:
    """Less than the whole case, or measured less often than results that count."""
    return plan.changes != plan.case.changes or plan.repeats < DEFAULT_REPEATS or plan.warmups < 1


def listing() -> str:
    lines = []
    for case in CASES.values():
        lines.append(f"{case.name}: {case.title}")
        lines += [f"  view    {view.name:<18} {view.title}" for view in case.views]
        lines += [f"  change  {change.name:<18} {change.title}" for change in case.changes]
    return "\n".join([*lines, f"{RETAIL_DAY}: a day under each policy (Example 5.4 of Colby et al.)"])


def main(words: list[str]) -> int:
    found = arguments(words, dict(os.environ))
    if found.list:
        print(listing())
        return 0
    plans = [plan_of(case, found) for case in _cases(found)]
    wrong = [measure(plan, found.out) for plan in plans if plan.changes]
    if RETAIL_DAY in (found.case or ()) or not (found.case or found.changes):
        wrong.append(retail_day.measure(found.out, _progress(), found.hours))
    return 1 if any(wrong) else 0


def measure(plan: Plan, out: Path) -> int:
    """Run one case and write its results; how many verifications failed."""
    say = _progress()
    where = environment.describe()
    say(f"{plan.case.title}; scale factor {plan.scale.factor:g}, load of the machine {where['load before']}")
    plan.case.prepare(plan.scale, say)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=plan.scale.data.parent))
    outcomes: list[Outcome] = []

    def finish(is_complete: bool) -> int:
        shutil.rmtree(folder, ignore_errors=True)
        report = Report(plan.case, plan.scale.factor, plan.repeats, plan.mode, where, tuple(outcomes))
        if outcomes:
            page = output.write(report, out, is_trial(plan) or not is_complete)
            print(f"\n{markdown.body(report)}\n\nWritten: {os.path.relpath(page)}, with .json and .png beside it")
        return report.wrong

    try:
        say("Starting Spark")
        with monus.connect(folder / "warehouse") as wh:
            _when_stopped(lambda: finish(is_complete=False))
            runner = Runner(wh, plan, folder / "throwaway", say)
            runner.prepare()
            for measured in runner.run():
                outcomes += measured
    except BaseException:
        finish(is_complete=False)
        raise
    return finish(is_complete=True)


def _when_stopped(finish: Callable[[], object]) -> None:
    """Ctrl-C ends at once, with what was measured written: Spark's own answer to it is pages of traces.

    To be called when Spark has started, because PySpark sets a handler of its own then.
    """

    def stop(*_: object) -> None:
        print("\nStopped. What was measured until now is written as a trial.", flush=True)
        finish()
        sys.stdout.flush()
        os._exit(130)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def _cases(found: argparse.Namespace) -> list[Case]:
    return [case for case in CASES.values() if not found.case or case.name in found.case]


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError("at least one round")
    return int(text)


def _progress() -> Say:
    start = time.perf_counter()

    def say(text: str) -> None:
        print(f"{time.perf_counter() - start:7.1f} s  {text}", flush=True)

    return say


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

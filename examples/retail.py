"""The retail example of Colby et al. (1996), Example 1.1, with a million sales.

Point-of-sale information is collected in `sales`, which is large and has duplicates; `customer` keeps records of the
customers. Two views follow from them: the paper's join `V`, and an aggregate by score and item. Each step below is a
transaction or a few on these tables, then a refresh of both views. Beside each refresh stands what the same query and
its commit cost when everything is computed anew, measured at the same moment in the same Spark.

Only the public surface of Monus is used: read it as an introduction.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import monus

SALES = 1_000_000
CUSTOMERS = 20_000
ITEMS = 200
SEED = 1996


def new_sales(first: int, count: int) -> str:
    """Sales as a pure function of their number: no Python row, and every run has the same data."""

    def pick(salt: int, choices: int) -> str:
        return f"pmod(xxhash64(id, {SEED + salt}), {choices})"

    return f"""
        SELECT CAST({pick(1, CUSTOMERS)} AS INT) AS custId,
               CAST({pick(2, ITEMS)} AS INT) AS itemNo,
               CAST({pick(3, 10)} AS INT) AS quantity,
               CAST(1 + {pick(2, ITEMS)} * 0.75 AS DECIMAL(10, 2)) AS salesPrice
        FROM range({first}, {first + count})"""


TABLES = (
    f"CREATE TABLE sales AS {new_sales(0, SALES)}",
    f"""CREATE TABLE customer AS
        SELECT CAST(id AS INT) AS custId, concat('Customer ', id) AS name, concat(id % 97, ' Main Street') AS address,
               element_at(array('High', 'Medium', 'Medium', 'Low', 'Low'),
                          CAST(1 + pmod(xxhash64(id, {SEED}), 5) AS INT)) AS score
        FROM range({CUSTOMERS})""",
)
VIEWS = {
    "V": """
        SELECT c.custId, c.name, c.score, s.itemNo, s.quantity
        FROM   customer c, sales s
        WHERE  c.custId = s.custId AND s.quantity != 0 AND c.score = 'High'""",
    "by_score": """
        SELECT c.score, s.itemNo, count(*) AS sales, sum(s.quantity) AS quantity,
               sum(s.quantity * s.salesPrice) AS turnover, avg(s.salesPrice) AS price
        FROM   customer c JOIN sales s ON c.custId = s.custId
        GROUP BY c.score, s.itemNo""",
}


@dataclass(frozen=True, slots=True)
class Step:
    """What happens between two refreshes; each statement is a transaction of its own."""

    title: str
    statements: tuple[str, ...]


WARM_UP = Step(
    "warm-up",
    (
        f"INSERT INTO sales {new_sales(SALES, 10)}",
        "UPDATE customer SET score = 'Low' WHERE custId % 500 = 1",
    ),
)
STEPS = (
    Step("nothing", ()),
    Step("1,000 sales come in", (f"INSERT INTO sales {new_sales(SALES + 1_000, 1_000)}",)),
    Step("20 customers rise to High", ("UPDATE customer SET score = 'High' WHERE custId % 1000 = 7",)),
    Step(
        "a day: 5 statements",
        (
            f"INSERT INTO sales {new_sales(SALES + 5_000, 2_000)}",
            "UPDATE sales SET quantity = quantity + 1 WHERE custId % 1000 = 13 AND itemNo < 20",
            "DELETE FROM sales WHERE custId % 2000 = 11",
            "DELETE FROM customer WHERE custId % 4000 = 17",
            f"INSERT INTO customer VALUES ({CUSTOMERS}, 'New', '1 New Street', 'High')",
        ),
    ),
    Step("a quarter of all prices", ("UPDATE sales SET salesPrice = salesPrice + 0.10 WHERE itemNo % 4 = 0",)),
)


@dataclass(frozen=True, slots=True)
class Line:
    """One refresh, and the full recomputation beside it."""

    step: str
    refresh: monus.Refresh
    seconds: float
    full_seconds: float
    verified: bool

    @property
    def ratio(self) -> float:
        return self.seconds / self.full_seconds


class Progress:
    """What is being done now, with the time since the start; plain lines, so a log reads like a terminal."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def __call__(self, text: str) -> None:
        print(f"{time.perf_counter() - self._start:6.1f} s  {text}", flush=True)


def main() -> int:
    arguments = argparse.ArgumentParser(description="The retail example, with a million sales.")
    arguments.add_argument("--keep", action="store_true", help="keep the warehouse folder and say where it is")
    keep = arguments.parse_args().keep
    folder = Path(tempfile.mkdtemp(prefix="monus-retail-"))
    try:
        return run(folder)
    except monus.MonusError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    finally:
        if keep:
            print(f"\nThe warehouse is kept: monus.connect({str(folder / 'warehouse')!r})")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path) -> int:
    say = Progress()
    say("Starting Spark")
    with monus.connect(folder / "warehouse") as wh:
        remove_when_stopped(folder)
        say(f"Creating sales ({SALES:,} rows) and customer ({CUSTOMERS:,} rows)")
        for statement in TABLES:
            wh.sql(statement)
        for name, query in VIEWS.items():
            wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            say(f"Created the view {name}: {wh.table(name).count():,} rows")
        say("Warming up: one round that is not shown, because Spark compiles what it does for the first time")
        play(wh, folder, WARM_UP, say, verify=False)
        lines = [line for step in STEPS for line in play(wh, folder, step, say)]
        say("Done")
    print(f"\n{table_of(lines)}\n\n{summary_of(lines)}")
    return 0 if all(line.verified for line in lines) else 1


def remove_when_stopped(folder: Path) -> None:
    """Ctrl-C ends at once: Spark's own answer to it is pages of traces. To be called when Spark has started."""

    def stop(*_: object) -> None:
        print("\nStopped.", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(130)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def play(wh: monus.Warehouse, folder: Path, step: Step, say: Progress, verify: bool = True) -> list[Line]:
    """Apply the step's transactions, then refresh, recompute beside, and verify each view."""
    say(f"Change: {step.title}")
    for statement in step.statements:
        wh.sql(statement)
    lines = []
    for name in VIEWS:
        view = wh.view(name)
        start = time.perf_counter()
        refresh = view.refresh()
        seconds = time.perf_counter() - start
        full_seconds = recompute(wh, view, folder / "throwaway" / name)
        verified = verify and view.verify().ok
        told = "verified" if verified else "WRONG" if verify else "not verified"
        say(f"  {name}: refreshed in {seconds:.2f} s, in full {full_seconds:.2f} s, {told}")
        lines.append(Line(step.title, refresh, seconds, full_seconds, verified))
    return lines


def recompute(wh: monus.Warehouse, view: monus.View, path: Path) -> float:
    """The seconds of the view's query and its commit, by plain Spark into a Delta table that nobody reads."""
    start = time.perf_counter()
    wh.sql(view.definition).write.format("delta").mode("overwrite").save(str(path))
    return time.perf_counter() - start


def table_of(lines: list[Line]) -> str:
    heads = ("view", "what changed", "strategy", "code", "inserted", "deleted", "refresh", "full", "ratio", "verified")
    rows = [
        (
            line.refresh.view,
            line.step,
            line.refresh.strategy,
            line.refresh.code,
            f"{line.refresh.rows_inserted:,}",
            f"{line.refresh.rows_deleted:,}",
            f"{line.seconds:.2f} s",
            f"{line.full_seconds:.2f} s",
            f"{line.ratio:.2f}",
            "yes" if line.verified else "NO",
        )
        for line in sorted(lines, key=lambda line: list(VIEWS).index(line.refresh.view))
    ]
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    is_number = [i >= 4 and i <= 8 for i in range(len(heads))]

    def drawn(row: tuple[str, ...]) -> str:
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        )
        return "  ".join(cells).rstrip()

    return "\n".join([drawn(heads), drawn(tuple("-" * width for width in widths)), *map(drawn, rows)])


def summary_of(lines: list[Line]) -> str:
    faster = [line for line in lines if line.ratio < 1]
    told = [f"Incremental was faster in {len(faster)} of {len(lines)} refreshes (ratio is refresh / full)."]
    for line in lines:
        if line.ratio >= 1:
            told.append(
                f"Full was faster for {line.refresh.view} after '{line.step}': "
                f"{line.full_seconds:.2f} s against {line.seconds:.2f} s."
            )
    wrong = [f"{line.refresh.view} after '{line.step}'" for line in lines if not line.verified]
    told.append(
        f"WRONG, the view differs from its query: {', '.join(wrong)}."
        if wrong
        else "Every view was compared with a recomputation after every refresh, row by row: equal."
    )
    return "\n".join(told)


if __name__ == "__main__":
    sys.exit(main())

"""A process that works on a warehouse that another one works on too; see `test_two_processes.py`.

Accounts stand in two tables, and every transaction that moves money writes a line into a journal: so each account is
what the journal says, and the sum and the number of accounts never change. A second thread reads all of it, and the
views over it, in one query at a time. What was committed is written to a file of JSON lines, for the parent to compare.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import monus
from monus.errors import MonusError, RefreshFailed, TransactionConflict, ViewBusy
from tests.spark.quick_spark import quick_session

ACCOUNTS = 8
BALANCE = 100
TOTAL = (ACCOUNTS * BALANCE, ACCOUNTS)
BUSY = (TransactionConflict, ViewBusy)
MOST_ATTEMPTS = 60
POLICIES = {
    "im": "IMMEDIATE",
    "bl": "ON DEMAND USING LOG",
    "dt": "ON DEMAND USING DIFFERENTIAL",
    "c": "ON DEMAND USING COMBINED",
    "oq": "ON QUERY",
}
TABLES = (
    "a (id INT, balance BIGINT)",
    "b (id INT, balance BIGINT)",
    "journal (worker INT, seq INT, source INT, target INT, amount BIGINT)",
    "counters (k INT, n BIGINT)",
    "first_notes (worker INT, seq INT)",
    "second_notes (worker INT, seq INT, before BIGINT)",
    "own_0 (k INT, n BIGINT)",
    "own_1 (k INT, n BIGINT)",
)
ACCOUNT_ROWS = "(SELECT 'a' AS side, id, balance FROM a UNION ALL SELECT 'b', id, balance FROM b)"
TOTALS = f"SELECT side, sum(balance) AS total, count(*) AS n FROM {ACCOUNT_ROWS} GROUP BY side"
JOINED = "SELECT j.worker, c.k, c.n, count(*) AS m FROM journal j JOIN counters c ON j.target % 2 = c.k GROUP BY ALL"
VIEWS = {f"totals_{name}": (TOTALS, policy) for name, policy in POLICIES.items()} | {
    "joined_dt": (JOINED, POLICIES["dt"]),
    "joined_c": (JOINED, POLICIES["c"]),
    "notes_bl": ("SELECT worker, count(*) AS n, max(seq) AS last FROM first_notes GROUP BY worker", POLICIES["bl"]),
}
SNAPSHOT = "\nUNION ALL ".join(
    [
        f"SELECT 'tables' AS what, side AS k, total AS x, n FROM ({TOTALS})",
        *(f"SELECT '{name}', side, total, n FROM totals_{name}" for name in POLICIES),
        f"SELECT 'account', CAST(id AS STRING), balance, 1 FROM {ACCOUNT_ROWS}",
        "SELECT 'left', CAST(source AS STRING), -sum(amount), count(*) FROM journal GROUP BY source",
        "SELECT 'came', CAST(target AS STRING), sum(amount), count(*) FROM journal GROUP BY target",
        "SELECT 'journal', CAST(worker AS STRING), count(*), max(seq) FROM journal GROUP BY worker",
        "SELECT 'alone', '', count(*), 0 FROM second_notes ANTI JOIN first_notes USING (worker, seq)",
    ]
)


def make(wh: monus.Warehouse) -> None:
    for table in TABLES:
        wh.sql(f"CREATE TABLE {table}")
    half = ACCOUNTS // 2
    wh.sql(f"INSERT INTO a SELECT CAST(id AS INT), {BALANCE} FROM range({half})")
    wh.sql(f"INSERT INTO b SELECT CAST(id AS INT), {BALANCE} FROM range({half}, {ACCOUNTS})")
    for table in ("counters", "own_0", "own_1"):
        wh.sql(f"INSERT INTO {table} VALUES (0, 0), (1, 0)")
    for name, (query, policy) in VIEWS.items():
        wh.create_view(name, query, refresh=policy)


@dataclass(slots=True)
class Worker:
    wh: monus.Warehouse
    number: int
    log: TextIO
    random: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    seq: int = 0
    transfers: int = 0

    def work(self, seconds: float) -> None:
        """Everything once, then at random until the time is over; somebody reads all the while."""
        is_over, failed = threading.Event(), list[BaseException]()
        reader = threading.Thread(target=self._read_on, args=(is_over, failed), name="reader")
        reader.start()
        kinds: list[Callable[[], None]] = [
            self.transfer, self.propagate, self.transfer, self.bump, self.move, self.refresh, self.note,
            self.bump_with_transfer, self.partial_refresh, self.own, self.refresh_all,
        ]  # fmt: skip
        upto = time.monotonic() + seconds
        try:
            for kind in kinds[self.number * 3 :] + kinds[: self.number * 3]:
                self._do(kind)
            while time.monotonic() < upto and not failed:
                self._do(self.random.choice(kinds[:-1]))
        finally:
            is_over.set()
            reader.join()
        if failed:
            raise failed[0]

    def _do(self, kind: Callable[[], None]) -> None:
        """Whoever was in the way is waited for; anything else that goes wrong is a failure."""
        for _ in range(MOST_ATTEMPTS):
            try:
                kind()
            except BUSY as error:
                self.counts[f"{kind.__name__}: {error.code}"] += 1
            except RefreshFailed as error:
                if not all(isinstance(each, BUSY) for each in error.fields.get("failures", {"": error}).values()):
                    raise
                self.counts[f"{kind.__name__}: {error.code}"] += 1
            else:
                self.counts[kind.__name__] += 1
                return
        raise AssertionError(f"{kind.__name__} was in somebody's way {MOST_ATTEMPTS} times")

    def _note(self, **what: Any) -> None:
        self.log.write(json.dumps(what) + "\n")
        self.log.flush()

    def _wait(self) -> float:
        return self.random.choice([0.2, 60.0, 60.0])

    # -- writers on the same tables

    def transfer(self) -> None:
        with self.wh.transaction(self._wait()) as tx:
            done = self._transfer(tx)
        self.transfers += 1
        self._note(transfer=done)

    def bump_with_transfer(self) -> None:
        with self.wh.transaction(self._wait()) as tx:
            done, k = self._transfer(tx), self.random.randrange(2)
            tx.sql(f"UPDATE counters SET n = n + 1 WHERE k = {k}")
        self.transfers += 1
        self._note(transfer=done, counter=k)

    def _transfer(self, tx: Any) -> list[int]:
        source, target = self.random.sample(range(ACCOUNTS), 2)
        amount, self.seq = self.random.randrange(1, 10), self.seq + 1
        found = tx.sql(TOTALS).collect()
        assert (sum(row.total for row in found), sum(row.n for row in found)) == TOTAL, found
        for table in "ab":  # an account may be in either
            tx.sql(f"UPDATE {table} SET balance = balance + CASE id WHEN {target} THEN {amount} ELSE -{amount} END "
                   f"WHERE id IN ({source}, {target})")  # fmt: skip
        tx.sql(f"INSERT INTO journal VALUES ({self.number}, {self.seq}, {source}, {target}, {amount})")
        return [self.seq, source, target, amount]

    def move(self) -> None:
        """An account goes from one table to the other."""
        account = self.random.randrange(ACCOUNTS)
        with self.wh.transaction(self._wait()) as tx:
            here = tx.sql(f"SELECT * FROM a WHERE id = {account}").count() == 1
            source, target = ("a", "b") if here else ("b", "a")
            tx.sql(f"INSERT INTO {target} SELECT * FROM {source} WHERE id = {account}")
            tx.sql(f"DELETE FROM {source} WHERE id = {account}")
        self._note(move=account)

    def bump(self) -> None:
        """A statement by itself."""
        k = self.random.randrange(2)
        self.wh.sql(f"UPDATE counters SET n = n + 1 WHERE k = {k}")
        self._note(counter=k)

    def note(self) -> None:
        """Two statements that only insert: nobody may see the second without the first."""
        self.seq += 1
        self.wh.sql(f"INSERT INTO first_notes VALUES ({self.number}, {self.seq})")
        self._note(first=self.seq)
        seq = self.seq

        def second() -> None:
            self.wh.sql(f"INSERT INTO second_notes SELECT {self.number}, {seq}, count(*) FROM second_notes")
            self._note(second=seq)

        self._do(second)

    # -- a writer on a table of its own

    def own(self) -> None:
        table = f"own_{self.number}"
        self.wh.sql(f"UPDATE {table} SET n = n + 1 WHERE k = 0")
        self._note(own=0)
        with self.wh.transaction() as tx:
            tx.sql(f"UPDATE {table} SET n = n + 1 WHERE k = 1")
        self._note(own=1)

    # -- maintenance

    def refresh(self) -> None:
        self.wh.view(self._view()).refresh(wait_seconds=self._wait())

    def propagate(self) -> None:
        self.wh.view(self._view()).propagate()

    def partial_refresh(self) -> None:
        self.wh.view(self._view()).partial_refresh()

    def refresh_all(self) -> None:
        self.wh.refresh()

    def _view(self) -> str:
        return self.random.choice(list(VIEWS))

    # -- reading

    def _read_on(self, is_over: threading.Event, failed: list[BaseException]) -> None:
        try:
            while not is_over.is_set() or not self.counts["read"]:
                self._do(self.read)
        except BaseException as error:
            failed.append(error)

    def read(self) -> None:
        committed = self.transfers
        found = self.wh.sql(SNAPSHOT).collect()
        parts: dict[str, dict[str, tuple[int, int]]] = {}
        for row in found:
            parts.setdefault(row.what, {})[row.k] = (row.x, row.n)
        for what in ("tables", *POLICIES):
            sums = tuple(map(sum, zip(*parts[what].values(), strict=True)))
            assert sums == TOTAL, (what, parts)
        for what in ("im", "oq"):  # what is kept up to date is of the tables' state; the others have their own
            assert parts[what] == parts["tables"], (what, parts)
        left, came = parts.get("left", {}), parts.get("came", {})
        for account, (balance, _) in parts["account"].items():
            moved = left.get(account, (0, 0))[0] + came.get(account, (0, 0))[0]
            assert balance == BALANCE + moved, (account, parts)
        assert parts["alone"] == {"": (0, 0)}, parts
        assert parts.get("journal", {}).get(str(self.number), (0, 0))[0] >= committed, (committed, parts)
        fresh = self.wh.table(f"totals_{random.choice(list(POLICIES))}", fresh=True).collect()
        assert (sum(row.total for row in fresh), sum(row.n for row in fresh)) == TOTAL, fresh


def work(wh: monus.Warehouse, number: int, seconds: float, seed: int, log: Path) -> Counter[str]:
    with log.open("w") as lines:
        worker = Worker(wh, number, lines, random.Random(2 * seed + number))
        worker.work(seconds)
    return worker.counts


def main(folder: str, number: str, seconds: str, seed: str, log: str) -> None:
    spark = quick_session(Path(log).parent / f"spark_{number}")
    sys.stdout.write("started\n")
    sys.stdout.flush()
    sys.stdin.readline()
    try:
        with monus.connect(folder, spark=spark) as wh:
            counts = work(wh, int(number), float(seconds), int(seed), Path(log))
    except (MonusError, AssertionError):
        traceback.print_exc()
        sys.exit(1)
    finally:
        spark.stop()
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

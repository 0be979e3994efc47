"""A warehouse on a disk that becomes full or read-only under its operations, and what must be there afterwards.

A clear error, the old state intact and readable meanwhile; and once there is room again, the next operation goes on
incrementally and is right. What must be there is computed by Python alone.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import monus
from monus.errors import MonusError

Rows = Counter[tuple[Any, ...]]
CODES = {"DISK_FULL", "FOLDER_READ_ONLY", "CATALOG_UNAVAILABLE", "TRANSACTION_OUTSTANDING"}
VIEWS = {
    "bl": ("t", "ON DEMAND USING LOG"),
    "c": ("t", "ON DEMAND USING COMBINED"),
    "im": ("a", "IMMEDIATE"),
    "dt": ("a", "ON DEMAND USING DIFFERENTIAL"),
}


@dataclass(frozen=True)
class State:
    """The rows of the tables, and of the views as readers see them."""

    t: Rows = field(default_factory=lambda: Counter((x % 3, x) for x in range(8)))
    u: Rows = field(default_factory=lambda: Counter([(0,), (1,), (1,), (2,)]))
    a: Rows = field(default_factory=lambda: Counter((x % 3, x) for x in range(-100, 0)))
    b: Rows = field(default_factory=lambda: Counter([(0,), (1,), (1,), (2,)]))
    bl: Rows = field(default_factory=Counter)
    c: Rows = field(default_factory=Counter)
    im: Rows = field(default_factory=Counter)
    dt: Rows = field(default_factory=Counter)

    def refreshed(self, *views: str) -> State:
        return replace(self, **{name: self.grouped(VIEWS[name][0]) for name in views})

    def grouped(self, table: str) -> Rows:
        rows, groups = (self.t, self.u) if table == "t" else (self.a, self.b)
        joined = [(g, x) for g, x in rows.elements() for (h,) in groups.elements() if g == h]
        values = {g: [x for h, x in joined if h == g] for g, _ in joined}
        return Counter((g, len(of), sum(of)) for g, of in values.items())


class Lab:
    def __init__(self, wh: monus.Warehouse, disk: Path) -> None:
        self.wh, self.disk, self.state, self.key = wh, disk, State(), 100
        for name, columns in {"t": "g INT, x INT", "u": "g INT", "a": "g INT, x INT", "b": "g INT"}.items():
            wh.sql(f"CREATE TABLE {name} ({columns})")
            values = ", ".join(f"({', '.join(map(str, row))})" for row in getattr(self.state, name).elements())
            wh.sql(f"INSERT INTO {name} VALUES {values}")
        for name, (table, policy) in VIEWS.items():
            other = {"t": "u", "a": "b"}[table]
            query = f"SELECT g, count(*) AS n, sum(x) AS s FROM {table} JOIN {other} USING (g) GROUP BY g"
            wh.create_view(name, query, refresh=policy, mode="INCREMENTAL")
        wh.create_view("reader", "SELECT n, count(*) AS c FROM bl GROUP BY n")  # so that `bl` keeps batches
        self.state = self.state.refreshed(*VIEWS)

    def shown(self, names: str) -> dict[str, Rows]:
        """Tables and views as one query reads them."""
        parts = [f"SELECT '{name}' AS name, to_json(struct(*)) AS row FROM {name}" for name in names.split()]
        found: dict[str, Rows] = {name: Counter() for name in names.split()}
        for name, row in self.wh.sql(" UNION ALL ".join(parts)).collect():
            found[name][tuple(json.loads(row).values())] += 1
        return found

    def leftovers(self) -> list[str]:
        catalog = self.wh._catalog
        names = [*self.wh.tables(), *self.wh.views()]
        found = [f"transaction {record.id}" for record in catalog.ledger().outstanding]
        found += [f"intent on {name}" for name in self.wh.views() if catalog.outstanding_intent(name) is not None]
        found += [f"lease on {name}" for name in names if catalog.holder(name) is not None]
        found += [f"unusable {name}" for name in self.wh.views() if not catalog.view(name).usable]
        return found + [str(path) for path in (self.wh.root / "staging").glob("*")]


# -- the operations


@dataclass(frozen=True)
class Operation:
    """`prepare` is done while there is room; `then` brings what is only pending into the view, and is right at last."""

    names: str
    prepare: Callable[[Lab], None]
    act: Callable[[monus.Warehouse, int], object]
    after: Callable[[State, int], State]
    then: Callable[[monus.Warehouse], object] | None = None
    at_last: Callable[[State], State] = lambda state: state
    is_transaction: bool = False


def insert_row(lab: Lab) -> None:
    lab.wh.sql(f"INSERT INTO t VALUES ({lab.key % 3}, {lab.key})")
    lab.state = replace(lab.state, t=lab.state.t + Counter([(lab.key % 3, lab.key)]))


def insert_row_and_propagate(lab: Lab) -> None:
    insert_row(lab)
    lab.wh.view("c").propagate()


def nothing(lab: Lab) -> None:
    return None


def change(wh: monus.Warehouse, key: int) -> None:
    with wh.transaction() as tx:
        tx.sql(f"INSERT INTO a VALUES ({key % 3}, {key}), (1, {key})")
        tx.sql(f"DELETE FROM a WHERE x = {key - 200}")
        tx.sql("INSERT INTO b VALUES (2)")


def changed(state: State, key: int) -> State:
    gone = Counter([((key - 200) % 3, key - 200)])
    a = state.a + Counter([(key % 3, key), (1, key)]) - gone
    return replace(state, a=a, b=state.b + Counter([(2,)])).refreshed("im")


def take_away(wh: monus.Warehouse, key: int) -> None:
    with wh.transaction() as tx:
        tx.delete("a", f"x = {key - 200}")


def taken_away(state: State, key: int) -> State:
    return replace(state, a=state.a - Counter([((key - 200) % 3, key - 200)])).refreshed("im")


def inserted(state: State, key: int) -> State:
    return replace(state, t=state.t + Counter([(0, key)]))


def deleted(state: State, key: int) -> State:
    return replace(state, t=Counter({row: n for row, n in state.t.items() if row[1] < key - 1}))


OPERATIONS = {
    "refresh": Operation(
        "t u bl", insert_row, lambda wh, _: wh.view("bl").refresh(), lambda state, _: state.refreshed("bl")
    ),
    "propagate": Operation(
        "t u c", insert_row, lambda wh, _: wh.view("c").propagate(), lambda state, _: state,
        lambda wh: wh.view("c").partial_refresh(), lambda state: state.refreshed("c"),
    ),
    "partial refresh": Operation(
        "t u c", insert_row_and_propagate, lambda wh, _: wh.view("c").partial_refresh(),
        lambda state, _: state.refreshed("c"),
    ),
    "transaction": Operation(
        "a b im dt", nothing, change, changed,
        lambda wh: wh.view("dt").refresh(), lambda state: state.refreshed("dt"), is_transaction=True,
    ),
    "deletion": Operation(
        "a b im dt", nothing, take_away, taken_away,
        lambda wh: wh.view("dt").refresh(), lambda state: state.refreshed("dt"), is_transaction=True,
    ),
    "insert": Operation(
        "t u", nothing, lambda wh, key: wh.sql(f"INSERT INTO t VALUES (0, {key})"), inserted, is_transaction=True
    ),
    "delete": Operation(
        "t u", insert_row, lambda wh, key: wh.sql(f"DELETE FROM t WHERE x >= {key} - 1"), deleted, is_transaction=True
    ),
}  # fmt: skip


def shown_of(state: State, names: str) -> dict[str, Rows]:
    return {name: getattr(state, name) for name in names.split()}


def tried(lab: Lab, operation: Operation, fault: Any, mend: Callable[[], None]) -> MonusError | None:
    """Do it under a fault of the disk and look; mend the disk, and look whether all goes on."""
    before, after = lab.state, operation.after(lab.state, lab.key)
    error: MonusError | None = None
    try:
        with fault:
            operation.act(lab.wh, lab.key)
    except MonusError as found:
        error = found
    try:
        meanwhile = lab.shown(operation.names)
    finally:
        mend()
    is_committed = error is None or error.code == "TRANSACTION_OUTSTANDING"
    if error is None:
        assert meanwhile == shown_of(after, operation.names)
    else:
        check_clear(error)
        either = [before] if operation.is_transaction else [before, after]
        assert meanwhile in [shown_of(state, operation.names) for state in either]
    if operation.is_transaction:
        assert lab.shown(operation.names) == shown_of(after if is_committed else before, operation.names)
    if not is_committed:
        operation.act(lab.wh, lab.key)
        assert lab.shown(operation.names) == shown_of(after, operation.names)
    lab.state = after
    if operation.then is not None:
        operation.then(lab.wh)
        lab.state = operation.at_last(after)
        assert lab.shown(operation.names) == shown_of(lab.state, operation.names)
    lab.key += 1
    deadline = time.monotonic() + 10
    while lab.leftovers() and time.monotonic() < deadline:  # leases are given back in the background
        time.sleep(0.1)
    assert lab.leftovers() == []
    return error


def check_clear(error: MonusError) -> None:
    """What happened, where, and what to do next; not how the parts of the engine call each other."""
    text = str(error)
    assert error.code in CODES, text
    assert error.hint, text
    assert any(words in text for words in ("/views/", "/pending/", "/tables/", "/staging/", "catalog.db")), text
    assert any(words in text for words in ("full", "written to", "cannot be opened")), text
    assert not any(words in text for words in ("\tat ", "Traceback", "sqlalche", "py4j", "Exception:")), text
    assert len(text) < 1500, text


def check_in_the_end(lab: Lab) -> None:
    """Every view is right, and none was ever computed in full but for its creation."""
    lab.wh.refresh()
    for name in VIEWS:
        assert lab.wh.view(name).verify().ok
        assert [done.code for done in lab.wh.view(name).history() if not done.incremental] == ["FIRST"]

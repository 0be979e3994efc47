"""What must hold in every state of the model of transactions; each function says what is wrong, or None."""

from __future__ import annotations

from collections import Counter

from tests.unit.transaction_world import START, TABLES, A, Reader, Rows, Versions, View, World, changed, query


def wrong_in_table(world: World, table: int) -> str | None:
    """What is committed is there exactly once, what is not is not there at all, and nobody else's row is lost."""
    log = world.logs[table]
    come, gone = Counter(START[table]), Counter[str]()
    for k, record in enumerate(world.records):
        times = sum(commit.transaction == k for commit in log)
        most = 0 if record is None else 1
        least = 1 if record is not None and record.is_applied and table in changed(record.net) else 0
        if not least <= times <= most:
            return f"transaction {k} is {times} times in table {table}, its record is {record}"
        if record is not None and times:
            come.update(record.net[table].come)
            gone.update(record.net[table].gone)
    if table == A:
        come["o"] += world.inserted
        if world.removed and not gone["x"]:
            gone["x"] += 1
    if not gone <= come:
        return f"rows of table {table} were taken by two transactions: {sorted((gone - come).elements())}"
    expected: Rows = tuple(sorted((come - gone).elements()))
    return None if log[-1].rows == expected else f"table {table} has {log[-1].rows}, not {expected}"


def wrong_in_view(world: World, view: View) -> str | None:
    expected = query(world, view.vector)
    return None if view.rows == expected else f"a view at {view.vector} has {view.rows}, its query {expected}"


def wrong_in_state_before(world: World) -> str | None:
    """As long as a transaction is outstanding, readers find the tables and the view together as they were before."""
    for k, record in enumerate(world.records):
        if record is not None and not record.is_applied and record.view_before.vector != record.before:
            return f"readers have to wait: transaction {k} found the view at {record.view_before.vector}"
    return None


def wrong_for_readers(world: World, pins: Versions, view: View | None) -> str | None:
    """Each transaction is wholly there or not at all, also in the immediate view."""
    vectors = (pins,) if view is None else (pins, view.vector)
    for k, record in enumerate(world.records):
        if record is not None:
            found = {
                any(commit.transaction == k for commit in world.logs[table][: vector[table] + 1])
                for table in changed(record.net)
                for vector in vectors
            }
            if len(found) > 1:
                return f"a reader at {vectors} sees a part of transaction {k}"
    return None


def wrong_for_reader(world: World, reader: Reader, reads_view: bool) -> str | None:
    if reader.at != "answered":
        return None
    if reads_view and reader.view.rows != query(world, reader.pins):
        return f"a reader sees tables at {reader.pins} and a view at {reader.view.vector}"
    return wrong_for_readers(world, reader.pins, reader.view if reads_view else None)


__all__ = [
    "TABLES",
    "wrong_for_reader",
    "wrong_for_readers",
    "wrong_in_state_before",
    "wrong_in_table",
    "wrong_in_view",
]

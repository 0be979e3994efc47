"""What there is in the model of transactions: two tables, two views over both, the catalog, owners, a reader.

Rows have names, and tables and views are bags of them. The views are both A ⊎ B; the differential one stands for its
table and its pending change together.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Rows = tuple[str, ...]
Versions = tuple[int, int]
A, B, IMMEDIATE, DIFFERENTIAL = range(4)
TABLES, VIEWS, ALL = (A, B), (IMMEDIATE, DIFFERENTIAL), range(4)
START: tuple[Rows, Rows] = (("x", "y"), ("z",))


class Change(NamedTuple):
    """What a transaction does to a table: rows that leave, rows that come; `all`: what leaves is all that it saw."""

    gone: Rows = ()
    come: Rows = ()
    all: bool = False


Net = tuple[Change, Change]
NOTHING = Change()
UPDATES: Net = (Change(("x",), ("a1",)), Change((), ("b1",)))
UPDATES_TOO: Net = (Change(("x",), ("a2",)), Change((), ("b2",)))
UPDATES_A: Net = (Change(("x",), ("a1",)), NOTHING)
INSERTS: Net = (Change((), ("a2",)), Change((), ("b2",)))
INSERTS_INTO_A: Net = (Change((), ("a1",)), NOTHING)
INSERTS_INTO_B: Net = (NOTHING, Change((), ("b2",)))
OVERWRITES: Net = (Change((), ("a1",), all=True), Change((), ("b1",)))


class Commit(NamedTuple):
    """A version of a table."""

    number: int
    rows: Rows
    transaction: int | None = None
    """Who made it; nobody in the protocol looks at this."""
    missing: int = 0
    """How many rows were to leave and were not there: CONFLICT_OUTSIDE."""


class View(NamedTuple):
    vector: Versions = (0, 0)
    rows: Rows = (*START[A], *START[B])


class Lease(NamedTuple):
    epoch: int = 0
    last_number: int = 0
    outstanding: int | None = None


class Record(NamedTuple):
    """A transaction in the catalog: its intent, until it is applied."""

    net: Net
    numbers: Versions
    before: Versions
    view_before: View
    is_applied: bool = False
    is_staged: bool = True
    """Whether its rows are still in the staging area."""


class Owner(NamedTuple):
    """What an owner remembers between two steps; all of it is lost when it dies."""

    at: str = "idle"
    transaction: int = -1
    """The one that it is at."""
    own: int = -1
    """Its own, also while it completes somebody else's."""
    staged: Net = (NOTHING, NOTHING)
    begin: Versions = (0, 0)
    epochs: tuple[int, ...] = ()
    net: Net = (NOTHING, NOTHING)
    before: Versions = (0, 0)
    numbers: Versions = (0, 0)
    reached: tuple[int | None, int | None] = (None, None)
    head: int = 0
    has_derived: bool = False
    view: int = 0
    new: View = View()


class Reader(NamedTuple):
    """A query on both tables, and on the immediate view."""

    at: str = "ledger"
    count: int = 0
    before: tuple[int | None, int | None] = (None, None)
    view_before: View | None = None
    pins: Versions = (0, 0)
    view: View = View()


class World(NamedTuple):
    owners: tuple[Owner, ...]
    leases: tuple[Lease, ...] = (Lease(),) * 4
    records: tuple[Record | None, ...] = (None, None)
    count: int = 0
    """Of intents and ends."""
    logs: tuple[tuple[Commit, ...], tuple[Commit, ...]] = ((Commit(0, START[A]),), (Commit(0, START[B]),))
    views: tuple[View, View] = (View(), View())
    reader: Reader | None = None
    begun: tuple[int, ...] = ()
    inserted: int = 0
    removed: int = 0
    acquired: int = 0
    refreshed: int = 0


# -- bags


def merged(*parts: Rows) -> Rows:
    return tuple(sorted(row for part in parts for row in part))


def less(rows: Rows, gone: Rows) -> Rows:
    """rows ∸ gone"""
    return tuple(sorted((Counter(rows) - Counter(gone)).elements()))


# -- tables and views


def changed(net: Net) -> tuple[int, ...]:
    """The tables that it changes."""
    return tuple(table for table in TABLES if net[table] != NOTHING)


def heads(world: World) -> Versions:
    return len(world.logs[A]) - 1, len(world.logs[B]) - 1


def query(world: World, vector: Versions) -> Rows:
    """The views' query, over the tables at these versions."""
    return merged(world.logs[A][vector[A]].rows, world.logs[B][vector[B]].rows)


def at_versions(world: World, view: View, vector: Versions) -> View:
    """The view brought to these versions by the tables' feeds."""
    old, new = query(world, view.vector), query(world, vector)
    return View(vector, merged(less(view.rows, less(old, new)), less(new, old)))


def removed_since(world: World, table: int, begin: int, upto: int) -> Rows:
    log = world.logs[table]
    return merged(*(less(log[v - 1].rows, log[v].rows) for v in range(begin + 1, upto + 1)))


def outstanding(world: World) -> list[int]:
    return [k for k, record in enumerate(world.records) if record is not None and not record.is_applied]


# -- a world with something else in it


def put(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return (*values[:place], value, *values[place + 1 :])


def with_commit(world: World, table: int, commit: Commit) -> World:
    return world._replace(logs=put(world.logs, table, (*world.logs[table], commit)))


def with_leases_taken(world: World, resources: tuple[int, ...]) -> tuple[World, tuple[int, ...]]:
    """Epoch + 1, whoever held them; and the epochs, 0 where no lease was taken."""
    leases = tuple(
        lease._replace(epoch=lease.epoch + 1) if resource in resources else lease
        for resource, lease in enumerate(world.leases)
    )
    epochs = tuple(lease.epoch if resource in resources else 0 for resource, lease in enumerate(leases))
    return world._replace(leases=leases), epochs

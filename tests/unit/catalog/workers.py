"""What other processes do in the tests of the catalog."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from pathlib import Path

from monus.catalog.catalog import Catalog
from monus.catalog.owners import Owner
from monus.catalog.records import TransactionPart
from monus.catalog.transactions import Reached
from monus.errors import MonusError, ViewBusy
from tests.unit.catalog.samples import LONG, do_refresh, publish


def open_and_say_hello(location: str, pipe: Connection) -> None:
    """Open the catalog together with others, as soon as told."""
    pipe.send("ready")
    pipe.recv()
    with Catalog.open(location) as catalog:
        pipe.send(len(catalog.views()))


def refresh_often(location: str, counter: Path, times: int, pipe: Connection) -> None:
    """Refresh one view again and again against others; the counter shows two at once by a lost increment."""
    pipe.send("ready")
    pipe.recv()
    numbers = []
    with Catalog.open(location) as catalog:
        for _ in range(times):
            lease = catalog.acquire("big_sales", Owner.here(), LONG, wait_seconds=60)
            seen = int(counter.read_text())
            numbers.append(do_refresh(catalog, lease))
            counter.write_text(str(seen + 1))
            catalog.release(lease)
    pipe.send(numbers)


def hold(location: str, ttl: float, pipe: Connection) -> None:
    """Begin something, report, and once told (if ever) go on as if nothing had happened."""
    with Catalog.open(location) as catalog:
        lease = catalog.acquire("Big_Sales", Owner.here(), ttl)
        number = catalog.begin_intent(lease, "refresh", {"Sales": 0}, {"Sales": 1})
        pipe.send((lease.epoch, number))
        pipe.recv()
        try:
            publish(catalog, lease, number, version=666)
        except MonusError as error:
            pipe.send(error.code)
        else:
            pipe.send("published")


def acquire_once(location: str, pipe: Connection) -> None:
    """Try for the lease at the same moment as others, and keep it."""
    with Catalog.open(location) as catalog:
        pipe.send("ready")
        pipe.recv()
        try:
            pipe.send(catalog.acquire("Big_Sales", Owner.here(), LONG).epoch)
        except MonusError as error:
            pipe.send(error.code)
        pipe.recv()  # until the test is over


def change_often(location: str, names: list[str], times: int, pipe: Connection) -> None:
    """Commit transactions over these tables against others, and report what numbers each got."""
    pipe.send("ready")
    pipe.recv()
    given = []
    with Catalog.open(location) as catalog:
        for _ in range(times):
            held = None
            while held is None:
                try:
                    held = catalog.acquire_all(names, Owner.here(), LONG)
                except ViewBusy:
                    time.sleep(0.005)
            record = catalog.commit_transaction(held, [TransactionPart(name, "table", {}) for name in names], None, 1)
            given.append({part.name: part.number for part in record.parts})
            catalog.record_reached(held, record, {name.lower(): Reached(record.sequence) for name in names})
            catalog.end_transaction(held, record)
            catalog.release_all(held.values())
    pipe.send(given)


def hold_all(location: str, names: list[str], pipe: Connection) -> None:
    """Commit a transaction, report, and never go on with it."""
    with Catalog.open(location) as catalog:
        held = catalog.acquire_all(names, Owner.here(), LONG)
        parts = [TransactionPart(name, "table", {"version": 3}) for name in names]
        pipe.send(catalog.commit_transaction(held, parts, "/w/staging", 1))
        pipe.recv()


def acquire_all_once(location: str, names: list[str], pipe: Connection) -> None:
    """Try for several leases at the same moment as others, and keep them."""
    with Catalog.open(location) as catalog:
        pipe.send("ready")
        pipe.recv()
        try:
            pipe.send(sorted(catalog.acquire_all(names, Owner.here(), LONG)))
        except MonusError as error:
            pipe.send(error.code)
        pipe.recv()  # until the test is over

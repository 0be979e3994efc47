"""Holding the leases of tables and views for as long as an operation takes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.catalog.leases import Lease
from monus.catalog.owners import Owner
from monus.catalog.records import key_of
from monus.errors import CatalogUnavailable, LeaseLost, MonusError, ViewBusy, WarehouseClosed

logger = logging.getLogger(__name__)

LEASE_SECONDS = 60.0
WAIT_SECONDS = 60.0
_PAUSE = 0.05
_RELEASE_PAUSE = 1.0


def owner_here(spark: SparkSession) -> Owner:
    """A piece of work of this process and of the Java process that writes for it."""
    jvm: Any = spark._jvm
    return Owner.here(jvm_pid=int(jvm.java.lang.ProcessHandle.current().pid()))


@contextmanager
def held_lease(catalog: Catalog, spark: SparkSession, view: str, wait_seconds: float = WAIT_SECONDS) -> Iterator[Lease]:
    """The view's lease, renewed in the background for as long as the work takes."""
    with held_leases(catalog, spark, [view], wait_seconds) as held:
        yield held[key_of(view)]


@contextmanager
def held_leases(
    catalog: Catalog, spark: SparkSession, names: Sequence[str], wait_seconds: float = WAIT_SECONDS
) -> Iterator[dict[str, Lease]]:
    """The leases of several tables and views by key, taken all at once and renewed for as long as the work takes."""
    owner = owner_here(spark)
    held = _acquire(catalog, names, owner, wait_seconds)
    stop = threading.Event()

    def renew() -> None:
        lost: set[str] = set()
        while not stop.wait(LEASE_SECONDS / 3):
            for key, lease in held.items():
                try:
                    if key not in lost:
                        catalog.renew(lease, LEASE_SECONDS)
                except LeaseLost:
                    lost.add(key)  # whoever took it over; our next conditional write finds out
                except MonusError:
                    logger.warning("The lease of %s could not be renewed; it is tried again", key, exc_info=True)

    thread = threading.Thread(target=renew, name=f"monus-lease-{names[0]}", daemon=True)
    thread.start()
    try:
        yield held
    finally:
        stop.set()
        thread.join()
        _release(catalog, owner, list(held.values()))


def _release(catalog: Catalog, owner: Owner, held: Sequence[Lease]) -> None:
    """Give them back; where the catalog cannot be written to just now, as soon as it can be.

    What was done under them is done, so that this must not be an error. This process goes on at once: it knows that
    the work has ended. Others wait until the leases are given back, or the process ends.
    """
    try:
        catalog.release_all(held)
        return
    except CatalogUnavailable:
        names = [lease.resource for lease in held]
        logger.warning("The leases of %s could not be given back yet", names, exc_info=True)
    owner.end()

    def again() -> None:
        while True:
            time.sleep(_RELEASE_PAUSE)
            try:
                catalog.release_all(held)
                return
            except CatalogUnavailable:
                continue
            except WarehouseClosed:
                return

    threading.Thread(target=again, name=f"monus-release-{held[0].resource}", daemon=True).start()


def _acquire(catalog: Catalog, names: Sequence[str], owner: Owner, wait_seconds: float) -> dict[str, Lease]:
    """On a local disk a commit is not atomic against a stalled process: a living one is waited for."""
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return catalog.acquire_all(names, owner, LEASE_SECONDS)
        except ViewBusy:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_PAUSE)

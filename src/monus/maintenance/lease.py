"""Holding the lease of a view for as long as an operation takes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.catalog.leases import Lease
from monus.catalog.owners import Owner
from monus.errors import LeaseLost, MonusError, ViewBusy

logger = logging.getLogger(__name__)

LEASE_SECONDS = 60.0
WAIT_SECONDS = 60.0
_PAUSE = 0.05


@contextmanager
def held_lease(catalog: Catalog, spark: SparkSession, view: str, wait_seconds: float = WAIT_SECONDS) -> Iterator[Lease]:
    """The view's lease, renewed in the background for as long as the work takes."""
    jvm: Any = spark._jvm
    owner = Owner.here(jvm_pid=int(jvm.java.lang.ProcessHandle.current().pid()))
    lease = _acquire(catalog, view, owner, wait_seconds)
    stop = threading.Event()

    def renew() -> None:
        while not stop.wait(LEASE_SECONDS / 3):
            try:
                catalog.renew(lease, LEASE_SECONDS)
            except LeaseLost:
                return  # whoever took it over; our next conditional write finds out
            except MonusError:
                logger.warning("The lease of %s could not be renewed; it is tried again", view, exc_info=True)

    thread = threading.Thread(target=renew, name=f"monus-lease-{view}", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        stop.set()
        thread.join()
        catalog.release(lease)


def _acquire(catalog: Catalog, view: str, owner: Owner, wait_seconds: float) -> Lease:
    """On a local disk a commit is not atomic against a stalled process: a living one is waited for.

    Whoever runs on this machine must be dead, Java process included; whoever does not must be late.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        holder = catalog.holder(view)
        if holder is None or holder.owner.host != owner.host or holder.owner.is_dead():
            try:
                return catalog.acquire(view, owner, LEASE_SECONDS)
            except ViewBusy:
                holder = catalog.holder(view)  # somebody was quicker, or lives on another machine
        if time.monotonic() >= deadline:
            who = "another process" if holder is None else f"{holder.owner} since {holder.acquired_at:%H:%M:%S} UTC"
            raise ViewBusy(
                f"The view '{view}' is being maintained by {who}.",
                "Try again when it is done, or wait longer.",
                view=view,
            )
        time.sleep(_PAUSE)

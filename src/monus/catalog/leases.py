"""Leases: who may work on a view, and how a former owner is shut out.

Every acquisition raises the epoch, which never goes back, not even when the view is dropped. An owner that was
paused past its lease may go on believing in it; but each of its writes asks for its own epoch, matches no row,
and raises LeaseLost. The clock only decides when to take over; correctness hangs on the epoch.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, Row, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from monus.catalog.owners import Owner
from monus.catalog.part import CatalogPart
from monus.catalog.records import key_of
from monus.catalog.schema import leases
from monus.errors import LeaseLost, ViewBusy

logger = logging.getLogger(__name__)

SHORTEST_PAUSE = 0.01
LONGEST_PAUSE = 0.25


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a resource. `outstanding` is the intent that an earlier owner left, if any."""

    resource: str
    epoch: int
    owner: Owner
    acquired_at: datetime
    expires_at: datetime
    outstanding: int | None


class Leases(CatalogPart):
    def acquire(self, resource: str, owner: Owner, ttl: float, wait_seconds: float = 0.0) -> Lease:
        """Take the lease, at once if it is free, expired or held by a dead process, else within `wait_seconds`."""
        deadline = time.monotonic() + wait_seconds
        pause = SHORTEST_PAUSE
        while True:
            holder = self.holder(resource)
            now = self._database.now()
            if holder is not None and holder.owner.token == owner.token and holder.expires_at > now:
                raise ViewBusy(f"This work already holds {resource}.", "Release it before it is acquired again.")
            if holder is None or _is_free(holder, now):
                lease = self._take(resource, owner, ttl, holder)
                if lease is not None:
                    return lease
                continue  # somebody else was quicker: look who
            left = deadline - time.monotonic()
            if left <= 0:
                raise _busy(holder)
            time.sleep(min(left, pause * random.uniform(0.5, 1.0)))
            pause = min(pause * 2, LONGEST_PAUSE)

    def acquire_all(self, resources: Sequence[str], owner: Owner, ttl: float) -> dict[str, Lease]:
        """The leases of all of them by key, in one SQL transaction; ViewBusy and none of them if one is held.

        On a local disk a commit is not atomic against a stalled process, so whoever runs on this machine must be dead
        before it is taken over; whoever does not must be late.
        """
        taken: dict[str, Lease] = {}
        formers: list[Lease] = []
        with self._database.write() as connection:
            now = self._database.now()
            for key, resource in sorted({key_of(resource): resource for resource in resources}.items()):
                ensure_lease(connection, resource)
                this = leases.c.resource == key
                row = connection.execute(select(leases).where(this)).one()
                if row.token is not None:
                    former = _lease(row)
                    if not _may_be_taken(former, owner, now):
                        raise _busy(former)
                    formers.append(former)
                connection.execute(
                    update(leases).where(this).values(epoch=leases.c.epoch + 1, **_held_by(owner, now, ttl))
                )
                taken[key] = _lease(connection.execute(select(leases).where(this)).one())
        for former in formers:
            logger.warning("Took %s over from %s, which is dead or late", former.resource, former.owner)
        return taken

    def holder(self, resource: str) -> Lease | None:
        """The lease as it stands, or None when nobody holds it. It may have expired."""
        with self._database.read() as connection:
            row = connection.execute(select(leases).where(leases.c.resource == key_of(resource))).one_or_none()
        return None if row is None or row.token is None else _lease(row)

    def renew(self, lease: Lease, ttl: float) -> Lease:
        """Hold the lease for another `ttl` seconds from now, if it was not taken over."""
        expires_at = self._database.now() + timedelta(seconds=ttl)
        with self._database.write() as connection:
            change_lease(connection, lease, mine(lease), expires_at=expires_at)
        return replace(lease, expires_at=expires_at)

    def release(self, lease: Lease) -> None:
        """Give the lease back; nothing happens if somebody else took it over. An intent stays outstanding."""
        self.release_all([lease])

    def release_all(self, held: Iterable[Lease]) -> None:
        free = {"token": None, "owner": None, "acquired_at": None, "expires_at": None}
        with self._database.write() as connection:
            for lease in held:
                connection.execute(update(leases).where(mine(lease)).values(**free))

    def _take(self, resource: str, owner: Owner, ttl: float, former: Lease | None) -> Lease | None:
        """Make the owner the next one after `former`, or answer None if the lease changed in the meantime."""
        key = key_of(resource)
        now = self._database.now()
        unchanged = (
            leases.c.token.is_(None) if former is None else and_(mine(former), leases.c.expires_at == former.expires_at)
        )
        with self._database.write() as connection:
            ensure_lease(connection, resource)
            taken = connection.execute(
                update(leases)
                .where(leases.c.resource == key, unchanged)
                .values(epoch=leases.c.epoch + 1, **_held_by(owner, now, ttl))
            )
            if taken.rowcount == 0:
                return None
            lease = _lease(connection.execute(select(leases).where(leases.c.resource == key)).one())
        if former is not None:
            logger.warning("Took %s over from %s, which is dead or late", resource, former.owner)
        return lease


def mine(lease: Lease) -> ColumnElement[bool]:
    """The condition that every write of an owner carries."""
    return and_(
        leases.c.resource == key_of(lease.resource),
        leases.c.epoch == lease.epoch,
        leases.c.token == lease.owner.token,
    )


def change_lease(connection: Connection, lease: Lease, condition: ColumnElement[bool], **values: object) -> None:
    """Change the row of the lease where the condition holds; where it does not, the lease is lost."""
    if connection.execute(update(leases).where(condition).values(**values)).rowcount == 0:
        raise lost(connection, lease)


def require_lease(connection: Connection, lease: Lease) -> None:
    """Go on only as the owner. Writing the row, rather than reading it, keeps others from taking it meanwhile."""
    change_lease(connection, lease, mine(lease), epoch=leases.c.epoch)


def ensure_lease(connection: Connection, resource: str, last_number: int = 0) -> None:
    """Have a row for the resource, whose next number is higher than `last_number`."""
    key = key_of(resource)
    known = connection.scalar(select(leases.c.last_number).where(leases.c.resource == key))
    if known is None:
        try:
            with connection.begin_nested():
                connection.execute(insert(leases).values(resource=key, name=resource, epoch=0, last_number=last_number))
        except IntegrityError:
            known = 0  # another process was quicker
    if known is not None and last_number > 0:
        connection.execute(
            update(leases)
            .where(leases.c.resource == key, leases.c.last_number < last_number)
            .values(last_number=last_number)
        )


def lost(connection: Connection, lease: Lease) -> LeaseLost:
    """The error for a write that matched no row, with what is there instead."""
    row = connection.execute(select(leases).where(leases.c.resource == key_of(lease.resource))).one_or_none()
    if row is None or row.token is None:
        what = "it was released"
    elif row.epoch != lease.epoch:
        what = f"{Owner.from_json(row.owner)} took it over"
    elif row.outstanding is None:
        what = "its intent is already published or discarded"
    else:
        what = f"intent {row.outstanding} is outstanding"
    return LeaseLost(
        f"The lease on {lease.resource} no longer allows this: {what}.",
        "Nothing was published; try again.",
        resource=lease.resource,
        epoch=lease.epoch,
    )


def _is_free(lease: Lease, now: datetime) -> bool:
    return lease.expires_at <= now or lease.owner.is_dead()


def _may_be_taken(lease: Lease, owner: Owner, now: datetime) -> bool:
    return lease.owner.is_dead() or (lease.expires_at <= now and lease.owner.host != owner.host)


def _held_by(owner: Owner, now: datetime, ttl: float) -> dict[str, object]:
    return {
        "token": owner.token,
        "owner": owner.to_json(),
        "acquired_at": now,
        "expires_at": now + timedelta(seconds=ttl),
    }


def _busy(held: Lease) -> ViewBusy:
    since = f"{held.acquired_at:%Y-%m-%d %H:%M:%S} UTC"
    return ViewBusy(
        f"'{held.resource}' is being maintained by {held.owner} since {since}.",
        "Try again when it is done, or wait longer.",
        resource=held.resource,
        owner=str(held.owner),
        since=held.acquired_at,
    )


def _lease(row: Row[tuple[object, ...]]) -> Lease:
    return Lease(
        resource=row.name,
        epoch=row.epoch,
        owner=Owner.from_json(row.owner),
        acquired_at=row.acquired_at,
        expires_at=row.expires_at,
        outstanding=row.outstanding,
    )

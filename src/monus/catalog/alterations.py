"""What may change about a view that stays the same view: its policy, its mode, its name, and its next ticks."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from sqlalchemy import Connection, and_, delete, insert, literal, select, update

from monus.catalog.leases import Lease, change_lease, ensure_lease, mine, require_lease
from monus.catalog.part import CatalogPart
from monus.catalog.records import key_of
from monus.catalog.schema import (
    batches,
    intents,
    leases,
    names,
    refreshes,
    sources,
    tasks,
    views,
)
from monus.catalog.tables import claim_name, refuse_if_outstanding, refuse_if_read
from monus.catalog.tasks import LAZY
from monus.catalog.views import unknown_view

TickKind: TypeAlias = Literal["refresh", "propagate"]


class Alterations(CatalogPart):
    def set_policy(
        self, lease: Lease, policy: str, next_refresh: datetime | None, next_propagate: datetime | None
    ) -> None:
        """Another policy, with the first ticks that it has."""
        with self._database.write() as connection:
            _set(connection, lease, policy=policy, next_refresh=next_refresh, next_propagate=next_propagate)
            if policy != LAZY:
                connection.execute(delete(tasks).where(tasks.c.view_key == key_of(lease.resource)))

    def set_mode(self, lease: Lease, mode: str) -> None:
        with self._database.write() as connection:
            _set(connection, lease, mode=mode)

    def rename_view(self, lease: Lease, new_name: str) -> None:
        """Give the view another name, under which its numbers go on; its table stays where it is.

        The lease stays one on the former name, whose epochs and numbers are kept as those of a dropped view are.
        """
        old, new = key_of(lease.resource), key_of(new_name)
        with self._database.write() as connection:
            change_lease(connection, lease, and_(mine(lease), leases.c.outstanding.is_(None)), epoch=leases.c.epoch)
            if connection.scalar(select(views.c.key).where(views.c.key == old)) is None:
                raise unknown_view(lease.resource)
            refuse_if_read(connection, lease.resource)
            refuse_if_outstanding(connection, lease.resource)
            if new == old:
                connection.execute(update(names).where(names.c.key == old).values(name=new_name))
                connection.execute(update(views).where(views.c.key == old).values(name=new_name))
            else:
                _move(connection, old, new, new_name)
            connection.execute(update(leases).where(leases.c.resource == new).values(name=new_name))
            connection.execute(update(refreshes).where(refreshes.c.view_key == old).values(view_key=new, view=new_name))

    def claim_tick(self, view: str, kind: TickKind, seen: datetime, following: datetime | None) -> bool:
        """Move a tick on, if it is still the one that was seen: of several who try, one gets it."""
        tick = views.c.next_refresh if kind == "refresh" else views.c.next_propagate
        with self._database.write() as connection:
            claimed = connection.execute(
                update(views).where(views.c.key == key_of(view), tick == seen).values({tick: following})
            )
            return claimed.rowcount == 1


def _set(connection: Connection, lease: Lease, **values: object) -> None:
    require_lease(connection, lease)
    changed = connection.execute(update(views).where(views.c.key == key_of(lease.resource)).values(**values))
    if changed.rowcount == 0:
        raise unknown_view(lease.resource)


def _move(connection: Connection, old: str, new: str, new_name: str) -> None:
    """Put a copy of the view under the new key, hang on it what hangs on the old one, and remove that.

    A key that others refer to cannot be changed in place.
    """
    claim_name(connection, new_name, "view")
    moved = {"key": literal(new), "name": literal(new_name)}
    copied = [moved.get(column.name, column) for column in views.c]
    connection.execute(insert(views).from_select(list(views.c), select(*copied).where(views.c.key == old)))
    for dependent in (intents, batches, sources, tasks):
        connection.execute(update(dependent).where(dependent.c.view_key == old).values(view_key=new))
    connection.execute(delete(views).where(views.c.key == old))
    connection.execute(delete(names).where(names.c.key == old))
    last_number = connection.scalar(select(leases.c.last_number).where(leases.c.resource == old))
    ensure_lease(connection, new_name, int(last_number or 0))

"""The SQL steps of the protocol: intent, publication, and the batches that were published.

An intent takes the view's next number; a number is never used twice, not even after it was discarded, because
Delta skips a number that it has seen. Each step is one transaction whose first statement writes the lease's row
under the condition `epoch = mine AND outstanding = n`: no row, no step.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, Row, and_, delete, insert, select, update

from monus.catalog.history import write_refresh
from monus.catalog.leases import Lease, change_lease, mine, require_lease
from monus.catalog.part import CatalogPart
from monus.catalog.records import BatchRecord, Intent, RefreshRecord, State, key_of
from monus.catalog.schema import batches, intents, leases, views
from monus.catalog.tasks import last_sequence, remove_covered, write_tasks
from monus.catalog.views import unknown_view


class Publication(CatalogPart):
    def begin_intent(self, lease: Lease, operation: str, from_state: State, to_state: State) -> int:
        """Say what is about to be done, and get its number. What an earlier owner left must be settled before."""
        with self._database.write() as connection:
            next_number = leases.c.last_number + 1
            nothing_outstanding = and_(mine(lease), leases.c.outstanding.is_(None))
            change_lease(connection, lease, nothing_outstanding, last_number=next_number, outstanding=next_number)
            key = key_of(lease.resource)
            if connection.scalar(select(views.c.key).where(views.c.key == key)) is None:
                raise unknown_view(lease.resource)
            number = _last_number(connection, lease)
            connection.execute(
                insert(intents).values(
                    view_key=key,
                    number=number,
                    epoch=lease.epoch,
                    operation=operation,
                    from_state=dict(from_state),
                    to_state=dict(to_state),
                    started_at=self._database.now(),
                )
            )
        return number

    def publish(
        self,
        lease: Lease,
        number: int,
        *,
        version: int | None,
        vector: State,
        pending_vector: State,
        pending_from: int,
        batch_has_rows: bool,
        operation: str,
        refresh: RefreshRecord,
        table_id: str | None = None,
        mends: bool = False,
    ) -> None:
        """Make what was done under this number the state of the view, all at once. The lease is kept.

        `mends`: all rows were computed anew, so the view is usable whatever it was before.
        """
        with self._database.write() as connection:
            intent = _settle(connection, lease, number)
            values: dict[str, object] = {
                "batch": number,
                "version": version,
                "vector": dict(vector),
                "pending_vector": dict(pending_vector),
                "pending_from": pending_from,
            }
            if table_id is not None:
                values["table_id"] = table_id
            if mends:
                values |= {"unusable_code": None, "unusable_sentence": None}
            connection.execute(update(views).where(views.c.key == key_of(lease.resource)).values(**values))
            connection.execute(
                insert(batches).values(
                    view_key=key_of(lease.resource),
                    number=number,
                    operation=operation,
                    version=version,
                    from_vector=intent.from_state,
                    to_vector=intent.to_state,
                    has_rows=batch_has_rows,
                    published_at=self._database.now(),
                )
            )
            remove_covered(connection, key_of(lease.resource), vector)
            if pending_from > number:  # folded: those that read this view see it
                _leave_tasks(connection, lease, number, self._database.now())
            write_refresh(connection, refresh)

    def publish_vector_only(
        self,
        lease: Lease,
        *,
        vector: State,
        pending_vector: State,
        refresh: RefreshRecord | None = None,
        folds: bool = False,
    ) -> None:
        """Move the vectors of a view whose rows stay what they are: no commit, no number, no intent.

        `folds`: what is pending comes to nothing, and is pending no longer.
        """
        values: dict[str, object] = {"vector": dict(vector), "pending_vector": dict(pending_vector)}
        if folds:
            values["pending_from"] = views.c.batch + 1
        with self._database.write() as connection:
            require_lease(connection, lease)
            changed = connection.execute(update(views).where(views.c.key == key_of(lease.resource)).values(**values))
            if changed.rowcount == 0:
                raise unknown_view(lease.resource)
            remove_covered(connection, key_of(lease.resource), vector)
            if refresh is not None:
                write_refresh(connection, refresh)

    def move_version(self, lease: Lease, version: int) -> None:
        """A later version of the view's table has the same rows: read that one from now on."""
        key = key_of(lease.resource)
        with self._database.write() as connection:
            change_lease(connection, lease, and_(mine(lease), leases.c.outstanding.is_(None)), epoch=leases.c.epoch)
            former = select(views.c.version).where(views.c.key == key).scalar_subquery()
            same_rows = and_(batches.c.view_key == key, batches.c.version == former)
            connection.execute(update(batches).where(same_rows).values(version=version))
            connection.execute(update(views).where(views.c.key == key).values(version=version))

    def set_table_id(self, lease: Lease, table_id: str) -> None:
        """The id of the view's own table, once it is made."""
        with self._database.write() as connection:
            require_lease(connection, lease)
            connection.execute(update(views).where(views.c.key == key_of(lease.resource)).values(table_id=table_id))

    def discard_intent(self, lease: Lease, number: int) -> None:
        """Give the intent up; its number stays used."""
        with self._database.write() as connection:
            _settle(connection, lease, number)

    def fence(self, lease: Lease, number: int) -> int:
        """A number above that of the outstanding intent: once it is committed, the intent's can no longer land."""
        with self._database.write() as connection:
            still_mine = and_(mine(lease), leases.c.outstanding == number)
            change_lease(connection, lease, still_mine, last_number=leases.c.last_number + 1)
            return _last_number(connection, lease)

    def outstanding_intent(self, view: str) -> Intent | None:
        with self._database.read() as connection:
            row = connection.execute(
                select(intents, views.c.name)
                .join(views, views.c.key == intents.c.view_key)
                .where(intents.c.view_key == key_of(view))
            ).one_or_none()
        if row is None:
            return None
        return Intent(row.name, row.number, row.epoch, row.operation, row.from_state, row.to_state, row.started_at)

    def batches(self, view: str, after: int, upto: int) -> list[BatchRecord]:
        """The published operations with `after` < number <= `upto`, in order."""
        with self._database.read() as connection:
            rows = connection.execute(
                select(batches, views.c.name)
                .join(views, views.c.key == batches.c.view_key)
                .where(batches.c.view_key == key_of(view), batches.c.number > after, batches.c.number <= upto)
                .order_by(batches.c.number)
            )
            return [_batch(row) for row in rows]

    def give_up_batches(self, lease: Lease, upto: int) -> list[int]:
        """From now on the rows of the batches up to and with this number must not be read; which had rows."""
        these = and_(batches.c.view_key == key_of(lease.resource), batches.c.number <= upto, batches.c.has_rows)
        with self._database.write() as connection:
            require_lease(connection, lease)
            numbers = list(connection.scalars(select(batches.c.number).where(these).order_by(batches.c.number)))
            connection.execute(update(batches).where(these).values(has_rows=False))
        return numbers

    def forget_batches(self, lease: Lease, upto: int) -> None:
        """Forget the operations up to and with this number, which nobody needs any more."""
        with self._database.write() as connection:
            require_lease(connection, lease)
            these = and_(batches.c.view_key == key_of(lease.resource), batches.c.number <= upto)
            connection.execute(delete(batches).where(these))


def _leave_tasks(connection: Connection, lease: Lease, number: int, now: datetime) -> None:
    """For the lazy views over this one."""
    key = key_of(lease.resource)
    table_id = connection.scalar(select(views.c.table_id).where(views.c.key == key))
    write_tasks(connection, now, last_sequence(connection), None, {key: {"id": table_id, "batch": number}})


def _settle(connection: Connection, lease: Lease, number: int) -> Row[tuple[object, ...]]:
    """As the owner, take the outstanding intent of this number away."""
    change_lease(connection, lease, and_(mine(lease), leases.c.outstanding == number), outstanding=None)
    this = intents.c.view_key == key_of(lease.resource)
    intent = connection.execute(select(intents).where(this)).one()
    connection.execute(delete(intents).where(this))
    return intent


def _last_number(connection: Connection, lease: Lease) -> int:
    number = connection.scalar(select(leases.c.last_number).where(leases.c.resource == key_of(lease.resource)))
    assert isinstance(number, int)  # the row was just written
    return number


def _batch(row: Row[tuple[object, ...]]) -> BatchRecord:
    return BatchRecord(
        view=row.name,
        number=row.number,
        operation=row.operation,
        version=row.version,
        from_vector=row.from_vector,
        to_vector=row.to_vector,
        has_rows=row.has_rows,
        published_at=row.published_at,
    )

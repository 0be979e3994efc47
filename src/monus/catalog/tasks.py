"""Tasks: what a transaction leaves to be done for the lazy views that read what it changed.

A task is written in the SQL transaction that commits the change, and removed in the one that publishes a state of the
view that covers it: none is lost, and none is there for what is done. *What* is to be done follows from the vectors
alone; tasks tell for whose transaction it is, since when it waits, and in which order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from monus.catalog.part import CatalogPart
from monus.catalog.records import State, TaskRecord, key_of
from monus.catalog.schema import leases, sources, tasks, transactions, views

LAZY = "LAZY"
Ignores = Callable[[Mapping[str, Any], str], bool]
"""Whether a view of this definition does not care for what was changed in this source."""


class Tasks(CatalogPart):
    def tasks(self, view: str | None = None) -> list[TaskRecord]:
        """Of one view or of all, in commit order."""
        query = select(tasks, views.c.name, leases.c.outstanding).join(views, views.c.key == tasks.c.view_key)
        query = query.outerjoin(leases, leases.c.resource == tasks.c.view_key)
        if view is not None:
            query = query.where(tasks.c.view_key == key_of(view))
        with self._database.read() as connection:
            return [_task(row) for row in connection.execute(query.order_by(tasks.c.sequence, tasks.c.id))]

    def add_task(self, view: str, changed: Mapping[str, State]) -> bool:
        """For what somebody else wrote, once it is seen; nothing if a task or the view itself covers it already."""
        with self._database.write() as connection:
            row = connection.execute(select(views).where(views.c.key == key_of(view))).one_or_none()
            if row is None or row.policy != LAZY or is_at(row.vector, changed):
                return False
            known = connection.scalars(select(tasks.c.changed).where(tasks.c.view_key == row.key)).all()
            if any(is_at(each, changed) for each in known):
                return False
            _write(connection, row.key, last_sequence(connection), None, changed, self._database.now())
        return True

    def forget_tasks(self, view: str) -> None:
        """Those that the view reflects already: they came after whoever brought it there."""
        with self._database.write() as connection:
            vector = connection.scalar(select(views.c.vector).where(views.c.key == key_of(view)))
            remove_covered(connection, key_of(view), vector or {})


def write_tasks(
    connection: Connection,
    now: datetime,
    sequence: int,
    transaction_id: str | None,
    changed: Mapping[str, State | None],
    passed: Collection[str] = (),
) -> None:
    """One for each lazy view that reads any of these sources, by key; None where the state is not known yet."""
    for view, read in _lazy_readers(connection, changed).items():
        of_view = {key: changed[key] for key in read}
        vector = connection.scalar(select(views.c.vector).where(views.c.key == view))
        if view in passed or covers(vector or {}, of_view):  # a quick reader may have brought it there already
            continue
        _write(connection, view, sequence, transaction_id, of_view, now)


def note_reached(connection: Connection, transaction_id: str, reached: Mapping[str, State]) -> None:
    """The states that the transaction's tables have now, in its tasks."""
    for row in connection.execute(select(tasks).where(tasks.c.transaction_id == transaction_id)).all():
        known = {key: reached.get(key, state) for key, state in row.changed.items()}
        connection.execute(update(tasks).where(tasks.c.id == row.id).values(changed=known))


def pass_over(connection: Connection, key: str, before: State, reached: State, ignores: Ignores) -> set[str]:
    """The lazy views that do not care; those that were at the state before are at the one after it without any work.

    Not while somebody maintains the view: then its owner says which state it has.
    """
    passed = set()
    for view in _lazy_readers(connection, {key: reached}):
        row = connection.execute(select(views).where(views.c.key == view)).one()
        if not ignores(row.definition, key):
            continue
        passed.add(view)
        held = select(leases.c.resource).where(
            leases.c.resource == view, (leases.c.token.is_not(None)) | (leases.c.outstanding.is_not(None))
        )
        vectors = {name: _moved(getattr(row, name), key, before, reached) for name in ("vector", "pending_vector")}
        if row.batch > 0 and connection.scalar(held) is None and None not in vectors.values():
            connection.execute(update(views).where(views.c.key == view).values(**vectors))
    return passed


def remove_covered(connection: Connection, view: str, vector: State) -> None:
    """The view is at this state: what was to be done up to it is done."""
    for row in connection.execute(select(tasks.c.id, tasks.c.changed).where(tasks.c.view_key == view)).all():
        if covers(vector, row.changed):
            connection.execute(delete(tasks).where(tasks.c.id == row.id))


def covers(vector: State, changed: Mapping[str, State | None]) -> bool:
    """Whether a vector, which names sources as they are written, is at these states or later."""
    at = {key_of(name): state for name, state in vector.items()}
    return all(state is not None and _reaches(at.get(key), state) for key, state in changed.items())


def is_at(states: Mapping[str, State | None], newest: Mapping[str, State]) -> bool:
    """Whether a vector, or what a task asks for, is at the newest states of these sources."""
    at = {key_of(name): state for name, state in states.items()}
    return all(
        (known := at.get(key)) is not None and known["id"] == state["id"] and _reaches(known, state)
        for key, state in newest.items()
    )


def last_sequence(connection: Connection) -> int:
    return int(connection.scalar(select(func.max(transactions.c.sequence))) or 0)


def _lazy_readers(connection: Connection, changed: Mapping[str, Any]) -> dict[str, list[str]]:
    rows = connection.execute(
        select(views.c.key, sources.c.source_key)
        .join(sources, sources.c.view_key == views.c.key)
        .where(sources.c.source_key.in_(list(changed)), views.c.policy == LAZY)
        .order_by(views.c.key, sources.c.position)
    )
    found: dict[str, list[str]] = {}
    for view, source in rows:
        found.setdefault(view, []).append(source)
    return found


def _write(
    connection: Connection,
    view: str,
    sequence: int,
    transaction_id: str | None,
    changed: Mapping[str, State | None],
    now: datetime,
) -> None:
    states = {key: None if state is None else dict(state) for key, state in changed.items()}
    values = {"view_key": view, "sequence": sequence, "transaction_id": transaction_id, "statement": 1}
    connection.execute(insert(tasks).values(**values, changed=states, created_at=now))


def _reaches(at: State | None, wanted: State) -> bool:
    """A source that was made anew has states of its own, and a view that has seen it is past those before."""
    if at is None or at["id"] != wanted["id"]:
        return at is not None
    return bool(at["version"] >= wanted["version"] if "version" in wanted else at["batch"] >= wanted["batch"])


def _moved(vector: Mapping[str, Any], key: str, before: State, reached: State) -> dict[str, Any] | None:
    moved = {
        name: dict(reached) if key_of(name) == key and state == before else state for name, state in vector.items()
    }
    return None if moved == vector else moved


def _task(row: Row[Any]) -> TaskRecord:
    return TaskRecord(
        view=row.name,
        sequence=row.sequence,
        transaction=row.transaction_id,
        statement=row.statement,
        changed=row.changed,
        created_at=row.created_at,
        in_progress=row.outstanding is not None,
    )

"""Views and what they read."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import TopologicalSorter

from sqlalchemy import Connection, Row, delete, insert, select, update

from monus.catalog.leases import Lease, change_lease, ensure_lease, mine, require_lease
from monus.catalog.part import CatalogPart
from monus.catalog.records import ColumnRecord, SourceRecord, Unusable, ViewRecord, key_of
from monus.catalog.schema import batches, intents, names, sources, tasks, views
from monus.catalog.tables import claim_name, keep, note_dropped, refuse_if_outstanding, refuse_if_read
from monus.errors import DefinitionInvalid, UnknownTable, UnknownView


class Views(CatalogPart):
    def create_view(self, record: ViewRecord, sources: Sequence[SourceRecord]) -> None:
        """Add a view; its operations get numbers above `record.batch` and above all that its name ever had."""
        with self._database.write() as connection:
            claim_name(connection, record.name, "view")
            connection.execute(insert(views).values(key=key_of(record.name), **view_values(record)))
            keep(connection, record.location)
            write_sources(connection, record.name, sources)
            ensure_lease(connection, record.name, record.batch)

    def replace_view(self, lease: Lease, record: ViewRecord, sources: Sequence[SourceRecord]) -> None:
        """Put another view in the place of the one of that name; its batches and intent go, its numbers go on."""
        assert key_of(record.name) == key_of(lease.resource)
        with self._database.write() as connection:
            refuse_if_outstanding(connection, lease.resource)
            _clear(connection, lease)
            _note_dropped(connection, lease.resource)
            keep(connection, record.location)
            changed = connection.execute(
                update(views).where(views.c.key == key_of(record.name)).values(**view_values(record))
            )
            if changed.rowcount == 0:
                raise unknown_view(record.name)
            connection.execute(update(names).where(names.c.key == key_of(record.name)).values(name=record.name))
            write_sources(connection, record.name, sources)
            ensure_lease(connection, record.name, record.batch)

    def drop_view(self, lease: Lease) -> None:
        """Drop the view that the lease is for, with its batches and intent; its history stays."""
        with self._database.write() as connection:
            refuse_if_read(connection, lease.resource)
            refuse_if_outstanding(connection, lease.resource)
            _clear(connection, lease)
            _note_dropped(connection, lease.resource)
            key = key_of(lease.resource)
            if connection.execute(delete(views).where(views.c.key == key)).rowcount == 0:
                raise unknown_view(lease.resource)
            connection.execute(delete(names).where(names.c.key == key))

    def views(self) -> list[ViewRecord]:
        """All views, hidden ones too, at one moment."""
        with self._database.read() as connection:
            return [_view(row) for row in connection.execute(select(views).order_by(views.c.key))]

    def find_view(self, name: str) -> ViewRecord | None:
        with self._database.read() as connection:
            row = connection.execute(select(views).where(views.c.key == key_of(name))).one_or_none()
        return None if row is None else _view(row)

    def view(self, name: str) -> ViewRecord:
        found = self.find_view(name)
        if found is None:
            raise unknown_view(name)
        return found

    def sources(self, view: str) -> list[SourceRecord]:
        """What the view reads, in the order in which it was given."""
        with self._database.read() as connection:
            rows = connection.execute(
                select(names.c.name, names.c.kind)
                .join(sources, sources.c.source_key == names.c.key)
                .where(sources.c.view_key == key_of(view))
                .order_by(sources.c.position)
            )
            return [SourceRecord(row.name, row.kind) for row in rows]

    def dependants(self, name: str) -> list[str]:
        """The views that read this table or view themselves."""
        with self._database.read() as connection:
            rows = connection.scalars(
                select(views.c.name)
                .join(sources, sources.c.view_key == views.c.key)
                .where(sources.c.source_key == key_of(name))
                .order_by(views.c.key)
            )
            return list(rows)

    def dependency_order(self) -> list[str]:
        """All views, each after those that it reads."""
        with self._database.read() as connection:
            spelling = {row.key: row.name for row in connection.execute(select(views).order_by(views.c.key))}
            reads = _reads(connection)
        order = TopologicalSorter({key: sorted(reads.get(key, set())) for key in spelling}).static_order()
        return [spelling[key] for key in order if key in spelling]

    def mark_unusable(self, view: str, code: str, sentence: str, lease: Lease | None = None) -> None:
        """From now on the view must not be read. With a lease: only as its owner."""
        self._mark(view, Unusable(code, sentence), lease)

    def mark_usable(self, view: str, lease: Lease | None = None) -> None:
        self._mark(view, None, lease)

    def _mark(self, view: str, reason: Unusable | None, lease: Lease | None) -> None:
        with self._database.write() as connection:
            if lease is not None:
                require_lease(connection, lease)
            changed = connection.execute(
                update(views)
                .where(views.c.key == key_of(view))
                .values(
                    unusable_code=None if reason is None else reason.code,
                    unusable_sentence=None if reason is None else reason.sentence,
                )
            )
            if changed.rowcount == 0:
                raise unknown_view(view)


def unknown_view(name: str) -> UnknownView:
    return UnknownView(
        f"There is no materialized view named {name}.", "SHOW MATERIALIZED VIEWS lists what there is.", name=name
    )


def _clear(connection: Connection, lease: Lease) -> None:
    """As the owner, remove what hangs on the view."""
    change_lease(connection, lease, mine(lease), outstanding=None)
    key = key_of(lease.resource)
    for dependent in (intents, batches, sources, tasks):
        connection.execute(delete(dependent).where(dependent.c.view_key == key))


def _note_dropped(connection: Connection, view: str) -> None:
    location = connection.scalar(select(views.c.location).where(views.c.key == key_of(view)))
    if location is not None:
        note_dropped(connection, view, "view", location)


def write_sources(connection: Connection, view: str, given: Sequence[SourceRecord]) -> None:
    distinct = {key_of(source.name): source for source in given}
    for position, (key, source) in enumerate(distinct.items()):
        kind = connection.scalar(select(names.c.kind).where(names.c.key == key))
        if kind != source.kind:
            unknown = UnknownTable if source.kind == "table" else UnknownView
            raise unknown(f"{view} reads the {source.kind} {source.name}, which does not exist.", "Check the name.")
        connection.execute(insert(sources).values(view_key=key_of(view), source_key=key, position=position))
    _refuse_cycle(connection, view)


def _refuse_cycle(connection: Connection, view: str) -> None:
    reads = _reads(connection)
    reached: set[str] = set()
    to_visit = set(reads.get(key_of(view), set()))
    while to_visit:
        key = to_visit.pop()
        reached.add(key)
        to_visit |= reads.get(key, set()) - reached
    if key_of(view) in reached:
        raise DefinitionInvalid(f"{view} would read itself through other views.", "Read the tables instead.", view=view)


def _reads(connection: Connection) -> dict[str, set[str]]:
    reads: dict[str, set[str]] = {}
    for row in connection.execute(select(sources.c.view_key, sources.c.source_key)):
        reads.setdefault(row.view_key, set()).add(row.source_key)
    return reads


def view_values(record: ViewRecord) -> dict[str, object]:
    reason = record.unusable_reason
    return {
        "name": record.name,
        "definition": dict(record.definition),
        "policy": record.policy,
        "mode": record.mode,
        "location": record.location,
        "created_at": record.created_at,
        "columns": [[column.name, column.type, column.comment] for column in record.columns],
        "comment": record.comment,
        "hidden": record.hidden,
        "table_id": record.table_id,
        "unusable_code": None if reason is None else reason.code,
        "unusable_sentence": None if reason is None else reason.sentence,
        "batch": record.batch,
        "version": record.version,
        "vector": dict(record.vector),
        "pending_vector": dict(record.pending_vector),
        "pending_from": record.pending_from,
        "next_refresh": record.next_refresh,
        "next_propagate": record.next_propagate,
    }


def _view(row: Row[tuple[object, ...]]) -> ViewRecord:
    return ViewRecord(
        name=row.name,
        definition=row.definition,
        policy=row.policy,
        mode=row.mode,
        location=row.location,
        created_at=row.created_at,
        columns=tuple(ColumnRecord(name, type_, comment) for name, type_, comment in row.columns),
        comment=row.comment,
        hidden=row.hidden,
        table_id=row.table_id,
        unusable_reason=None if row.unusable_code is None else Unusable(row.unusable_code, row.unusable_sentence),
        batch=row.batch,
        version=row.version,
        vector=row.vector,
        pending_vector=row.pending_vector,
        pending_from=row.pending_from,
        next_refresh=row.next_refresh,
        next_propagate=row.next_propagate,
    )

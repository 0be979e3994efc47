"""The SQL steps of a transaction over several tables: its intent, what it reached, its end.

The intent is the moment of commitment: before it nothing has happened, after it recovery only rolls forward. From the
intent to the end the transaction is *outstanding*, and readers see its tables and views as they were before. Each step
is one SQL transaction under the condition that every lease is still the owner's.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, insert, select, update

from monus.catalog.leases import Lease, change_lease, mine, require_lease
from monus.catalog.part import CatalogPart
from monus.catalog.records import Ledger, TransactionPart, TransactionRecord, key_of
from monus.catalog.schema import leases, meta, transaction_parts, transactions
from monus.catalog.tasks import Ignores, last_sequence, note_reached, pass_over, write_tasks

_COUNT = "transactions"
_WAREHOUSE = "warehouse"


@dataclass(frozen=True, slots=True)
class Reached:
    """The version that a table's commit made, and what is to be told about it."""

    version: int
    note: str | None = None


class Transactions(CatalogPart):
    def commit_transaction(
        self, held: Mapping[str, Lease], parts: Sequence[TransactionPart], staging: str | None, statements: int
    ) -> TransactionRecord:
        """The intent, with the next number of every table. What an earlier owner left must be settled before."""
        with self._database.write() as connection:
            numbered = [_begun(connection, held[key_of(part.name)], part) for part in parts]
            now, sequence = self._database.now(), _next_sequence(connection)
            record = TransactionRecord(str(uuid.uuid4()), sequence, statements, tuple(numbered), staging, now)
            _write(connection, record)
            write_tasks(connection, now, sequence, record.id, {key_of(part.name): None for part in record.tables})
            _count(connection)
        return record

    def record_reached(
        self, held: Mapping[str, Lease], record: TransactionRecord, reached: Mapping[str, Reached]
    ) -> None:
        """The versions that the tables have now, by key; once."""
        with self._database.write() as connection:
            for part in record.views:
                require_lease(connection, held[key_of(part.name)])
            for part in record.tables:
                change_lease(connection, held[key_of(part.name)], _still_outstanding(held, part), epoch=leases.c.epoch)
                found = reached[key_of(part.name)]
                connection.execute(
                    update(transaction_parts)
                    .where(_this(record, part), transaction_parts.c.reached.is_(None))
                    .values(reached=found.version, note=found.note)
                )
            states = {
                key_of(part.name): {"id": part.before.get("id"), "version": reached[key_of(part.name)].version}
                for part in record.tables
            }
            note_reached(connection, record.id, states)

    def end_transaction(self, held: Mapping[str, Lease], record: TransactionRecord) -> None:
        """All of it is applied: from now on readers see it."""
        with self._database.write() as connection:
            for part in record.parts:
                lease = held[key_of(part.name)]
                if part.kind == "table":
                    change_lease(connection, lease, _still_outstanding(held, part), outstanding=None)
                else:
                    require_lease(connection, lease)
            this = transactions.c.id == record.id
            connection.execute(update(transactions).where(this).values(applied_at=self._database.now()))
            _count(connection)

    def record_statement(
        self, table: str, before: int, table_id: str, reached: int, ignores: Ignores | None = None
    ) -> None:
        """A statement that was a transaction by itself: its one commit is there already.

        `ignores` tells which views need no task for it.
        """
        key, now = key_of(table), self._database.now()
        former, state = ({"id": table_id, "version": version} for version in (before, reached))
        with self._database.write() as connection:
            part = TransactionPart(table, "table", former, reached=reached)
            record = TransactionRecord(str(uuid.uuid4()), _next_sequence(connection), 1, (part,), None, now, now)
            _write(connection, record)
            passed = set() if ignores is None else pass_over(connection, key, former, state, ignores)
            write_tasks(connection, now, record.sequence, record.id, {key: state}, passed)
            _count(connection)  # of two statements that follow each other nobody may see the second alone

    def ledger(self) -> Ledger:
        """What is outstanding, and the count by which it is noticed that something was committed."""
        with self._database.read() as connection:
            count = connection.scalar(select(meta.c.value).where(meta.c.key == _COUNT))
            return Ledger(int(count or 0), _records(connection, transactions.c.applied_at.is_(None)))

    def transaction(self, transaction_id: str) -> TransactionRecord:
        with self._database.read() as connection:
            return _records(connection, transactions.c.id == transaction_id)[0]

    def find_transaction(self, staging: str) -> TransactionRecord | None:
        """The one that was staged there, if it was committed."""
        with self._database.read() as connection:
            return next(iter(_records(connection, transactions.c.staging == staging)), None)

    def warehouse_id(self) -> str:
        """What tells this warehouse from others that attached the same tables; made when it is first asked for."""
        with self._database.write() as connection:
            known = connection.scalar(select(meta.c.value).where(meta.c.key == _WAREHOUSE))
            if known is None:
                known = str(uuid.uuid4())
                connection.execute(insert(meta).values(key=_WAREHOUSE, value=known))
            return str(known)

    def transactions(self, table: str, limit: int) -> list[TransactionRecord]:
        """The newest transactions that changed the table, newest first."""
        of_table = select(transaction_parts.c.transaction_id).where(transaction_parts.c.resource_key == key_of(table))
        newest = (
            select(transactions.c.id)
            .where(transactions.c.id.in_(of_table))
            .order_by(transactions.c.sequence.desc())
            .limit(limit)
        )
        with self._database.read() as connection:
            return list(_records(connection, transactions.c.id.in_(newest)))[::-1]


def _begun(connection: Connection, lease: Lease, part: TransactionPart) -> TransactionPart:
    nothing_outstanding = and_(mine(lease), leases.c.outstanding.is_(None))
    if part.kind == "view":
        change_lease(connection, lease, nothing_outstanding, epoch=leases.c.epoch)
        return part
    following = leases.c.last_number + 1
    change_lease(connection, lease, nothing_outstanding, last_number=following, outstanding=following)
    number = connection.scalar(select(leases.c.last_number).where(leases.c.resource == key_of(part.name)))
    return replace(part, number=number)


def _still_outstanding(held: Mapping[str, Lease], part: TransactionPart) -> Any:
    return and_(mine(held[key_of(part.name)]), leases.c.outstanding == part.number)


def _this(record: TransactionRecord, part: TransactionPart) -> Any:
    return and_(transaction_parts.c.transaction_id == record.id, transaction_parts.c.resource_key == key_of(part.name))


def _next_sequence(connection: Connection) -> int:
    return last_sequence(connection) + 1


def _count(connection: Connection) -> None:
    this = meta.c.key == _COUNT
    known = connection.scalar(select(meta.c.value).where(this))
    if known is None:
        connection.execute(insert(meta).values(key=_COUNT, value="1"))
    else:
        connection.execute(update(meta).where(this).values(value=str(int(known) + 1)))


def _write(connection: Connection, record: TransactionRecord) -> None:
    connection.execute(
        insert(transactions).values(
            id=record.id,
            sequence=record.sequence,
            statements=record.statements,
            staging=record.staging,
            committed_at=record.committed_at,
            applied_at=record.applied_at,
        )
    )
    for part in record.parts:
        connection.execute(
            insert(transaction_parts).values(
                transaction_id=record.id,
                resource_key=key_of(part.name),
                name=part.name,
                kind=part.kind,
                number=part.number,
                before=dict(part.before),
                staged=dict(part.staged),
                reached=part.reached,
                note=part.note,
            )
        )


def _records(connection: Connection, condition: Any) -> tuple[TransactionRecord, ...]:
    rows = connection.execute(select(transactions).where(condition).order_by(transactions.c.sequence)).all()
    if not rows:
        return ()
    of_them = transaction_parts.c.transaction_id.in_([row.id for row in rows])
    parts: dict[str, list[TransactionPart]] = defaultdict(list)
    for row in connection.execute(select(transaction_parts).where(of_them).order_by(transaction_parts.c.resource_key)):
        parts[row.transaction_id].append(_part(row))
    return tuple(_record(row, tuple(parts[row.id])) for row in rows)


def _record(row: Row[Any], parts: tuple[TransactionPart, ...]) -> TransactionRecord:
    applied: datetime | None = row.applied_at
    return TransactionRecord(row.id, row.sequence, row.statements, parts, row.staging, row.committed_at, applied)


def _part(row: Row[Any]) -> TransactionPart:
    return TransactionPart(row.name, row.kind, row.before, row.staged, row.number, row.reached, row.note)

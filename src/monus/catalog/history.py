"""The history of refreshes, failed ones too. It outlives its views."""

from __future__ import annotations

from sqlalchemy import Connection, Row, insert, select

from monus.catalog.part import CatalogPart
from monus.catalog.records import RefreshRecord, key_of
from monus.catalog.schema import refreshes


class History(CatalogPart):
    def record_refresh(self, record: RefreshRecord) -> None:
        with self._database.write() as connection:
            write_refresh(connection, record)

    def refreshes(self, view: str, limit: int | None = None) -> list[RefreshRecord]:
        """What was done to the view, newest first."""
        query = select(refreshes).where(refreshes.c.view_key == key_of(view)).order_by(refreshes.c.id.desc())
        with self._database.read() as connection:
            return [_refresh(row) for row in connection.execute(query if limit is None else query.limit(limit))]


def write_refresh(connection: Connection, record: RefreshRecord) -> None:
    connection.execute(
        insert(refreshes).values(
            view_key=key_of(record.view),
            view=record.view,
            operation=record.operation,
            strategy=record.strategy,
            incremental=record.incremental,
            code=record.code,
            reason=record.reason,
            rows_inserted=record.rows_inserted,
            rows_deleted=record.rows_deleted,
            seconds=record.seconds,
            spark_jobs=record.spark_jobs,
            commits=record.commits,
            rows_read=dict(record.rows_read),
            from_versions=dict(record.from_versions),
            to_versions=dict(record.to_versions),
            started_at=record.started_at,
            error=record.error,
        )
    )


def _refresh(row: Row[tuple[object, ...]]) -> RefreshRecord:
    return RefreshRecord(
        view=row.view,
        operation=row.operation,
        strategy=row.strategy,
        incremental=row.incremental,
        code=row.code,
        reason=row.reason,
        rows_inserted=row.rows_inserted,
        rows_deleted=row.rows_deleted,
        seconds=row.seconds,
        spark_jobs=row.spark_jobs,
        commits=row.commits,
        rows_read=row.rows_read,
        from_versions=row.from_versions,
        to_versions=row.to_versions,
        started_at=row.started_at,
        error=row.error,
    )

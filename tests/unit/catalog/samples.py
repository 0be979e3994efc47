"""Values that the tests of the catalog share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from monus.catalog.catalog import Catalog
from monus.catalog.leases import Lease
from monus.catalog.owners import Owner
from monus.catalog.records import ColumnRecord, RefreshRecord, SourceRecord, TableRecord, ViewRecord

LONG = 3600.0
THEN = datetime(2026, 11, 18, 9, 30, 0, 123457, tzinfo=UTC)


class FakeClock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = THEN

    def __call__(self) -> datetime:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def a_table(name: str = "Sales", table_id: str = "id-1") -> TableRecord:
    return TableRecord(name, f"/w/tables/{name}", None, table_id, managed=True, created_at=THEN)


def a_view(name: str = "Big_Sales", batch: int = 0) -> ViewRecord:
    return ViewRecord(
        name=name,
        definition={"text": "SELECT 'ä', 1", "settings": {"ansi": True}, "namespace": ["spark_catalog", "default"]},
        policy="LAZY",
        mode="AUTO",
        location=f"/w/views/{name}",
        created_at=THEN,
        columns=(ColumnRecord("a", "decimal(10,2)", "how much"), ColumnRecord("__count", "bigint")),
        comment="it's big",
        batch=batch,
    )


def a_refresh(view: str = "Big_Sales", operation: str = "refresh", error: str | None = None) -> RefreshRecord:
    return RefreshRecord(
        view=view,
        operation=operation,
        strategy="merge",
        incremental=True,
        code="CHEAPER",
        reason="The change is small.",
        rows_inserted=3,
        rows_deleted=1,
        seconds=0.25,
        spark_jobs=4,
        commits=1,
        rows_read={"Sales": 4},
        from_versions={"Sales": 1},
        to_versions={"Sales": 2},
        started_at=THEN,
        error=error,
    )


SALES = SourceRecord("Sales", "table")


def with_view(catalog: Catalog, name: str = "Big_Sales") -> None:
    catalog.add_table(a_table())
    catalog.create_view(a_view(name), [SALES])


def lease_on(catalog: Catalog, resource: str = "Big_Sales", ttl: float = LONG) -> Lease:
    return catalog.acquire(resource, Owner.here(), ttl)


def publish(catalog: Catalog, lease: Lease, number: int, *, version: int = 7, has_rows: bool = True) -> None:
    catalog.publish(
        lease,
        number,
        version=version,
        vector={"Sales": number},
        pending_vector={"Sales": number + 1},
        pending_from=number + 1,
        batch_has_rows=has_rows,
        operation="refresh",
        refresh=a_refresh(lease.resource),
    )


def do_refresh(catalog: Catalog, lease: Lease) -> int:
    """One whole operation, as the protocol has it."""
    number = catalog.begin_intent(lease, "refresh", {"Sales": 0}, {"Sales": 1})
    publish(catalog, lease, number)
    return number


def whole_catalog(catalog: Catalog) -> dict[str, list[tuple[object, ...]]]:
    """Every row of it, to see that nothing was changed."""
    with catalog._database.read() as connection:
        names = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars().all()
        return {name: [tuple(row) for row in connection.exec_driver_sql(f"SELECT * FROM {name}")] for name in names}

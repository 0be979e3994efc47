"""The tables of the catalog.

A change here needs a migration in `migrations.py`: databases of earlier formats must end up the same. Every name
is stored twice, as it was written and as the key by which it compares.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    TypeDecorator,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Instant(TypeDecorator[datetime]):
    """A moment as microseconds since 1970 in UTC: exact, and the same in every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else _EPOCH + value * _MICROSECOND


METADATA = MetaData()

meta = Table(
    "meta",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# Tables and views share one namespace: whoever inserts a name here owns it.
names = Table(
    "names",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
)

tables = Table(
    "tables",
    METADATA,
    Column("key", ForeignKey("names.key"), primary_key=True),
    Column("name", Text, nullable=False),
    Column("location", Text, nullable=False),
    Column("identifier", Text),
    Column("table_id", Text, nullable=False),
    Column("managed", Boolean, nullable=False),
    Column("created_at", Instant, nullable=False),
)

views = Table(
    "views",
    METADATA,
    Column("key", ForeignKey("names.key"), primary_key=True),
    Column("name", Text, nullable=False),
    Column("definition", JSON, nullable=False),
    Column("policy", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("location", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("columns", JSON, nullable=False),
    Column("comment", Text),
    Column("hidden", Boolean, nullable=False),
    Column("table_id", Text),
    Column("unusable_code", Text),
    Column("unusable_sentence", Text),
    Column("batch", BigInteger, nullable=False),
    Column("version", BigInteger),
    Column("vector", JSON, nullable=False),
    Column("pending_vector", JSON, nullable=False),
    Column("pending_from", BigInteger, nullable=False),
    Column("next_refresh", Instant),
    Column("next_propagate", Instant),
)

# Folders of what was dropped or replaced, until they are removed.
dropped = Table(
    "dropped",
    METADATA,
    Column("location", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
)

sources = Table(
    "sources",
    METADATA,
    Column("view_key", ForeignKey("views.key"), nullable=False),
    Column("source_key", ForeignKey("names.key"), nullable=False, index=True),
    Column("position", Integer, nullable=False),
    PrimaryKeyConstraint("view_key", "source_key"),
)

# A row is never deleted, not even with its view: epochs and numbers must not come back.
leases = Table(
    "leases",
    METADATA,
    Column("resource", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("last_number", BigInteger, nullable=False),
    Column("outstanding", BigInteger),
    Column("token", Text),
    Column("owner", JSON(none_as_null=True)),
    Column("acquired_at", Instant),
    Column("expires_at", Instant),
)

intents = Table(
    "intents",
    METADATA,
    Column("view_key", ForeignKey("views.key"), primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("operation", Text, nullable=False),
    Column("from_state", JSON, nullable=False),
    Column("to_state", JSON, nullable=False),
    Column("started_at", Instant, nullable=False),
)

batches = Table(
    "batches",
    METADATA,
    Column("view_key", ForeignKey("views.key"), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("operation", Text, nullable=False),
    Column("version", BigInteger),
    Column("from_vector", JSON, nullable=False),
    Column("to_vector", JSON, nullable=False),
    Column("has_rows", Boolean, nullable=False),
    Column("published_at", Instant, nullable=False),
    PrimaryKeyConstraint("view_key", "number"),
)

# No foreign key: the history outlives the view.
refreshes = Table(
    "refreshes",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("view_key", Text, nullable=False),
    Column("view", Text, nullable=False),
    Column("operation", Text, nullable=False),
    Column("strategy", Text, nullable=False),
    Column("incremental", Boolean, nullable=False),
    Column("code", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("rows_inserted", BigInteger, nullable=False),
    Column("rows_deleted", BigInteger, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("spark_jobs", Integer, nullable=False),
    Column("commits", Integer, nullable=False),
    Column("rows_read", JSON, nullable=False),
    Column("from_versions", JSON, nullable=False),
    Column("to_versions", JSON, nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("error", Text),
    Index("refreshes_by_view", "view_key", "id"),
    sqlite_autoincrement=True,
)

# What is still to be done for lazy views; a row goes when the view reflects it.
tasks = Table(
    "tasks",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("view_key", ForeignKey("views.key"), nullable=False, index=True),
    Column("sequence", BigInteger, nullable=False),
    Column("transaction_id", Text),
    Column("statement", BigInteger, nullable=False),
    Column("changed", JSON, nullable=False),
    Column("created_at", Instant, nullable=False),
    sqlite_autoincrement=True,
)

# What was committed, in order: a row for each transaction, also for a statement that was one by itself. Without
# `applied_at` it is outstanding.
transactions = Table(
    "transactions",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False, unique=True),
    Column("statements", BigInteger, nullable=False),
    Column("staging", Text),
    Column("committed_at", Instant, nullable=False),
    Column("applied_at", Instant),
)

# No foreign key to the table or view: the record outlives both.
transaction_parts = Table(
    "transaction_parts",
    METADATA,
    Column("transaction_id", ForeignKey("transactions.id"), nullable=False),
    Column("resource_key", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("number", BigInteger),
    Column("before", JSON, nullable=False),
    Column("staged", JSON, nullable=False),
    Column("reached", BigInteger),
    Column("note", Text),
    PrimaryKeyConstraint("transaction_id", "resource_key"),
)

"""Every error that Monus raises: one class per cause, each with a stable code and what to do next."""

from __future__ import annotations

from typing import Any, ClassVar, Self


class MonusError(Exception):
    """The root. `code` is stable, `message` says what happened, `hint` what to do next."""

    code: ClassVar[str] = "MONUS"

    def __init__(self, message: str, hint: str = "", **fields: Any) -> None:
        self.message = message
        self.hint = hint
        self.fields = fields
        super().__init__(f"[{self.code}] {message}" + (f" {hint}" if hint else ""))

    def while_doing(self, what: str) -> Self:
        """The same error, which also says what failed by it."""
        return type(self)(f"{what} failed: {self.message}", self.hint, **self.fields)


# -- the place where Monus runs


class JavaMissing(MonusError):
    code = "JAVA_MISSING"


class SessionInvalid(MonusError):
    """The Spark session did not start, or lacks something that Monus needs."""

    code = "SESSION_INVALID"


class WarehouseInvalid(MonusError):
    """The folder is not a warehouse, or cannot be one."""

    code = "WAREHOUSE_INVALID"


class WarehouseTooNew(MonusError):
    code = "WAREHOUSE_TOO_NEW"


class StorageUnavailable(MonusError):
    """What is to be made durable cannot be, now; nothing is wrong with the data or the query."""

    code = "STORAGE_UNAVAILABLE"


class DiskFull(StorageUnavailable):
    code = "DISK_FULL"


class FolderReadOnly(StorageUnavailable):
    code = "FOLDER_READ_ONLY"


class CatalogUnavailable(StorageUnavailable):
    """The catalog cannot be opened, locked or written to."""

    code = "CATALOG_UNAVAILABLE"


class WarehouseClosed(MonusError):
    code = "WAREHOUSE_CLOSED"


# -- names


class UnknownTable(MonusError):
    code = "UNKNOWN_TABLE"


class UnknownColumn(MonusError):
    code = "UNKNOWN_COLUMN"


class UnknownView(MonusError):
    code = "UNKNOWN_VIEW"


class UnknownAssertion(MonusError):
    code = "UNKNOWN_ASSERTION"


class NameExists(MonusError):
    code = "NAME_EXISTS"


class InUse(MonusError):
    """Others read the table or view that is to be dropped."""

    code = "IN_USE"


# -- definitions and statements


class AlgebraInvalid(MonusError):
    """A node of the algebra does not fit its inputs."""

    code = "ALGEBRA_INVALID"


class StatementInvalid(MonusError):
    """A statement of Monus that cannot be parsed."""

    code = "STATEMENT_INVALID"


class DefinitionInvalid(MonusError):
    """Spark cannot analyse the definition; its message is kept."""

    code = "DEFINITION_INVALID"


class DuplicateColumns(MonusError):
    code = "DUPLICATE_COLUMNS"


class DefinitionNotStorable(MonusError):
    """The definition would not survive the process."""

    code = "DEFINITION_NOT_STORABLE"


class NotIncremental(MonusError):
    """STRICT, and something cannot be maintained incrementally."""

    code = "NOT_INCREMENTAL"


class NotSupported(MonusError):
    code = "NOT_SUPPORTED"


class ViewIsClosedToDml(MonusError):
    code = "VIEW_IS_CLOSED_TO_DML"


# -- sources


class SourceInvalid(MonusError):
    """Not a Delta table, or not readable."""

    code = "SOURCE_INVALID"


class SourceHistoryLost(MonusError):
    """The log or the files between the view's vector and now are gone."""

    code = "SOURCE_HISTORY_LOST"


class SourceRecreated(MonusError):
    code = "SOURCE_RECREATED"


class SourceSchemaChanged(MonusError):
    code = "SOURCE_SCHEMA_CHANGED"


# -- maintenance


class ViewUnusable(MonusError):
    code = "VIEW_UNUSABLE"


class PointUnreachable(MonusError):
    """A view cannot be brought to this point: it is past it, or the point is not there yet."""

    code = "POINT_UNREACHABLE"


class ViewBusy(MonusError):
    """Another process is maintaining the view."""

    code = "VIEW_BUSY"


class LeaseLost(MonusError):
    """Another owner took the work over; nothing of ours is published."""

    code = "LEASE_LOST"


class RefreshCancelled(MonusError):
    code = "REFRESH_CANCELLED"


class RefreshFailed(MonusError):
    """One or more views could not be refreshed; the others were."""

    code = "REFRESH_FAILED"


# -- transactions


class TransactionConflict(MonusError):
    """Another transaction changed the same rows first; nothing of this one was written."""

    code = "TRANSACTION_CONFLICT"


class TransactionRefused(MonusError):
    """The change of an immediate view cannot be derived; nothing was written."""

    code = "TRANSACTION_REFUSED"


class TransactionOutstanding(MonusError):
    """The transaction is committed, but not all of it could be applied yet; it will be."""

    code = "TRANSACTION_OUTSTANDING"


class TransactionBlocked(MonusError):
    """An earlier transaction is committed and cannot be completed yet; nothing of this one was written."""

    code = "TRANSACTION_BLOCKED"


class TransactionClosed(MonusError):
    """The transaction has ended, or there is none."""

    code = "TRANSACTION_CLOSED"


class AssertionViolated(MonusError):
    """The rows that must not be are in `rows`; nothing was written."""

    code = "ASSERTION_VIOLATED"

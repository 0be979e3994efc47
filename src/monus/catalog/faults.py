"""What a database says when it fails, as an error that tells a person what to do."""

from __future__ import annotations

from monus.errors import CatalogUnavailable

_ELSEWHERE = "Put the warehouse on a local disk, or keep the catalog elsewhere: connect(..., catalog=...)."
_FULL = "cannot grow, because the disk is full"
_FREE = "Free some space and try again; what was committed before is as it was."

# The beginning of SQLite's name of the failure, what happened, and what to do.
_SQLITE = (
    ("SQLITE_BUSY", "stayed locked by another process", "Try again when that process is done."),
    ("SQLITE_LOCKED", "stayed locked by another process", "Try again when that process is done."),
    ("SQLITE_READONLY", "cannot be written to", "Give this user the right to write to the file and its folder."),
    ("SQLITE_PERM", "cannot be written to", "Give this user the right to write to the file and its folder."),
    ("SQLITE_CANTOPEN", "cannot be opened", "Check that its folder exists and that this user may write to it."),
    (
        "SQLITE_NOTADB",
        "is not a database",
        "If it was damaged, rebuild it from the tables: monus.rebuild_catalog(folder).",
    ),
    (
        "SQLITE_CORRUPT",
        "is damaged",
        "Rebuild it from the tables: monus.rebuild_catalog(folder).",
    ),
    ("SQLITE_FULL", _FULL, _FREE),
    ("SQLITE_IOERR_SHMSIZE", _FULL, _FREE),  # what processes share of it lies beside it
    ("SQLITE_IOERR", "cannot be read, written or locked by its file system", _ELSEWHERE),
    ("SQLITE_PROTOCOL", "cannot be locked by its file system", _ELSEWHERE),
    ("SQLITE_NOLFS", "cannot be locked by its file system", _ELSEWHERE),
)


def is_of_the_file(cause: BaseException) -> bool:
    """Whether the file cannot be used as it was opened, so that it is to be opened anew."""
    beginnings = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR")
    return getattr(cause, "sqlite_errorname", "").startswith(beginnings)


def catalog_unavailable(where: str, cause: BaseException) -> CatalogUnavailable:
    """The error to raise from a failure of the database driver."""
    failure = getattr(cause, "sqlite_errorname", "")
    for beginning, happened, hint in _SQLITE:
        if failure.startswith(beginning):
            return CatalogUnavailable(f"The catalog {where} {happened} ({cause}).", hint, where=where, cause=failure)
    return CatalogUnavailable(
        f"The catalog {where} failed: {cause}.", "Check the database and try again.", where=where, cause=failure
    )


def cannot_lock(where: str) -> CatalogUnavailable:
    return CatalogUnavailable(
        f"The catalog cannot be at {where}: an object store cannot lock a file, and the catalog must.",
        "Keep the tables there and the catalog on a local disk: connect(..., catalog=...).",
        where=where,
    )


def not_ours(where: str, reason: str) -> CatalogUnavailable:
    return CatalogUnavailable(
        f"The database {where} is not a catalog of Monus: {reason}.", "Give another place for the catalog.", where=where
    )

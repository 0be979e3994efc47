"""What Java says when a folder cannot be written to, as an error that tells a person what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from monus.errors import DiskFull, FolderReadOnly, MonusError, StorageUnavailable
from monus.store.jvm import java_causes

_FULL = ("No space left on device", "Disk quota exceeded", "not enough space on the disk")
_READ_ONLY = ("Read-only file system", "Permission denied", "Access is denied", "AccessDeniedException")
# Hadoop says no more than this, whatever the reason.
_NO_FOLDER = "Mkdirs failed to create"

# By its class, or by its name in the message of an exception that wraps one of another process.
_OF_FILES = r"(?:java\.(?:io|nio\.file)|org\.apache\.hadoop)\.[\w.$]*(?:Exception|Error)"
_IS_OF_FILES = re.compile(_OF_FILES)
_QUOTES_ONE = re.compile(rf"{_OF_FILES}: (?P<said>[^\n]*)")
_PATH = re.compile(r"(?:file:/*)?(/[^\s:()'\"]+)")


@contextmanager
def storage_faults(folder: str) -> Iterator[None]:
    """Around what writes to the folder: if it is because of the disk that it fails, the error says so."""
    try:
        yield
    except MonusError:
        raise
    except Exception as error:
        found = storage_unavailable(error, folder)
        if found is None:
            raise
        raise found from error


def storage_unavailable(error: BaseException, folder: str) -> StorageUnavailable | None:
    """The error to raise where a write to the folder failed because of its disk; None where it is something else."""
    place = _plain(folder)
    for said in _said_of_files(error):
        if any(words in said for words in _FULL):
            return _full(_where(said, place), said)
        if _where(said, place) != place:
            continue  # what is read cannot be
        if any(words in said for words in _READ_ONLY) or (_NO_FOLDER in said and _is_read_only(place)):
            return _read_only(place, said)
        if _NO_FOLDER in said:
            return _full(place, said)
    return None


def _said_of_files(error: BaseException) -> Iterator[str]:
    """What the exceptions about files say that are behind an error, the innermost first."""
    if isinstance(error, OSError):
        yield str(error)
    for kind, message in reversed(list(java_causes(error))):
        if _IS_OF_FILES.fullmatch(kind):
            yield message if "AccessDenied" not in kind else f"{message} (Permission denied)"
        else:
            yield from (match["said"] for match in _QUOTES_ONE.finditer(message))


def _full(place: str, said: str) -> DiskFull:
    return DiskFull(
        f"The folder {place} cannot be written to, because its disk is full ({said}).",
        "Free some space and try again; what was committed before is as it was.",
        folder=place,
    )


def _read_only(place: str, said: str) -> FolderReadOnly:
    return FolderReadOnly(
        f"The folder {place} may not be written to ({said}).",
        "Give this user the right to write to it and try again; what was committed before is as it was.",
        folder=place,
    )


def _where(said: str, place: str) -> str:
    """Spark's own folder, for what does not fit into memory, may be on another disk."""
    found = None if place in said else _PATH.search(said)
    return place if found is None else str(Path(found[1]).parent)


def _is_read_only(path: str) -> bool:
    """Whether the nearest folder that is there may not be written to."""
    folder = Path(path)
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return not os.access(folder, os.W_OK | os.X_OK)


def _plain(folder: str) -> str:
    return re.sub(r"^file:/+", "/", folder).rstrip("/")

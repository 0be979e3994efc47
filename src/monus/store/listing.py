"""The files of a snapshot, known without a Spark job.

Delta finds the files of a new version by a job that replays its log. Where a table has few files this is most of the
price of reading it, and it is not needed: Delta writes the files of a small table into the checksum of a commit (not
where there are deletion vectors), and a list that was known at an earlier version becomes the list of this one by the
commits in between, which are read as text. Only where neither helps is Delta asked, once.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from monus.errors import SourceHistoryLost
from monus.store.jvm import items, scala_object, seq
from monus.store.log import HasLog, action_lines, commit_text

MOST_FILES = 200  # more are left to Delta, which also skips files by their statistics
_MOST_COMMITS = 20
_MOST_TABLES = 256

FileKey = tuple[str, str | None]
Extent = tuple[int, int]


@dataclass(slots=True)
class Listing:
    """The files of one version: Delta's `AddFile` by path and deletion vector, and all of them as a Scala Seq."""

    table_id: str
    version: int
    files: dict[FileKey, Any]
    seq: Any
    extents: dict[str, Extent] | None = None
    """Least and greatest value of each column of whole numbers; worked out when first asked for."""


_known: OrderedDict[tuple[str, str], Listing] = OrderedDict()
_lock = threading.Lock()


def listed_files(table: HasLog, jvm_snapshot: Any) -> Any | None:
    """A Scala Seq of the snapshot's files; None if there are many, or their number is not known."""
    known = _listing(table, jvm_snapshot)
    return None if known is None else known.seq


def listed_extent(table: HasLog, jvm_snapshot: Any, column: str) -> Extent | None:
    """The bounds of a column of whole numbers by the statistics of all files; None where they do not tell."""
    known = _listing(table, jvm_snapshot)
    if known is None:
        return None
    if known.extents is None:
        known.extents = _extents([file.stats() for file in known.files.values()])
    return known.extents.get(column)


def listed_rows(table: HasLog, jvm_snapshot: Any) -> int | None:
    """How many rows there are by the statistics of all files; None where they do not tell."""
    known = _listing(table, jvm_snapshot)
    counts = [file.numLogicalRecords() for file in known.files.values()] if known is not None else None
    if counts is None or not all(count.isDefined() for count in counts):
        return None
    return sum(int(count.get()) for count in counts)


def _listing(table: HasLog, jvm_snapshot: Any) -> Listing | None:
    key = (str(table.spark.sparkContext.applicationId), table.path)
    with _lock:
        known = _known.get(key)
    table_id, version = str(jvm_snapshot.metadata().id()), int(jvm_snapshot.version())
    if known is None or (known.table_id, known.version) != (table_id, version):
        checksum = jvm_snapshot.checksumOpt()
        if not checksum.isDefined() or int(checksum.get().numFiles()) > MOST_FILES:
            return None  # nobody knows how many files Delta would be asked for
        found = _from_known(table, known, table_id, version) or _from_checksum(checksum.get())
        if found is None:
            found = _by_key(jvm_snapshot.allFiles().collect())
        known = Listing(table_id, version, found, seq(table.spark, found.values()))
        with _lock:
            _known[key] = known
            _known.move_to_end(key)
            while len(_known) > _MOST_TABLES:
                _known.popitem(last=False)
    return known if len(known.files) <= MOST_FILES else None


def _extents(statistics: list[str | None]) -> dict[str, Extent]:
    """Bounds of the columns that every file with rows has whole numbers for."""
    found: dict[str, Extent] | None = None
    for text in statistics:
        stats = json.loads(text) if text else {}
        if stats.get("numRecords") == 0:
            continue
        least, most = stats.get("minValues", {}), stats.get("maxValues", {})
        here = {n: (low, most[n]) for n, low in least.items() if type(low) is int and type(most.get(n)) is int}
        if found is None:
            found = here
        else:
            found = {n: (min(a, here[n][0]), max(b, here[n][1])) for n, (a, b) in found.items() if n in here}
    return found or {}


def _from_checksum(checksum: Any) -> dict[FileKey, Any] | None:
    listed = checksum.allFiles()
    if not listed.isDefined() or int(listed.get().size()) != int(checksum.numFiles()):
        return None
    return _by_key(items(listed.get()))


def _from_known(table: HasLog, known: Listing | None, table_id: str, version: int) -> dict[FileKey, Any] | None:
    """The list of an earlier version, with what the commits since then took away and added."""
    if known is None or known.table_id != table_id or not 0 < version - known.version <= _MOST_COMMITS:
        return None
    actions = scala_object(table.spark, "org.apache.spark.sql.delta.actions.Action")
    files = dict(known.files)
    try:
        for number in range(known.version + 1, version + 1):
            added: dict[FileKey, Any] = {}
            for line in action_lines(commit_text(table, number)):
                kind = next(iter(json.loads(line)), "")
                if kind == "add":
                    action = actions.fromJson(line)
                    added[_key(action)] = action
                elif kind == "remove":
                    files.pop(_key(actions.fromJson(line)), None)
            files |= added  # a file may leave and come back with another deletion vector in one commit
    except SourceHistoryLost:
        return None
    return files


def _by_key(files: Any) -> dict[FileKey, Any]:
    return {_key(file): file for file in files}


def _key(file: Any) -> FileKey:
    vector = file.deletionVector()
    return str(file.path()), None if vector is None else str(vector.uniqueId())

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
from monus.store.jvm import items, java, seq
from monus.store.log import HasLog, action_lines, commit_text

MOST_FILES = 200  # more are left to Delta, which also skips files by their statistics
_MOST_COMMITS = 20
_MOST_TABLES = 256

FileKey = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of one version: Delta's `AddFile` by path and deletion vector, and all of them as a Scala Seq."""

    table_id: str
    version: int
    files: dict[FileKey, Any]
    seq: Any


_known: OrderedDict[tuple[str, str], Listing] = OrderedDict()
_lock = threading.Lock()


def listed_files(table: HasLog, jvm_snapshot: Any) -> Any | None:
    """A Scala Seq of the snapshot's files; None if there are many, or their number is not known."""
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
    return known.seq if len(known.files) <= MOST_FILES else None


def _from_checksum(checksum: Any) -> dict[FileKey, Any] | None:
    listed = checksum.allFiles()
    if not listed.isDefined() or int(listed.get().size()) != int(checksum.numFiles()):
        return None
    return _by_key(items(listed.get()))


def _from_known(table: HasLog, known: Listing | None, table_id: str, version: int) -> dict[FileKey, Any] | None:
    """The list of an earlier version, with what the commits since then took away and added."""
    if known is None or known.table_id != table_id or not 0 < version - known.version <= _MOST_COMMITS:
        return None
    actions = getattr(getattr(java(table.spark), "org.apache.spark.sql.delta.actions.Action$"), "MODULE$")
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

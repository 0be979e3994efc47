"""The Delta log, commit by commit.

A commit is one JSON file that never changes once it is there, so what happened between two versions is known
without a Spark job: which files came and went, which numbers (`txn`) were used, whether the metadata changed.
The files are read through Delta's own log store, which works on every file system that Delta works on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import SparkSession

from monus.errors import SourceHistoryLost
from monus.store.jvm import is_caused_by, java_class


class HasLog(Protocol):
    """What the log's readers need of a table."""

    @property
    def spark(self) -> SparkSession: ...

    @property
    def path(self) -> str: ...

    def delta_log(self) -> Any: ...

    def version(self) -> int: ...


@dataclass(frozen=True, slots=True)
class FileAction:
    """A data file that a commit added or removed; the same file under another deletion vector is another one."""

    path: str
    dv: str | None
    size: int | None
    data_change: bool
    num_records: int | None
    partition_values: Mapping[str, str | None] | None
    deletion_vector: Mapping[str, Any] | None
    timestamp: int | None
    """Milliseconds: when the file was written (added) or removed (removed)."""

    @property
    def key(self) -> tuple[str, str | None]:
        return self.path, self.dv


@dataclass(frozen=True, slots=True)
class Metadata:
    """The table's schema and settings, as a commit sets them."""

    id: str
    schema_json: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Commit:
    version: int
    operation: str
    timestamp: int | None
    user_metadata: str | None
    txns: Mapping[str, int]
    adds: tuple[FileAction, ...]
    removes: tuple[FileAction, ...]
    cdc: tuple[FileAction, ...]
    metadata: Metadata | None

    @property
    def is_data_change(self) -> bool:
        return any(file.data_change for file in self.adds) or any(file.data_change for file in self.removes)


def commits(table: HasLog, after: int, upto: int) -> list[Commit]:
    """The commits after version `after`, up to and including `upto`."""
    if after >= upto:
        return []
    return [parse_commit(version, commit_text(table, version)) for version in range(after + 1, upto + 1)]


def commit_text(table: HasLog, version: int) -> str:
    """The actions of a commit, each a line of JSON; SourceHistoryLost if its file is gone."""
    log = table.delta_log()
    path = java_class(table.spark, "org.apache.spark.sql.delta.util.FileNames.unsafeDeltaFile")(log.logPath(), version)
    try:
        text: str = log.store().read(path, log.newDeltaHadoopConf()).mkString("\n")
    except Exception as error:
        if is_caused_by(error, "FileNotFoundException", "NoSuchFileException"):
            raise SourceHistoryLost(
                f"The log of {table.path} no longer has version {version}, which is needed.",
                "Refresh the view in full; to keep more of the log, raise delta.logRetentionDuration of the table.",
                table=table.path,
                version=version,
            ) from error
        raise
    return text


def action_lines(text: str) -> list[str]:
    """The actions of a commit one by one."""
    # Not splitlines(): a JSON text may hold other line separators.
    return [line for line in text.split("\n") if line.strip()]


def parse_commit(version: int, text: str) -> Commit:
    """A commit from its JSON file."""
    info: dict[str, Any] = {}
    txns: dict[str, int] = {}
    files: dict[str, list[FileAction]] = {"add": [], "remove": [], "cdc": []}
    metadata: Metadata | None = None
    for line in action_lines(text):
        for kind, body in json.loads(line).items():
            if kind in files:
                files[kind].append(_file_action(body))
            elif kind == "commitInfo":
                info = body
            elif kind == "txn":
                txns[body["appId"]] = body["version"]
            elif kind == "metaData":
                metadata = parse_metadata(body)
    return Commit(
        version=version,
        operation=info.get("operation", ""),
        timestamp=info.get("timestamp"),
        user_metadata=info.get("userMetadata"),
        txns=txns,
        adds=tuple(files["add"]),
        removes=tuple(files["remove"]),
        cdc=tuple(files["cdc"]),
        metadata=metadata,
    )


def parse_metadata(body: Mapping[str, Any]) -> Metadata:
    return Metadata(
        body["id"], body["schemaString"], tuple(body.get("partitionColumns") or ()), body.get("configuration") or {}
    )


def landed(table: HasLog, app_id: str, number: int, since: int) -> int | None:
    """The version after `since` whose commit carries this number, or None if there is none."""
    for commit in commits(table, since, table.version()):
        if commit.txns.get(app_id) == number:
            return commit.version
    return None


def foreign_commits(table: HasLog, app_id: str, since: int, upto: int) -> list[Commit]:
    """The commits after `since` up to `upto` that do not carry a number of ours.

    OPTIMIZE and VACUUM never carry one: those that do no harm are told by `is_data_change` and `metadata`.
    """
    return [commit for commit in commits(table, since, upto) if app_id not in commit.txns]


def _file_action(body: Mapping[str, Any]) -> FileAction:
    vector = body.get("deletionVector")
    return FileAction(
        path=body["path"],
        dv=_vector_id(vector) if vector else None,
        size=body.get("size"),
        data_change=bool(body.get("dataChange", True)),
        num_records=_num_records(body.get("stats"), vector),
        partition_values=body.get("partitionValues"),
        deletion_vector=vector,
        timestamp=body.get("deletionTimestamp", body.get("modificationTime")),
    )


def _vector_id(vector: Mapping[str, Any]) -> str:
    """As the protocol defines it: storage type, place, and the offset in a file that holds several vectors."""
    identity = f"{vector['storageType']}{vector['pathOrInlineDv']}"
    return identity if vector.get("offset") is None else f"{identity}@{vector['offset']}"


def _num_records(stats: str | None, vector: Mapping[str, Any] | None) -> int | None:
    if not stats:
        return None
    records = json.loads(stats).get("numRecords")
    if records is None:
        return None
    return int(records) - (int(vector["cardinality"]) if vector else 0)

"""A Delta table at a path, and its snapshots.

Reading the head costs some milliseconds and no Spark job. A DataFrame over a snapshot stays at exactly that
snapshot: commits that come later are not seen, although nothing of the price of time travel is paid for the head.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from monus.errors import NameExists, SourceHistoryLost, SourceInvalid
from monus.store.faults import storage_faults
from monus.store.files import check_files
from monus.store.jvm import is_caused_by, java, java_class, java_session, none, seq, some, string_array
from monus.store.listing import listed_extent, listed_files, listed_rows
from monus.store.log import Metadata, commits, parse_metadata

# What Delta raises when a version cannot be put together from what is left of the log.
_LOST = (
    "VersionNotFoundException",
    "DeltaFileNotFoundException",
    "FileNotFoundException",
    "DeltaIllegalStateException",
    "DeltaAnalysisException",
    "IllegalStateException",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table. What would cost a Spark job to know is asked for only when it is read."""

    version: int
    metadata: Metadata
    jvm: Any

    @property
    def table_id(self) -> str:
        return self.metadata.id

    @property
    def schema_json(self) -> str:
        return self.metadata.schema_json

    @property
    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self.schema_json))

    @property
    def size_in_bytes(self) -> int:
        """From the commit's checksum; a table whose last writer wrote none costs a job here."""
        checksum = self.jvm.checksumOpt()
        return int(checksum.get().tableSizeBytes() if checksum.isDefined() else self.jvm.sizeInBytes())

    @property
    def files(self) -> int:
        checksum = self.jvm.checksumOpt()
        return int(checksum.get().numFiles() if checksum.isDefined() else self.jvm.numOfFiles())


@dataclass(frozen=True, slots=True)
class DeltaTable:
    """A table known by its path; `spark` is the session that its reads and writes run in."""

    spark: SparkSession
    path: str

    def delta_log(self) -> Any:
        """Delta's own handle, which Delta keeps in a cache by path."""
        return java_class(self.spark, "org.apache.spark.sql.delta.DeltaLog.forTable")(
            java_session(self.spark), self.path
        )

    def exists(self) -> bool:
        return bool(self._head().version() >= 0)

    def snapshot_if_any(self) -> Snapshot | None:
        """The head, None if there is no table."""
        head = self._head()
        return _snapshot(head) if head.version() >= 0 else None

    def create(
        self,
        schema: StructType,
        partition_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> Snapshot:
        """Create the table, empty; it is an error if there is one."""
        if self.exists():
            raise NameExists(
                f"There is a Delta table at {self.path} already.",
                "Choose another name, or attach the table that is there.",
                path=self.path,
            )
        settings = dict(properties or {})
        if any(map(needs_mapping, _field_names(schema))):
            # Parquet cannot have names such as `count(1)`; Delta stores them under other names then.
            settings.setdefault("delta.columnMapping.mode", "name")
        session = java_session(self.spark)
        builder = java(self.spark).io.delta.tables.DeltaTable.create(session).location(self.path)
        builder = builder.addColumns(session.parseDataType(schema.json()))
        if partition_by:
            builder = builder.partitionedBy(string_array(self.spark, partition_by))
        if cluster_by:
            builder = builder.clusterBy(string_array(self.spark, cluster_by))
        for key, value in settings.items():
            builder = builder.property(key, value)
        if comment is not None:
            builder = builder.comment(comment)
        with storage_faults(self.path):
            builder.execute()
        return self.snapshot()

    def version(self) -> int:
        """The version of the head, without anything else."""
        return int(self._head().version())

    def snapshot(self) -> Snapshot:
        """The head."""
        head = self._head()
        if head.version() < 0:
            raise SourceInvalid(
                f"There is no Delta table at {self.path}.",
                "Check the path; the folder must hold a _delta_log.",
                path=self.path,
            )
        return _snapshot(head)

    def last_seen(self) -> Snapshot:
        """The head as it was when this process last looked at it, or wrote it: no look at the log."""
        head = self.delta_log().unsafeVolatileSnapshot()
        return _snapshot(head) if head.version() >= 0 else self.snapshot()

    def snapshot_at(self, version: int) -> Snapshot:
        """A version by time travel: its state is reconstructed by Spark jobs when it is first read."""
        nothing = none(self.spark)
        try:
            return _snapshot(self.delta_log().getSnapshotAt(version, nothing, nothing, False))
        except Exception as error:
            if not is_caused_by(error, *_LOST):
                raise
            raise SourceHistoryLost(
                f"Version {version} of {self.path} can no longer be read: its log was cleaned up, or never reached it.",
                "Refresh the view in full; to keep more versions, raise delta.logRetentionDuration of the table.",
                table=self.path,
                versions=(version, version),
            ) from error

    def read(self, snapshot: Snapshot) -> DataFrame:
        """The rows of exactly this snapshot; file pruning and deletion vectors work as in any Delta scan."""
        # Delta calls a relation that must not follow the head a time travel query; for a snapshot that is already
        # in memory this costs nothing.
        relation = self.delta_log().createRelation(
            seq(self.spark, ()), some(self.spark, snapshot.jvm), none(self.spark), True
        )
        return DataFrame(java_session(self.spark).baseRelationToDataFrame(relation), self.spark)

    def read_listed(self, snapshot: Snapshot) -> DataFrame:
        """The same rows without a job that finds the files: for many small scans that is most of their price.

        Such a scan skips partitions, and row groups by Parquet's own statistics, but opens every other file; so it
        is not for what a user asks.
        """
        files = listed_files(self, snapshot.jvm)
        if files is None:
            return self.read(snapshot)
        log, session = self.delta_log(), java_session(self.spark)
        index = java_class(self.spark, "org.apache.spark.sql.delta.files.TahoeBatchFileIndex")(
            session, "batch", files, log, log.dataPath(), snapshot.jvm, False
        )
        relation = log.buildHadoopFsRelationWithFileIndex(snapshot.jvm, index, none(self.spark), False)
        return DataFrame(session.baseRelationToDataFrame(relation), self.spark)

    def extent(self, snapshot: Snapshot, column: str) -> tuple[int, int] | None:
        """Bounds of a column of whole numbers, where the files tell them without a job."""
        return listed_extent(self, snapshot.jvm, column)

    def rows(self, snapshot: Snapshot) -> int | None:
        """The number of rows, where the files tell it without a job."""
        return listed_rows(self, snapshot.jvm)

    def read_version(self, version: int) -> DataFrame:
        """The rows of an earlier version; SourceHistoryLost if its log or its files are gone."""
        head = self.snapshot()
        if version == head.version:
            return self.read(head)
        snapshot = self.snapshot_at(version)
        later = commits(self, version, head.version)
        removed = {file.key: file for commit in later for file in commit.removes}
        for commit in later:
            for file in commit.adds:
                removed.pop(file.key, None)  # added after `version`, so `version` does not need it
        check_files(self, removed.values(), (version, head.version))
        return self.read(snapshot)

    def _head(self) -> Any:
        nothing = none(self.spark)
        return self.delta_log().update(False, nothing, nothing)


def resolve(spark: SparkSession, path_or_table_name: str) -> str:
    """The path of an existing Delta table, given as a path, as delta.`path`, or by its name in the catalog."""
    text = path_or_table_name.strip()
    quoted = re.fullmatch(r"delta\s*\.\s*`(.+)`", text, re.IGNORECASE | re.DOTALL)
    if quoted:
        return _resolve_path(spark, quoted[1].replace("``", "`"))
    if "`" not in text and ("/" in text or "\\" in text or text.startswith(".")):
        return _resolve_path(spark, text)
    try:
        detail = spark.sql(f"DESCRIBE DETAIL {text}").select("format", "location").first()
    except Exception as error:
        if DeltaTable(spark, text).exists():
            return _resolve_path(spark, text)
        raise SourceInvalid(
            f"{text} is neither a Delta table in the catalog nor the path of one.",
            "Give the path of a Delta table, or a name that SHOW TABLES lists; a view cannot be attached.",
            source=text,
        ) from error
    if detail is None or detail["format"] != "delta":
        raise SourceInvalid(
            f"{text} is not a Delta table but {detail['format'] if detail else 'something else'}.",
            "Convert it with CONVERT TO DELTA, or copy it into a table of the warehouse.",
            source=text,
        )
    return str(detail["location"])


def _resolve_path(spark: SparkSession, path: str) -> str:
    table = DeltaTable(spark, path)
    table.snapshot()
    return str(table.delta_log().dataPath().toString())


def _snapshot(jvm_snapshot: Any) -> Snapshot:
    body = json.loads(jvm_snapshot.metadata().json())["metaData"]
    return Snapshot(int(jvm_snapshot.version()), parse_metadata(body), jvm_snapshot)


def needs_mapping(name: str) -> bool:
    return any(character in " ,;{}()\n\t=" for character in name)


def _field_names(data_type: DataType) -> Iterator[str]:
    match data_type:
        case StructType():
            for field in data_type.fields:
                yield field.name
                yield from _field_names(field.dataType)
        case ArrayType():
            yield from _field_names(data_type.elementType)
        case MapType():
            yield from _field_names(data_type.keyType)
            yield from _field_names(data_type.valueType)
        case _:
            return

"""Rows that are in a table's folder already, but in no version of it: data files that wait for their commit.

Delta writes them as part of a transaction that is never committed, so types, NOT NULL, CHECK and generated columns are
checked then, and the commit only adds them to the log. Each file is kept as a text: Delta's own action `add`, and under
which version and layout of the table it was written. Any process can use the text, until VACUUM takes the file: a file
that is in no version is garbage to it once it is older than the retention.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from monus.errors import SourceHistoryLost, SourceSchemaChanged
from monus.store.delta_table import DeltaTable, Snapshot
from monus.store.faults import storage_faults
from monus.store.files import read_files
from monus.store.jvm import items, java_class, none, scala_object, some
from monus.store.log import FileAction, commits, parse_commit
from monus.store.schema_change import check_kept, check_readable

logger = logging.getLogger(__name__)

_UNDER = "writtenUnder"
_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_CHECKED = (_PHYSICAL_NAME, "delta.generationExpression", "delta.invariants", "__CHAR_VARCHAR_TYPE_STRING")
_CHECKED_SETTINGS = ("delta.constraints.", "delta.columnMapping.mode")


def write_files(table: DeltaTable, snapshot: Snapshot, rows: DataFrame) -> tuple[str, ...]:
    """Write rows, which have the table's columns in its order; what violates a constraint is Spark's exception."""
    _check_columns(table, snapshot, rows)
    txn = table.delta_log().startTransaction(none(table.spark), some(table.spark, snapshot.jvm))
    under = {"version": snapshot.version, "layout": layout(snapshot)}
    with storage_faults(table.path):
        files = items(txn.writeFiles(rows._jdf))
    return tuple(json.dumps({**json.loads(file.json()), _UNDER: under}) for file in files)


def read_written(table: DeltaTable, snapshot: Snapshot, adds: Sequence[str]) -> DataFrame:
    """The rows of written files."""
    return read_files(table, snapshot.jvm, parsed(adds))


def remove_written(table: DeltaTable, adds: Sequence[str]) -> None:
    """Delete written files, except those that a commit added; what cannot be deleted is left to VACUUM."""
    files = parsed(adds)
    head = table.version()
    since = min((int(json.loads(text)[_UNDER]["version"]) for text in adds), default=head)
    if not files or head < since:  # a table that was made anew at the same place
        return
    try:
        history = commits(table, since, head)
    except SourceHistoryLost:
        logger.info("The log of %s no longer tells whether %d files were committed: left", table.path, len(files))
        return
    committed = {file.path for commit in history for file in commit.adds}
    for file, action in zip(files, actions(table, adds), strict=True):
        if file.path not in committed:
            _delete(table, action)


def actions(table: DeltaTable, adds: Sequence[str]) -> list[Any]:
    """The texts as Delta's actions."""
    action = scala_object(table.spark, "org.apache.spark.sql.delta.actions.Action")
    return [action.fromJson(json.dumps({"add": json.loads(text)["add"]})) for text in adds]


def parsed(adds: Sequence[str]) -> tuple[FileAction, ...]:
    return parse_commit(-1, "\n".join(json.dumps({"add": json.loads(text)["add"]}) for text in adds)).adds


def fitting_actions(table: DeltaTable, snapshot: Snapshot, txn: Any, adds: Sequence[str]) -> list[Any]:
    """The actions that add the files' rows; rows are written anew where columns or constraints changed since then.

    So what fits the table as it is now gets there, and what does not is told: SourceSchemaChanged where the files
    cannot be read as files of this table any more, and Spark's exception where a row violates a new constraint.
    """
    now = layout(snapshot)
    under = [json.loads(text)[_UNDER] for text in adds]
    if all(each["layout"] == now for each in under):
        return actions(table, adds)
    for version in {int(each["version"]) for each in under}:
        before = table.snapshot_at(version).metadata
        check_readable(table, before, snapshot.metadata)
        check_kept(table, before, snapshot.metadata)
    return items(txn.writeFiles(read_written(table, snapshot, adds)._jdf))


def _check_columns(table: DeltaTable, snapshot: Snapshot, rows: DataFrame) -> None:
    """Delta itself compares only names here, and would write a file that cannot be read."""
    wanted = [(field.name, field.dataType.simpleString()) for field in snapshot.schema.fields]
    given = [(field.name, field.dataType.simpleString()) for field in rows.schema.fields]
    if given != wanted:
        raise SourceSchemaChanged(
            f"The rows have the columns {given}, but {table.path} has {wanted}; nothing was written.",
            "Run the statement again, so that it is analysed against the table as it is now.",
            table=table.path,
        )


def layout(snapshot: Snapshot) -> str:
    """A digest of what a file must fit: everything by which Delta checks rows, or finds them in a file."""
    metadata = snapshot.metadata
    fields = [
        {
            # By the name that a rename keeps, and without comments and what an identity column has come to.
            _PHYSICAL_NAME: field["name"],
            **{key: value for key, value in field["metadata"].items() if key in _CHECKED},
            "type": field["type"],
            "nullable": field["nullable"],
        }
        for field in json.loads(metadata.schema_json)["fields"]
    ]
    settings = {key: value for key, value in metadata.configuration.items() if key.startswith(_CHECKED_SETTINGS)}
    text = json.dumps([metadata.id, fields, metadata.partition_columns, settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _delete(table: DeltaTable, action: Any) -> None:
    path = java_class(table.spark, "org.apache.hadoop.fs.Path")(table.delta_log().dataPath(), action.toPath())
    try:
        path.getFileSystem(table.delta_log().newDeltaHadoopConf()).delete(path, False)
    except Py4JJavaError as error:
        logger.warning("%s was not deleted: %s", path.getName(), error.java_exception)

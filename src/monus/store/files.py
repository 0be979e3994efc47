"""Single data files of a table: whether they are still there, and a DataFrame over some of them.

A file in the log becomes a DataFrame through Delta itself, which applies the deletion vector, fills in the
partition values and the columns that the file does not have, and follows renamed columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame

from monus.errors import SourceHistoryLost
from monus.store.jvm import java_class, none
from monus.store.log import FileAction, HasLog

# VACUUM removes what was deleted first, so when the oldest are there the others are too. The limit keeps a table
# of many thousand files on an object store from being asked for each of them.
_CHECKED = 256


def read_files(table: HasLog, jvm_snapshot: Any, files: Iterable[FileAction]) -> DataFrame:
    """The rows of these files, each path once, with the columns of the snapshot."""
    frame = table.delta_log().createDataFrame(jvm_snapshot, _add_files(table, files), False, none(table.spark))
    return DataFrame(frame, table.spark)


def check_files(table: HasLog, files: Iterable[FileAction], versions: tuple[int, int]) -> None:
    """Raise SourceHistoryLost if one of these files, or its deletion vector, was vacuumed."""
    oldest = sorted(files, key=lambda file: file.timestamp or 0)[:_CHECKED]
    if not oldest:
        return
    folder = table.delta_log().dataPath()
    settings = table.delta_log().newDeltaHadoopConf()
    actions = _add_files(table, oldest)
    for index in range(actions.size()):
        action = actions.apply(index)
        needed = [java_class(table.spark, "org.apache.hadoop.fs.Path")(folder, action.toPath())]
        vector = action.deletionVector()
        if vector is not None and vector.isOnDisk():
            needed.append(vector.absolutePath(folder))
        for path in needed:
            if not path.getFileSystem(settings).exists(path):
                raise SourceHistoryLost(
                    f"The file {path.getName()} of {table.path} was vacuumed; "
                    f"the versions {versions[0]} to {versions[1]} need it.",
                    "Refresh the view in full; to keep more files, vacuum the table with a longer retention.",
                    table=table.path,
                    versions=versions,
                )


def _add_files(table: HasLog, files: Iterable[FileAction]) -> Any:
    """A Scala Seq of AddFile, made by one call for all of them."""
    text = json.dumps(
        [
            {
                "path": file.path,
                "partitionValues": dict(file.partition_values or {}),
                "size": file.size or 0,
                "modificationTime": file.timestamp or 0,
                "dataChange": True,
                "deletionVector": file.deletion_vector and dict(file.deletion_vector),
            }
            for file in files
        ]
    )
    # Delta's jar may have been added after the JVM started: only its own class loader knows it.
    loader = table.delta_log().getClass().getClassLoader()
    by_name = java_class(table.spark, "java.lang.Class.forName")
    array_class = by_name("[Lorg.apache.spark.sql.delta.actions.AddFile;", True, loader)
    mapper = java_class(table.spark, "org.apache.spark.sql.delta.util.JsonUtils.mapper")()
    wrapped = java_class(table.spark, "scala.collection.immutable.ArraySeq.unsafeWrapArray")
    return wrapped(mapper.readValue(text, array_class))

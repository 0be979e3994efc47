"""A transaction of Delta that is given its actions: begun over a snapshot with a number, and committed under a name.

The name of the operation is what the table's history shows. It also decides what a commit costs: from an append, an
update and a truncation Delta derives the checksum of the new version out of the old one, without a job.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Literal, assert_never

from monus.store.apply import TxnNumber
from monus.store.delta_table import DeltaTable, Snapshot
from monus.store.jvm import items, java_class, none, seq, some
from monus.store.listing import listed_files

Operation = Literal["append", "update", "overwrite", "truncate"]

_DELTA = "org.apache.spark.sql.delta"


def begin(table: DeltaTable, snapshot: Snapshot, number: TxnNumber) -> Any | None:
    """A transaction over the snapshot; None if the number was used before."""
    txn = table.delta_log().startTransaction(none(table.spark), some(table.spark, snapshot.jvm))
    checksum = snapshot.jvm.checksumOpt()
    used = checksum.get().setTransactions() if checksum.isDefined() else checksum
    if used.isDefined():
        txn.readTxn().addOne(number.app_id)  # a rival that uses the number meanwhile is a conflict
        last = max((int(each.version()) for each in items(used.get()) if each.appId() == number.app_id), default=-1)
    else:
        last = int(txn.txnVersion(number.app_id))  # the same by a job
    return txn if last < number.version else None


def commit(table: DeltaTable, txn: Any, number: TxnNumber, actions: Iterable[Any], operation: Operation) -> int:
    """The version that the commit made."""
    used = java_class(table.spark, f"{_DELTA}.actions.SetTransaction")(
        number.app_id, number.version, some(table.spark, _now())
    )
    return int(txn.commit(seq(table.spark, [used, *actions]), _operation(table, operation)))


def all_files(table: DeltaTable, snapshot: Snapshot) -> Any:
    """A Scala Seq of the snapshot's files; a job where they are many."""
    files = listed_files(table, snapshot.jvm)
    if files is not None:
        return files
    return java_class(table.spark, "PythonUtils.toSeq")(snapshot.jvm.allFiles().collectAsList())


def removed(files: Iterable[Any]) -> list[Any]:
    """The actions that take whole files out."""
    now = _now()
    return [file.removeWithTimestamp(now, True) for file in files]


def marked(touched: Any) -> list[Any]:
    """The file leaves and comes back with its deletion vector, unless no row of it is left."""
    file = touched.fileLogEntry()
    if touched.isFullyReplaced():
        return removed([file])
    pair = file.removeRows(touched.newDeletionVector(), True, True)  # its statistics become bounds
    return [pair._1(), pair._2()]


def _operation(table: DeltaTable, operation: Operation) -> Any:
    nothing = none(table.spark)
    match operation:
        case "update":
            return java_class(table.spark, f"{_DELTA}.DeltaOperations$Update")(nothing)
        case "truncate":
            return java_class(table.spark, f"{_DELTA}.DeltaOperations$Truncate")()
        case "append" | "overwrite":
            mode = java_class(table.spark, f"org.apache.spark.sql.SaveMode.{operation.capitalize()}")
            return java_class(table.spark, f"{_DELTA}.DeltaOperations$Write")(mode, *[nothing] * 8)
        case _:
            assert_never(operation)


def _now() -> int:
    return int(time.time() * 1000)

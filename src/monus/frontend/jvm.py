"""Scala values seen from Python."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pyspark.errors.utils as pyspark_errors
from pyspark.sql import DataFrame, SparkSession

_SWITCH = "_enable_debugging_cache"
_lock = threading.Lock()
_without: list[bool | None] = []


@lru_cache(maxsize=64)
def java_class(jvm: Any, name: str) -> Any:
    """A class by its full name, or a static method of it; found once, because every dot is a call of the JVM."""
    found = jvm
    for word in name.split("."):
        found = getattr(found, word)
    return found


def items(seq: Any) -> list[Any]:
    """A Scala Seq as a list."""
    iterator = seq.iterator()
    result = []
    while iterator.hasNext():
        result.append(iterator.next())
    return result


def to_seq(jvm: Any, values: Iterable[Any]) -> Any:
    return jvm.PythonUtils.toSeq(list(values))


def option(value: Any) -> Any | None:
    """A Scala Option as a value or None."""
    return value.get() if value.isDefined() else None


def class_name(node: Any) -> str:
    """The simple name of the node's class, without the marks of Scala's inner classes."""
    name: str = node.getClass().getName()
    return name.rsplit(".", 1)[-1].rsplit("$", 1)[-1] if not name.endswith("$") else name[:-1].rsplit(".", 1)[-1]


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """The session whose settings count while a text is parsed or a Column becomes an expression, in this thread."""
    sessions = java_class(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


@contextmanager
def without_call_sites() -> Iterator[None]:
    """PySpark asks the JVM for every Column where in the program it was made: the lines are ours, and it takes time.

    The switch is one for the process, so the first to come sets it and the last to go sets it back.
    """
    with _lock:
        _without.append(getattr(pyspark_errors, _SWITCH, None))
        setattr(pyspark_errors, _SWITCH, False)
    try:
        yield
    finally:
        with _lock:
            first = _without[0]
            _without.pop()
            if not _without:
                setattr(pyspark_errors, _SWITCH, first)


def analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def frame_of(spark: SparkSession, plan: Any) -> DataFrame:
    """A DataFrame over a logical plan of the JVM."""
    of_rows = java_class(spark._jvm, "org.apache.spark.sql.classic.Dataset.ofRows")
    return DataFrame(of_rows(spark._jsparkSession, plan), spark)


def local_limit(frame: DataFrame, rows: int) -> DataFrame:
    """At most so many rows of every task, without the exchange that a limit of all rows needs."""
    # A limit is GlobalLimit(n, LocalLimit(n, frame)).
    return frame_of(frame.sparkSession, analyzed(frame.limit(rows)).child())


def output_attributes(frame: DataFrame) -> dict[str, Any]:
    """The resolved attributes of the output by name."""
    return {attribute.name(): attribute for attribute in items(analyzed(frame).output())}


def quoted(name: str) -> str:
    """An identifier of Spark SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"

"""The boundary to the JVM: the few Scala values and Java exceptions that the store has to make or to look into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession


def java_session(spark: SparkSession) -> Any:
    return spark._jsparkSession


def java(spark: SparkSession) -> Any:
    return spark._jvm


def none(spark: SparkSession) -> Any:
    return java(spark).scala.Option.empty()


def some(spark: SparkSession, value: Any) -> Any:
    return java(spark).scala.Option.apply(value)


def seq(spark: SparkSession, values: Iterable[Any]) -> Any:
    """An immutable Scala Seq."""
    items = java(spark).java.util.ArrayList()
    for value in values:
        items.add(value)
    return java(spark).PythonUtils.toSeq(items)


def items(values: Any) -> list[Any]:
    """A Scala Seq as a list."""
    return [values.apply(index) for index in range(values.size())]


def string_array(spark: SparkSession, values: Iterable[str]) -> Any:
    texts = list(values)
    array = spark.sparkContext._gateway.new_array(java(spark).java.lang.String, len(texts))  # type: ignore[union-attr]
    for index, text in enumerate(texts):
        array[index] = text
    return array


def java_causes(error: BaseException) -> Iterator[tuple[str, str]]:
    """Class name and message of every Java exception behind a Python one, outermost first.

    Depending on the class, and on whether the `delta` package was imported, the same Java exception arrives
    as a Py4J error or as a captured PySpark one; both keep the original.
    """
    thrown = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(20):  # a chain of causes may be a ring
        if thrown is None:
            return
        yield thrown.getClass().getName(), str(thrown.getMessage())
        thrown = thrown.getCause()


def is_caused_by(error: BaseException, *classes: str) -> bool:
    """Whether one of the Java exceptions behind `error` has one of these simple class names."""
    return any(name.rsplit(".", 1)[-1] in classes for name, _ in java_causes(error))

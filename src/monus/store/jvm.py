"""The boundary to the JVM: the few Scala values and Java exceptions that the store has to make or to look into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession


def java_session(spark: SparkSession) -> Any:
    return spark._jsparkSession


def java(spark: SparkSession) -> Any:
    return spark._jvm


def java_class(spark: SparkSession, name: str) -> Any:
    """A class by its full name, or a static method of it; found once, because every dot is a call of the JVM."""
    return _found(java(spark), name)


def scala_object(spark: SparkSession, name: str) -> Any:
    return _scala_object(java(spark), name)


def none(spark: SparkSession) -> Any:
    return _none(java(spark))


def some(spark: SparkSession, value: Any) -> Any:
    return java_class(spark, "scala.Option.apply")(value)


def seq(spark: SparkSession, values: Iterable[Any]) -> Any:
    """An immutable Scala Seq."""
    items = java_class(spark, "java.util.ArrayList")()
    for value in values:
        items.add(value)
    return java_class(spark, "PythonUtils.toSeq")(items)


def items(values: Any) -> list[Any]:
    """A Scala Seq as a list."""
    return [values.apply(index) for index in range(values.size())]


@lru_cache(maxsize=256)
def _found(jvm: Any, name: str) -> Any:
    found = jvm
    for word in name.split("."):
        found = getattr(found, word)
    return found


@lru_cache(maxsize=64)
def _scala_object(jvm: Any, name: str) -> Any:
    return getattr(getattr(jvm, f"{name}$"), "MODULE$")


@lru_cache(maxsize=4)
def _none(jvm: Any) -> Any:
    return jvm.scala.Option.empty()


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


def quoted(name: str) -> str:
    """An identifier of Spark SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"

"""Functions that live in this session only, and would be missing when a definition is analysed again."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from monus.errors import DefinitionNotStorable


def check_function(spark: SparkSession, parts: tuple[str, ...]) -> None:
    """Raises for a function that is neither built in nor kept by a metastore that outlives the process."""
    if len(parts) > 2:
        return  # of another catalog, which keeps its own
    jvm: Any = spark._jvm
    database = jvm.scala.Option.apply(parts[0] if len(parts) == 2 else None)
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(parts[-1], database)
    catalog = spark._jsparkSession.sessionState().catalog()
    is_kept = spark.conf.get("spark.sql.catalogImplementation") != "in-memory"
    try:
        is_lost = catalog.isTemporaryFunction(identifier) or (not is_kept and catalog.isPersistentFunction(identifier))
    except Exception:  # a database that is not there: Spark will say so
        return
    if is_lost:
        name = ".".join(parts)
        raise DefinitionNotStorable(
            f"The function '{name}' lives in this session only, so a view that uses it would not survive it.",
            "Use functions of Spark SQL, or keep what the function gives in a column of a table.",
            function=name,
        )

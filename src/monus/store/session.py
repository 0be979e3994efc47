"""Spark sessions: the local one that Monus starts, the one of its own for maintenance, and what a user's needs.

A SparkContext is one per process, so a second `local_session` in a process where Spark runs is the same Spark.
`newSession` shares tables and cached data with its parent, but no temporary view and no setting that was made at
run time: what a maintenance session is to know of these is given to it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from py4j.java_gateway import JavaClass
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from monus.errors import JavaMissing, SessionInvalid
from monus.store.jars import cached_jars, delta_coordinate, remember_jars
from monus.store.java import require_java
from monus.store.spark_settings import DELTA_CATALOG, DELTA_EXTENSION, local_settings, user_settings

__all__ = [
    "jobs_started",
    "local_session",
    "maintenance_session",
    "require_delta",
    "require_java",
    "spark_is_running",
]

NEWEST_TESTED_JAVA = 21
MOST_MAINTENANCE_PARTITIONS = 16
BACKGROUND_POOL = "monus-background"


def local_session(warehouse: Path, app_name: str = "monus") -> SparkSession:
    """A local Spark with Delta, whose own files are in the warehouse folder; the running one if Spark runs."""
    if spark_is_running():
        spark = SparkSession.builder.getOrCreate()
        require_delta(spark)
        return spark
    java = require_java()
    # Python functions run in the interpreter that runs us, not in whichever `python3` comes first on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Without this Spark fails where the machine's own name cannot be resolved, as in many containers.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = local_settings(warehouse)
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise _not_started(java, error) from error
    require_delta(spark)
    if "spark.jars" not in settings and "spark.jars.packages" not in user_settings(os.environ):
        remember_jars((spark.conf.get("spark.jars") or "").split(","))
    return spark


def spark_is_running() -> bool:
    """Whether this process has a Spark already, which whoever started it will stop."""
    return SparkContext._active_spark_context is not None


def maintenance_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session beside the user's for small changes, with the settings that a definition was analysed under.

    Adaptive execution is off because it runs a job per exchange, which costs more than it finds out when the
    change is small. `settings` come last, so they also override this.
    """
    session = spark.newSession()
    partitions = max(2, min(spark.sparkContext.defaultParallelism, MOST_MAINTENANCE_PARTITIONS))
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    for name, value in settings.items():
        session.conf.set(name, value)
    session.catalog.setCurrentCatalog(spark.catalog.currentCatalog())
    session.catalog.setCurrentDatabase(spark.catalog.currentDatabase())
    return session


def require_delta(spark: SparkSession) -> None:
    """SessionInvalid, with the lines to add, unless the session can read and write Delta tables."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise SessionInvalid(
            "This is a Spark Connect session, which gives no access to Spark's plans.",
            "Connect with a session that runs in the driver: SparkSession.builder.master(...).getOrCreate().",
        )
    missing = []
    # What is set in a running session has no effect: only the settings that Spark was started with count.
    started_with = spark.sparkContext.getConf()
    if DELTA_EXTENSION not in (started_with.get("spark.sql.extensions") or ""):
        missing.append(f'.config("spark.sql.extensions", "{DELTA_EXTENSION}")')
    if started_with.get("spark.sql.catalog.spark_catalog") != DELTA_CATALOG:
        missing.append(f'.config("spark.sql.catalog.spark_catalog", "{DELTA_CATALOG}")')
    if not _has_delta_classes(spark):
        missing.insert(0, f'.config("spark.jars.packages", "{delta_coordinate()}")')
    if missing:
        raise SessionInvalid(
            "The Spark session cannot use Delta tables.",
            "These settings count only when Spark starts: stop it (spark.stop(), or a new process for the jar), "
            "and start it again with\n    SparkSession.builder\n        " + "\n        ".join(missing),
            missing=tuple(missing),
        )


def jobs_started(spark: SparkSession) -> int:
    """How many jobs this Spark has started so far, by its scheduler's own counter."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def _has_delta_classes(spark: SparkSession) -> bool:
    # The JVM view answers with a package, not with an error, for a class that is not there.
    jvm = spark.sparkContext._jvm
    return jvm is not None and isinstance(jvm.io.delta.tables.DeltaTable, JavaClass)


def _not_started(java: int, error: PySparkRuntimeError) -> JavaMissing | SessionInvalid:
    if java > NEWEST_TESTED_JAVA:
        message = f"Spark did not start on Java {java}; the newest that it is known to run on is {NEWEST_TESTED_JAVA}."
        return JavaMissing(message, "Install a JDK 17 or 21 and set JAVA_HOME to it.", version=java)
    hint = "What Spark printed above says why."
    if not cached_jars():
        hint += " The first start on a machine fetches Delta's jars from Maven Central and needs the network for it."
    return SessionInvalid(f"Spark did not start: {str(error).rstrip('.')}.", hint)

"""A local Spark for tests: plans are run once over a few rows, so nothing is compiled for speed."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

import monus.store
from monus.store.session import local_session

MEMORY = "2g"  # several test processes run side by side
SETTINGS = {
    # Generating and compiling Java for every plan takes longer than running it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "2",
    # Parquet's filter by dictionary takes −0.0 and 0.0 for different: `f = 0` then misses rows of plain Delta tables.
    "spark.hadoop.parquet.filter.dictionary.enabled": "false",
}


def quick_session(folder: Path, app_name: str = "monus-tests") -> SparkSession:
    log4j = (Path(monus.store.__file__).parent / "log4j2.properties").as_uri()
    options = f"-XX:+UseParallelGC -Dlog4j2.configurationFile={log4j}"
    words = ["--driver-memory", MEMORY, *(f"--conf {name}={value}" for name, value in SETTINGS.items())]
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{' '.join(words)} --driver-java-options '{options}' pyspark-shell"
    try:
        return local_session(folder, app_name)
    finally:
        if before is None:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
        else:
            os.environ["PYSPARK_SUBMIT_ARGS"] = before

"""The settings of a local Spark: our defaults, each giving way to what the user's environment says.

Users set Spark's configuration in `spark-defaults.conf`, in PYSPARK_SUBMIT_ARGS and in SPARK_DRIVER_MEMORY. A
setting that is made in the program overrides all three, so a default is left out where one of them speaks.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from monus.store.jars import cached_jars, delta_coordinate

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

GIGABYTE = 1 << 30
LARGEST_DEFAULT_MEMORY = 8 * GIGABYTE

_FLAGS = {
    "--master": "spark.master",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--packages": "spark.jars.packages",
    "--jars": "spark.jars",
}


def local_settings(warehouse: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a local Spark for this warehouse is started with."""
    user = user_settings(environment)
    settings = {
        "spark.sql.catalog.spark_catalog": DELTA_CATALOG,
        "spark.sql.warehouse.dir": (warehouse.absolute() / "spark-warehouse").as_uri(),
        # The defaults, 50 and 200, are for clusters: here each partition is a task that finds nothing to do.
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
        # A refresh of one view uses some fifty generated classes. The default keeps a hundred, so a few views in turn
        # would have all of theirs compiled anew each time.
        "spark.sql.codegen.cache.maxEntries": "5000",
        # Jobs of queries and of background maintenance share the cores by weight.
        "spark.scheduler.mode": "FAIR",
        # Not as a URI: Hadoop takes `%20` for what it says.
        "spark.scheduler.allocation.file": f"file:{Path(__file__).absolute().with_name('scheduler_pools.xml')}",
        "spark.driver.memory": default_driver_memory(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if not _has_own(environment, "log4j2.*"):
        log4j = Path(__file__).with_name("log4j2.properties").as_uri()
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={log4j}"
    if any(name.startswith("spark.scheduler.") for name in user) or _has_own(environment, "fairscheduler.xml"):
        settings = {name: value for name, value in settings.items() if not name.startswith("spark.scheduler.")}
    settings = {name: value for name, value in settings.items() if name not in user}
    master = user.get("spark.master", "")
    settings["spark.master"] = master if master.startswith("local") else "local[*]"
    settings["spark.sql.extensions"] = _with(user.get("spark.sql.extensions", ""), DELTA_EXTENSION)
    jars = cached_jars()
    if jars and "spark.jars.packages" not in user:
        settings["spark.jars"] = _with(user.get("spark.jars", ""), *jars)
    else:
        settings["spark.jars.packages"] = _with(user.get("spark.jars.packages", ""), delta_coordinate())
    return settings


def user_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What the environment says, the stronger source last: defaults file, variables, arguments of spark-submit."""
    settings = _defaults_file(environment)
    if memory := environment.get("SPARK_DRIVER_MEMORY"):
        settings["spark.driver.memory"] = memory
    words = iter(shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", "")))
    for word in words:
        flag, has_value, value = word.partition("=")
        if flag in ("--conf", "-c"):
            name, _, setting = (value if has_value else next(words, "")).partition("=")
            settings[name] = setting
        elif flag in _FLAGS:
            settings[_FLAGS[flag]] = value if has_value else next(words, "")
    return settings


def default_driver_memory() -> str:
    """Half of the memory that this process may use, at least 1 and at most 8 gigabytes."""
    half = _usable_memory() // 2
    return f"{max(GIGABYTE, min(half, LARGEST_DEFAULT_MEMORY)) >> 20}m"


def _usable_memory() -> int:
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 * GIGABYTE
    try:
        # In a container the machine's memory is not ours.
        return min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError):
        return memory


def _conf_folder(environment: Mapping[str, str]) -> Path | None:
    if folder := environment.get("SPARK_CONF_DIR"):
        return Path(folder)
    home = environment.get("SPARK_HOME")
    return Path(home) / "conf" if home else None


def _has_own(environment: Mapping[str, str], files: str) -> bool:
    folder = _conf_folder(environment)
    return folder is not None and any(folder.glob(files))


def _defaults_file(environment: Mapping[str, str]) -> dict[str, str]:
    folder = _conf_folder(environment)
    try:
        text = (folder / "spark-defaults.conf").read_text(encoding="utf-8") if folder else ""
    except OSError:
        return {}
    lines = (line.strip() for line in text.splitlines())
    pairs = (re.split(r"\s*[=\s]\s*", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _with(present: str, *added: str) -> str:
    """A comma-separated setting of Spark with more items, each once."""
    items = [item.strip() for item in present.split(",") if item.strip()]
    return ",".join(dict.fromkeys([*items, *added]))

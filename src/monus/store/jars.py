"""Delta's jars: fetched by Spark's Ivy on the first start, remembered by path from then on.

Ivy would resolve the coordinate again on every start, which takes seconds, prints eighty lines and
looks at the network; with the paths of the jars at hand Spark needs none of it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname


def delta_coordinate() -> str:
    """The Maven coordinate of the Delta that fits the installed Spark and the installed `delta-spark`."""
    spark_minor = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark_minor}_2.13:{version('delta-spark')}"


def cached_jars() -> tuple[str, ...]:
    """The jars that an earlier start resolved; none if it was never done or a file is gone."""
    try:
        jars = tuple(_listing().read_text(encoding="utf-8").split("\n"))
    except OSError:
        return ()
    return jars if all(Path(url2pathname(urlparse(jar).path)).is_file() for jar in jars) else ()


def remember_jars(jars: Sequence[str]) -> None:
    """Keeps the list for the next start. A cache that cannot be written only makes that start slower."""
    listing = _listing()
    unfinished = listing.with_suffix(f".{os.getpid()}")
    try:
        listing.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text("\n".join(jars), encoding="utf-8")
        unfinished.replace(listing)
    except OSError as error:
        logging.getLogger(__name__).info("The list of jars cannot be kept: %s", error)


def _listing() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "monus" / (delta_coordinate().replace(":", "-") + ".jars")

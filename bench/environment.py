"""Where a run took place: machine, versions, commit, date. Numbers without these mean nothing later."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = {"monus": "monus", "pyspark": "pyspark", "delta": "delta-spark"}


def describe() -> dict[str, str]:
    """By the words that the results use; taken before the run, so that the load is not our own."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "cores": f"{usable_cores()}, {cpu_model()}",
        "memory": memory(),
        "os": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "python": platform.python_version(),
        **{word: package_version(package) for word, package in PACKAGES.items()},
        "load before": load_average(),
    }


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or "unknown processor"


def memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return "unknown"
    return f"{size / 2**30:.0f} GiB"


def load_average() -> str:
    """Near the number of cores or above, other processes took part in the measurement."""
    if not hasattr(os, "getloadavg"):
        return "unknown"
    return f"{os.getloadavg()[0]:.1f}"


def package_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def commit() -> str:
    """The commit, and whether files differ from it; results themselves do not count."""
    found = _git("rev-parse", "--short=12", "HEAD")
    if not found:
        return "unknown"
    changed = _git("status", "--porcelain", "--", "src", "bench", ":!bench/results")
    return f"{found} with local changes" if changed else found


def _git(*arguments: str) -> str:
    folder = Path(__file__).parent.parent
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()

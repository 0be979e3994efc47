"""Which Java Spark would start: `JAVA_HOME` first, then the PATH, as Spark's own launcher looks for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from monus.errors import JavaMissing

OLDEST_JAVA = 17
INSTALL = (
    "Install a JDK 17 or 21 (Debian, Ubuntu: apt install openjdk-17-jdk-headless; macOS: brew install openjdk@17, "
    "and set JAVA_HOME to it)."
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def require_java(environment: Mapping[str, str] = os.environ) -> int:
    """The major version of the Java that Spark will use, or JavaMissing with what to install."""
    java = _find_java(environment)
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissing(f"{java} does not run: {error}.", INSTALL, java=java) from error
    said = (result.stderr + result.stdout).strip()
    version = java_version(said)
    if result.returncode or version is None:
        # macOS has a `java` that only says that none is installed.
        first_line = said.splitlines()[0] if said else "no output"
        raise JavaMissing(f"{java} -version does not tell a version: {first_line}.", INSTALL, java=java)
    if version < OLDEST_JAVA:
        message = f"Spark needs Java {OLDEST_JAVA} or newer, and {java} is Java {version}."
        raise JavaMissing(message, INSTALL, java=java, version=version)
    return version


def java_version(said: str) -> int | None:
    """The major version in the output of `java -version`: 17 of "17.0.15", 8 of "1.8.0_392"."""
    found = _VERSION.search(said)
    return int(found[1]) if found else None


def _find_java(environment: Mapping[str, str]) -> str:
    home = environment.get("JAVA_HOME")
    if home:
        java = shutil.which("java", path=str(Path(home) / "bin"))
        if java is None:
            hint = "Set JAVA_HOME to a JDK 17 or 21, or unset it to use the java on the PATH."
            raise JavaMissing(f"JAVA_HOME is {home}, but there is no bin/java in it.", hint, java_home=home)
        return java
    java = shutil.which("java", path=environment.get("PATH", ""))
    if java is None:
        raise JavaMissing("Java is needed to run Spark, and there is none on the PATH.", INSTALL)
    return java

"""A machine without a Java that Spark can use is told what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from monus.errors import JavaMissing
from monus.store.java import java_version, require_java

SAYS_17 = 'openjdk version "17.0.15" 2025-04-15'
SAYS_8 = 'java version "1.8.0_392"'


def fake_java(folder: Path, says: str, exit_code: int = 0) -> Path:
    java = folder / "java"
    folder.mkdir(parents=True, exist_ok=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {exit_code}\n", encoding="utf-8")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("said", "version"),
    [
        (SAYS_17, 17),
        (SAYS_8, 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1"', 17),
        ("Unable to locate a Java Runtime.", None),
    ],
)
def test_reads_the_version(said: str, version: int | None) -> None:
    assert java_version(said) == version


def test_takes_the_java_on_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path, SAYS_17)
    assert require_java({"PATH": str(tmp_path)}) == 17


def test_java_home_comes_first(tmp_path: Path) -> None:
    fake_java(tmp_path / "path", SAYS_8)
    fake_java(tmp_path / "home" / "bin", SAYS_17)
    assert require_java({"PATH": str(tmp_path / "path"), "JAVA_HOME": str(tmp_path / "home")}) == 17


def test_no_java_at_all(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match=r"none on the PATH\. Install a JDK 17"):
        require_java({"PATH": str(tmp_path)})


def test_java_home_leads_nowhere(tmp_path: Path) -> None:
    fake_java(tmp_path, SAYS_17)
    with pytest.raises(JavaMissing, match="JAVA_HOME is /no/such/folder, but there is no bin/java in it"):
        require_java({"PATH": str(tmp_path), "JAVA_HOME": "/no/such/folder"})


def test_java_too_old(tmp_path: Path) -> None:
    fake_java(tmp_path, SAYS_8)
    with pytest.raises(JavaMissing, match=r"needs Java 17 or newer, and .* is Java 8\. Install"):
        require_java({"PATH": str(tmp_path)})


def test_a_java_that_only_says_there_is_none(tmp_path: Path) -> None:
    fake_java(tmp_path, "Unable to locate a Java Runtime.", exit_code=1)
    with pytest.raises(JavaMissing, match="Unable to locate a Java Runtime"):
        require_java({"PATH": str(tmp_path)})

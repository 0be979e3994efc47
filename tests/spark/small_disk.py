"""Disks that are full and folders that nobody may write to, and what a warehouse on them must show.

A full disk is a small file system in memory, which only root may mount.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import monus
from monus.maintenance.fault_points import FaultPoint, listening

MEGABYTES = 48
OTHER = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as other:
    other.execute("SELECT * FROM meta").fetchall()
    print("opened", flush=True)
    sys.stdin.read()
"""
Reached = tuple[FaultPoint, int]
"""A fault point, and the how manieth time it is reached."""


def _run(*words: object) -> bool:
    if shutil.which(str(words[0])) is None:
        return False
    return subprocess.run(list(map(str, words)), capture_output=True, check=False).returncode == 0


def _unmount(folder: Path) -> None:
    assert _run("umount", folder) or _run("umount", "-l", folder)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    if not _run("mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", folder):
        pytest.skip("only root may mount a small disk")
    try:
        yield folder
    finally:
        free(folder)
        _unmount(folder)


def fill(disk: Path) -> None:
    """To the last byte."""
    with suppress(OSError), (disk / "ballast").open("ab", buffering=0) as ballast:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while ballast.write(bytes(size)):
                    pass


def free(disk: Path) -> None:
    (disk / "ballast").unlink(missing_ok=True)


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """A folder, with all in it, or a file; permissions alone would not keep root out."""
    if os.geteuid() == 0:
        if not _run("mount", "--bind", path, path):
            pytest.skip("root may not mount here, and permissions do not keep it out")
        try:
            if not _run("mount", "-o", "remount,ro,bind", path):
                pytest.skip("root may not mount here, and permissions do not keep it out")
            yield
        finally:
            _unmount(path)
        return
    before = {each: each.stat().st_mode for each in [path, *path.rglob("*")]}
    try:
        for each, mode in before.items():
            each.chmod(mode & ~0o222)
        yield
    finally:
        for each, mode in before.items():
            if each.exists():
                each.chmod(mode)


@contextmanager
def catalog_opened_anew(warehouse: monus.Warehouse) -> Iterator[None]:
    """What happens to the file's rights is seen by connections that are made after it; another process has it open."""
    # Of connections of one process SQLite shares the open file, with the rights that it had.
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, warehouse.root / "catalog.db"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None and other.stdout.readline() == "opened\n"
        warehouse._catalog._database._engine.dispose()
        try:
            yield
        finally:
            other.kill()


def points_of(action: Callable[[], object]) -> list[Reached]:
    """The fault points that an action reaches, in order."""
    counts, found = Counter[FaultPoint](), list[Reached]()

    def note(point: FaultPoint) -> None:
        counts[point] += 1
        found.append((point, counts[point]))

    with listening(note):
        action()
    return found


@contextmanager
def full_from(disk: Path, at: Reached | None) -> Iterator[None]:
    """The disk is full from that fault point on, or from the beginning."""
    counts = Counter[FaultPoint]()

    def note(point: FaultPoint) -> None:
        counts[point] += 1
        if (point, counts[point]) == at:
            fill(disk)

    if at is None:
        fill(disk)
    with listening(note):
        yield

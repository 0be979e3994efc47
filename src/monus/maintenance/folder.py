"""The folder of a warehouse: where it may be, and whether it is one."""

from __future__ import annotations

import re
from pathlib import Path

from monus.errors import WarehouseInvalid

MARK = "catalog.db"


def local_folder(folder: str | Path) -> Path:
    """The folder as a path; a URL of an object store is none, and would become a folder of that name."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", str(folder))
    if scheme is None:
        return Path(folder).absolute()
    if scheme[1].lower() == "file":
        return Path(re.sub(r"^file:/+", "/", str(folder), flags=re.IGNORECASE))
    raise WarehouseInvalid(
        f"The warehouse folder cannot be at {folder}: its catalog needs a file system that can lock files.",
        "Give a folder on a local disk; tables that are elsewhere are attached: wh.attach(name, path).",
    )


def check_folder(root: Path) -> None:
    if root.exists() and not root.is_dir():
        raise WarehouseInvalid(f"{root} is a file, not a folder.", "Give a folder; it is created if it is not there.")
    if root.is_dir() and not (root / MARK).exists() and any(_is_foreign(entry) for entry in root.iterdir()):
        raise WarehouseInvalid(
            f"The folder {root} has files in it, but no {MARK}: it is not a warehouse.",
            "Give an empty folder, or one that Monus made; monus.rebuild_catalog(folder) mends one that lost it.",
        )


def _is_foreign(entry: Path) -> bool:
    return entry.name not in ("spark-warehouse", "tables", "views", "pending", "staging") and not entry.name.startswith(
        (".", MARK)
    )

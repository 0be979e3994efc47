"""The folder in which a transaction makes durable what leaves its tables, and which of these nobody needs any more.

Each says whose it is: a process that dies before its transaction is committed, or just before the folder is dropped,
leaves it behind, and nothing else in the warehouse knows of it.
"""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.catalog.owners import Owner
from monus.maintenance.creation import remove_folder
from monus.store.faults import storage_faults

logger = logging.getLogger(__name__)

FOLDER = "staging"
_OWNER = "owner.json"


def staging_path(root: str, name: str) -> str:
    return f"{root}/{FOLDER}/{name}"


def claim(path: str, owner: Owner) -> None:
    """Make the folder, which is always on a local disk, with its owner's name in it from the first moment."""
    folder = Path(path.removeprefix("file:"))
    beside = folder.with_name(f".{folder.name}")
    with storage_faults(path):
        try:
            beside.mkdir(parents=True)
            (beside / _OWNER).write_text(json.dumps(owner.to_json()))
            beside.rename(folder)
        except OSError:
            shutil.rmtree(beside, ignore_errors=True)
            raise


def remove_abandoned(spark: SparkSession, root: Path, catalog: Catalog) -> None:
    """Remove the areas of processes that died, unless a transaction that is still to be applied needs them."""
    dead = [folder for folder in (root / FOLDER).glob("*") if _is_abandoned(folder)]
    if not dead:
        return
    # Asked after its process was seen dead, so that it cannot have been committed since.
    needed = {Path(record.staging).name for record in catalog.ledger().outstanding if record.staging is not None}
    for folder in dead:
        if folder.name not in needed:
            logger.warning("Removing %s, left by a transaction whose process died", folder)
            remove_folder(spark, str(folder))


def _is_abandoned(folder: Path) -> bool:
    try:
        owner = Owner.from_json(json.loads((folder / _OWNER).read_text()))
    except (FileNotFoundError, json.JSONDecodeError):
        return False  # being made or removed just now
    return owner.is_dead()

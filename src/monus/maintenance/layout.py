"""Where things are in a warehouse folder."""

from __future__ import annotations

from urllib.parse import quote

WEIGHT = "__w"
BATCH = "__batch"

# The tables that only Monus writes. A checkpoint costs more than ten small commits, and their logs are short to read.
OWN_TABLE = {"delta.checkpointInterval": "100"}


def folder_of(name: str) -> str:
    """A folder name for any identifier; plain names stay as they are."""
    # quote() leaves dots alone, and `..` is another folder.
    return quote(name.lower(), safe="_-").replace(".", "%2E")


def table_path(root: str, name: str) -> str:
    return f"{root}/tables/{folder_of(name)}"


def view_path(root: str, name: str) -> str:
    return f"{root}/views/{folder_of(name)}"


def pending_path(view_location: str) -> str:
    """The pending change of the view whose table is there."""
    head, _, name = view_location.rpartition("/")
    return f"{head.rpartition('/')[0]}/pending/{name}"

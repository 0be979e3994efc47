"""Starts a local Spark once, so that the jars are in the cache and everything is known to work."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from monus.errors import MonusError
from monus.store.jars import cached_jars
from monus.store.session import local_session


def main() -> int:
    if cached_jars():
        return 0
    print("Starting Spark once, which fetches Delta's jars (87 MB, once per user)", flush=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            local_session(Path(folder)).stop()
    except MonusError as error:
        print(f"monus: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

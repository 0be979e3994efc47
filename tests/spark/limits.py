"""Small tables never meet the limits at which a refresh goes another way, so random tests draw the limits too."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

# Each limit, and what it is set to so that the other way is taken by tables of a few rows.
LIMITS: dict[str, float] = {
    "monus.maintenance.fold.RETRACT_BYTES": 0,
    "monus.maintenance.fold.REWRITE_BYTES": 0,
    "monus.maintenance.fold.REWRITE_FRACTION": 1e9,
    "monus.maintenance.fold.BROADCAST_BYTES": 0,
    "monus.maintenance.fold.MOST_HELD": 0,
    "monus.maintenance.fold.LEAST_HELD": 1,
    "monus.maintenance.fold.LIKELY_PER_ROW": 1e9,
    "monus.maintenance.derive.ONE_TASK_ROWS": -1,
    "monus.maintenance.derive.JOINED_AGAIN_ROWS": -1,
    "monus.maintenance.from_view.PAYS": 1e9,
    "monus.compiler.groups.SMALL_VIEW_ROWS": 0,
    "monus.compiler.groups.BROADCAST_ROWS": 0,
    "monus.compiler.relations.BROADCAST_ROWS": 0,
    "monus.compiler.relations.TINY_TABLE_ROWS": 0,
    "monus.compiler.prune.SCAN_ROWS": 0,
    "monus.compiler.prune.DRIVER_ROWS": 0,
    "monus.compiler.materialize.LOCAL_ROWS": -1,
    "monus.store.listing.MOST_FILES": 0,
}
MERGE = ("RETRACT_BYTES", "REWRITE_BYTES", "REWRITE_FRACTION")


@contextmanager
def drawn_limits(rng: random.Random) -> Iterator[list[str]]:
    """Some limits set low; those that lead to MERGE and deletion vectors together, or they would not."""
    merges = rng.random() < 0.6
    chosen = [
        name
        for name in LIMITS
        if (
            merges if name.endswith(MERGE) else rng.random() < (0.15 if name.endswith(("LOCAL_ROWS", "FILES")) else 0.4)
        )
    ]
    with low_limits(*chosen):
        yield chosen


@contextmanager
def low_limits(*names: str) -> Iterator[None]:
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(patch(name, LIMITS[name]))
        yield

"""The moments after durable actions, by name, so that tests can end a process at each of them.

`tests/spark/test_fault_matrix.py` reaches every one of them, or names the test that does.

Outside tests nobody listens, and a fault point does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum


class FaultPoint(StrEnum):
    """Each is named for the durable action that has just been done."""

    LEASE_TAKEN = "lease taken"
    INTENT_WRITTEN = "intent written"
    BATCH_APPENDED = "batch appended"
    COMMITTED = "committed"
    CHECKED = "checked, before it is published"
    PUBLISHED = "published"
    VECTOR_PUBLISHED = "vector alone published"
    INTENT_DISCARDED = "intent that was left discarded"
    FENCE_MARKED = "fence marked"
    FENCED = "fence committed"
    VERSION_MOVED = "version moved"
    VIEW_RECORDED = "record of a new view written"
    TABLE_CREATED = "table of a new view created"
    TABLE_RECORDED = "table of a new view recorded"
    TABLE_FORGOTTEN = "record of a dropped table removed"
    FOLDERS_REMOVED = "folders of what was dropped removed"
    VIEW_ALTERED = "policy, mode or name of a view set"
    MARKED_UNUSABLE = "view marked as unusable"
    TICK_CLAIMED = "tick of a schedule claimed"
    VIEW_FORGOTTEN = "record of a dropped view removed"
    BATCHES_GIVEN_UP = "batches marked as gone"
    BATCHES_DROPPED = "batches dropped"
    STATEMENT_COMMITTED = "commit of a statement by itself made"
    STATEMENT_RECORDED = "statement by itself recorded"
    STAGED = "changes of a transaction staged"
    ALL_LEASES_TAKEN = "leases of a transaction taken"
    TRANSACTION_COMMITTED = "transaction committed"
    TABLE_COMMITTED = "commit of a table in a transaction made"
    VERSIONS_RECORDED = "versions that a transaction reached recorded"
    VIEW_MAINTAINED = "view in a transaction maintained"
    TRANSACTION_APPLIED = "transaction applied"
    STAGING_DROPPED = "staging area dropped"


Listener = Callable[[FaultPoint], None]
_listeners: list[Listener] = []


def fault_point(point: FaultPoint) -> None:
    for listener in _listeners:
        listener(point)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell the listener of every fault point that is reached inside the block, in any thread."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)

"""What random sequences are to have done at least once, so that a generator that has lost something is noticed."""

from __future__ import annotations

from collections.abc import Mapping

from tests.spark.scenario_model import INVARIANTS, READ_NOW

_BY_CALL = ["insert", "delete", "update", "merge", "assign", "assign of several tables"]
_STATEMENTS = ["INSERT INTO … VALUES", "INSERT INTO … SELECT", "INSERT OVERWRITE", "UPDATE", "UPDATE of all rows"]
_STATEMENTS += ["DELETE", "DELETE of all rows", "MERGE", "MERGE BY SOURCE", "MERGE with equal source rows", "TRUNCATE"]
_STATEMENTS += ["FROM … INSERT several tables"]
_STAGED = ["rows in and out", "rows there and back", "deleted again", "filled again", "by a call", "by itself"]
_STAGED += ["several tables", "nothing in the end"]
_ALONE = ["INSERT", "UPDATE", "DELETE", "MERGE"]

EXPECTED = (
    *(f"view {policy}" for policy in INVARIANTS),
    *(f"altered to {policy}" for policy in INVARIANTS),
    *(f"read: {policy}" for policy in READ_NOW),
    *(f"verified {invariant}" for invariant in set(INVARIANTS.values())),
    *(f"{upper} view over a {lower} one" for upper in ("kept", "deferred") for lower in ("kept", "deferred")),
    "full view IMMEDIATE", "DIFFERENTIAL refused", "assertion",
    *_STATEMENTS,
    *(f"tx.{call}" for call in _BY_CALL),
    *(f"staged: {kind}" for kind in _STAGED),
    *(f"alone: {kind}" for kind in _ALONE),
    *(f"outside: {kind}" for kind in [*_ALONE, "OPTIMIZE"]),
    "committed", "committed by SQL", "rolled back", "conflict", "both committed", "both committed on one table",
    "refused by an assertion", "refused for what others wrote",
    "read inside: a query", "read inside: a current view", "read inside: a deferred view",
    "propagate append", "propagate none", "partial refresh", "partial refresh of nothing",
    "refresh", "refresh in full", "refresh all", "due: refresh", "due: propagate", "due: partial_refresh",
    "fresh read", "fresh read of what is behind", "with tasks", "without tasks",
)  # fmt: skip


def never(happened: Mapping[str, int]) -> list[str]:
    """What did not happen."""
    return [what for what in EXPECTED if not happened.get(what)]

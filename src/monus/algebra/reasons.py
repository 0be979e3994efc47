"""Why something cannot be maintained incrementally, or only with care."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """`operator` names what stands in the way, `sentence` says why and what to write instead."""

    code: str
    operator: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.code} ({self.operator}): {self.sentence}"

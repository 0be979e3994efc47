"""How busy the CPU of this machine is."""

from __future__ import annotations

import os
from pathlib import Path

STAT = Path("/proc/stat")


class CpuMeter:
    """The part of the CPU that was used since it was last asked; the first time, since now."""

    def __init__(self) -> None:
        self._last = _ticks()

    def used(self) -> float:
        """Where the system does not count, by the load of the last minute."""
        now = _ticks()
        if now is None or self._last is None:
            return os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 0.0
        (total, idle), (total_before, idle_before), self._last = now, self._last, now
        passed = total - total_before
        return 1.0 - (idle - idle_before) / passed if passed > 0 else 0.0


def _ticks() -> tuple[int, int] | None:
    """Of all kinds, and of idleness and waiting for disks, since the machine was started."""
    try:
        words = STAT.read_text(encoding="ascii").split("\n", 1)[0].split()
        counts = [int(word) for word in words[1:9]]  # what guests use is counted for their host already
        return sum(counts), counts[3] + counts[4]
    except (OSError, ValueError, IndexError):
        return None

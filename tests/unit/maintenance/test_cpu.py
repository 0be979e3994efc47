from __future__ import annotations

import time
from pathlib import Path

import pytest

from monus.maintenance import cpu
from monus.maintenance.cpu import CpuMeter

BEFORE = "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n"
AFTER = "cpu  130 0 60 850 60 0 0 0 30 0\ncpu0 1 2 3\n"


def test_what_was_used_since_the_last_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "stat"
    stat.write_text(BEFORE)
    monkeypatch.setattr(cpu, "STAT", stat)
    meter = CpuMeter()
    assert meter.used() == 0.0
    stat.write_text(AFTER)
    assert meter.used() == pytest.approx(0.4)
    assert meter.used() == 0.0


@pytest.mark.parametrize("text", [None, "", "cpu", "cpu a b c d e"])
def test_by_the_load_where_nothing_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    if text is not None:
        (tmp_path / "stat").write_text(text)
    monkeypatch.setattr(cpu, "STAT", tmp_path / "stat")
    monkeypatch.setattr("os.getloadavg", lambda: (3.0, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert CpuMeter().used() == 1.5


def test_work_shows() -> None:
    meter, until = CpuMeter(), time.monotonic() + 0.3
    while time.monotonic() < until:
        pass
    assert meter.used() > 0.0

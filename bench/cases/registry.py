"""The cases by name: add yours here."""

from __future__ import annotations

from bench.case import Case
from bench.cases.tpch import TPCH

CASES: dict[str, Case] = {case.name: case for case in (TPCH,)}

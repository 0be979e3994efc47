"""The same examples on every run; MONUS_EXAMPLES raises their number per property (and looks for new ones)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

WANTED = os.environ.get("MONUS_EXAMPLES")

settings.register_profile(
    "monus",
    max_examples=int(WANTED) if WANTED else 200,
    derandomize=WANTED is None,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)
settings.load_profile("monus")

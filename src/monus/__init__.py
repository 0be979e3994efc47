"""Monus keeps materialized views fresh on Apache Spark for the price of what changed."""

from monus.catalog.records import RefreshRecord as Refresh
from monus.errors import MonusError
from monus.maintenance.explain import Explanation
from monus.maintenance.planner import RefreshPlan
from monus.maintenance.rebuild import Rebuilt
from monus.maintenance.status import Status
from monus.maintenance.verify import Verification
from monus.warehouse import View, Warehouse, connect, rebuild_catalog

__version__ = "0.1.0"

__all__ = [
    "Explanation",
    "MonusError",
    "Rebuilt",
    "Refresh",
    "RefreshPlan",
    "Status",
    "Verification",
    "View",
    "Warehouse",
    "connect",
    "rebuild_catalog",
]

"""ALTER MATERIALIZED VIEW: another policy, mode or name, without computing the view anew.

The four scenarios differ in what is kept between refreshes, and the table, the pending change and the log are there
under each. So a new policy only has to bring the view to what its invariant asks for: INV_IM a refresh, INV_DT a
propagate; INV_BL and INV_C hold already.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.errors import InUse, StatementInvalid
from monus.maintenance.concerned import assertions_over
from monus.maintenance.creation import Creation, check_name, check_policy, check_strict
from monus.maintenance.fault_points import FaultPoint, fault_point
from monus.maintenance.lease import held_lease
from monus.maintenance.maintainer import Maintainer
from monus.maintenance.manager import leave_tasks
from monus.maintenance.names import Names
from monus.maintenance.plans import Plans
from monus.maintenance.protocol import prepare
from monus.maintenance.schedule import first_ticks
from monus.sql.mode import Mode
from monus.sql.policy import Immediate, Lazy, OnDemand, Policy


@dataclass(frozen=True, slots=True)
class Alteration:
    spark: SparkSession
    catalog: Catalog
    plans: Plans
    maintainer: Maintainer
    creation: Creation
    names: Names

    def set_policy(self, name: str, policy: Policy) -> None:
        record = self.catalog.view(name)
        check_policy(record.name, policy, self.plans.of(record))
        self._check_assertions(record.name, isinstance(policy, Immediate))
        ticks = first_ticks(policy, datetime.now(UTC))
        with held_lease(self.catalog, self.spark, record.name) as lease:
            prepare(self.catalog, lease, self.spark)
            self.catalog.set_policy(lease, str(policy), *ticks)
            fault_point(FaultPoint.VIEW_ALTERED)
        if policy == Lazy():
            leave_tasks(self.spark, self.catalog, [self.catalog.view(record.name)])
        # A transaction that comes in between finds the new policy, and brings the view up to date itself.
        if policy == Immediate():
            self.maintainer.refresh(record.name)
        elif policy == OnDemand("DIFFERENTIAL"):
            self.maintainer.propagate(record.name)

    def set_mode(self, name: str, mode: Mode) -> None:
        record = self.catalog.view(name)
        check_strict(record.name, mode.name, self.plans.of(record))
        self._check_assertions(record.name, mode is not Mode.FULL)
        with held_lease(self.catalog, self.spark, record.name) as lease:
            prepare(self.catalog, lease, self.spark)
            self.catalog.set_mode(lease, mode.name)
            fault_point(FaultPoint.VIEW_ALTERED)

    def _check_assertions(self, name: str, may_be_read: bool) -> None:
        """What an assertion reads changes with the transaction, by a change that is derived before."""
        readers = [] if may_be_read else assertions_over(self.catalog, name)
        if readers:
            raise InUse(
                f"The view '{name}' is read by the assertion '{readers[0]}', so it stays IMMEDIATE and incremental.",
                f"DROP ASSERTION {readers[0]} first.",
                name=name,
                readers=readers,
            )

    def rename(self, name: str, new_name: str) -> None:
        """The table stays where it is."""
        check_name(new_name)
        record = self.catalog.view(name)
        if new_name == record.name:
            raise StatementInvalid(f"The view is called '{name}' already.", "Give another name.", view=name)
        if new_name.lower() != record.name.lower():
            self.creation.check_free(new_name)
        with held_lease(self.catalog, self.spark, record.name) as lease:
            prepare(self.catalog, lease, self.spark)
            self.catalog.rename_view(lease, new_name)
            fault_point(FaultPoint.VIEW_ALTERED)
        self.plans.forget(record.name)
        self.names.forget(record.name)
        self.names.register(new_name, record.location)

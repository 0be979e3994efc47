"""REFRESH EVERY m [PARTIAL] [PROPAGATE EVERY k | PROPAGATE WHEN IDLE]: policies 1 and 2 of Colby et al., section 5.3.

Every k, `propagate` moves the log into the pending change; every m, the view is refreshed (policy 1) or partially
refreshed (policy 2). The ticks of a view are a grid: the moment of its policy plus whole intervals. Ticks that were
missed are made up for once, and the grid stays where it was. Of several schedulers the one that claims a tick runs
it, and a tick whose run fails stays claimed: the next one tries again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeAlias, assert_never

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.catalog.database import Clock, now_in_utc
from monus.catalog.records import RefreshRecord, ViewRecord
from monus.errors import MonusError, RefreshFailed, UnknownView, ViewBusy
from monus.frontend.definition import spark_message
from monus.maintenance.fault_points import FaultPoint, fault_point
from monus.sql.policy import Every, Interval, Policy, parse_policy

logger = logging.getLogger(__name__)

Scheduled: TypeAlias = Literal["refresh", "partial_refresh", "propagate"]


class Maintains(Protocol):
    """What the scheduler asks of a maintainer: Figure 3 for one view, by name."""

    def refresh(self, name: str) -> RefreshRecord: ...

    def propagate(self, name: str) -> RefreshRecord: ...

    def partial_refresh(self, name: str) -> RefreshRecord: ...


@dataclass(frozen=True, slots=True)
class Due:
    """A tick that has come. `is_superseded`: what is due of the same view does its work, so it is only moved on."""

    view: str
    operation: Scheduled
    tick: datetime
    interval: Interval
    is_superseded: bool = False


def first_ticks(policy: Policy, start: datetime) -> tuple[datetime | None, datetime | None]:
    """The first refresh and the first propagate by the clock; None where there is none."""
    if not isinstance(policy, Every):
        return None, None
    return _first(policy.interval, start), _first(policy.propagate_every, start)


def following(tick: datetime, interval: Interval, now: datetime) -> datetime:
    """The next point of the tick's grid after it and after now."""
    step = timedelta(seconds=interval.seconds)
    missed = max(0, (now - tick) // step)
    return tick + (missed + 1) * step


def due(records: Sequence[ViewRecord], now: datetime) -> list[Due]:
    """What is to be run now: the oldest tick first, views in the given order, a propagate before a partial refresh.

    A refresh is propagate and partial refresh in one, so a propagate that is due with it is superseded. A view that
    has no rows yet is not due: whoever creates it is at it.
    """
    found: list[Due] = []
    for record in records:
        policy = parse_policy(record.policy)
        if isinstance(policy, Every) and record.batch > 0:
            found += _due_of(record, policy, now)
    return sorted(found, key=lambda each: each.tick)  # those of one moment stay in order


class Scheduler:
    def __init__(
        self, catalog: Catalog, maintainer: Maintains, is_idle: Callable[[], bool], clock: Clock = now_in_utc
    ) -> None:
        self._catalog = catalog
        self._maintainer = maintainer
        self._is_idle = is_idle
        self._clock = clock
        # Views whose propagate failed when idle, with the refresh that they wait for since.
        self._gave_up: dict[str, datetime | None] = {}

    def run_due(self, now: datetime | None = None) -> list[RefreshRecord]:
        """Run every tick that is due, then what is propagated WHEN IDLE; failures are told at the end.

        A propagate that failed when idle waits for the view's next refresh, and is not tried again at once.
        """
        return self._run(now, threading.Event())

    @contextmanager
    def running(self, seconds: float = 1.0) -> Iterator[None]:
        """Run what is due every so many seconds, in a thread of its own.

        When the block ends nothing more is begun; what is under way is waited for, because a tick is claimed for it.
        """
        stop = threading.Event()
        thread = threading.Thread(target=self._run_until, args=(stop, seconds), name="monus-scheduler", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _run_until(self, stop: threading.Event, seconds: float) -> None:
        while not stop.is_set():
            try:
                self._run(None, stop)
            except RefreshFailed as error:
                logger.error("%s", error)
            except Exception:  # whatever it is, the next round may succeed
                logger.exception("What was due could not be looked up")
            stop.wait(seconds)

    def _run(self, now: datetime | None, stop: threading.Event) -> list[RefreshRecord]:
        records = self._records()
        round_ = _Round(self._catalog, self._maintainer)
        for each in due(records, now or self._clock()):
            if stop.is_set():
                break
            if self._claim(each, now or self._clock()) and not each.is_superseded:
                round_.run(each.view, each.operation)
        for record in records:
            if not _propagates_when_idle(record) or (record.name, record.next_refresh) in self._gave_up.items():
                continue
            if stop.is_set() or not self._is_idle():
                break
            if not self._is_at_work(record.name):
                error = round_.run(record.name, "propagate")
                is_vain = error is None and _is_vain(round_.done[-1:])
                if is_vain or (error is not None and not isinstance(error, ViewBusy)):
                    self._gave_up[record.name] = record.next_refresh
        return round_.result()

    def _records(self) -> list[ViewRecord]:
        """The views, each after those that it reads."""
        by_name = {record.name: record for record in self._catalog.views()}
        return [by_name[name] for name in self._catalog.dependency_order() if name in by_name]

    def _claim(self, each: Due, now: datetime) -> bool:
        kind: Literal["refresh", "propagate"] = "propagate" if each.operation == "propagate" else "refresh"
        if not self._catalog.claim_tick(each.view, kind, each.tick, following(each.tick, each.interval, now)):
            return False
        fault_point(FaultPoint.TICK_CLAIMED)
        return True

    def _is_at_work(self, view: str) -> bool:
        """Whether somebody maintains the view: work for idle times does not wait for it."""
        holder = self._catalog.holder(view)
        return holder is not None and not holder.owner.is_dead()


@dataclass(slots=True)
class _Round:
    """What one call of `run_due` has done so far."""

    catalog: Catalog
    maintainer: Maintains
    done: list[RefreshRecord] = field(default_factory=list)
    failed: list[tuple[str, MonusError]] = field(default_factory=list)

    def run(self, view: str, operation: Scheduled) -> MonusError | None:
        """Run it, and answer with the error if it failed."""
        try:
            self.done.append(self._operation(operation)(view))
            return None
        except UnknownView as found:
            if self.catalog.find_view(view) is None:
                return None  # it was dropped meanwhile
            error: MonusError = found
        except MonusError as found:
            error = found
        except Exception as found:  # of Spark, while a source was opened: the others are to go on
            error = RefreshFailed(
                f"The {operation} of '{view}' failed: {spark_message(found)}",
                "The view is as it was before; look at its sources.",
                view=view,
            )
            error.__cause__ = found
        self.failed.append((view, error))
        return error

    def _operation(self, operation: Scheduled) -> Callable[[str], RefreshRecord]:
        match operation:
            case "refresh":
                return self.maintainer.refresh
            case "partial_refresh":
                return self.maintainer.partial_refresh
            case "propagate":
                return self.maintainer.propagate
            case _:
                assert_never(operation)

    def result(self) -> list[RefreshRecord]:
        if not self.failed:
            return self.done
        told = "; ".join(f"{view}: {error}" for view, error in self.failed)
        raise RefreshFailed(
            f"{len(self.failed)} of {len(self.failed) + len(self.done)} scheduled operations failed. {told}",
            "Each is tried again when it is next due; what to do about it is said with it.",
            failures=dict(reversed(self.failed)),  # of several of one view, the first
            refreshed=self.done,
        ) from self.failed[0][1]


def no_jobs_running(spark: SparkSession) -> bool:
    """Whether Spark is idle, as far as its status tracker knows."""
    return not spark.sparkContext.statusTracker().getActiveJobsIds()


def _first(interval: Interval | None, start: datetime) -> datetime | None:
    if interval is None:
        return None
    try:
        return start + timedelta(seconds=interval.seconds)
    except OverflowError:  # after the year 9999: it never comes
        return None


def _due_of(record: ViewRecord, policy: Every, now: datetime) -> Iterator[Due]:
    refresh, propagate = record.next_refresh, record.next_propagate
    is_refresh_due = refresh is not None and refresh <= now
    if policy.propagate_every is not None and propagate is not None and propagate <= now:
        is_superseded = is_refresh_due and not policy.partial
        yield Due(record.name, "propagate", propagate, policy.propagate_every, is_superseded)
    if refresh is not None and is_refresh_due:
        yield Due(record.name, "partial_refresh" if policy.partial else "refresh", refresh, policy.interval)


def _is_vain(done: Sequence[RefreshRecord]) -> bool:
    """Whether a propagate said that the view cannot be maintained from changes, as it will again."""
    return any(each.strategy == "none" and each.code not in ("NO_CHANGE", "NO_EFFECT") for each in done)


def _propagates_when_idle(record: ViewRecord) -> bool:
    policy = parse_policy(record.policy)
    return isinstance(policy, Every) and policy.propagate_when_idle and record.batch > 0 and record.usable

"""The manager of lazy views (Zhou et al., section 2.2.2): when the system is idle, it does what tasks ask for.

It wakes up every few seconds and does nothing while the system is busy. Otherwise it takes the view whose oldest task
is the oldest, and brings it up to date by a job of low priority; one job covers all tasks of the view that are there,
so that its transactions are never done out of order. A burst of queries stops the job: its tasks stay what they were.
Several managers on one warehouse do no harm to each other, because a view has one owner at a time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.catalog.records import RefreshRecord, SourceRecord, State, ViewRecord, key_of
from monus.catalog.tasks import is_at
from monus.errors import MonusError, RefreshCancelled, UnknownView, ViewBusy
from monus.frontend.definition import spark_message
from monus.maintenance.concerned import is_lazy
from monus.maintenance.cpu import CpuMeter
from monus.maintenance.maintainer import Maintainer
from monus.maintenance.sources import TableSource, ViewSource
from monus.maintenance.vectors import SourceState, to_json
from monus.store.session import BACKGROUND_POOL

logger = logging.getLogger(__name__)

BUSY_CPU = 0.9
BURST = 2  # jobs of others at once
POLL_SECONDS = 0.1
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 300.0  # after a view could not be maintained


@dataclass(slots=True)
class Manager:
    spark: SparkSession
    catalog: Catalog
    maintainer: Maintainer
    is_idle: Callable[[], bool]
    _failures: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By view, how often it failed in turn, and until when it is left alone."""

    def work(self, stop: threading.Event) -> list[RefreshRecord]:
        """One round: views with tasks, as long as the system is idle."""
        if not self.is_idle():
            return []
        self.see_others()
        done = []
        for name in self.waiting():
            if stop.is_set() or not self.is_idle():
                break
            if not self._is_left_alone(name):
                done += self._maintain(name, stop)
        return done

    @contextmanager
    def running(self, seconds: float) -> Iterator[None]:
        """Wake up every so many seconds, in a thread of its own; when the block ends, what is under way is stopped."""
        stop = threading.Event()
        thread = threading.Thread(target=self._run_until, args=(stop, seconds), name="monus-manager", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _run_until(self, stop: threading.Event, seconds: float) -> None:
        while not stop.is_set():
            try:
                self.work(stop)
            except Exception:  # whatever it is, the next round may succeed
                logger.exception("What lazy views wait for could not be looked up")
            stop.wait(seconds)

    def waiting(self) -> list[str]:
        """The views that have tasks, those whose oldest is the oldest first; not for a transaction under way."""
        oldest: dict[str, int] = {}
        for task in self.catalog.tasks():
            if None not in task.changed.values():
                oldest.setdefault(task.view, task.sequence)
        return sorted((name for name in self.catalog.dependency_order() if name in oldest), key=oldest.__getitem__)

    def see_others(self) -> None:
        """What was written past Monus since the last look becomes tasks."""
        leave_tasks(self.spark, self.catalog, self.catalog.views())

    def _maintain(self, name: str, stop: threading.Event) -> list[RefreshRecord]:
        record = self.catalog.find_view(name)
        if record is None or not record.usable or self._is_at_work(record):
            return []
        try:
            with self._in_background(name, stop):
                done = self.maintainer.refresh(name, wait_seconds=0.0)
        except (RefreshCancelled, ViewBusy, UnknownView):
            return []
        except Exception as error:  # also of Spark, while a source was opened: the others are to go on
            failures = self._failures.get(key_of(name), (0, 0.0))[0] + 1
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (failures - 1))
            self._failures[key_of(name)] = (failures, time.monotonic() + pause)
            message = error if isinstance(error, MonusError) else spark_message(error)
            logger.error("%s is tried again in %.0f seconds: %s", name, pause, message)
            return []
        self._failures.pop(key_of(name), None)
        return [done]

    def _is_left_alone(self, name: str) -> bool:
        return time.monotonic() < self._failures.get(key_of(name), (0, 0.0))[1]

    def _is_at_work(self, record: ViewRecord) -> bool:
        holder = self.catalog.holder(record.name)
        return holder is not None and not holder.owner.is_dead()

    @contextmanager
    def _in_background(self, name: str, stop: threading.Event) -> Iterator[None]:
        """Queries come first: in a pool of low weight, and stopped by a burst of them."""
        context, is_over = self.spark.sparkContext, threading.Event()
        before = context.getLocalProperty("spark.scheduler.pool")
        context.setLocalProperty("spark.scheduler.pool", BACKGROUND_POOL)
        watch = partial(self._give_way, name, threading.get_ident(), stop, is_over)
        watcher = threading.Thread(target=watch, name="monus-watcher", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            is_over.set()
            watcher.join()
            context.setLocalProperty("spark.scheduler.pool", before)  # type: ignore[arg-type]  # None removes it

    def _give_way(self, name: str, thread: int, stop: threading.Event, is_over: threading.Event) -> None:
        """Only what the manager itself has begun is stopped: somebody may be refreshing the view by now."""
        seen = 0
        while not is_over.wait(POLL_SECONDS):
            seen = seen + 1 if self.maintainer.jobs_of_others(thread) >= BURST else 0
            if (seen > 1 or stop.is_set()) and self.maintainer.cancel(name, thread):
                logger.info("The maintenance of %s was stopped, and is done later", name)
                return


def leave_tasks(spark: SparkSession, catalog: Catalog, records: Iterable[ViewRecord]) -> None:
    """For the lazy ones among these views that are behind without a task, but for transactions under way."""
    opened: dict[str, State | None] = {}
    tasks: dict[str, list[Mapping[str, State | None]]] = {}
    for task in catalog.tasks():
        tasks.setdefault(key_of(task.view), []).append(task.changed)
    in_doubt = {key_of(part.name) for record in catalog.ledger().outstanding for part in record.parts}
    for record in records:
        if not is_lazy(record) or not record.usable or record.batch == 0:
            continue
        for source in catalog.sources(record.name):
            key = key_of(source.name)
            if key not in opened:
                opened[key] = None if key in in_doubt else _state(spark, catalog, source)
            state = opened[key]
            known = [record.vector, *tasks.get(key_of(record.name), [])]
            if state is not None and not any(is_at(each, {key: state}) for each in known):
                catalog.add_task(record.name, {key: state})


def _state(spark: SparkSession, catalog: Catalog, source: SourceRecord) -> State | None:
    """None where it cannot be read: whoever reads the view is told why."""
    try:
        if source.kind == "table":
            found: SourceState = TableSource(catalog.table(source.name), spark).state
        else:
            found = ViewSource(catalog.view(source.name), spark, catalog).state
    except MonusError:
        return None
    return to_json({source.name: found})[source.name]  # type: ignore[no-any-return]


@dataclass(slots=True)
class SystemIsIdle:
    """Whether no Spark job runs here, and the machine has something to spare."""

    spark: SparkSession
    busy_cpu: float = BUSY_CPU
    _meter: CpuMeter = field(default_factory=CpuMeter)

    def __call__(self) -> bool:
        if self.spark.sparkContext.statusTracker().getActiveJobsIds():
            return False
        return self.busy_cpu >= 1 or self._meter.used() < self.busy_cpu

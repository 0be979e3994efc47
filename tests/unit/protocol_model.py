"""A small model of the view protocol: two owners, crashes, and owners that are paused past their lease.

Rows are numbers: the source at version k has the rows 1 … k, and so must a view whose vector is k. Every action
of an owner is one step, and any step of the other may come between two of them; whoever is not scheduled is
paused, and may be taken over at any time. A Delta commit is two steps, because Delta reads the head, works, and
commits later. `Model(without=...)` leaves a step of the protocol out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

Rows = tuple[int, ...]
STRANGE_ROW = 99

STEPS = (
    "settle",  # reconcile what an earlier owner left
    "intent",  # say what is about to be done, before it is done
    "condition",  # every SQL write asks for `epoch = mine AND outstanding = n`
    "number",  # a commit carries its number, so that it happens at most once
    "fence",  # before an intent is given up, a higher number shuts its commit out
    "landed",  # look whether the commit is there: its owner may have died before, and Delta skips a used number
    "stranger",  # check that nobody else changed a row
    "fresh number",  # a number that was given up is not used again
    "published batches",  # rows of a batch count only if the batch was published
)


class Commit(NamedTuple):
    number: int
    rows: Rows
    changed: bool


class Intent(NamedTuple):
    number: int
    folds: bool
    vector: int
    base: int


class Batch(NamedTuple):
    number: int
    rows: Rows


class Sql(NamedTuple):
    epoch: int = 0
    last_number: int = 0
    outstanding: Intent | None = None
    usable: bool = True
    version: int = 0
    vector: int = 0
    pending_vector: int = 0
    pending_from: int = 1
    batch: int = 0
    published: tuple[int, ...] = ()


class Owner(NamedTuple):
    """What an owner remembers between two steps; all of it is lost when it dies."""

    at: str = "idle"
    epoch: int = 0
    operation: str = ""
    number: int = 0
    vector: int = 0
    record: Sql = Sql()
    head: int = 0
    version: int | None = None
    is_spoiled: bool = False


class World(NamedTuple):
    owners: tuple[Owner, ...]
    sql: Sql = Sql()
    log: tuple[Commit, ...] = (Commit(0, (), False),)
    batches: tuple[Batch, ...] = ()
    source: int = 0
    acquired: int = 0
    strangers: int = 0
    optimized: int = 0


@dataclass(frozen=True)
class Model:
    """What is left out, and how much may happen."""

    without: str | None = None
    versions: int = 2
    acquisitions: int = 3
    strangers: int = 0
    optimizations: int = 0

    def explore(self) -> tuple[int, str | None]:
        """All states that can be reached: how many, and what is wrong with the first wrong one."""
        start = World((Owner(), Owner()))
        seen = {start}
        frontier = [start]
        while frontier:
            world = frontier.pop()
            for after in self.steps(world):
                if after in seen:
                    continue
                wrong = self.what_is_wrong(after)
                if wrong is not None:
                    return len(seen), wrong
                seen.add(after)
                frontier.append(after)
        return len(seen), None

    def what_is_wrong(self, world: World) -> str | None:
        sql = world.sql
        if not sql.usable:
            return None if world.strangers else "unusable, although no stranger wrote"
        table = world.log[sql.version].rows
        if table != rows_upto(sql.vector):
            return f"the table at vector {sql.vector} has {table}"
        pending = self.pending_rows(world, sql)
        if merged(table, pending) != rows_upto(sql.pending_vector):
            return f"table and pending change at {sql.pending_vector} have {merged(table, pending)}"
        log = [b.rows for b in world.batches if b.number in sql.published and b.number < sql.pending_from]
        if merged(*log) != rows_upto(sql.vector):
            return f"the log for views over it says {merged(*log)} at vector {sql.vector}"
        return None

    def steps(self, world: World) -> Iterator[World]:
        if world.source < self.versions:
            yield world._replace(source=world.source + 1)
        head = world.log[-1]
        if world.strangers < self.strangers:
            strange = Commit(0, merged(head.rows, (STRANGE_ROW,)), True)
            yield world._replace(log=(*world.log, strange), strangers=world.strangers + 1)
        if world.optimized < self.optimizations:
            yield world._replace(log=(*world.log, Commit(0, head.rows, False)), optimized=world.optimized + 1)
        for index, owner in enumerate(world.owners):
            for changed, mine in self.owner_steps(world, owner):
                owners = (*world.owners[:index], mine, *world.owners[index + 1 :])
                yield changed._replace(owners=owners)
            if owner.at != "idle":  # it dies, and its Java process with it
                yield world._replace(owners=(*world.owners[:index], Owner(), *world.owners[index + 1 :]))

    def owner_steps(self, world: World, owner: Owner) -> Iterator[tuple[World, Owner]]:
        if owner.at == "idle":
            if world.acquired < self.acquisitions:
                epoch = world.sql.epoch + 1
                taken = world._replace(sql=world.sql._replace(epoch=epoch), acquired=world.acquired + 1)
                yield taken, Owner("settle", epoch)
            return
        step: Callable[[World, Owner], Iterator[tuple[World, Owner]]] = getattr(self, f"_{owner.at}")
        yield from step(world, owner)

    # -- step 1: settle and adopt

    def _settle(self, world: World, owner: Owner) -> Iterator[tuple[World, Owner]]:
        intent = world.sql.outstanding
        if intent is None or self.without == "settle":
            yield world, owner._replace(at="look_at_head")
        elif not intent.folds:
            yield self.write(world, owner, "look_at_head", intent.number, self.discarded(world.sql))
        elif self.without == "fence":
            yield world, owner._replace(at="look_for_it", number=intent.number)
        else:
            fence = world.sql.last_number + 1
            changed, after = self.write(
                world, owner, "fence_begins", intent.number, world.sql._replace(last_number=fence)
            )
            yield changed, after if after.at == "idle" else after._replace(number=fence)

    def _fence_begins(self, world: World, owner: Owner) -> Iterator[tuple[World, Owner]]:
        yield world, owner._replace(at="fence_ends", head=len(world.log))

    def _fence_ends(self, world: World, owner: Owner) -> Iterator[tuple[World, Owner]]:
        if any(commit.number > 0 for commit in world.log[owner.head :]):
            yield world, owner._replace(at="settle")  # ConcurrentTransactionException: with the next number
        else:
            fenced = (*world.log, Commit(owner.number, world.log[-1].rows, False))
            is_used = owner.number <= last_used(world)
            yield world if is_used else world._replace(log=fenced), owner._replace(at="look_for_it")

    def _look_for_it(self, world: World, owner: Owner) -> Iterator[tuple[World, Owner]]:
        intent = world.sql.outstanding
        if intent is None:
            yield world, Owner()
            return
        version = self.landed(world, intent.number, intent.base)
        is_spoiled = version is not None and self.is_spoiled(world, intent.base, version - 1)
        yield world, owner._replace(at="resolve", number=intent.number, version=version, is_spoiled=is_spoiled)

    def _resolve(self, world: World, owner: Owner) -> Iterator[tuple[World, Owner]]:
        intent = world.sql.outstanding
        if intent is None or intent.number != owner.number:
            yield world, Owner()
        elif owner.version is None or owner.is_spoiled:
            left = self.discarded(world.sql)._replace(usable=world.sql.usable and not owner.is_spoiled)
            yield self.write(world, owner, "look_at_head", intent.number, left)
        else:
            done = published(world.sql, intent, owner.version)
            yield self.write(world, owner, "look_at_head", intent.number, done)

    def _look_at_head(self, world: World, owner: Owner) -> Iterator[tuple[World, Owner]]:
        head = len(world.log) - 1
        spoiled = self.is_spoiled(world, world.sql.version, head)
        yield world, owner._replace(at="adopt", head=head, is_spoiled=spoiled, record=world.sql)

    def _adopt(self, world: World, owner: Owner) -> Iterator[tuple[World, Owner]]:
        if owner.is_spoiled:
            yield self.write(world, owner, "idle", None, world.sql._replace(usable=False))
        else:
            yield self.write(world, owner, "choose", None, world.sql._replace(version=owner.head))

    # -- steps 2 to 6

    def _choose(self, world: World, owner: Owner) -> Iterator[tuple[World, Owner]]:
        sql = world.sql
        has_pending = sql.pending_from <= sql.batch
        if sql.usable and (world.source > sql.pending_vector or has_pending):
            for way in ("append", "rewrite"):
                yield self.begin(world, owner, way, world.source, folds=True)
        if sql.usable and world.source > sql.pending_vector:
            yield self.begin(world, owner, "propagate", world.source, folds=False)

    def begin(self, world: World, owner: Owner, operation: str, vector: int, folds: bool) -> tuple[World, Owner]:
        sql = world.sql
        number = sql.last_number + 1
        intent = None if self.without == "intent" else Intent(number, folds, vector, sql.version)
        after = owner._replace(operation=operation, number=number, vector=vector, record=sql)
        begun = sql._replace(last_number=number, outstanding=intent)
        return self.write(world, after, "append_batch", None, begun)

    def _append_batch(self, world: World, owner: Owner) -> Iterator[tuple[World, Owner]]:
        new = Batch(owner.number, tuple(range(owner.record.pending_vector + 1, owner.vector + 1)))
        then = "publish" if owner.operation == "propagate" else "commit_begins"
        after = owner._replace(at=then, version=owner.record.version)
        yield world._replace(batches=(*world.batches, new)), after

    def _commit_begins(self, world: World, owner: Owner) -> Iterator[tuple[World, Owner]]:
        head = len(world.log)
        if owner.operation == "rewrite" and head - 1 != owner.record.version:
            yield world, Owner()  # the rows were derived from another version
        else:
            yield world, owner._replace(at="commit_ends", head=head)

    def _commit_ends(self, world: World, owner: Owner) -> Iterator[tuple[World, Owner]]:
        if self.without != "number":
            if any(commit.number > 0 for commit in world.log[owner.head :]):
                yield world, Owner()  # ConcurrentTransactionException: back to step 1
                return
            if owner.number <= last_used(world):
                yield world, owner._replace(at="check")  # skipped, without a word
                return
        base = world.log[-1].rows if owner.operation == "append" else world.log[owner.record.version].rows
        new = tuple(range(owner.record.pending_vector + 1, owner.vector + 1))
        rows = merged(base, self.pending_rows(world, owner.record), new)
        yield world._replace(log=(*world.log, Commit(owner.number, rows, True))), owner._replace(at="check")

    def _check(self, world: World, owner: Owner) -> Iterator[tuple[World, Owner]]:
        base = owner.record.version
        version = self.landed(world, owner.number, base)
        if version is None:
            yield world, Owner()
        elif self.is_spoiled(world, base, version - 1):
            left = self.discarded(world.sql)._replace(usable=False)
            yield self.write(world, owner, "idle", owner.number, left)
        else:
            yield world, owner._replace(at="publish", version=version)

    def _publish(self, world: World, owner: Owner) -> Iterator[tuple[World, Owner]]:
        assert owner.version is not None
        intent = Intent(owner.number, owner.operation != "propagate", owner.vector, owner.record.version)
        yield self.write(world, owner, "idle", owner.number, published(world.sql, intent, owner.version))

    # -- what the steps are made of

    def write(self, world: World, owner: Owner, then: str, outstanding: int | None, sql: Sql) -> tuple[World, Owner]:
        """One SQL transaction of an owner, whose condition may not hold any more."""
        found = None if world.sql.outstanding is None else world.sql.outstanding.number
        holds = world.sql.epoch == owner.epoch and (
            found == outstanding or self.without == "intent" or (self.without == "settle" and outstanding is None)
        )
        if not holds and self.without != "condition":
            return world, Owner()
        return world._replace(sql=sql), Owner() if then == "idle" else owner._replace(at=then)

    def discarded(self, sql: Sql) -> Sql:
        number = sql.last_number - (1 if self.without == "fresh number" else 0)
        return sql._replace(outstanding=None, last_number=number)

    def landed(self, world: World, number: int, base: int) -> int | None:
        head = len(world.log) - 1
        if self.without == "landed":
            return head
        return next((v for v in range(base + 1, head + 1) if world.log[v].number == number), None)

    def is_spoiled(self, world: World, after: int, upto: int) -> bool:
        return self.without != "stranger" and any(commit.changed for commit in world.log[after + 1 : upto + 1])

    def pending_rows(self, world: World, sql: Sql) -> Rows:
        counted = [
            batch.rows
            for batch in world.batches
            if batch.number >= sql.pending_from
            and (batch.number in sql.published or self.without == "published batches")
        ]
        return merged(*counted)


def published(sql: Sql, intent: Intent, version: int) -> Sql:
    return sql._replace(
        outstanding=None,
        version=version,
        vector=intent.vector if intent.folds else sql.vector,
        pending_vector=intent.vector,
        pending_from=intent.number + 1 if intent.folds else sql.pending_from,
        batch=intent.number,
        published=(*sql.published, intent.number),
    )


def last_used(world: World) -> int:
    return max(commit.number for commit in world.log)


def rows_upto(vector: int) -> Rows:
    return tuple(range(1, vector + 1))


def merged(*parts: Rows) -> Rows:
    return tuple(sorted(row for part in parts for row in part))

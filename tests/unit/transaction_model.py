"""A small model of the protocol of transactions: owners that die or are paused past their leases, others, a reader.

Two owners, each with a transaction of its own, who also complete what the other left; a writer past Monus, a refresh of
the immediate view, a reader. Every action is one step, and any step of anybody else may come between two of them;
whoever is not scheduled is paused, and may be taken over at any time. A Delta commit is two steps, because Delta reads
the head, works, and commits later; so is the maintenance of a view, whose own protocol `protocol_model.py` checks.
`Model(without=...)` leaves a step of the protocol out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.unit.transaction_invariants import (
    wrong_for_reader,
    wrong_for_readers,
    wrong_in_state_before,
    wrong_in_table,
    wrong_in_view,
)
from tests.unit.transaction_world import (
    ALL,
    IMMEDIATE,
    NOTHING,
    TABLES,
    UPDATES,
    VIEWS,
    A,
    B,
    Commit,
    Net,
    Owner,
    Reader,
    Record,
    Versions,
    View,
    World,
    at_versions,
    changed,
    heads,
    less,
    merged,
    outstanding,
    put,
    removed_since,
    with_commit,
    with_leases_taken,
)

Steps = Iterator[tuple[World, Owner]]
MANY = 40

STEPS = (
    "leases of tables",  # who changes a table holds its lease, from the look for conflicts to the end
    "leases of views",  # and those of its views: nobody else maintains them meanwhile
    "condition",  # every SQL write asks for all leases: an owner that was taken over writes nothing
    "completion first",  # what was left on a table is completed before anything else is done with it
    "conflicts",  # what others took since the begin is compared with what is to be taken
    "conflicts under the leases",  # not before: another could still come in between
    "catching up",  # the views reflect the state before, so that readers find both together
    "intent",  # say what is about to be done, before it is done
    "number",  # a commit carries its number, so that it happens at most once
    "same number",  # whoever takes over uses the number of the intent
    "landed",  # look which version the commit made: somebody else may have made it, or have come before it
    "rows that were seen",  # where all rows leave, those that came since the look for conflicts stay
    "feeds",  # the staged rows are the change of a view only if nobody else committed in between
    "published batches",  # a batch counts only if it was published
    "end last",  # a transaction is applied when its tables and its views are
    "still outstanding",  # asked under the leases, and by every write: somebody else may have been quicker
    "staging",  # what is staged is kept until the end, also by an owner that failed
    "state before",  # readers read the versions before, as long as a transaction is outstanding
    "count",  # and look again if one began or ended in the meantime
    "vector",  # and if the view is not at the versions that they read
    "never back",  # a refresh does not take a view back to what was looked up before it had the lease
)


@dataclass
class Model:
    """What is left out, who takes part, and how much may happen; `reads` is `tables`, or `all` with the view."""

    transactions: tuple[Net, ...] = (UPDATES,)
    without: str | None = None
    acquisitions: int = 2
    insertions: int = 0
    removals: int = 0
    refreshes: int = 0
    reads: str = ""
    views: int = 2
    owners: int = 2
    seen: set[World] = field(default_factory=set)
    _endings: dict[World, str | None] = field(default_factory=dict)

    def explore(self) -> tuple[int, str | None]:
        """All states that can be reached: how many, and what is wrong with the first wrong one."""
        start = World((Owner(),) * self.owners, reader=Reader() if self.reads else None)
        self.seen = {start}
        frontier = [start]
        while frontier:
            world = frontier.pop()
            for after in self.steps(world):
                if after in self.seen:
                    continue
                wrong = self.what_is_wrong(after)
                if wrong is not None:
                    return len(self.seen), wrong
                self.seen.add(after)
                frontier.append(after)
        return len(self.seen), None

    # -- what must hold

    def what_is_wrong(self, world: World) -> str | None:
        wrong = self.wrong_now(world)
        if wrong is None and world.reader is not None:
            wrong = wrong_for_reader(world, world.reader, self.reads == "all")
        if wrong is None and all(owner.at == "idle" for owner in world.owners):
            wrong = self.wrong_in_the_end(world)
        return wrong

    def wrong_now(self, world: World) -> str | None:
        checks = [wrong_in_table(world, table) for table in TABLES]
        checks += [wrong_in_view(world, view) for view in world.views[: self.views]]
        if self.views:
            checks.append(wrong_in_state_before(world))
        view = (self.view_before(world) or world.views[0]) if self.views else None
        checks.append(wrong_for_readers(world, self.pins(world), view))
        return next((wrong for wrong in checks if wrong is not None), None)

    def wrong_in_the_end(self, world: World) -> str | None:
        """What is committed can be completed, whatever happened; nobody else is at work."""
        world = world._replace(owners=(), reader=None, begun=(), acquired=0)
        if world not in self._endings:
            self._endings[world] = self._end(world)
        return self._endings[world]

    def _end(self, world: World) -> str | None:
        for k in outstanding(world):
            world, owner = world._replace(acquired=0), Owner("acquire", k)
            for _ in range(MANY):
                following = next(iter(self.owner_steps(world, owner)), None)
                if owner.at == "idle" or following is None:
                    break
                world, owner = following
            if k in outstanding(world):
                return f"transaction {k} is committed and can never be applied"
        return self.wrong_now(world)

    # -- what may happen

    def steps(self, world: World) -> Iterator[World]:
        rows = world.logs[A][-1].rows
        if world.inserted < self.insertions:
            yield with_commit(world, A, Commit(0, merged(rows, ("o",))))._replace(inserted=world.inserted + 1)
        if world.removed < self.removals and "x" in rows:
            yield with_commit(world, A, Commit(0, less(rows, ("x",))))._replace(removed=world.removed + 1)
        if world.reader is not None:
            yield from self.reader_steps(world, world.reader)
        for index, owner in enumerate(world.owners):
            found = self.idle_steps(world, index) if owner.at == "idle" else self.owner_steps(world, owner)
            for after, mine in found:
                yield after._replace(owners=put(after.owners, index, mine))
            if owner.at != "idle":  # it dies, or fails
                yield self.failed(world, owner)._replace(owners=put(world.owners, index, Owner()))

    def idle_steps(self, world: World, index: int) -> Steps:
        if index < len(self.transactions) and index not in world.begun:
            yield self.begin(world, index)
        if world.acquired < self.acquisitions:
            for k in outstanding(world):
                yield world, Owner("acquire", k)
        if world.refreshed < self.refreshes:
            pinned = Owner("take", begin=self.pins(world), new=world.views[IMMEDIATE - 2])
            yield world._replace(refreshed=world.refreshed + 1), pinned

    def owner_steps(self, world: World, owner: Owner) -> Steps:
        if owner.at != "idle":
            step: Callable[[World, Owner], Steps] = getattr(self, f"_{owner.at}")
            yield from step(world, owner)

    def begin(self, world: World, k: int) -> tuple[World, Owner]:
        """Its statements run, on the state at the begin; what they change is staged."""
        begun, pins = world._replace(begun=tuple(sorted((*world.begun, k)))), self.pins(world)
        rows, change = world.logs[A][pins[A]].rows, self.transactions[k][A]
        if change.all:
            change = change._replace(gone=rows)
        elif not set(change.gone) <= set(rows):
            change = NOTHING  # the row to be updated is not there any more
        staged = (change, self.transactions[k][B])
        if self.without == "conflicts under the leases" and self.is_conflict(world, staged, pins):
            return begun, Owner()
        return begun, Owner("acquire", k, k, staged=staged, begin=pins)

    # -- steps 1 and 2: nothing is written

    def _acquire(self, world: World, owner: Owner) -> Steps:
        if world.acquired >= self.acquisitions:
            return
        record = world.records[owner.transaction]
        resources: tuple[int, ...] = ()
        if self.without != "leases of tables":
            resources += changed(owner.staged if record is None else record.net)
        if self.without != "leases of views":
            resources += VIEWS[: self.views]
        taken, epochs = with_leases_taken(world._replace(acquired=world.acquired + 1), resources)
        yield taken, owner._replace(at="prepare" if record is None else "complete", epochs=epochs)

    def _complete(self, world: World, owner: Owner) -> Steps:
        record = world.records[owner.transaction]
        assert record is not None
        if record.is_applied and self.without != "still outstanding":
            yield world, self.after_completing(owner)  # somebody else was quicker
            return
        ready = owner._replace(at="look", net=record.net, before=record.before, numbers=record.numbers)
        if self.without == "same number":
            world, numbers = self.numbered(world, record.net)
            ready = ready._replace(numbers=numbers)
        yield world, ready

    def _prepare(self, world: World, owner: Owner) -> Steps:
        left = [k for k in outstanding(world) if self.without != "completion first" and self.meets(world, owner, k)]
        if left:
            yield world, owner._replace(at="acquire", transaction=left[0], epochs=())
        elif self.without not in ("conflicts", "conflicts under the leases") and self.is_conflict(
            world, owner.staged, owner.begin
        ):
            yield self.failed(world, owner), Owner()
        else:
            ready = owner._replace(staged=(NOTHING, NOTHING), begin=(0, 0), net=owner.staged, before=heads(world))
            yield world, ready._replace(at="catch_up" if self.views else "intent")

    def _catch_up(self, world: World, owner: Owner) -> Steps:
        """The views reflect the state before; the change of each is derived from there."""
        ready = owner._replace(at="intent", has_derived=True)
        if self.without == "catching up":
            yield world, ready
            return
        views = tuple(at_versions(world, view, owner.before) for view in world.views[: self.views])
        yield self.write(world, owner, VIEWS, world._replace(views=(*views, *world.views[self.views :])), ready)

    # -- steps 3 to 5

    def _intent(self, world: World, owner: Owner) -> Steps:
        if self.without == "intent":
            yield world, owner._replace(at="look", numbers=(1, 1))
            return
        is_free = all(world.leases[table].outstanding is None for table in changed(owner.net))
        if not is_free and self.without not in ("completion first", "condition"):
            yield self.failed(world, owner), Owner()
            return
        after, numbers = self.numbered(world, owner.net)
        record = Record(owner.net, numbers, owner.before, world.views[0])
        after = after._replace(records=put(world.records, owner.transaction, record), count=world.count + 1)
        yield self.write(world, owner, ALL, after, owner._replace(at="look", numbers=numbers))

    def _look(self, world: World, owner: Owner) -> Steps:
        """Whether a table's commit is there, whoever made it."""
        for table in self.left(owner):
            version = self.landed(world, table, owner)
            if version is None:
                record = world.records[owner.transaction]
                if record is None or record.is_staged:
                    yield world, owner._replace(at="commit", head=len(world.logs[table]))
                return
            owner = owner._replace(reached=put(owner.reached, table, version))
        yield world, owner._replace(at="record", head=0)

    def _commit(self, world: World, owner: Owner) -> Steps:
        table = self.left(owner)[0]
        log, change, number = world.logs[table], owner.net[table], owner.numbers[table]
        since, again = log[owner.head :], owner._replace(at="look", head=0)
        done = again
        if self.without == "landed":  # what was expected is believed
            done = again._replace(reached=put(owner.reached, table, owner.before[table] + 1))
        if self.without == "number":
            number, done = 0, again._replace(reached=put(owner.reached, table, len(log)))
        if number and number <= max(commit.number for commit in log[: owner.head]):
            yield world, done  # skipped, without a word
            return
        base = log[owner.head - 1].rows
        gone = base if change.all and self.without == "rows that were seen" else change.gone
        files = set(gone) & set(base)
        if (
            (number and any(commit.number for commit in since))
            or (change.all and since)
            or any(files - set(commit.rows) for commit in since)
        ):
            yield world, again  # a conflict for Delta
            return
        rows = merged(less(log[-1].rows, gone), change.come)
        missing = len(less(gone, log[-1].rows))
        yield with_commit(world, table, Commit(number, rows, owner.transaction, missing)), done

    def _record(self, world: World, owner: Owner) -> Steps:
        """For people; but an owner that was taken over gets no further."""
        yield self.write(world, owner, ALL, world, owner._replace(at="maintain"))

    # -- steps 6 and 7

    def _maintain(self, world: World, owner: Owner) -> Steps:
        """The change of one view, from the staged rows only if nobody else's is in between; an append of a batch."""
        is_last = owner.view == self.views
        if is_last or (self.without == "end last" and owner.transaction in outstanding(world)):
            yield self.ended(world, owner)
            return
        view, mine = world.views[owner.view], changed(owner.net)
        others = owner.before if owner.has_derived else self.pins(world)
        reached = tuple(others[table] if (v := owner.reached[table]) is None else v for table in TABLES)
        if owner.has_derived and (
            self.without == "feeds" or all(reached[table] == owner.before[table] + 1 for table in mine)
        ):
            rows = at_versions(world, view, owner.before).rows if self.without == "catching up" else view.rows
            gone, come = (merged(*(getattr(owner.net[table], which) for table in TABLES)) for which in ("gone", "come"))
            new = View((reached[A], reached[B]), merged(less(rows, gone), come))
        else:
            new = at_versions(world, view, (reached[A], reached[B]))
        if self.without == "published batches" and VIEWS[owner.view] != IMMEDIATE:
            appended = view._replace(rows=merged(view.rows, less(new.rows, view.rows)))
            world = world._replace(views=put(world.views, owner.view, appended))
        yield world, owner._replace(at="publish", new=new)

    def _publish(self, world: World, owner: Owner) -> Steps:
        after = world._replace(views=put(world.views, owner.view, owner.new))
        done = owner._replace(at="maintain", view=owner.view + 1, new=View())
        yield self.write(world, owner, (VIEWS[owner.view],), after, done)

    def ended(self, world: World, owner: Owner) -> tuple[World, Owner]:
        k = owner.transaction
        record = world.records[k]
        if record is None:
            return world, Owner()
        leases = world.leases
        for table in changed(owner.net):
            leases = put(leases, table, leases[table]._replace(outstanding=None))
        applied = put(world.records, k, record._replace(is_applied=True, is_staged=False))
        after = world._replace(leases=leases, records=applied, count=world.count + 1)
        is_done = self.without != "end last" or owner.view == self.views
        return self.write(world, owner, ALL, after, self.after_completing(owner) if is_done else owner)

    # -- others: a refresh of the immediate view, and a reader

    def _take(self, world: World, owner: Owner) -> Steps:
        """What was looked up before the lease was taken will do, unless the view was maintained meanwhile."""
        view, pins = world.views[0], owner.begin
        is_behind = any(pinned < reached for pinned, reached in zip(pins, view.vector, strict=True))
        if view.vector != owner.new.vector or (is_behind and self.without != "never back"):
            pins = self.pins(world)
        taken, epochs = with_leases_taken(world, (IMMEDIATE,))
        yield taken, Owner("refresh", epochs=epochs, new=at_versions(world, view, pins))

    def _refresh(self, world: World, owner: Owner) -> Steps:
        yield self.write(world, owner, (IMMEDIATE,), world._replace(views=put(world.views, 0, owner.new)), Owner())

    def reader_steps(self, world: World, reader: Reader) -> Iterator[World]:
        match reader.at:
            case "ledger":
                before = (self.before(world, A), self.before(world, B))
                view = self.view_before(world)
                seen = Reader("A", world.count, before, view)
            case "A" | "B":
                table = A if reader.at == "A" else B
                version = reader.before[table]
                pins = put(reader.pins, table, len(world.logs[table]) - 1 if version is None else version)
                then = "B" if table == A else "view" if self.reads == "all" else "count"
                seen = reader._replace(at=then, pins=pins)
            case "view":
                seen = reader._replace(at="count", view=reader.view_before or world.views[0])
            case "count":
                holds = world.count == reader.count or self.without == "count"
                if self.reads == "all" and self.without != "vector":
                    holds = holds and reader.view.vector == reader.pins
                # Otherwise it looks again, and brings the view to what it reads: that is another reader.
                seen = reader._replace(at="answered") if holds else Reader("gone")
            case _:
                return
        yield world._replace(reader=seen)

    # -- what the steps are made of

    def before(self, world: World, table: int) -> int | None:
        """The version before the transaction that is outstanding on the table."""
        for record in world.records:
            is_outstanding = record is not None and not record.is_applied and self.without != "state before"
            if is_outstanding and table in changed(record.net):
                return record.before[table]
        return None

    def view_before(self, world: World) -> View | None:
        left = outstanding(world) if self.without != "state before" else []
        record = world.records[left[-1]] if left else None
        return None if record is None else record.view_before

    def pins(self, world: World) -> Versions:
        a, b = self.before(world, A), self.before(world, B)
        return len(world.logs[A]) - 1 if a is None else a, len(world.logs[B]) - 1 if b is None else b

    def is_conflict(self, world: World, staged: Net, begin: Versions) -> bool:
        upto = heads(world)
        return any(
            set(staged[table].gone) & set(removed_since(world, table, begin[table], upto[table]))
            or (staged[table].all and upto[table] > begin[table])
            for table in changed(staged)
        )

    def meets(self, world: World, owner: Owner, k: int) -> bool:
        """Whether both are about one table or view."""
        record = world.records[k]
        assert record is not None
        return self.views > 0 or bool(set(changed(record.net)) & set(changed(owner.staged)))

    def numbered(self, world: World, net: Net) -> tuple[World, Versions]:
        leases, numbers = world.leases, (0, 0)
        for table in changed(net):
            number = leases[table].last_number + 1
            leases = put(leases, table, leases[table]._replace(last_number=number, outstanding=number))
            numbers = put(numbers, table, number)
        return world._replace(leases=leases), numbers

    def left(self, owner: Owner) -> list[int]:
        return [table for table in changed(owner.net) if owner.reached[table] is None]

    def landed(self, world: World, table: int, owner: Owner) -> int | None:
        log, number = world.logs[table], owner.numbers[table]
        return next((v for v in range(owner.before[table] + 1, len(log)) if log[v].number == number), None)

    def after_completing(self, owner: Owner) -> Owner:
        if owner.own in (-1, owner.transaction):
            return Owner()
        return Owner("acquire", owner.own, owner.own, staged=owner.staged, begin=owner.begin)

    def failed(self, world: World, owner: Owner) -> World:
        """What an owner leaves that dies, or that fails and goes away."""
        record = world.records[owner.own] if owner.own >= 0 else None
        if self.without != "staging" or record is None or record.is_applied:
            return world
        return world._replace(records=put(world.records, owner.own, record._replace(is_staged=False)))

    def write(
        self, world: World, owner: Owner, resources: Iterable[int], after: World, then: Owner
    ) -> tuple[World, Owner]:
        """One SQL transaction of an owner; if it was taken over, nothing is written, and it fails."""
        is_lost = any(owner.epochs[r] not in (0, world.leases[r].epoch) for r in resources)
        if self.without != "still outstanding":
            is_lost |= any(owner.numbers[t] not in (0, world.leases[t].outstanding) for t in TABLES if t in resources)
        if is_lost and self.without != "condition":
            return self.failed(world, owner), Owner()
        return after, then

# ruff: noqa: C901, PLR0912, PLR0915 - a step of the protocol is a case, and there are many

"""A model of garbage collection and the writers of a bucket, small enough to explore completely.

One data object X may be referred to by an old ref (R), which somebody deletes, and by the commits
of writers. R may also vanish by mistake, without a tombstone, and come back. Each writer uploads or
finds X, commits a table that refers to it, and pushes. One or two collectors mark, condemn, wait
and sweep. They may be killed at any step, and a condemnation may be undone. Every step that sends a
request to the bucket is one transition, and all orders of them are explored. Time passes in ticks;
an age stops growing when it is old by every rule.

The model assumes the following, and the program guarantees it:

- A writer stages nothing and moves no ref if it read the state longer than `SLACK` ago, unless the
  process is suspended in between; then a push looks again afterwards.
- A collector requests a deletion right after it has read that the sweep is still its own, and how
  much of its lease is left. The request may take up to `REQUEST`, even if the collector is killed;
  after that the store no longer accepts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

GRACE = 2
HALF = 1
SLACK = 1
YOUNG = GRACE + 2 * SLACK
"""What a table refers to is kept up to this age: it is put before its table is."""

REFLOG = 4
"""How long the reflog keeps a former position of a ref."""

OLD = YOUNG + 1
"""An age that is old by every rule."""

LEASE = 2
"""How long a sweep belongs to the collector that wrote the state."""

REQUEST = 1
"""How long a deletion request may take."""

GONE = -1
"""The age of an object that does not exist."""

IDLE, CONDEMNED, SWEEPING = "idle", "condemned", "sweeping"

X = "X"

SWEEPS = ("remark", "relist", "read keeps", "delete")
"""The steps of a collector that sweeps."""

AT_ONCE = ("keep", "after keep", "refresh", "stage", "keep tree", "after keep tree", "move")
"""The steps that depend on an earlier reading of the state."""


class Rules(NamedTuple):
    """The rules of the protocol. A test can break each of them, to show that it is needed."""

    keeps: bool = True
    rereads: bool = True
    writers_wait: bool = True
    remarks_refs: bool = True
    young_tables_are_roots: bool = True
    keeps_reflog: bool = True
    waits_out_stale_readings: bool = True
    push_verifies: bool = True
    push_keeps: bool = True
    compares_phases: bool = True
    sweep_has_owner: bool = True
    takeover_waits: bool = True
    checks_lease: bool = True
    bounds_requests: bool = True
    awaits_replies: bool = True
    knows_refs: bool = True
    compares_versions: bool = False
    """Only some stores can do this: a request deletes only the version that was listed."""


class Gc(NamedTuple):
    """The state object, and the records of garbage collection beside it in the bucket."""

    phase: str = IDLE
    epoch: int = 0
    since: int = 0
    owner: int = 0
    mark: frozenset[str] = frozenset()
    keeps: frozenset[tuple[int, str]] = frozenset()

    @property
    def reading(self) -> tuple[str, int]:
        return self.phase, self.epoch


class Writer(NamedTuple):
    """A clone; `step` is its next step."""

    step: str
    reading: tuple[str, int] = (IDLE, 0)
    read_age: int = 0
    reused: bool = False
    touched: int = GONE
    """Ticks since it last touched its work; `GONE` while it refers to nothing."""
    commits: bool = False
    """Whether it is about to write its table, after X."""
    committed: bool = False
    pushed: bool = False


class Collector(NamedTuple):
    """A process that collects garbage."""

    step: str = "look"
    seen: tuple[str, int] = (IDLE, 0)
    live: frozenset[str] = frozenset()
    found: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    """The deletion that it has requested and that has no reply yet."""
    lease: int = 0
    """Ticks since it wrote the state, while it sweeps."""


class Request(NamedTuple):
    """A deletion request that is under way; `owner` is -1 if its collector was killed."""

    name: str
    owner: int
    age: int = 0


class World(NamedTuple):
    """The state of the whole model."""

    objects: tuple[int, ...]
    """Ages of X and of each writer's table."""
    old_ref: int
    """`GONE` while R refers to X, else the age of its deletion, capped."""
    gc: Gc
    writers: tuple[Writer, ...]
    collectors: tuple[Collector, ...]
    requests: frozenset[Request] = frozenset()
    vanished: bool = False
    """Whether R is missing or older than it was, though nobody has deleted it."""


class Violation(Exception):
    """A guarantee that does not hold."""


class Model:
    """All transitions under some rules.

    Args:
        rules: of the protocol.
        epochs: the number of epochs, after which nothing more is condemned.
        kills: whether collectors are killed.
        undoes: whether condemnations are undone.
        vanishes: whether R vanishes.
    """

    def __init__(
        self,
        rules: Rules,
        *,
        epochs: int = 1,
        kills: bool = True,
        undoes: bool = True,
        vanishes: bool = False,
    ) -> None:
        self.rules = rules
        self.epochs = epochs
        self.kills = kills
        self.undoes = undoes
        self.vanishes = vanishes
        self.wait = GRACE + (SLACK if rules.waits_out_stale_readings else 0)

    # What is where.

    def reached_from_refs(self, world: World) -> frozenset[str]:
        found = set()
        if (world.old_ref == GONE and not world.vanished) or (
            self.rules.keeps_reflog and 0 <= world.old_ref < REFLOG
        ):
            found.add(X)
        for number, writer in enumerate(world.writers):
            if writer.pushed:
                found |= {X, f"T{number}"}
        return frozenset(found)

    def young_tables(self, world: World) -> frozenset[str]:
        if not self.rules.young_tables_are_roots:
            return frozenset()
        return self.with_contents(
            world, {f"T{n}" for n, age in enumerate(world.objects[1:]) if 0 <= age <= YOUNG}
        )

    def with_contents(self, world: World, names: set[str]) -> frozenset[str]:
        del world
        return frozenset(names | {X} if any(name != X for name in names) else names)

    # Promises.

    def check(self, world: World) -> None:
        present = {X} if world.objects[0] != GONE else set()
        present |= {f"T{n}" for n, age in enumerate(world.objects[1:]) if age != GONE}
        if world.old_ref == GONE and X not in present:
            raise Violation("a ref has lost an object")
        if 0 <= world.old_ref < REFLOG and X not in present:
            raise Violation("the retained reflog has lost an object")
        for number, writer in enumerate(world.writers):
            needs = {X, f"T{number}"} if writer.committed else {X}
            if 0 <= writer.touched < GRACE and not needs <= present:
                raise Violation("work touched within the grace period has lost an object")
            if writer.step == "pushed" and not needs <= present:
                raise Violation("something broken was pushed")

    # Transitions.

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        if (ticked := self._tick(world)) is not None:
            yield "tick", ticked
        if world.old_ref == GONE and not world.vanished:
            yield "delete R", world._replace(old_ref=0)
        if world.old_ref == GONE and self.vanishes:
            name = "R is back" if world.vanished else "R vanishes"
            yield name, world._replace(vanished=not world.vanished)
        if self.undoes and world.gc.phase == CONDEMNED:
            gc = world.gc._replace(phase=IDLE, mark=frozenset(), since=0)
            yield "undo", world._replace(gc=gc)
        lease_is_over = world.gc.since > LEASE or not self.rules.takeover_waits
        if self.undoes and world.gc.phase == SWEEPING and lease_is_over:
            gc = world.gc._replace(phase=IDLE, mark=frozenset(), since=0)
            yield "end by force", world._replace(gc=gc)
        for request in world.requests:
            yield f"{request.name} is deleted", self._take_effect(world, request)
        for number, writer in enumerate(world.writers):
            for name, after in self._write(world, number, writer):
                yield f"writer {number}: {name}", after
        for number, collector in enumerate(world.collectors):
            for name, after in self._collect(world, number, collector):
                yield f"collector {number}: {name}", after
            if self.kills and collector != Collector():
                after = self._put_collector(world, number, Collector())
                requests = frozenset(
                    each._replace(owner=-1) if each.owner == number else each
                    for each in world.requests
                )
                yield f"collector {number}: killed", after._replace(requests=requests)

    def _tick(self, world: World) -> World | None:
        writers = []
        for writer in world.writers:
            read_age = writer.read_age
            # Reading and writing may take any time.
            if writer.step in ("put", "flush", "verify", "claim"):
                read_age = min(read_age + 1, OLD)
            elif writer.step in AT_ONCE:
                read_age += 1
                if read_age > SLACK:
                    return None
            touched = min(writer.touched + 1, OLD) if writer.touched != GONE else GONE
            writers.append(writer._replace(read_age=read_age, touched=touched))
        after = world._replace(
            objects=tuple(age if age == GONE else min(age + 1, OLD) for age in world.objects),
            old_ref=GONE if world.old_ref == GONE else min(world.old_ref + 1, OLD),
            gc=world.gc._replace(since=min(world.gc.since + 1, OLD)),
            writers=tuple(writers),
            collectors=tuple(
                each._replace(lease=min(each.lease + 1, LEASE + 1)) if each.step in SWEEPS else each
                for each in world.collectors
            ),
            requests=frozenset(
                each._replace(age=min(each.age + 1, REQUEST + 1))
                for each in world.requests
                if each.age < REQUEST or not self.rules.bounds_requests
            ),
        )
        return None if after == world else after

    def _put_writer(self, world: World, number: int, writer: Writer) -> World:
        return world._replace(
            writers=(*world.writers[:number], writer, *world.writers[number + 1 :])
        )

    def _put_collector(self, world: World, number: int, collector: Collector) -> World:
        return world._replace(
            collectors=(*world.collectors[:number], collector, *world.collectors[number + 1 :])
        )

    def _put_object(self, world: World, position: int, age: int) -> World:
        objects = world.objects
        if age != GONE and self.rules.compares_versions:
            # It has another version now, so no request that is under way deletes it.
            for request in world.requests:
                if self._names(world).index(request.name) == position:
                    world = self._reply(world, request)
        return world._replace(objects=(*objects[:position], age, *objects[position + 1 :]))

    def _names(self, world: World) -> list[str]:
        return [X, *(f"T{n}" for n in range(len(world.writers)))]

    def _take_effect(self, world: World, request: Request) -> World:
        after = self._put_object(world, self._names(world).index(request.name), GONE)
        return self._reply(after, request)

    def _reply(self, world: World, request: Request) -> World:
        after = world._replace(requests=world.requests - {request})
        if request.owner < 0:
            return after
        collector = world.collectors[request.owner]
        collector = collector._replace(asked=collector.asked - {request.name})
        return self._put_collector(after, request.owner, collector)

    def _may_have_swept(self, before: tuple[str, int], after: tuple[str, int]) -> bool:
        if not self.rules.compares_phases:
            return before[1] != after[1]
        if SWEEPING in (before[0], after[0]):
            return True
        if before == after:
            return False
        return not (before[0] == IDLE and after == (CONDEMNED, before[1] + 1))

    def _write(self, world: World, number: int, writer: Writer) -> Iterator[tuple[str, World]]:
        def at(step: str, place: World = world, **changes: object) -> World:
            after = writer._replace(step=step, **changes)  # type: ignore[arg-type]
            return self._put_writer(place, number, after)

        state = world.gc.reading
        sweeping = state[0] == SWEEPING
        waits = sweeping and self.rules.writers_wait
        table = number + 1
        position = table if writer.commits else 0
        name = "the table" if writer.commits else X
        match writer.step:
            case "begin" if not waits:
                yield "reads the state", at("put", reading=state, read_age=0)
            case "put":
                age = world.objects[position]
                if age == GONE:
                    after = self._put_object(world, position, 0)
                    yield f"puts {name}", at("flush", after, reused=False)
                else:
                    yield f"finds {name}", at("flush", reused=True)
            case "flush":
                condemned = writer.reading[0] == CONDEMNED
                fresh = writer.read_age <= SLACK
                if (fresh and not condemned) or not self.rules.rereads:
                    keeps = condemned and writer.reused
                    yield "trusts its reading", at("keep" if keeps else "refresh")
                elif self._may_have_swept(writer.reading, state):
                    yield "begins anew", at("begin")
                else:
                    # An object that was put long before the state was read may be old by now.
                    reused = writer.reused or not fresh
                    step = "keep" if state[0] == CONDEMNED and reused else "refresh"
                    yield "reads again", at(step, reading=state, read_age=0, reused=reused)
            case "keep":
                gc = world.gc
                if self.rules.keeps:
                    kept = X if position == 0 else f"T{number}"
                    gc = gc._replace(keeps=gc.keeps | {(writer.reading[1], kept)})
                yield "writes a keep", at("after keep", world._replace(gc=gc))
            case "after keep":
                if state == writer.reading or not self.rules.rereads:
                    yield "reads the same", at("refresh", read_age=0)
                else:
                    yield "begins anew", at("begin")
            case "refresh":
                age = world.objects[position]
                if age == GONE:
                    yield f"misses {name}", at("begin")
                elif writer.reused and age > HALF:
                    yield f"refreshes {name}", at("stage", self._put_object(world, position, 0))
                else:
                    yield f"leaves {name}", at("stage")
            case "stage" if not writer.commits:
                yield "stages", at("begin", touched=0, commits=True)
            case "stage":
                # A push finds out what was lost before it.
                touched = OLD if world.objects[0] == GONE else 0
                yield "commits", at("push", committed=True, touched=touched)
            case "push" if not waits:
                yield "reads the state", at("verify", reading=state, read_age=0)
            case "verify":
                if self.rules.push_verifies and not self._is_whole(world, table):
                    yield "finds out", at("lost", touched=OLD)
                else:
                    yield "finds all", at("claim")
            case "claim":
                condemned = writer.reading[0] == CONDEMNED
                if (writer.read_age <= SLACK and not condemned) or not self.rules.push_keeps:
                    yield "trusts its reading", at("move")
                elif self._may_have_swept(writer.reading, state):
                    yield "begins anew", at("push")
                elif state[0] == CONDEMNED:
                    yield "reads again", at("keep tree", reading=state, read_age=0)
                else:
                    yield "reads again", at("move", reading=state, read_age=0)
            case "keep tree":
                wanted = world.gc.keeps | {(writer.reading[1], f"T{number}")}
                yield (
                    "writes a keep",
                    at("after keep tree", world._replace(gc=world.gc._replace(keeps=wanted))),
                )
            case "after keep tree":
                step = "move" if state == writer.reading else "push"
                yield "reads after the keep", at(step, read_age=0)
            case "move":
                yield "moves the ref", at("pushed", pushed=True, touched=OLD)

    def _is_whole(self, world: World, table: int) -> bool:
        return world.objects[0] != GONE and world.objects[table] != GONE

    def _collect(
        self, world: World, number: int, collector: Collector
    ) -> Iterator[tuple[str, World]]:
        def at(step: str, place: World = world, **changes: object) -> World:
            after = collector._replace(step=step, **changes)  # type: ignore[arg-type]
            return self._put_collector(place, number, after)

        gc = world.gc
        mine = gc.phase == SWEEPING and gc.owner == number
        stops = world.vanished and self.rules.knows_refs
        names = self._names(world)
        if collector.step in ("remark", "relist", "read keeps") and mine and self.kills:
            yield "fails", self._put_collector(self._ended(world), number, Collector())
        match collector.step:
            case "look":
                if stops:
                    pass
                elif gc.phase == IDLE and gc.epoch < self.epochs:
                    live = self.reached_from_refs(world)
                    yield "reads the refs", at("list", seen=gc.reading, live=live)
                elif gc.phase == CONDEMNED and gc.since >= self.wait:
                    state = gc._replace(phase=SWEEPING, since=0, owner=number)
                    yield "begins the sweep", at("remark", world._replace(gc=state), lease=0)
                elif gc.phase == SWEEPING and (gc.since > LEASE or not self.rules.takeover_waits):
                    state = gc._replace(owner=number, since=0)
                    yield "takes the sweep over", at("remark", world._replace(gc=state), lease=0)
            case "list":
                live = collector.live | self.young_tables(world)
                old = frozenset(
                    name
                    for name, age in zip(names, world.objects, strict=True)
                    if age > YOUNG and name not in live
                )
                if old:
                    yield "lists", at("condemn", live=frozenset(), found=old)
                else:
                    yield "finds nothing", self._put_collector(world, number, Collector())
            case "condemn":
                after = world
                if gc.reading == collector.seen:
                    epoch = gc.epoch + 1
                    state = Gc(CONDEMNED, epoch, 0, 0, collector.found, gc.keeps)
                    after = world._replace(gc=state)
                yield "condemns", self._put_collector(after, number, Collector())
            case "remark" if stops and mine:
                yield "misses R", self._put_collector(self._ended(world), number, Collector())
            case "remark" if stops:
                yield "misses R", self._put_collector(world, number, Collector())
            case "remark":
                live = self.reached_from_refs(world) if self.rules.remarks_refs else frozenset()
                yield "reads the refs again", at("relist", live=live)
            case "relist":
                spared = collector.live | self.young_tables(world)
                yield "lists again", at("read keeps", live=spared)
            case "read keeps":
                kept = {name for epoch, name in gc.keeps if epoch == gc.epoch}
                spared = collector.live | self.with_contents(world, kept)
                found = gc.mark - spared
                yield "reads the keeps", at("delete", live=frozenset(), found=found)
            case "delete":
                own = {each for each in world.requests if each.owner == number}
                is_late = collector.lease > LEASE - REQUEST and self.rules.checks_lease
                if self.rules.sweep_has_owner and not mine:
                    yield "finds another owner", self._put_collector(world, number, Collector())
                elif collector.found and is_late:
                    state = gc._replace(since=0)
                    yield "renews its lease", at("delete", world._replace(gc=state), lease=0)
                elif collector.found:
                    for name in sorted(collector.found):
                        requests = world.requests | {Request(name, number)}
                        yield (
                            f"asks to delete {name}",
                            at(
                                "delete",
                                world._replace(requests=requests),
                                found=collector.found - {name},
                                asked=collector.asked | {name},
                            ),
                        )
                elif self.rules.awaits_replies and collector.asked:
                    if {each.name for each in own} != collector.asked:
                        # By the state the sweep is not finished. Another collector takes it over.
                        yield "has no reply", self._put_collector(world, number, Collector())
                else:
                    after = self._ended(world) if gc.phase == SWEEPING else world
                    yield "is done", self._put_collector(after, number, Collector())

    def _ended(self, world: World) -> World:
        gc = world.gc._replace(phase=IDLE, since=0, owner=0, mark=frozenset(), keeps=frozenset())
        return world._replace(gc=gc)


def explore(model: Model, start: World, *, most: int | None = None) -> int:
    """Visit every state that follows from one; return how many there are.

    Args:
        model: of the steps.
        start: the first state.
        most: how many states to visit, those fewest steps away first; ``None``: all.

    Raises:
        Violation: a guarantee does not hold; it has the steps that lead there.
    """
    came_from: dict[World, tuple[World, str] | None] = {start: None}
    queue = [start]
    for world in queue:
        try:
            model.check(world)
        except Violation as violation:
            raise Violation(f"{violation}: {'; '.join(_path(came_from, world))}") from None
        if most is not None and len(queue) >= most:
            continue
        for name, after in model.steps(world):
            if after not in came_from:
                came_from[after] = (world, name)
                queue.append(after)
    return len(queue)


def _path(came_from: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    names = []
    while (step := came_from[world]) is not None:
        world, name = step
        names.append(name)
    return names[::-1]


def world(
    *, x: int, old_ref: int, writers: tuple[Writer, ...], tables: int = GONE, collectors: int = 1
) -> World:
    """Return a first state.

    Args:
        x: age of X, or `GONE`.
        old_ref: `GONE` if R refers to X, `OLD` if it never did.
        writers: what they are about to do.
        tables: age of their tables.
        collectors: how many.
    """
    return World(
        objects=(x, *[tables] * len(writers)),
        old_ref=old_ref,
        gc=Gc(),
        writers=writers,
        collectors=(Collector(),) * collectors,
    )


UPLOADS = Writer("begin")
PUSHES_OLD_WORK = Writer("push", touched=OLD, commits=True, committed=True)

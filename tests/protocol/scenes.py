"""Commands of clones that meet at the bucket: one has a fault, another one may run meanwhile.

In every scene, commit and object have one text, see `model`.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from lakecli.base.ids import CommitId
from lakecli.base.model import RefKind
from lakecli.doctor import conditions
from lakecli.doctor.evidence import Result, place_of
from lakecli.errors import LakeError, NothingToDo, OutcomeUnknown
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.handle.shareable import remember
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushLease, PushOptions, push, push_deletion, push_reset
from lakecli.repository.reading.view import open_view
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.sharing.publish import Unverified
from tests.gc.shared import LONG, Shared, read_all, upload
from tests.protocol.bucket import FAULTS, PREFIX, Fault, Killed, Kind, Line, Wire
from tests.protocol.model import REFS, Made, Model
from tests.support.clones import machine, synced
from tests.support.lakes import START, through
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.contract import Repository

TWO_HOURS = timedelta(hours=2)


def ref_key(name: str) -> str:
    return f"{REFS}branches/{name}"


class Scene:
    """Clones whose bucket has the commit "base" on branch main.

    Attributes:
        names: of the clones.
        who: runs the command whose requests fail.
        branch: that the command moves.
        text: of the commit that the command brings to the bucket.
        max_moves: moves in a ref object, at most; 0: as in the program.
    """

    names: ClassVar[tuple[str, ...]] = ("ada", "ben")
    who: ClassVar[str] = "ada"
    branch: ClassVar[str] = "main"
    text: ClassVar[str] = "a"
    max_moves: ClassVar[int] = 0

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.shared = Shared(directory, *self.names)
        self._made = dict(zip(self.names, self.shared.clones, strict=True))
        for made in self._made.values():  # what the store can do is not tried out in every run
            remember(made, Result(place_of(made.store), "", conditions.RACES, START))
        self._found: dict[str, Made] = {}
        self.model = Model(self._find, self._contents)
        self._make("ada", "base")
        self._push("ada")
        pull(self._made[self.names[1]], "main", PullOptions(committer="test"))
        self.prepare()
        for key, stored in self.shared.bucket.objects.items():
            if key.startswith(PREFIX + REFS):
                self.model.begin(key.removeprefix(PREFIX), stored.body)
        self.wire = Wire(self.shared.bucket, self.model.check)

    def prepare(self) -> None:
        """Do what comes before the command, without faults and before the model sees writes."""

    def command(self) -> None:
        """Run the command whose requests fail."""
        raise NotImplementedError

    def meanwhile(self) -> None:
        """Run another clone's commands, whatever they answer."""
        raise NotImplementedError

    def finish(self) -> None:
        """Repeat, without faults, what has to succeed in the end."""
        raise NotImplementedError

    def run(self, at: int, fault: Fault, *, meets: bool) -> None:
        """Run the command with a fault at its request number `at`, repeat it, and check all."""
        with self.shared:
            self.wire.watch(self.who, at, fault, self.meanwhile if meets else lambda: None)
            failed = False
            try:
                self.command()
            except (Killed, OutcomeUnknown, Unverified):
                pass
            except LakeError:
                failed = True
            self.wire.end()
            if failed:
                self.check_not_made()
            self.finish()
            self.check()

    def check_not_made(self) -> None:
        """Check that an error that leaves no doubt is right, whatever has arrived late."""
        made = [move for move in self.model.moves[ref_key(self.branch)] if move["who"] == self.who]
        texts = [self._find(move["to"]).text for move in made if move["to"] is not None]
        assert self.text not in texts, "the error said that nothing was moved"

    def check(self) -> None:
        """Compare what a new clone reads with the model."""
        self.model.check_end()
        with machine(self._directory, "observer") as lake:
            store = MemoryStore(self.shared.bucket, PREFIX)
            lake.runtime = lake.runtime._replace(open_store=lambda _uri, _region: store)
            seen = clone(lake, self._made["ada"].record.storage_namespace, "demo")
            for key in self.model.moves:
                name = key.rpartition("/")[2]
                at = self.model.position(key)
                if at is not None:
                    expected = self.model.texts(at)
                    assert len(expected) == len(set(expected)), "one change was committed twice"
                    contents = {text.encode(): text.encode() for text in expected}
                    assert read_all(seen, name) == contents, "a new clone reads something else"

    # What clones do. A handle is new, as every command has one.

    def handle(self, who: str) -> Repository:
        return through(
            self._made[who],
            Line(self.wire, who),
            clock=self.shared.time,
            elapsed=self.shared.time.monotonic,
            sleep=lambda _seconds: None,
        )

    def push(self, who: str, lease: PushLease | None = None) -> None:
        """Push a branch; what is acknowledged, the model knows."""
        commit_id = self._head(who, self.branch)
        push(self.handle(who), self.branch, options=PushOptions(who=who, lease=lease))
        self.model.acknowledge(ref_key(self.branch), commit_id)

    def pull_and_push(self, who: str) -> None:
        pull(self.handle(who), self.branch, PullOptions(committer=who))
        self.push(who)

    def _make(self, who: str, text: str, name: str = "main") -> CommitId:
        """Upload and commit an object, before the test begins."""
        upload(self._made[who], text.encode(), text.encode(), name)
        return commit(self._made[who], name, message=text, committer=who).id

    def _push(self, who: str, name: str = "main") -> None:
        push(self._made[who], name, options=PushOptions(who=who))

    def _head(self, who: str, name: str) -> CommitId:
        made = self._made[who]
        with made.lake.kv.read() as txn:
            commit_id = RefStore(txn, made.key).position(RefKind.BRANCH, name)
        assert commit_id is not None
        return commit_id

    def _find(self, commit_id: str) -> Made:
        if commit_id in self._found:
            return self._found[commit_id]
        for made in self._made.values():
            with made.lake.kv.read() as txn:
                found = RefStore(txn, made.key).find_commit(CommitId(commit_id))
            if found is not None:
                # The first commit of a repository and merges add nothing.
                text = found.message if len(found.parents) == 1 else ""
                self._found[commit_id] = Made(found.parents, text)
                return self._found[commit_id]
        raise AssertionError("a ref moved to a commit that nobody made")

    def _contents(self, key: str) -> bytes | None:
        stored = self.shared.bucket.objects.get(PREFIX + key)
        return None if stored is None else stored.body


class Pushes(Scene):
    """Two clones push a commit each."""

    def prepare(self) -> None:
        self._make("ada", "a")
        self._make("ben", "b")

    def command(self) -> None:
        self.push("ada")

    def meanwhile(self) -> None:
        with suppress(LakeError):
            self.push("ben")

    def finish(self) -> None:
        self.pull_and_push("ada")
        self.pull_and_push("ben")


class Spills(Pushes):
    """As `Pushes`, but the ref object is full, so that moves go to the reflog."""

    max_moves = 2

    def prepare(self) -> None:
        for text in ("c", "d"):
            self._make("ada", text)
            self._push("ada")
        super().prepare()


class Forces(Pushes):
    """A clone forces the branch from where it has seen it, while another one pushes on top."""

    def prepare(self) -> None:
        self._make("ada", "a")
        wrong = self._make("ben", "wrong")
        self._push("ben")
        self._make("ben", "b")
        with suppress(LakeError):
            self._push("ada")  # is refused, and shows where the branch is
        fetch(self._made["ada"])
        self.model.leases.add(wrong)

    def command(self) -> None:
        self.push("ada", PushLease())


class Deletes(Scene):
    """A clone deletes a branch while another one pushes to it."""

    branch = "side"
    text = ""

    def prepare(self) -> None:
        branch.create(self._made["ada"], "side", source="main")
        self._make("ada", "a", "side")
        self._push("ada", "side")
        pull(self._made["ben"], "main", PullOptions(committer="ben"))
        branch.create(self._made["ben"], "side", source=self._head("ada", "side"))
        self._make("ben", "b", "side")
        self.model.leases.add(self._head("ada", "side"))

    def command(self) -> None:
        push_deletion(self.handle("ada"), "side", options=PushOptions(who="ada"))

    def meanwhile(self) -> None:
        with suppress(LakeError):
            self.push("ben")

    def check_not_made(self) -> None:
        moves = self.model.moves[ref_key("side")]
        assert all(move["to"] is not None for move in moves), "the error said that nothing moved"

    def finish(self) -> None:
        self.push("ben")


class Resets(Scene):
    """A clone moves a branch back, here and in the bucket, while another one pushes to it.

    Attributes:
        syncs: whether sharing is automatic.
    """

    syncs: ClassVar[bool] = False

    def prepare(self) -> None:
        self._base = self._head("ada", "main")
        self._make("ada", "a")
        self._push("ada")
        pull(self._made["ben"], "main", PullOptions(committer="ben"))
        self._make("ben", "b")
        upload(self._made["ada"], b"staged", b"staged")
        self._before = self._head("ada", "main")
        self.model.leases.add(self._before)

    def command(self) -> None:
        handle = self.handle("ada")
        if self.syncs:
            handle = synced(handle, "ada").repository
        seen = branch.show(handle, "main")
        push_reset(handle, seen, self._base, PushOptions(who="ada", lease=PushLease()))

    def meanwhile(self) -> None:
        with suppress(LakeError):
            self.push("ben")

    def check_not_made(self) -> None:
        moves = self.model.moves[ref_key("main")]
        assert all(move["to"] != self._base for move in moves[2:]), "the error said otherwise"
        assert self._head("ada", "main") == self._before, "a refused reset moved the branch here"
        with open_view(self._made["ada"], "main") as view:
            staged = [path for path, _ in view.staged()]
        assert staged == [b"staged"], "a refused reset dropped what was staged"

    def finish(self) -> None:
        if self.syncs:
            shared = synced(self.handle("ada"), "ada")
            shared.catch_up()
            shared.finish()
            at = self.model.position(ref_key("main"))
            assert self._head("ada", "main") == at, "it does not follow"
        else:
            with suppress(LakeError):
                self.command()
        branch.reset(self._made["ada"], "main")
        self.pull_and_push("ada")
        self.pull_and_push("ben")


class SyncedResets(Resets):
    """As `Resets`, with sync = auto."""

    syncs = True


class Commits(Scene):
    """Two clones commit with sync = auto: the bucket has the commit before the clone has it."""

    def prepare(self) -> None:
        for who, text in (("ada", "a"), ("ben", "b")):
            upload(self._made[who], text.encode(), text.encode())

    def commit(self, who: str, text: str) -> None:
        shared = synced(self.handle(who), who)
        shared.catch_up()
        commit(shared.repository, "main", message=text, committer=who)
        self.model.acknowledge(ref_key("main"), self._head(who, "main"))

    def command(self) -> None:
        self.commit("ada", "a")

    def meanwhile(self) -> None:
        with suppress(LakeError):
            self.commit("ben", "b")

    def finish(self) -> None:
        for who, text in (("ada", "a"), ("ben", "b")):
            with suppress(NothingToDo):
                self.commit(who, text)

    def check(self) -> None:
        super().check()
        assert self.model.texts(self.model.position(ref_key("main"))) == ["a", "b", "base"]


class Collection(Scene):
    """A clone uploads an object again that is condemned and due, while another one sweeps."""

    names = ("ada", "ben", "cleo")
    text = "x"

    def prepare(self) -> None:
        upload(self._made["ben"], b"x", b"x")
        self.shared.time.pass_by(LONG)
        self.shared.collect(self._made["cleo"])
        self.shared.time.pass_by(LONG)

    def use(self) -> None:
        """Upload the object again, commit and push it."""
        with suppress(NothingToDo):
            upload(self.handle("ada"), b"x", b"x")
            self.model.in_use.add("x")
            commit(self.handle("ada"), "main", message="x", committer="ada")
        self.push("ada")

    def sweep(self) -> None:
        self.shared.collect(self.handle("cleo"))

    def finish(self) -> None:
        for _ in range(2):
            self.shared.time.pass_by(TWO_HOURS)
            self.sweep()
        self.use()


class Sweeps(Collection):
    """The sweep has faults."""

    who = "cleo"

    def command(self) -> None:
        self.sweep()

    def meanwhile(self) -> None:
        with suppress(LakeError):
            self.use()


class Uses(Collection):
    """Whoever uses the object again has faults."""

    def command(self) -> None:
        self.use()

    def meanwhile(self) -> None:
        with suppress(LakeError):
            self.sweep()


SCENES: tuple[type[Scene], ...] = (
    Pushes,
    Spills,
    Forces,
    Deletes,
    Resets,
    SyncedResets,
    Commits,
    Sweeps,
    Uses,
)


def plans(directory: Callable[[], Path], scene: type[Scene]) -> list[tuple[int, Fault, bool]]:
    """Return every fault of every request of a scene's command, alone and with the other clone."""
    sound = scene(directory())
    sound.run(0, Fault.NONE, meets=False)
    kinds = enumerate(sound.wire.kinds, start=1)
    found = []
    for at, kind in kinds:
        found += [(at, fault, False) for fault in FAULTS[kind]]
        meeting = (Fault.NONE, *(() if kind is Kind.READ else FAULTS[kind]))
        found += [(at, fault, True) for fault in meeting]
    return found

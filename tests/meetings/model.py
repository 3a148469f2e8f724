"""What the long team knows: refs, commits, what is staged, and where the bucket stands."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from lakecli.base.layout import REFLOG, REFS, pack_key, unescape_name
from lakecli.base.model import RefKind
from lakecli.committed.tree_store import MissingTable
from lakecli.committed.values import decode_entry
from lakecli.kv.bucket import PackedStore
from lakecli.refs.ref_store import RefStore
from lakecli.repository.handle.lake import Lake
from lakecli.repository.reading.view import open_view
from lakecli.repository.runtime import Home, Runtime
from lakecli.repository.undo.log import iter_log
from tests.meetings.losses import PREFIX, Losses, data_keys

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lakecli.base.model import Commit, Entry
    from lakecli.kv.operations import Operation
    from lakecli.repository.contract import Repository
    from tests.meetings.world import Machines

LOG_KEPT: Final = timedelta(days=29)
"""How long an operation can be undone, less the time by which clocks may differ."""

REFLOG_KEPT: Final = timedelta(days=29)
"""How long a former head of a branch is protected, likewise."""

PEOPLE: Final = ("ada", "bob", "eve")

Tree = dict[str, str]
"""What is at each path: the checksum, and the metadata `KEY` after a space, if it has that."""

Staged = dict[str, str | None]
"""The same of what is staged; ``None``: it is removed."""

KEY: Final = "k"


@dataclass
class Place:
    """A branch on one machine: where it stands, and what is staged on it.

    What is staged as the head has it is no change, and yet there until the branch moves.
    """

    head: str
    staged: Staged = field(default_factory=dict)


class Model:
    """The model, and its comparison with the machines and the bucket.

    Args:
        world: with an empty bucket.
    """

    def __init__(self, world: Machines) -> None:
        self.world = world
        self.trees: dict[str, Tree] = {}
        self.parents: dict[str, tuple[str, ...]] = {}
        self.places: dict[str, dict[str, Place]] = {person: {} for person in PEOPLE}
        self.known: dict[str, set[str]] = {person: set() for person in PEOPLE}
        self.packs: dict[str, set[str]] = {person: set() for person in PEOPLE}
        """The keys of the packs that each clone believes its commits to lie in."""
        self.tags: dict[str, dict[str, str]] = {person: {} for person in PEOPLE}
        self.losses = Losses(world)
        self.pushed: set[str] = set()
        self.stood: dict[str, str | None] = {}
        """Where branches in the bucket stand."""
        self.moved: set[tuple[str, str, str]] = set()
        """Who moved which branch in the bucket to where."""
        self.deleters: set[tuple[str, str]] = set()
        """Who has asked to delete which branch."""
        self.had: dict[tuple[str, str], set[str]] = {}
        """Where a person's branch of some name has ever stood on that machine."""
        self.headed_at: dict[str | None, datetime] = {}
        """When commits were the head of a branch in the bucket for the last time."""
        self.logged: dict[str, dict[bytes, datetime]] = {person: {} for person in PEOPLE}
        """When operations were appended to each log, by the bucket's clock."""
        self.told: list[str] = []
        """Every command with its exit code, for whoever has to read a failure."""

    def story(self) -> str:
        """Return what was done, a line each."""
        return "\n".join(self.told)

    # -- refs and contents -------------------------------------------------------------------

    def branches(self, person: str) -> list[str]:
        """Return the names of a person's branches."""
        return sorted(self.places[person])

    def contents_of(self, person: str, ref: str) -> Tree:
        """Return what a branch, its parent (`main~1`) or a tag holds, by the model."""
        branch, _, parent = ref.partition("~")
        if parent:
            return self.trees[self.parents[self.places[person][branch].head][0]]
        if ref in self.tags[person]:
            return self.trees[self.tags[person][ref]]
        place = self.places[person][ref]
        merged = {**self.trees[place.head], **place.staged}
        return {path: each for path, each in merged.items() if each is not None}

    def learn_refs(self, who: str = "", operations: Sequence[Operation] = ()) -> None:
        """Take over where refs stand on all machines, and what is in commits that are new.

        Args:
            who: has run a command.
            operations: what it appended to the log, oldest first: a branch may have followed the
                bucket before it moved.
        """
        for name in {change.name for each in operations for change in each.refs}:
            self.had.setdefault((who, name), set()).update(_way(name, operations))
        for person in PEOPLE:
            places = self.places[person]
            with self.open_lake(person) as lake:
                if not any(each.name == "demo" for each in lake.repositories()):
                    places.clear()  # its clone was undone
                    self.tags[person] = {}
                    continue
                repository = lake.repository("demo")
                with repository.lake.kv.read() as txn:
                    refs = RefStore(txn, repository.key)
                    heads = {each.name: str(each.commit_id) for each in refs.iter_branches()}
                    self.tags[person] = {each.name: each.commit_id for each in refs.iter_tags()}
                    commits = {str(each.id): each for each in refs.iter_commits()}
                    packed = PackedStore(txn, repository.key)
                    packs = {packed.find_pack(each.id) for each in commits.values()}
                self.known[person] = set(commits)
                self.packs[person] = {pack_key(each) for each in packs if each is not None}
                for made in sorted(commits.values(), key=lambda each: each.generation):
                    self._learn(repository, made)
            for name in places.keys() - heads.keys():
                del places[name]
            for name, head in heads.items():
                place = places.setdefault(name, Place(head))
                way = _way(name, operations) if person == who else []
                self.had.setdefault((person, name), set()).add(head)
                for each in (*way, head):
                    self._move(place, each)

    def _move(self, place: Place, head: str) -> None:
        """Move a branch; drop what is staged as the head has it, where the new head differs."""
        old, new = self.trees.get(place.head, {}), self.trees.get(head, {})
        place.head = head
        for path, checksum in list(place.staged.items()):
            if old.get(path) == checksum != new.get(path):
                del place.staged[path]

    def compare(self, who: str = "", *, takes_over: bool = False, may_lose: bool = False) -> None:
        """Compare all branches, and the bucket, with the model.

        Args:
            who: has run a command.
            takes_over: take over what is staged there now.
            may_lose: the command may have committed, or dropped, what was staged.
        """
        for person in PEOPLE:
            with self.open_lake(person) as lake:
                for name, place in self.places[person].items():
                    read = self._read(lake.repository("demo"), name, place.head)
                    if read is None or place.head not in self.trees:
                        continue
                    tree = self.trees[place.head]
                    found = _difference(tree, read)
                    if person == who and takes_over:
                        place.staged = found
                    elif person == who and may_lose:
                        # What is as the head has it does not show; it may show again after undo.
                        place.staged = {
                            path: each
                            for path, each in place.staged.items()
                            if path in found or tree.get(path) == each
                        }
                    changes = {
                        path: each for path, each in place.staged.items() if tree.get(path) != each
                    }
                    assert found == changes, (
                        f"{person}/{name}: {found} is not {changes}\n{self.story()}"
                    )
        self._check_bucket(who)

    def check_log(self, who: str) -> None:
        """Compare a person's log with what was seen of it: no operation goes within its time."""
        if who in self.world.ahead:
            return  # what is old, and what comes after what, cannot be told by this clock
        now = self.world.now
        with self.open_lake(who) as lake:
            if not any(each.name == "demo" for each in lake.repositories()):
                self.logged[who].clear()
                return
            repository = lake.repository("demo")
            found = {each.operation.id: each.operation.at for each in iter_log(repository)}
        logged = self.logged[who]
        expected = {each for each, at in logged.items() if now - at < LOG_KEPT}
        assert expected <= found.keys(), f"operations are gone from the log\n{self.story()}"
        # A date in the future is that of a clock that was wrong: nobody knows when it was.
        day = timedelta(days=1)
        logged |= {each: at for each, at in found.items() if timedelta() <= now - at < day}

    def check_sweep(self, keys: set[str]) -> None:
        """Compare what a collection has deleted with what it must not delete.

        Args:
            keys: in the bucket before it ran.
        """
        taken = self.losses.note_sweep(keys)
        assert not taken, f"staged lately and swept: {taken}\n{self.story()}"
        now = self.world.now
        heads = {str(head) for head, at in self.headed_at.items() if now - at < REFLOG_KEPT}
        for commit_id in self.history(heads):
            lost = (keys - self.losses.keys()) & self.objects_of(commit_id)
            assert not lost, f"swept, and {commit_id} was pushed: {lost}\n{self.story()}"

    def objects_of(self, commit_id: str) -> set[str]:
        """Return the keys of what a commit refers to, as far as that was ever read."""
        data = data_keys(self.trees.get(commit_id, {}).values())
        return self.losses.tables_of(commit_id) | data

    def _learn(self, repository: Repository, commit: Commit) -> None:
        """Remember what a commit holds."""
        self.parents[commit.id] = tuple(map(str, commit.parents))
        self.losses.learn(repository, commit)
        if commit.id not in self.trees and (tree := self._read(repository, commit.id)) is not None:
            self.trees[commit.id] = tree

    def _read(self, repository: Repository, ref: str, head: str = "") -> Tree | None:
        """Return what a ref holds; ``None`` where the bucket has lost its tree.

        Args:
            repository: of one person.
            ref: a branch, or a commit's ID.
            head: the commit on which the branch stands.
        """
        try:
            with open_view(repository, ref) as view:
                return {path.decode(): shown(decode_entry(value)) for path, value in view.scan()}
        except MissingTable:
            lost = self.losses.missing(self.losses.tables_of(head or ref))
            assert lost, f"{ref} cannot be read\n{self.story()}"
            return None

    def refers_to_lost(self, person: str) -> bool:
        """Tell whether the bucket has lost anything that a clone refers to."""
        places = self.places[person].values()
        staged = data_keys(each for place in places for each in place.staged.values())
        return bool(
            self.losses.missing(staged | self.packs[person])
            or any(self.losses.missing(self.objects_of(each)) for each in self.known[person])
        )

    # -- the bucket --------------------------------------------------------------------------

    def _check_bucket(self, who: str) -> None:
        self._check_moves(who)
        heads, moved = self.bucket_refs()
        reached = self.history(heads | moved)
        missing = self.pushed - reached
        assert not missing, f"pushed and reachable no more: {missing}\n{self.story()}"
        self.pushed |= self.history(heads)

    def _check_moves(self, who: str) -> None:
        """Compare where branches in the bucket stand with where they stood before the command.

        Nobody uses force. A branch moves forward, or its mover takes his own move back. Only who
        made it, or has asked to delete it, deletes it, and had on the branch all that was there.
        """
        stand: dict[str, str | None] = {}
        for key, stored in self.world.bucket.objects.items():
            name = key.removeprefix(PREFIX)
            if name.startswith(f"{REFS}branches/"):
                stand[name] = json.loads(stored.body)["commit_id"]
        for name, after in stand.items():
            before = self.stood.get(name)
            for head in {before, after} - {None}:
                self.headed_at[head] = self.world.now
            if after == before:
                continue
            if after is None:
                branch = unescape_name(name.removeprefix(f"{REFS}branches/"))
                mine = {(who, branch)} & self.deleters or {(who, name, before)} & self.moved
                assert mine, f"{branch} was deleted by {who}\n{self.story()}"
                seen = self.history(self.had.get((who, branch), set()))
                assert before in seen, f"{who} deleted {before}, unseen\n{self.story()}"
                continue
            if before is not None and before not in self.history({after}):
                assert (who, name, before) in self.moved, f"{name} went back\n{self.story()}"
            self.moved.add((who, name, after))
        self.stood = stand

    def bucket_refs(self) -> tuple[set[str], set[str]]:
        """Return where the refs in the bucket stand, and where they stood."""
        heads: set[str] = set()
        moved: set[str] = set()
        for key, stored in self.world.bucket.objects.items():
            name = key.removeprefix(PREFIX)
            if name.startswith((REFS, REFLOG)):
                record = json.loads(stored.body)
                heads |= {record.get("commit_id")} - {None}
                for move in record["moves"]:
                    moved |= {move["from"], move["to"]} - {None}
        return heads, moved

    def history(self, commits: set[str]) -> set[str]:
        found: set[str] = set()
        waiting = [each for each in commits if each in self.parents]
        while waiting:
            current = waiting.pop()
            if current not in found:
                found.add(current)
                waiting += self.parents[current]
        return found

    def open_lake(self, person: str) -> Lake:
        home = self.world.home(person)
        runtime = Runtime(lambda: self.world.time_of(person), lambda: os.urandom(16), "library")
        return Lake.open(Home(home / "store", home / "cache"), runtime)


def shown(entry: Entry) -> str:
    """Return what a tree of the model has for an entry."""
    return f"{entry.checksum} {entry.metadata.get(KEY, '')}".rstrip()


def _way(branch: str, operations: Sequence[Operation]) -> list[str]:
    """Return the heads that operations gave to a branch, in their order."""
    return [
        change.after["commit_id"]
        for each in operations
        for change in each.refs
        if (change.kind, change.name) == (RefKind.BRANCH, branch) and change.after is not None
    ]


def _difference(head: Tree, read: Tree) -> Staged:
    return {
        path: read.get(path)
        for path in head.keys() | read.keys()
        if head.get(path) != read.get(path)
    }

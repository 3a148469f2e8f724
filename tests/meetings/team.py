"""Three people who share one bucket for a long time, against a plain model of what they have.

The model knows the contents of every commit, and what is staged where. It does not foretell who
wins: it looks where refs stand after each command and holds that against what it knows.

- What somebody pushed stays reachable from a ref in the bucket or from its reflog, with its data,
  unless the bucket itself went back.
- What exit code 0 acknowledged is there.
- A branch reads as its head and what is staged on it.
- No command ends in an unexpected error, whatever came before it.
"""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from lakecli.cli.exit_codes import ExitCode
from lakecli.committed.sources import MissingTable
from lakecli.committed.values import decode_entry
from lakecli.errors import LakeError
from lakecli.filesystem import LakeFileSystem, lakes
from lakecli.identity import h
from lakecli.layout import REFLOG, REFS
from lakecli.refs.ref_store import RefStore
from lakecli.repository.commit import commit
from lakecli.repository.core.lake import Home, Lake, Runtime
from lakecli.repository.core.view import open_view
from lakecli.repository.deposit import deposit, stage_together
from lakecli.repository.upload import UploadOptions
from tests.meetings.arguments import REPOSITORY
from tests.meetings.world import BUCKET, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.model import Commit
    from lakecli.repository.core.lake import Repository
    from tests.meetings.world import Machines, Reply

PEOPLE: Final = ("ada", "bob", "eve")
PREFIX: Final = "demo/"
DEFECTS: Final = frozenset((ExitCode.UNEXPECTED, ExitCode.USAGE, ExitCode.INTEGRITY))
"""What no command may answer here: nobody asks for nonsense, and nothing is damaged."""

STAGES: Final = frozenset(("fs", "undo", "redo", "op"))
"""Commands after which more may be staged than before."""

Tree = dict[str, str]
"""Checksums by path."""


@dataclass
class Place:
    """A branch on one machine: where it stands, and what is staged on it."""

    head: str
    staged: dict[str, str | None] = field(default_factory=dict)


class Team:
    """The people, their commands, and the model.

    Args:
        world: with an empty bucket.
    """

    def __init__(self, world: Machines) -> None:
        self.world = world
        self.trees: dict[str, Tree] = {}
        self.parents: dict[str, tuple[str, ...]] = {}
        self.places: dict[str, dict[str, Place]] = {person: {} for person in PEOPLE}
        self.known: dict[str, set[str]] = {person: set() for person in PEOPLE}
        self.pushed: set[str] = set()
        self.stood: dict[str, str | None] = {}
        """Where branches in the bucket stand."""
        self.moved: set[tuple[str, str, str]] = set()
        """Who moved which branch in the bucket to where."""
        self.told: list[str] = []
        """Every command with its exit code, for whoever has to read a failure."""
        world.ok("ada", "repo", "create", REPOSITORY, NAMESPACE, "--range-entries", "16")
        self._write("ada", "first")
        world.ok("ada", "fs", "upload", str(self._file("ada")), f"{REPOSITORY}/main/p/0")
        world.ok("ada", "commit", f"{REPOSITORY}/main", "-m", "first")
        world.ok("ada", "branch", "create", f"{REPOSITORY}/dev", "-s", f"{REPOSITORY}/main")
        world.ok("ada", "push", REPOSITORY, "--all")
        for person in PEOPLE[1:]:
            world.ok(person, "clone", NAMESPACE, REPOSITORY)
        self._look(first=True)

    # -- what is done ------------------------------------------------------------------------

    def run(
        self,
        person: str,
        *argv: str,
        sync: bool,
        staged: Staged | None = None,
        cleans: str = "",
    ) -> Reply:
        """Run a command, and hold what it left against the model.

        Args:
            person: whose machine.
            argv: the command line.
            sync: whether sharing is automatic this time.
            staged: what it stages if it succeeds; ``None``: take over what is staged then.
            cleans: the branch on which nothing is staged if it succeeds.
        """
        before = {name: set(place.staged) for name, place in self.places[person].items()}
        reply = self.world(person, argv, sync=sync)
        mode = " (auto)" if sync else ""
        self.told.append(f"{person}{mode}: {' '.join(argv)} -> {reply.exit_code} {reply.stderr}")
        if not (reply.exit_code == ExitCode.INTEGRITY and self._may_have_lost(person)):
            assert reply.exit_code not in DEFECTS, self.story()
        self.swept = self.swept or (argv[:2] == ("gc", "run") and "Deleted:" in reply.stdout)
        if staged is not None and reply.exit_code == 0:
            branch, changes = staged
            self.places[person][branch].staged.update(changes)
        self._look(who=person, takes_over=staged is None)
        if argv[0] not in STAGES:
            for name in before.keys() & self.places[person].keys():
                new = self.places[person][name].staged.keys() - before[name]
                assert not new, f"staged by nobody on {name}: {new}\n{self.story()}"
        if cleans and reply.exit_code == 0:
            assert not self.places[person][cleans].staged, self.story()
        return reply

    def upload(self, person: str, branch: str, path: str, text: str, *, sync: bool) -> None:
        """Stage one file."""
        self._write(person, text)
        uri = f"{REPOSITORY}/{branch}/{path}"
        changes: dict[str, str | None] = {path: _checksum(text)}
        line = ("fs", "upload", str(self._file(person)), uri)
        reply = self.run(person, *line, sync=sync, staged=(branch, changes))
        if reply.exit_code == 0:
            assert self.contents(person, branch)[path] == _checksum(text), self.story()

    def commit(self, person: str, branch: str, *, sync: bool) -> None:
        """Commit what is staged, which has to be in the new head if it succeeded."""
        staged = dict(self.places[person][branch].staged)
        reply = self.run(person, "commit", f"{REPOSITORY}/{branch}", "-m", "m", "--json", sync=sync)
        if reply.exit_code == 0:
            tree = self.trees[json.loads(reply.stdout)["id"]]
            for path, checksum in staged.items():
                assert tree.get(path) == checksum, self.story()

    # -- what programs do --------------------------------------------------------------------

    def write_file(self, person: str, branch: str, path: str, text: str, *, commits: bool) -> None:
        """Write a file through the file system, and commit it if asked to; Python's own clock."""
        where = f"{REPOSITORY}/{branch}"
        files = LakeFileSystem(home=str(self.world.home(person)), skip_instance_cache=True)
        told = f"{person}: fsspec writes {text} to {branch}/{path}"
        try:
            files.pipe_file(f"{where}/{path}", text.encode())
            if commits:
                files.commit(where, "from a program", committer=person)
        except OSError as error:
            told += f" -> {type(error).__name__}: {error}"
        finally:
            lakes.close_unused()
        self.told.append(told)
        self._look(who=person)
        if " -> " not in told:
            assert self.contents(person, branch)[path] == _checksum(text), self.story()

    def commit_in_library(self, person: str, branch: str, path: str, text: str) -> None:
        """Bring bytes in, stage them and commit, by the functions of the library."""
        told = f"{person}: the library commits {text} as {branch}/{path}"
        with self._lake(person) as lake:
            try:
                repository = lake.repository("demo")
                name = path.encode()
                entry = deposit(
                    repository,
                    branch,
                    name,
                    source=io.BytesIO(text.encode()),
                    options=UploadOptions(),
                )
                stage_together(repository, branch, {name: entry}, kind="library")
                made = commit(repository, branch, message="library", committer=person)
            except LakeError as error:
                told += f" -> {error.kind}: {error.message}"
                made = None
        self.told.append(told)
        self._look(who=person)
        if made is not None:
            assert self.trees[made.id][path] == _checksum(text), self.story()

    def story(self) -> str:
        """Return what was done, a line each."""
        return "\n".join(self.told)

    # -- what is seen ------------------------------------------------------------------------

    def contents(self, person: str, branch: str) -> Tree:
        """Return the checksums of a branch as its owner reads it."""
        with self._lake(person) as lake, open_view(lake.repository("demo"), branch) as view:
            return {path.decode(): decode_entry(value).checksum for path, value in view.scan()}

    def branches(self, person: str) -> list[str]:
        return sorted(self.places[person])

    def _look(self, *, who: str = "", takes_over: bool = True, first: bool = False) -> None:
        for person in PEOPLE:
            changed = first or person == who
            self._look_at(person, takes_over=takes_over and changed)
        self._check_bucket(who)

    def _look_at(self, person: str, *, takes_over: bool) -> None:
        """Take over where refs stand; compare contents, or take over what is staged too."""
        with self._lake(person) as lake:
            if not any(each.name == "demo" for each in lake.repositories()):
                self.places[person].clear()  # its clone was undone
                return
            repository = lake.repository("demo")
            with repository.lake.kv.read() as txn:
                refs = RefStore(txn, repository.key)
                heads = {each.name: str(each.commit_id) for each in refs.iter_branches()}
                commits = {str(each.id): each for each in refs.iter_commits()}
            self.known[person] = set(commits)
            for commit in sorted(commits.values(), key=lambda each: each.generation):
                self._learn(repository, commit)
            places = self.places[person]
            for name in places.keys() - heads.keys():
                del places[name]
            for name, head in heads.items():
                read = self._read(repository, name, head)
                place = places.setdefault(name, Place(head))
                place.head = head
                if read is None or head not in self.trees:
                    continue
                if takes_over:
                    place.staged = _difference(self.trees[head], read)
                else:  # what is staged as the head has it is no change
                    tree = self.trees[head]
                    place.staged = {
                        path: each for path, each in place.staged.items() if tree.get(path) != each
                    }
                expected = {**self.trees[head], **place.staged}
                present = {path: each for path, each in expected.items() if each is not None}
                assert read == present, f"{person}/{name}\n{self.story()}"

    def _learn(self, repository: Repository, commit: Commit) -> None:
        """Remember what a commit holds."""
        self.parents[commit.id] = tuple(map(str, commit.parents))
        if commit.id not in self.trees and (tree := self._read(repository, commit.id)) is not None:
            self.trees[commit.id] = tree

    def _read(self, repository: Repository, ref: str, head: str = "") -> Tree | None:
        """Return what a ref holds; ``None`` where the bucket may have lost its tree.

        Args:
            repository: whose.
            ref: a branch, or a commit's ID.
            head: the commit on which the branch stands.
        """
        try:
            with open_view(repository, ref) as view:
                return {path.decode(): decode_entry(value).checksum for path, value in view.scan()}
        except MissingTable:
            lost = (self.went_back or self.swept) and (head or ref) not in self.pushed
            assert lost, f"{ref} cannot be read\n{self.story()}"
            return None

    # -- the bucket --------------------------------------------------------------------------

    def _check_bucket(self, who: str) -> None:
        self._check_moves(who)
        heads, moved = self._bucket_refs()
        reached = self._history(heads | moved)
        missing = self.pushed - reached
        assert not missing, f"pushed and reachable no more: {missing}\n{self.story()}"
        self.pushed |= self._history(heads)

    def _check_moves(self, who: str) -> None:
        """Nobody uses force: branches move forward, or back from where the mover moved them."""
        stand: dict[str, str | None] = {}
        for key, stored in self.world.bucket.objects.items():
            name = key.removeprefix(PREFIX)
            if name.startswith(f"{REFS}branches/"):
                stand[name] = json.loads(stored.body)["commit_id"]
        for name, after in stand.items():
            before = self.stood.get(name)
            if after is None or after == before:
                continue
            if before is not None and before not in self._history({after}):
                assert (who, name, before) in self.moved, f"{name} went back\n{self.story()}"
            self.moved.add((who, name, after))
        self.stood = stand

    def check_from_scratch(self) -> None:
        """Clone the bucket anew: all that its refs reach has to be there, and sound."""
        world = self.world
        for number, person in enumerate(("new", *PEOPLE)):
            if not number:
                world.ok(person, "clone", NAMESPACE, REPOSITORY)
            if number and not self.places[person]:
                continue
            reply = world(person, ["fsck", REPOSITORY, "--data"])
            self.told.append(f"{person}: fsck -> {reply.exit_code} {reply.stdout}")
            if not number or not self._may_have_lost(person):
                assert reply.exit_code == 0, self.story()

    went_back = False
    """Whether the bucket was restored from a backup; then what it has lost is said, as damage."""

    swept = False
    """Whether garbage was deleted; then work that nobody pushed in time may have lost objects."""

    def _may_have_lost(self, person: str) -> bool:
        """Whether damage on a machine is what was promised, and not a defect."""
        if self.went_back:
            return True
        own = self.known[person] - self.pushed
        staged = any(place.staged for place in self.places[person].values())
        return self.swept and bool(own or staged)

    def rolled_back(self) -> None:
        """The bucket was restored from a backup: what was pushed since then is gone from it."""
        self.went_back = True
        self.stood.clear()
        heads, moved = self._bucket_refs()
        self.pushed = self._history(heads) | {each for each in moved if each in self.pushed}

    def _bucket_refs(self) -> tuple[set[str], set[str]]:
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

    def _history(self, commits: set[str]) -> set[str]:
        found: set[str] = set()
        waiting = [each for each in commits if each in self.parents]
        while waiting:
            current = waiting.pop()
            if current not in found:
                found.add(current)
                waiting += self.parents[current]
        return found

    # -- the machines ------------------------------------------------------------------------

    def _lake(self, person: str) -> Lake:
        home = self.world.home(person)
        runtime = Runtime(lambda: self.world.time_of(person), lambda: os.urandom(16), "library")
        return Lake.open(Home(home / "store", home / "cache"), runtime)

    def _file(self, person: str) -> object:
        return self.world.files(person) / "file"

    def _write(self, person: str, text: str) -> None:
        (self.world.files(person) / "file").write_text(text)


Staged = tuple[str, dict[str, str | None]]


def _checksum(text: str) -> str:
    return h(text.encode()).hex()


def _difference(head: Tree, read: Tree) -> dict[str, str | None]:
    return {
        path: read.get(path)
        for path in head.keys() | read.keys()
        if head.get(path) != read.get(path)
    }


def bucket_copy(world: Machines) -> dict[str, object]:
    """Return what the bucket holds, to be put back."""
    return dict(world.bucket.objects)


def days(number: int) -> timedelta:
    return timedelta(days=number)


def operations(team: Team, person: str) -> Iterator[str]:
    """Yield the IDs of a person's operations, newest first."""
    for line in team.world.ok(person, "op", "log", REPOSITORY, "--json").splitlines():
        yield json.loads(line)["id"]


__all__ = ["BUCKET", "PEOPLE", "Team", "bucket_copy", "days", "operations"]

"""Three people who share one bucket for a long time, compared with a plain model.

The model knows the contents of every commit, and what is staged where. It does not predict who
wins a race: after each command it takes over where refs stand. What is staged, it predicts.

- What somebody pushed stays reachable from a ref in the bucket or from its reflog, with its data,
  unless the bucket itself went back.
- What exit code 0 acknowledged is there.
- A branch reads as its head and what is staged on it.
- No command ends in an unexpected error, whatever came before it.
"""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from lakecli.base.directories import LINK_FILE
from lakecli.base.identity import blake3_of
from lakecli.base.layout import ref_key
from lakecli.base.model import RefKind
from lakecli.base.progress import ignore_step
from lakecli.cli.exit_codes import ExitCode
from lakecli.errors import LakeError, NotFound
from lakecli.filesystem import LakeFileSystem, lakes
from lakecli.kv.bucket import TrackingStore
from lakecli.repository.commit import commit
from lakecli.repository.undo.log import iter_log, logged_repository
from lakecli.repository.upload import UploadOptions, deposit, stage_together
from lakecli.stores.contract import ANY
from tests.meetings.arguments import OUTSIDE, REPOSITORY
from tests.meetings.effects import AUTOMATIC, Areas, Effects, effect_of
from tests.meetings.held import Held
from tests.meetings.losses import PREFIX
from tests.meetings.model import KEY, PEOPLE, Model, Staged
from tests.meetings.situations import put_dump
from tests.meetings.world import BUCKET, NAMESPACE
from tests.support.memory_store import BUCKETS, MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lakecli.kv.operations import Operation
    from tests.meetings.world import Machines, Reply

DEFECTS: Final = frozenset((ExitCode.UNEXPECTED, ExitCode.USAGE, ExitCode.INTEGRITY))
"""What no command may answer here: nobody asks for nonsense, and nothing is damaged."""

TAKES_BACK: Final = frozenset(("undo", "redo", "op"))
"""Commands that stage again what operations of the log had taken away, or the reverse."""


class Team(Model):
    """The people and their commands, each compared with the model.

    Args:
        world: with an empty bucket.
    """

    def __init__(self, world: Machines) -> None:
        super().__init__(world)
        self.effects = {person: Effects() for person in PEOPLE}
        self.held = Held(world, self.history, self._known_move)
        self.done: list[tuple[str, ...]] = []
        """The command lines that have succeeded."""
        bucket, _, key = OUTSIDE.removeprefix("memory://").partition("/")
        store = MemoryStore(BUCKETS.setdefault(bucket, MemoryBucket()), "")
        store.put(key, OUTSIDE.encode(), ANY)
        creation = ("repo", "create", REPOSITORY, NAMESPACE, "--range-entries", "16")
        self.run("ada", *creation, sync=False)
        self.upload("ada", "main", "p/0", "first", sync=False)
        self.commit("ada", "main", sync=False)
        self.run("ada", "branch", "create", _uri("dev"), "-s", _uri("main"), sync=False)
        self.run("ada", "push", REPOSITORY, "--all", sync=False)
        for person in PEOPLE[1:]:
            self.run(person, "clone", NAMESPACE, REPOSITORY, sync=False)

    def _known_move(self, person: str, branch: str) -> str:
        """Return the write ID of the last move of a branch in the bucket that a machine knows."""
        with self.open_lake(person) as lake:
            key = logged_repository(lake, "demo").key
            with lake.kv.read() as txn:
                tracked = TrackingStore(txn, key).find(RefKind.BRANCH, branch)
            return "" if tracked is None else tracked.write_id

    # -- commands ----------------------------------------------------------------------------

    def run(
        self,
        person: str,
        *argv: str,
        sync: bool,
        stages: Callable[[], tuple[str, Staged]] | None = None,
        cleans: str = "",
        below: str = "",
        on_step: Callable[[str], None] = ignore_step,
    ) -> Reply:
        """Run a command, and compare what it left with the model.

        Args:
            person: who runs it.
            argv: the command line.
            sync: whether sharing is automatic this time.
            stages: returns what it stages if it succeeds, and where; called when the model knows
                where the refs stand, for with automatic sharing they move before the command.
            cleans: the branch on which nothing is staged if it succeeds.
            below: where nothing is, if not everywhere: paths that begin with this.
            on_step: called with the name of each step that the command announces.
        """
        keys = self.losses.keys()
        before = self.areas(person)
        reply = self.world(person, argv, sync=sync, on_step=on_step)
        mode = " (auto)" if sync else ""
        self.told.append(f"{person}{mode}: {' '.join(argv)} -> {reply.exit_code} {reply.stderr}")
        operations = self.new_operations(person)
        self.learn_refs(person, operations)
        followed = self.held.note(person, operations, sync=sync)
        assert not followed, f"taken back, and brought forward again: {followed}\n{self.story()}"
        before = self._after_following(person, operations, before)
        if argv[0] == "gc":
            self.check_sweep(keys)
        if argv[:2] in (("branch", "delete"), ("branch", "rename")):
            self.deleters.add((person, argv[2].removeprefix(f"{REPOSITORY}/")))
        is_excused = reply.exit_code == ExitCode.INTEGRITY and self.refers_to_lost(person)
        if reply.exit_code == ExitCode.INTEGRITY and argv[:2] == ("gc", "run"):
            assert keys <= self.losses.keys(), self.story()
            is_excused |= self.went_back
        assert is_excused or reply.exit_code not in DEFECTS, self.story()
        if reply.exit_code == ExitCode.OK:
            self.done.append(argv)
            if stages is not None:
                branch, changes = stages()
                if all(each.kind in AUTOMATIC for each in operations):
                    # What the head has is not staged again, not even as a record of its own.
                    tree = self.trees[self.places[person][branch].head]
                    changes = {
                        path: each for path, each in changes.items() if tree.get(path) != each
                    }
                self.places[person][branch].staged.update(changes)
                self.losses.note_staged(changes.values())
            if cleans:
                staged = self.places[person][cleans].staged
                for path in [each for each in staged if each.startswith(below)]:
                    del staged[path]
        can_clean = reply.exit_code != ExitCode.OK and bool(cleans)
        takes_over = argv[0] in TAKES_BACK and not self._take_back(person, operations, before)
        self.compare(person, takes_over=takes_over, may_lose=can_clean)
        known = None if takes_over else [effect_of(before, self.areas(person))]
        self.effects[person].record(operations, known)
        self.check_log(person)
        return reply

    def areas(self, person: str) -> Areas:
        """Return what a person has staged, by branch."""
        return {name: dict(place.staged) for name, place in self.places[person].items()}

    def new_operations(self, person: str) -> list[Operation]:
        """Return the operations that were appended to a person's log, oldest first."""
        with self.open_lake(person) as lake:
            return self.effects[person].new_operations(lake)

    def _after_following(
        self, person: str, operations: Sequence[Operation], before: Areas
    ) -> Areas:
        """Return what was staged when branches had followed the bucket, before the command."""
        followed = [each for each in operations if each.kind == "sync"]
        unstaged = {change.branch for each in followed for change in each.staging}
        unstaged |= {change.name for each in followed for change in each.refs}
        after = {
            name: dict(self.places[person][name].staged)
            if name in unstaged and name in self.places[person]
            else staged
            for name, staged in before.items()
        }
        self.effects[person].record_following(operations, effect_of(before, after))
        return after

    def _take_back(self, person: str, operations: Sequence[Operation], before: Areas) -> bool:
        """Predict what is staged after an undo, redo or op restore; return whether it is known."""
        made = [each for each in operations if each.kind not in AUTOMATIC]
        if not made:
            return True  # it was refused, or there was nothing to do
        areas = {name: dict(staged) for name, staged in before.items()}
        with self.open_lake(person) as lake:
            if not self.effects[person].predict(lake, made, areas):
                return False
        for name, place in self.places[person].items():
            place.staged = areas.get(name, {})
        return True

    def upload(self, person: str, branch: str, path: str, text: str, *, sync: bool) -> None:
        """Stage one file."""
        self._write(person, text)
        line = ("fs", "upload", str(self._file(person)), _uri(branch, path))
        self.run(person, *line, sync=sync, stages=lambda: (branch, {path: checksum_of(text)}))

    def remove(self, person: str, branch: str, path: str, *, sync: bool) -> None:
        """Remove one path; where there is none, nothing is staged."""

        def stages() -> tuple[str, Staged]:
            return branch, {path: None} if path in self.contents_of(person, branch) else {}

        self.run(person, "fs", "rm", _uri(branch, path), sync=sync, stages=stages)

    def remove_all(self, person: str, branch: str, prefix: str, *, sync: bool) -> None:
        """Remove all paths below a prefix."""

        def stages() -> tuple[str, Staged]:
            found = self.contents_of(person, branch)
            return branch, {path: None for path in found if path.startswith(prefix)}

        self.run(person, "fs", "rm", "-r", _uri(branch, prefix), sync=sync, stages=stages)

    def copy(self, person: str, ref: str, path: str, to: str, *, sync: bool) -> None:
        """Copy a path of any ref to another one on main."""

        def stages() -> tuple[str, Staged]:
            return "main", {to: self.contents_of(person, ref)[path]}

        self.run(person, "fs", "cp", _uri(ref, path), _uri("main", to), sync=sync, stages=stages)

    def move(self, person: str, path: str, to: str, *, sync: bool) -> None:
        """Move a path on main."""

        def stages() -> tuple[str, Staged]:
            return "main", {to: self.contents_of(person, "main")[path], path: None}

        self.run(person, "fs", "mv", _uri("main", path), _uri("main", to), sync=sync, stages=stages)

    def update_metadata(
        self, person: str, branch: str, path: str, text: str, *, sync: bool
    ) -> None:
        """Give a path other metadata."""

        def stages() -> tuple[str, Staged]:
            return branch, {path: f"{self.contents_of(person, branch)[path].split()[0]} {text}"}

        line = ("fs", "update-metadata", _uri(branch, path), "--meta", f"{KEY}={text}")
        self.run(person, *line, sync=sync, stages=stages)

    def stage(self, person: str, branch: str, path: str, *, sync: bool) -> None:
        """Stage an object that lies outside the storage namespace."""
        checksum = checksum_of(OUTSIDE)
        what = ("--location", OUTSIDE, "--size", str(len(OUTSIDE)), "--checksum", checksum)
        line = ("fs", "stage", _uri(branch, path), *what)
        self.run(person, *line, sync=sync, stages=lambda: (branch, {path: checksum}))

    def link(self, person: str, *, sync: bool) -> Path | None:
        """Return a directory that is linked with main, if that can be."""
        directory = self.world.files(person) / "linked"
        if not directory.exists():
            line = ("local", "clone", _uri("main", ""), str(directory), "--gitignore=false")
            if self.run(person, *line, sync=sync).exit_code != ExitCode.OK:
                shutil.rmtree(directory, ignore_errors=True)
                return None
        return directory

    def commit_directory(self, person: str, path: str, text: str, *, sync: bool) -> None:
        """Commit one file of a directory that is linked with main.

        With the contents that it had when the directory was synchronised last, it is no change.
        """
        directory = self.link(person, sync=sync)
        if directory is None:
            return
        link = (directory / LINK_FILE.decode()).read_text()
        base = next((tree for commit_id, tree in self.trees.items() if commit_id in link), {})
        is_changed = base.get(path, "").split()[:1] != [checksum_of(text)]
        file = directory / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        reply = self.run(
            person, "local", "commit", str(directory), "-m", "m", "--ours", "-y", sync=sync
        )
        if reply.exit_code == ExitCode.OK and is_changed:
            head = self.places[person]["main"].head
            assert self.trees[head].get(path) == checksum_of(text), self.story()

    def check_out_directory(self, person: str, path: str, text: str, *, sync: bool) -> None:
        """Change a file of a directory, and take the change back; undo gives it back."""
        directory = self.link(person, sync=sync)
        if directory is None:
            return
        file = directory / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        self.run(person, "local", "checkout", str(directory), "-y", sync=sync)

    def restore_dump(self, person: str, *, sync: bool) -> None:
        """Fill a repository with the refs of a dump of lakeFS, twice, and take it back."""
        name = f"dumped-{len(self.told)}"
        uri, file = f"lakefs://{name}", self.world.files(person) / "manifest"
        file.write_bytes(put_dump(MemoryStore(self.world.bucket, f"{name}/")))
        namespace = f"memory://{BUCKET}/{name}"
        self.run(person, "repo", "create", uri, namespace, "--range-entries", "16", sync=sync)
        self.run(person, "refs-restore", uri, "--manifest", str(file), sync=sync)
        self.run(person, "undo", uri, sync=sync)
        update = ("refs-restore", uri, "--update", "--manifest", str(file))
        assert self.run(person, *update, sync=sync).exit_code == ExitCode.OK, self.story()
        assert self.run(person, *update, sync=sync).exit_code == ExitCode.OK, self.story()
        self.run(person, "undo", uri, sync=sync)

    def delete_branch(self, person: str, branch: str, *, sync: bool) -> None:
        """Delete a branch; if that fails, it is still there."""
        reply = self.run(person, "branch", "delete", _uri(branch), "-y", sync=sync)
        is_here = branch in self.places[person]
        assert is_here == (reply.exit_code not in {ExitCode.OK, ExitCode.NOT_FOUND}), self.story()

    def undo_twice(self, person: str, *, sync: bool, step: str = "undo there") -> None:
        """Interrupt an undo at a step, and repeat it: nothing else is undone."""
        interrupted: list[str] = []

        def interrupt(name: str) -> None:
            if name == step and not interrupted:
                interrupted.append(name)
                raise KeyboardInterrupt

        self.run(person, "undo", REPOSITORY, sync=sync, on_step=interrupt)
        if interrupted:
            undone = self._undone(person)
            self.run(person, "undo", REPOSITORY, sync=sync)
            assert self._undone(person) <= undone, self.story()

    def _undone(self, person: str) -> set[bytes]:
        """Return the IDs of a person's operations that are undone."""
        with self.open_lake(person) as lake:
            log = iter_log(logged_repository(lake, "demo"))
            return {each.operation.id for each in log if each.undone}

    def reset(self, person: str, branch: str, *, sync: bool) -> None:
        """Drop what is staged on a branch."""
        self.run(person, "branch", "reset", _uri(branch), "-y", sync=sync, cleans=branch)

    def reset_to(self, person: str, branch: str, ref: str, *, sync: bool) -> None:
        """Move a branch to another commit, and drop what is staged on it."""
        line = ("branch", "reset", _uri(branch), "--to", ref, "-y")
        self.run(person, *line, sync=sync, cleans=branch)

    def commit(self, person: str, branch: str, *, sync: bool, below: str = "") -> None:
        """Commit what is staged, which must be in the new head if the command succeeded.

        With `below`, only what is staged below that prefix; the rest must stay staged. What equals
        the head is no change: a branch that first follows the bucket drops it.
        """
        place = self.places[person][branch]
        head = self.trees[place.head]
        staged = {path: each for path, each in place.staged.items() if head.get(path) != each}
        line = [
            "commit",
            _uri(branch),
            "-m",
            "m",
            "--json",
            *(["--prefix", below] if below else []),
        ]
        reply = self.run(person, *line, sync=sync, cleans=branch, below=below)
        if reply.exit_code == 0:
            tree = self.trees[json.loads(reply.stdout)["id"]]
            for path, checksum in staged.items():
                if path.startswith(below):
                    assert tree.get(path) == checksum, self.story()

    # -- what programs do --------------------------------------------------------------------

    def write_file(self, person: str, branch: str, path: str, text: str, *, commits: bool) -> None:
        """Write a file through the file system, and commit it if asked to; Python's own clock."""
        where = _uri(branch)
        files = LakeFileSystem(home=str(self.world.home(person)), skip_instance_cache=True)
        told = f"{person}: fsspec writes {text} to {branch}/{path}"
        before = self.areas(person)
        try:
            files.pipe_file(f"{where}/{path}", text.encode())
            if commits:
                files.commit(where, "from a program", committer=person)
        except OSError as error:
            told += f" -> {type(error).__name__}: {error}"
        finally:
            lakes.close_unused()
        written = {**before, branch: {**before.get(branch, {}), path: checksum_of(text)}}
        self._compare_program(person, (branch, path), told, [before, written], commits=commits)

    def commit_in_library(self, person: str, branch: str, path: str, text: str) -> None:
        """Bring bytes in, stage them and commit, by the functions of the library."""
        told = f"{person}: the library commits {text} as {branch}/{path}"
        before = self.areas(person)
        with self.open_lake(person) as lake:
            try:
                repository = lake.repository("demo")
                name = path.encode()
                value = deposit(
                    repository,
                    branch,
                    name,
                    source=io.BytesIO(text.encode()),
                    options=UploadOptions(),
                )
                stage_together(repository, branch, {name: value}, kind="library")
                commit(repository, branch, message="library", committer=person)
            except LakeError as error:
                told += f" -> {error.kind}: {error.message}"
        written = {**before, branch: {**before.get(branch, {}), path: checksum_of(text)}}
        self._compare_program(person, (branch, path), told, [before, written], commits=True)

    def _compare_program(
        self, person: str, file: tuple[str, str], told: str, areas: list[Areas], *, commits: bool
    ) -> None:
        """Compare what a program left with the model; one that failed may have staged its file.

        Args:
            person: whose program.
            file: the branch and the path that it wrote.
            told: what it did, and how it failed.
            areas: what was staged before, and with the file.
            commits: whether it commits then.
        """
        self.told.append(told)
        operations = self.new_operations(person)
        self.learn_refs(person, operations)
        has_failed = " -> " in told
        if not has_failed:
            branch, path = file
            place = self.places[person][branch]
            place.staged = dict(areas[-1][branch])
            self.losses.note_staged([place.staged[path]])
            if commits:
                assert self.trees[place.head][path] == place.staged[path], self.story()
                place.staged.clear()
                areas.append(self.areas(person))
        self.compare(person, takes_over=has_failed)
        known = None if has_failed else [effect_of(*each) for each in pairwise(areas)]
        self.effects[person].record(operations, known)

    # -- the bucket --------------------------------------------------------------------------

    def check_from_scratch(self) -> None:
        """Clone the bucket anew: all that its refs reach must be there, and sound."""
        world = self.world
        world.ok("new", "clone", NAMESPACE, REPOSITORY)
        for person in ("new", *PEOPLE):
            if person != "new" and not self.places[person]:
                continue
            reply = world(person, ["fsck", REPOSITORY, "--data"])
            self.told.append(f"{person}: fsck -> {reply.exit_code} {reply.stdout}")
            gone = reply.stdout.count("a deleted ref leaves an object behind")
            is_older = self.went_back and f"Problems: {gone}\n" in reply.stdout
            is_excused = person != "new" and (is_older or self.refers_to_lost(person))
            assert is_excused or reply.exit_code == ExitCode.OK, self.story()

    went_back = False
    """Whether the bucket was restored from a backup."""

    def restore_backup(self, backup: Mapping[str, Any]) -> None:
        """Restore the bucket from a backup: what was pushed since then is gone from it."""
        keys = self.losses.keys()
        for key in bucket_copy(self.world):
            del self.world.bucket.objects[key]
        self.world.bucket.objects.update(backup)
        self.told.append("the bucket is restored from its backup")
        self.losses.note_rollback(keys)
        self.went_back = True
        self.held.forget()
        self.stood.clear()
        self.headed_at.clear()
        heads, moved = self.bucket_refs()
        self.pushed = self.history(heads) | {each for each in moved if each in self.pushed}

    def refs_seen(self, person: str) -> list[str]:
        """Return the keys of the refs in the bucket that a person's clone has seen there."""
        with self.open_lake(person) as lake:
            try:
                key = lake.repository("demo").key
            except NotFound:
                return []
            with lake.kv.read() as txn:
                seen = [ref_key(each.kind, each.name) for each in TrackingStore(txn, key).iter()]
        return sorted(self.losses.keys().intersection(seen))

    def collect_without(self, person: str, key: str, body: bytes | None) -> None:
        """Collect while an object in the bucket is missing or another one; then put it back.

        Args:
            person: who collects.
            key: of the object, below the namespace.
            body: what is there instead; ``None``: nothing.
        """
        objects, whole = self.world.bucket.objects, PREFIX + key
        kept = objects.pop(whole)
        if body is not None:
            objects[whole] = replace(kept, body=body)
        before = self.losses.keys()
        reply = self.world(person, ["gc", "run", REPOSITORY, "-y"])
        what = "is gone" if body is None else "is another"
        self.told.append(f"{person}: gc run while {key} {what} -> {reply.exit_code}")
        assert reply.exit_code == ExitCode.INTEGRITY, f"{reply}\n{self.story()}"
        assert before <= self.losses.keys(), self.story()
        objects[whole] = kept

    # -- the machines ------------------------------------------------------------------------

    def _file(self, person: str) -> object:
        return self.world.files(person) / "file"

    def _write(self, person: str, text: str) -> None:
        (self.world.files(person) / "file").write_text(text)


def _uri(*parts: str) -> str:
    return "/".join((REPOSITORY, *parts))


def checksum_of(text: str) -> str:
    return blake3_of(text.encode()).hex()


def bucket_copy(world: Machines) -> dict[str, object]:
    """Return what the bucket holds of the shared repository, to be put back."""
    return {key: each for key, each in world.bucket.objects.items() if key.startswith(PREFIX)}


def days(number: int) -> timedelta:
    return timedelta(days=number)


def operations(team: Team, person: str) -> Iterator[str]:
    """Yield the IDs of a person's operations, newest first."""
    for line in team.world.ok(person, "op", "log", REPOSITORY, "--json").splitlines():
        yield json.loads(line)["id"]

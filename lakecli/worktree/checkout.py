"""Update a working directory to a commit, for `clone`, `pull`, `checkout` and `commit`.

A file is written or removed only if it has the bytes of the base, or of the target of a command
that was interrupted; all other files belong to the user. Paths that the user and the target have
both changed are conflicts, and the policy decides which version is kept.

`restore` gives single files the contents that a commit has; the files that it overwrites are kept
for `undo`.
"""

import heapq
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from operator import itemgetter
from typing import Final

from lakecli.base.model import EMPTY_TREE, Commit, MetarangeId
from lakecli.base.uri import LakeUri
from lakecli.errors import ConflictError, NotFound, Refused
from lakecli.repository.download import DownloadOptions
from lakecli.repository.upload import UploadOptions
from lakecli.stores.local.files import closing, sync_file_system
from lakecli.worktree.fetching import Expected, WantedFile, WriteReport
from lakecli.worktree.index import NO_DIGEST, FileState, is_settled
from lakecli.worktree.kept_for_undo import RESTORE, keep
from lakecli.worktree.linked_files import restore_objects, scan_restored
from lakecli.worktree.obstacles import InTheWay
from lakecli.worktree.scan import LocalChange
from lakecli.worktree.worktree import Worktree
from lakecli.worktree.writer import Writer

MAX_LISTED: Final = 1_000
"""The largest number of conflicting paths that an error lists."""


class OwnChanges(Enum):
    """What to do with the user's changes when a working directory is updated to a commit."""

    KEEP = "keep"
    """Where there is a conflict, the user's file is kept and listed as unresolved."""
    REFUSE = "refuse"
    """Nothing is done if there is a conflict."""
    FORCE = "force"
    """Where there is a conflict, the target's file is written; other changes are kept."""
    DISCARD = "discard"
    """All changes of the user are overwritten."""


RESOLVE: Final = (
    "take the branch's file: `restore FILE`; or commit the directory's files: "
    "`local commit --ours -m MESSAGE`"
)
"""A hint on how to resolve conflicts between a directory and its branch."""


class WorktreeConflict(ConflictError):
    """Files were changed both in the working directory and in the commit to check out."""


@dataclass(slots=True)
class Brought:
    """The result of updating a working directory to a commit.

    Attributes:
        size: bytes of the files written.
        conflicts: paths at which the user's file was kept although the commit has another file.
        impossible: (path, reason) of objects that cannot be files here.
        left_out: paths of objects whose names are reserved for Git, lakecli or the system.
        failures: (path, reason) of objects that could not be fetched; if there are any, the update
            is unfinished.
        kept: the number of files that were overwritten or removed on request, and kept for undo.
        blocked: paths of the conflicts in which a file or directory of the user is in the way of
            another file.
    """

    commit: Commit
    downloaded: int = 0
    removed: int = 0
    size: int = 0
    conflicts: list[bytes] = field(default_factory=list)
    impossible: list[tuple[bytes, str]] = field(default_factory=list)
    left_out: list[bytes] = field(default_factory=list)
    failures: list[tuple[bytes, str]] = field(default_factory=list)
    kept: int = 0
    blocked: list[bytes] = field(default_factory=list)

    def take(self, report: WriteReport, worktree: Worktree, tree: MetarangeId) -> None:
        """Add a writer's report on the files that it has written from a tree.

        An object that has another object of the tree in its way cannot be a file here. An object
        that has a file of the user in its way is a conflict.
        """
        for path, reason in report.blocked:
            if worktree.excludes(tree, path):
                report.impossible.append((path, reason))
            else:
                self.blocked.append(path)
        self.downloaded, self.removed, self.size = report.downloaded, report.removed, report.size
        self.conflicts = sorted({*self.conflicts, *self.blocked, *report.kept})
        nameless = [(path, "no file can have this name") for path in worktree.nameless]
        self.impossible = sorted([*report.impossible, *nameless])
        self.left_out = sorted(worktree.own)
        self.failures = sorted(report.failures)

    def count_kept(self, paths: Sequence[bytes]) -> None:
        """Count the files at `paths` that were overwritten or removed, and set `kept`."""
        stayed = (path for path, _ in (*self.failures, *self.impossible))
        self.kept = len({*paths}.difference(self.conflicts, stayed))


class _Fate(Enum):
    """The decision about a file that differs from the base."""

    WRITE = "write"
    """The file is written or removed: the user has not changed it, or the policy overwrites it."""
    SAME = "same"
    """The file has the bytes of the target already."""
    CONFLICT = "conflict"
    """The user's file is kept, although the commit has another file."""


def bring(
    worktree: Worktree,
    target: Commit,
    *,
    operation: str,
    policy: OwnChanges,
    options: DownloadOptions,
    src: LakeUri | None = None,
    changes: Mapping[bytes, LocalChange] | None = None,
) -> Brought:
    """Update a locked working directory to a commit.

    Args:
        target: the commit to which the directory is updated.
        operation: the name of the command; the link records the name while the command runs.
        policy: whether changes of the user are kept or overwritten.
        src: the new URI that the directory is linked with; ``None``: the URI does not change.
        changes: how the files differ from the base, if the caller has scanned the directory.

    Raises:
        WorktreeConflict: there are conflicts, and the policy is to refuse; nothing was done.
        Unreachable: the store does not answer; the next command continues.
    """
    return _Bringing(worktree, target, policy, options, changes).run(operation, src)


class _Bringing:
    """One update of a working directory to a commit."""

    def __init__(
        self,
        worktree: Worktree,
        target: Commit,
        policy: OwnChanges,
        options: DownloadOptions,
        changes: Mapping[bytes, LocalChange] | None,
    ) -> None:
        self._worktree = worktree
        self._target = target
        self._policy = policy
        self._options = options
        self._on_step = worktree.repository.lake.runtime.on_step
        self._trees: list[MetarangeId] = [worktree.base_tree]
        on_its_way = worktree.link.target
        if on_its_way is not None and on_its_way != target.id:
            self._trees.append(worktree.commit(on_its_way).metarange_id)
        self._changes = scan_restored(worktree).changes if changes is None else changes
        self._fates: dict[bytes, _Fate] = {}
        self._left_out = worktree.free | worktree.blocked
        self._more = sorted(self._left_out)
        """Paths that are written although the base and the target do not differ there."""
        self._in_the_way: list[bytes] = []
        """The user's files that are removed, since the target needs directories or files there."""
        self._blocked: set[bytes] = set()
        """Paths that cannot be written, since the user's files are in the way."""

    def run(self, operation: str, src: LakeUri | None) -> Brought:
        worktree = self._worktree
        was_interrupted = bool(worktree.link.active)
        overwritten = self._decide()
        conflicts = [path for path, fate in self._fates.items() if fate is _Fate.CONFLICT]
        conflicts = sorted({*conflicts, *self._blocked})
        new = [path for path in conflicts if not self._was_blocked(path)]
        if new and self._policy is OwnChanges.REFUSE:
            count = f"{len(new)} changed files" if new[1:] else "a changed file"
            raise WorktreeConflict(
                f"{count} of {worktree.root} would be overwritten",
                hint="commit the changes first, or overwrite them: `policy=force`",
                paths=new[:MAX_LISTED],
            )
        brought = Brought(self._target, conflicts=conflicts, blocked=sorted(self._blocked))
        if overwritten:
            self._on_step("keep")
            uploading = UploadOptions(parallelism=self._options.parallelism)
            kind = f"local {operation}"
            keep(worktree, overwritten, kind=kind, commit=self._target.id, options=uploading)
        self._on_step("announce")
        worktree.relink(active=operation, target=self._target.id)
        self._write(brought)
        brought.count_kept(overwritten)
        if not brought.failures:
            if was_interrupted:  # files of the interrupted command may not be durable yet
                with closing(os.open(worktree.root, os.O_RDONLY | os.O_DIRECTORY)) as descriptor:
                    sync_file_system(descriptor)
            self._land(brought, src)
        return brought

    # -- what is to be done ------------------------------------------------------------------

    def _was_blocked(self, path: bytes) -> bool:
        """Return whether a path was already blocked, and is the same in the base and the target."""
        find, trees = self._worktree.find, (self._worktree.base_tree, self._target.metarange_id)
        return path in self._worktree.blocked and len({find(tree, path) for tree in trees}) == 1

    def _paths(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield (path, encoded entry or ``None``) of files that may change, in path order."""
        worktree = self._worktree
        tree = self._target.metarange_id
        streams = [
            ((change.path, change.right) for change in worktree.differences(before, tree))
            for before in self._trees
        ]
        streams.append((path, worktree.find(tree, path)) for path in self._more)
        last = None
        for path, value in heapq.merge(*streams, key=itemgetter(0)):
            if path != last:
                yield path, value
            last = path

    def _decide(self) -> list[bytes]:
        """Decide about each changed file; return the user's files that will be overwritten."""
        if self._policy is OwnChanges.DISCARD:
            self._more = sorted({*self._more, *self._changes})
        elif self._policy is OwnChanges.FORCE:
            unresolved = (path for path in self._worktree.link.unresolved if path in self._changes)
            self._more = sorted({*self._more, *unresolved})
        overwritten: list[bytes] = []
        if not self._changes:
            return overwritten
        removed: set[bytes] = set()
        forces = self._policy in {OwnChanges.FORCE, OwnChanges.DISCARD}
        for path, value in self._paths():
            change = self._changes.get(path)
            if change is None:
                continue
            fate = self._fates[path] = self._fate_of(path, change, value, forces=forces)
            if fate is _Fate.WRITE and change.state is not None:
                if not self._is_half_way(path, change):
                    overwritten.append(path)
                if value is None:
                    removed.add(path)
        self._decide_about_obstacles(removed, forces=forces)
        return sorted({*overwritten, *self._in_the_way})

    def _fate_of(
        self, path: bytes, change: LocalChange, value: bytes | None, *, forces: bool
    ) -> _Fate:
        if self._worktree.equals(path, change, value):
            return _Fate.SAME
        if self._is_half_way(path, change):
            return _Fate.WRITE
        return _Fate.WRITE if forces and not self._worktree.is_link(path) else _Fate.CONFLICT

    def _decide_about_obstacles(self, going: set[bytes], *, forces: bool) -> None:
        """Decide about the user's files that are in the way of files to write.

        Args:
            going: files that will be removed anyway.
            forces: whether files in the way are removed; otherwise they block the files to write.
        """
        worktree = self._worktree
        in_the_way = InTheWay(
            path
            for path, change in self._changes.items()
            if change.state is not None and path not in going
        )
        removed: set[bytes] = set()
        for path, value in self._steps():
            found = in_the_way.of(path) if value is not None else []
            if not found or worktree.excludes(self._target.metarange_id, path):
                continue
            if forces and not any(map(worktree.is_link, found)):
                removed.update(found)
            else:
                self._blocked.add(path)
        self._in_the_way = sorted(removed)

    def _is_half_way(self, path: bytes, change: LocalChange) -> bool:
        """Return whether a file has the contents that an interrupted command was about to write."""
        if len(self._trees) == 1:
            return False
        return self._worktree.equals(path, change, self._worktree.find(self._trees[1], path))

    # -- doing it ----------------------------------------------------------------------------

    def _write(self, brought: Brought) -> None:
        writer = Writer(self._worktree, self._options)
        self._on_step("remove")
        # Files are removed first: a new file may need the name of a directory that becomes empty,
        # and a new directory the name of a removed file.
        for path, value in self._steps() if self._trees != [EMPTY_TREE] else ():
            if value is None:
                writer.remove(path, _expected(self._worktree, self._changes, path))
        for path in self._in_the_way:
            writer.remove(path, _expected(self._worktree, self._changes, path))
        for path, value in self._steps():
            if value is not None and path not in self._blocked:
                expected = _expected(self._worktree, self._changes, path)
                writer.add(WantedFile(path, value, expected))
        brought.take(writer.finish(), self._worktree, self._target.metarange_id)

    def _steps(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield (path, encoded entry or ``None``) of the files to write or remove."""
        for path, value in self._paths():
            if path in self._changes:
                if self._fates[path] is _Fate.WRITE:
                    yield path, value
            elif not self._has_base(path, value):
                yield path, value

    def _has_base(self, path: bytes, value: bytes | None) -> bool:
        """Return whether an entry certainly has the bytes of the base, so no file must be written.

        With ``None`` for the entry, return whether the base has no file at the path.
        """
        tracked = self._worktree.index.find(path)
        if tracked is None or value is None:
            return tracked is None and value is None
        state, digest = self._worktree.unseen(value)
        return digest != NO_DIGEST and (tracked.state.size, tracked.digest) == (state.size, digest)

    def _land(self, brought: Brought, src: LakeUri | None) -> None:
        """Record that the directory is at the commit: the index first, the link last."""
        worktree = self._worktree
        index = worktree.index
        at_ns = worktree.scanned_ns
        for path, value in self._paths() if self._fates else ():
            fate = self._fates.get(path)
            if fate is None or fate is _Fate.WRITE:
                continue
            if value is None or path in self._blocked or path in self._worktree.blocked:
                index.drop(path)
                continue
            unseen, digest = worktree.unseen(value)
            state = self._changes[path].state
            is_sure = fate is _Fate.SAME and state is not None and is_settled(state, at_ns=at_ns)
            index.put(path, state if is_sure and state is not None else unseen, digest)
        still_blocked = {path for path in worktree.blocked if path in brought.conflicts}
        left_out = {path for path, _ in brought.impossible} - worktree.nameless
        left_out |= still_blocked.union(brought.blocked)
        for path in left_out:
            index.drop(path)
        unresolved = {*brought.conflicts}
        if self._policy in {OwnChanges.KEEP, OwnChanges.REFUSE}:
            still = {path for path in worktree.link.unresolved if path in self._changes}
            unresolved |= still - {p for p, fate in self._fates.items() if fate is _Fate.SAME}
        brought.conflicts = sorted(unresolved)
        self._on_step("index")
        worktree.link = worktree.link._replace(
            src=worktree.link.src if src is None else src,
            at_head=self._target.id,
            active="",
            target=None,
            unresolved=tuple(brought.conflicts),
            left_out=tuple(sorted({*worktree.link.left_out} - self._left_out | left_out)),
        )
        worktree.retarget(self._target.metarange_id)
        self._on_step("settle")
        worktree.relink()


def _expected(
    worktree: Worktree, changes: Mapping[bytes, LocalChange], path: bytes
) -> Expected | FileState:
    """Return the state of a file in the scan; it is replaced only if it still has this state."""
    change = changes.get(path)
    if change is not None:
        return Expected.ABSENT if change.state is None else change.state
    return Expected.ABSENT if worktree.index.find(path) is None else Expected.BASE


def restore(
    worktree: Worktree, paths: Sequence[bytes], *, source: Commit | None, options: DownloadOptions
) -> Brought:
    """Give files the contents that a commit has; overwritten files are kept for undo.

    A file that the commit lacks is removed if the base has it; otherwise it stays.

    Args:
        paths: paths of files and directories, relative to the working directory; ``b""`` is the
            working directory itself.
        source: the commit; ``None``: the base. With the base, conflicts at these paths count as
            resolved afterwards.

    Raises:
        NotFound: neither the base nor the commit has a file or directory at a path.
        Refused: there is a symbolic link at a path.
    """
    with worktree.locked():
        worktree.follow_back()
        base = worktree.base_tree
        tree = base if source is None else source.metarange_id
        changes = worktree.scan().changes
        if restore_objects(worktree, changes):
            changes = worktree.scan().changes
        wanted: dict[bytes, bytes | None] = {}
        for path in paths:
            found = dict(_wanted(worktree, path, tree, changes))
            if not found and not any(_is_at(path, each) for each in worktree.index.paths()):
                raise NotFound(
                    f"the commit has no file {worktree.path_of(path).decode(errors='replace')}",
                    hint="see what has changed: `local status`",
                )
            if worktree.is_link(path):
                raise Refused(
                    f"{worktree.path_of(path).decode(errors='replace')} is a symbolic link, which "
                    "stays as it is",
                    hint="remove the link, then restore the file",
                )
            wanted.update(found)
        overwritten = [
            path
            for path in sorted(wanted)
            if (change := changes.get(path)) is not None
            and change.state is not None
            and not worktree.is_link(path)
        ]
        brought = Brought(worktree.head() if source is None else source)
        if overwritten:
            keep(
                worktree,
                overwritten,
                kind=RESTORE,
                commit=worktree.link.at_head if source is None else source.id,
                options=UploadOptions(parallelism=options.parallelism),
                resolves=source is None,
            )
        writer = Writer(worktree, options, keeps_bit=True)
        for path, value in sorted(wanted.items()):
            writer.change(path, value, _expected(worktree, changes, path))
        brought.take(writer.finish(), worktree, tree)
        brought.count_kept(overwritten)
        if source is None and not brought.failures:
            find = worktree.index.find
            before = worktree.link
            left_out = tuple(path for path in before.left_out if find(path) is None)
            worktree.link = before._replace(left_out=left_out)
            worktree.retarget(tree)
            resolved = wanted.keys() - {*brought.conflicts}
            left = [path for path in worktree.link.unresolved if path not in resolved]
            if before != worktree.link._replace(unresolved=tuple(left)):
                worktree.relink(unresolved=tuple(left))
        return brought


def _wanted(
    worktree: Worktree, path: bytes, tree: MetarangeId, changes: dict[bytes, LocalChange]
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield (path, encoded entry or ``None``) of files to change at or below a path."""
    for each, change in changes.items():
        value = worktree.find(tree, each) if _is_at(path, each) else None
        if value is not None and not worktree.equals(each, change, value):
            yield each, value
    for each in worktree.free:
        value = worktree.find(tree, each) if _is_at(path, each) else None
        if value is not None and each not in changes:
            yield each, value
    for difference in worktree.differences(worktree.base_tree, tree):
        if _is_at(path, difference.path) and difference.path not in changes:
            yield difference.path, difference.right


def _is_at(path: bytes, each: bytes) -> bool:
    """Return whether the path `each` is at `path`, or below it."""
    return not path or each == path or each.startswith(path + b"/")

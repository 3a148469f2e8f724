"""The branch and path to which a DataFrame is written, and the effect of each mode.

============================  ==============================================================
mode                          conflicts if, when the branch moves,
============================  ==============================================================
``error``                     there are objects below the path (`TableExists`)
``ignore``                    never; then it does nothing if there are objects
``append``                    never
``overwrite``                 objects below the path have changed since the base
``overwrite_partitions``      objects in the directories of the rows have changed since the base
============================  ==============================================================

The base is the argument ``expected=``. By default, it is the commit of this branch from which the
rows were read, or the oldest of several such commits. If the rows come from no commit of this
branch, the base is the head when the call began.

Batches of a stream are written exactly once. The metadata of a commit records the application and
the version of the batch, so this record is pushed, merged and reset with the branch. A record
applies to one table, because one batch may write several tables.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import merge
from itertools import chain, islice
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from lakecli.base.model import Commit
from lakecli.committed.diff import diff
from lakecli.committed.writer import apply
from lakecli.errors import AlreadyExists, ConflictError, LakeError, UsageError
from lakecli.refs.ref_store import CommitReader, get_commit, get_parent
from lakecli.repository import workspace
from lakecli.repository.cherry_pick import CHERRY_PICK_ORIGIN
from lakecli.repository.commit_attempts import MAX_ATTEMPTS, Draft, clean_attempt, kept_moving
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_head
from lakecli.repository.journal.workspaces import branch_of, is_workspace
from lakecli.repository.policy.early import check_early
from lakecli.repository.reading.view import View, commit_at, view_of_branch
from lakecli.repository.staged.changes import check_clean
from lakecli.repository.staged.stager import BATCH, Parts, Stager
from lakecli.spark.table_files import Origin
from lakecli.staging.area import TOMBSTONE, ClaimedValue

Change = tuple[bytes, ClaimedValue | None]
Addition = tuple[bytes, ClaimedValue]

MODES: Final = ("error", "append", "overwrite", "overwrite_partitions", "ignore")

MAX_LISTED: Final = 1_000
"""The maximum number of paths that a conflict error lists."""

_PART: Final = b"part-"


class TableExists(AlreadyExists):
    """There are already objects below the table's path."""


class TableChanged(ConflictError):
    """Objects that a write would replace have changed since the base commit of the write."""


class _Nothing(LakeError):
    """The mode is ``ignore``, and there are objects below the path: nothing is written."""


@dataclass
class WriteTarget:
    """The branch and path to which rows are written, and the mode of the write.

    Args:
        prefix: the table's path, with a slash at its end; ``b""`` is the whole branch.
        mode: one of `MODES`.
        batch: the batch of a stream to write exactly once; ``None`` for other writes.
        check: callback that checks the rows against a view of the branch, before files are added
            to a table.
    """

    repository: Repository
    branch: str
    prefix: bytes
    mode: str
    batch: "StreamBatch | None" = None
    check: Callable[[View], object] | None = None
    _base: Commit | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"unknown mode {self.mode!r}", hint=f"one of {', '.join(MODES)}")
        path = self.prefix.decode(errors="replace")
        self._uri = f"{self.repository.uri}/{branch_of(self.branch)}/{path}"
        if self.mode not in {"append", "overwrite_partitions"}:
            self.check = None

    @property
    def base(self) -> Commit:
        """The commit on which the write builds; available after `begin`."""
        assert self._base is not None, "begin() was not called"
        return self._base

    def begin(self, *, expected: str, read: Sequence[Origin], commits: bool) -> bool:
        """Choose the base commit; before rows are computed, reject a write that cannot succeed.

        Args:
            expected: a ref expression that names the base; ``""`` for the default base.
            read: the commits from which the rows were read.
            commits: whether the changes will be committed, rather than only staged.

        Returns:
            Whether there is something to do.

        Raises:
            TableExists: there are objects, and the mode is ``error``.
            TableChanged: objects that would be replaced have changed since the base.
            DirtyBranch: `commits` is true, and the branch has uncommitted changes.
        """
        check_early(self.repository, self.branch)
        with self.repository.lake.kv.read() as txn:
            view = view_of_branch(self.repository, txn, self.branch)
            if self._is_written(view):
                return False
            if commits:
                check_clean(view)
            self._base = self._choose(view, expected, read)
            if self._is_ignored(view):
                return False
            if self.mode == "overwrite":
                self._check_unchanged(view, [self.prefix])
            if self.check is not None:
                self.check(view)
        return True

    def _choose(self, view: View, expected: str, read: Sequence[Origin]) -> Commit:
        """Return the base of the write; see the docstring of the module."""
        if expected:
            return commit_at(self.repository, view.txn, expected)
        refs = self.repository.refs(view.txn)
        here = (self.repository.record.name, branch_of(self.branch))
        known = [refs.find_commit(each.commit_id) for each in read if each[:2] == here]
        return min(filter(None, known), key=attrgetter("generation"), default=view.commit)

    def _is_written(self, view: View) -> bool:
        refs = self.repository.refs(view.txn)
        return self.batch is not None and self.batch.is_written(refs, view.commit)

    def _is_ignored(self, view: View) -> bool:
        """Return whether the mode is ``ignore`` and there are objects below the path.

        Raises:
            TableExists: there are objects, and the mode is ``error``.
        """
        if self.mode not in {"error", "ignore"}:
            return False
        exists = next(view.scan(prefix=self.prefix), None) is not None
        if exists and self.mode == "error":
            hint = 'give mode="append", "overwrite" or "ignore"'
            raise TableExists(f"there are objects at {self._uri}", hint=hint)
        return exists

    def _check_unchanged(self, view: View, prefixes: Sequence[bytes]) -> None:
        """Raise `TableChanged` if objects below one of the prefixes have changed since the base."""
        base = self.base
        trees = self.repository.trees
        changes = chain.from_iterable(
            diff(trees, base.metarange_id, view.commit.metarange_id, prefix=prefix)
            for prefix in prefixes
        )
        paths = [change.path for change in islice(changes, MAX_LISTED + 1)]
        if paths:
            count = f"more than {MAX_LISTED:,}" if len(paths) > MAX_LISTED else f"{len(paths):,}"
            what = "a path" if len(paths) == 1 else f"{count} paths"
            raise TableChanged(
                f"{what} of {self._uri} changed since commit {base.id[:12]}, on which this "
                f"{self.mode} builds",
                hint="read the table again and write the new rows; to replace what is there "
                f'now: expected="{branch_of(self.branch)}"',
                paths=paths[:MAX_LISTED],
            )

    def changes(self, view: View, additions: Sequence[Addition]) -> Iterator[Change]:
        """Yield the changes of the write relative to a view, in path order.

        File names begin with the generation of the commit, so the files of a directory are sorted
        in the order of their commits.

        Raises:
            TableExists: another process has created objects below the path, and the mode is
                ``error``.
            TableChanged: objects that would be replaced have changed.
        """
        if self._is_ignored(view):
            raise _Nothing("there are objects")
        if self.check is not None:
            self.check(view)
        named = sorted((_named(path, view.commit), value) for path, value in additions)
        if not self.mode.startswith("overwrite"):
            return iter(named)
        prefixes = self._prefixes(additions)
        self._check_unchanged(view, prefixes)
        removed: Iterator[Change] = (
            (path, None) for prefix in prefixes for path, _ in view.scan(prefix=prefix)
        )
        return merge(removed, named, key=itemgetter(0))

    def _prefixes(self, additions: Iterable[Addition]) -> list[bytes]:
        """Return the prefixes of all objects that the write replaces or depends on."""
        if self.mode in {"append", "ignore"}:
            return []
        if self.mode == "overwrite_partitions":
            return sorted({path.rpartition(b"/")[0] + b"/" for path, _ in additions})
        return [self.prefix]

    def commit(
        self,
        additions: Sequence[Addition],
        *,
        message: str,
        committer: str,
        metadata: Mapping[str, str],
    ) -> Commit | None:
        """Commit the changes on top of the present head; return ``None`` if nothing changes."""
        trees = self.repository.trees
        batch = self.batch

        for _ in range(MAX_ATTEMPTS):
            attempt = clean_attempt(self.repository, self.branch, kind="commit", who=committer)
            with attempt.view() as view:
                if self._is_written(view):
                    return None
                head = claim_head(view)
                try:
                    changes = self.changes(view, additions)
                except _Nothing:
                    return None
                tree = apply(trees, view.commit.metarange_id, changes)
            # A batch without rows is recorded, too.
            if tree == head.metarange_id and not batch:
                return None
            recorded = {**metadata, **batch.metadata} if batch else metadata
            made = attempt.move(Draft(tree, [head], message, committer, recorded))
            if made is not None:
                return made
        raise kept_moving(self.branch)

    def stage(self, additions: Sequence[Addition]) -> None:
        """Stage the changes, if there are any; if others change the table meanwhile, try again."""

        def plan(view: View) -> tuple[Parts, list[tuple[bytes, ClaimedValue]]]:
            changes = [
                (path, TOMBSTONE if value is None else value)
                for path, value in self.changes(view, additions)
            ]
            return [(self.branch, changes[:BATCH])], changes[BATCH:]

        stager = Stager(self.repository, self.branch)
        below = None if self.mode == "append" else self.prefix
        with suppress(_Nothing):
            rest = stager.write_planned(self.branch, [], plan, kind="upload", below=below)
            stager.write(rest, kind="upload")
            if is_workspace(self.branch):
                workspace.watch(self.repository, self.branch, self._prefixes(additions))


def _named(path: bytes, head: Commit) -> bytes:
    """Return the path of a new file in the commit after `head`, with its generation in the name."""
    directory, slash, name = path.rpartition(b"/")
    number = head.generation + 1
    return b"%b%b%b%08d-%b" % (directory, slash, _PART, number, name.removeprefix(_PART))


APP: Final = "lakecli.txn.app"
VERSION: Final = "lakecli.txn.version"
TABLE: Final = "lakecli.txn.table"

_MAX: Final = (1 << 63) - 1
_NUMBER: Final = re.compile("[0-9]{1,19}")


class StreamBatch(NamedTuple):
    """A batch of a stream, written to a table exactly once; the versions of batches increase."""

    app: str
    version: int
    table: str

    @property
    def metadata(self) -> dict[str, str]:
        """The record of the batch in the commit's metadata."""
        return {APP: self.app, VERSION: str(self.version), TABLE: self.table}

    def is_written(self, reader: CommitReader, head: Commit) -> bool:
        """Return whether a commit or one of its ancestors has this batch or a later one.

        The walk through history ends at a commit that records the application and the table,
        because the history of that commit has earlier batches only. At a cherry-picked commit, the
        walk continues.
        """
        waiting = [get_commit(reader, head.id)]
        seen = {head.id}
        while waiting:
            commit = waiting.pop()
            version = self._recorded(commit)
            if version is not None and version >= self.version:
                return True
            if version is None or CHERRY_PICK_ORIGIN in commit.metadata:
                fresh = [parent for parent in commit.parents if parent not in seen]
                seen.update(fresh)
                waiting += (get_parent(reader, commit, parent) for parent in fresh)
        return False

    def _recorded(self, commit: Commit) -> int | None:
        """Return the version that a commit records for the application and table, or ``None``."""
        metadata = commit.metadata
        if metadata.get(APP) != self.app or metadata.get(TABLE) != self.table:
            return None
        return int(found[0]) if (found := _NUMBER.fullmatch(metadata.get(VERSION, ""))) else None


def batch_of(txn: tuple[str, int] | None, table: bytes) -> StreamBatch | None:
    """Return the batch that the argument ``txn=`` names, or ``None``.

    Raises:
        UsageError: `txn` is not an application and a version.
    """
    if txn is None:
        return None
    match txn:
        case (str(app), int(version)) if app and type(version) is int and 0 <= version <= _MAX:
            return StreamBatch(app, version, table.decode(errors="backslashreplace"))
    hint = 'for example txn=("orders", batch_id); the version is 0 or more'
    raise UsageError(f"txn is not an application and a version: {txn!r}", hint=hint)

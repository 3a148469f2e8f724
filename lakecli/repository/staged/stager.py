"""Write to staging areas, in short transactions that form one operation of the log.

If another command writes between two of the transactions, the later transactions form a separate
operation. The log must have the order of the writes, because undo reverts the newest operation
first.

The rest of the module changes attributes of entries, and reads all objects below a directory in
batches, for `rm`, `cp` and `mv`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from lakecli.base.model import CLIENT_METADATA_PREFIX, Branch, Entry
from lakecli.base.uri import as_directory, check_path
from lakecli.committed.values import decode_entry, encode_entry, is_same
from lakecli.errors import LostRace
from lakecli.kv import operations as log
from lakecli.kv.local_store import WriteTransaction
from lakecli.repository.contract import Repository
from lakecli.repository.guard import Change, claim_below, claim_entry, claim_head, committed_value
from lakecli.repository.journal import operation_log, workspaces
from lakecli.repository.policy.early import check_early
from lakecli.repository.reading.view import View, branch_at, staged_on, view_of_branch
from lakecli.staging import area
from lakecli.staging.area import TOMBSTONE
from lakecli.stores.streams import batches

Parts = Sequence[tuple[str, Sequence[Change]]]
"""Pairs of a branch and the changes to stage on the branch."""

T = TypeVar("T")

BATCH: Final = 8_192
"""The largest number of records written in one transaction, which blocks other processes."""

MAX_ATTEMPTS: Final = 64
"""The largest number of attempts to read records that other commands keep changing."""


class Stager:
    """Stages changes on one branch, as one operation of the log where possible.

    Only one thread may use a stager at a time.

    Args:
        unstages: whether the stager only unstages, which no rule of the bucket forbids.

    Raises:
        Forbidden: the rules of the bucket let nobody commit to the branch directly.
    """

    def __init__(self, repository: Repository, branch: str, *, unstages: bool = False) -> None:
        if not unstages:
            check_early(repository, branch)
        self._repository = repository
        self._branch = branch
        self._operation: log.Operation | None = None

    def write(self, changes: Sequence[Change], *, kind: str) -> None:
        """Stage changes: (path, claimed value or tombstone), in ascending order of paths.

        Args:
            kind: the kind of the operation, as the log shows it.

        Raises:
            NotFound: no such branch.
        """
        for part in batches(changes, BATCH):
            with self._repository.lake.kv.write() as txn:
                self._stage(txn, self._branch, part, kind)

    def write_planned(
        self,
        source: str,
        paths: Sequence[bytes],
        plan: Callable[[View], tuple[Parts, T]],
        *,
        kind: str,
        view: View | None = None,
        below: bytes | None = None,
    ) -> T:
        """Stage the changes that `plan` returns; if the planned paths change meanwhile, plan again.

        Args:
            source: the branch that `plan` reads.
            paths: the paths that `plan` reads on this branch.
            plan: returns the changes to stage on each branch, in ascending order of paths, and the
                result that this method returns.
            kind: the kind of the operation, as the log shows it.
            view: the view for the first call of `plan`; ``None``: the present view.
            below: a prefix of the source below which `plan` reads all paths; ``None``: no prefix.

        Raises:
            NotFound: no such branch.
            LostRace: other commands kept changing the paths.
        """
        repository = self._repository
        for _ in range(MAX_ATTEMPTS):
            with repository.lake.kv.read() as txn:
                seen = view_of_branch(repository, txn, source) if view is None else view
                parts, result = plan(seen)
                state = _state(seen, paths, below)
            parts = [(name, changes) for name, changes in parts if changes]
            if not parts:
                return result
            with repository.lake.kv.write() as txn:
                if _state(view_of_branch(repository, txn, source), paths, below) == state:
                    for name, changes in parts:
                        self._stage(txn, name, changes, kind)
                    return result
            view = None
        uri = f"{repository.uri}/{source}"
        what = f"the objects changed {MAX_ATTEMPTS} times while they were read: {uri}"
        raise LostRace(what, hint="try again")

    def _stage(
        self, txn: WriteTransaction, branch: str, changes: Sequence[Change], kind: str
    ) -> None:
        present = staged_on(self._repository, txn, branch)
        self._log(txn, present, [path for path, _ in changes], kind)
        area.put_many(txn, present.staging_token, changes)

    def unstage(self, paths: Sequence[bytes]) -> None:
        """Unstage paths, given in ascending order; they then have their committed values again.

        If a path is also in a sealed area, the committed value is staged on top.

        Raises:
            NotFound: no such branch.
            CommitUnderWay: another process is sending the sealed changes to the bucket.
        """
        from lakecli.repository.journal.intents import when_none_under_way  # uploads do not need it

        for part in batches(paths, BATCH):
            while not when_none_under_way(self._repository, partial(self._unstage, part)):
                pass  # another commit has come between

    def _unstage(self, part: Sequence[bytes]) -> bool:
        """Unstage some paths; return ``False`` if the head moved after its objects were claimed."""
        with self._repository.lake.kv.read() as txn:
            view = view_of_branch(self._repository, txn, self._branch)
            head = claim_head(view).id if view.tokens[1:] else None
        with self._repository.lake.kv.write() as txn:
            refs = self._repository.refs(txn)
            branch = branch_at(self._repository, txn, self._branch)
            if branch.sealed_tokens:
                from lakecli.repository.journal.intents import check_none_sent

                check_none_sent(txn, self._repository, branch.name)
                if branch.commit_id != head:
                    return False
            self._log(txn, branch, part, "branch reset")
            commit = refs.get_commit(branch.commit_id)
            below = View(self._repository, txn, commit, branch.sealed_tokens, branch.name)
            for path in part:
                area.remove(txn, branch.staging_token, path)
            if covered := [path for path in part if below.staged_at(path) is not None]:
                values = [(path, committed_value(below, path)) for path in covered]
                area.put_many(txn, branch.staging_token, values)
                refs.put_branch(operation_log.outdate(txn, self._repository, branch))
        return True

    def _log(
        self, txn: WriteTransaction, branch: Branch, paths: Sequence[bytes], kind: str
    ) -> None:
        """Log that paths are about to be written, in the same operation as before if possible."""
        if workspaces.is_workspace(branch.name):
            workspaces.renew(txn, self._repository, branch.staging_token)
            return
        change = log.StagingChange(branch.name, branch.staging_token)
        begun = self._operation
        if begun is None or begun.sequence != log.last_sequence(txn, self._repository.key):
            more = None if begun is None else {"continues": begun.id.hex()}
            self._operation = operation_log.append(
                txn, self._repository, kind=kind, staging=[change], metadata=more
            )
        else:
            # There may be another area: a commit that failed has sealed the first one since.
            areas = tuple(dict.fromkeys((*begun.staging, change)))
            self._operation = begun._replace(staging=areas, parts=begun.parts + 1)
            log.rewrite(txn, self._operation)
        assert self._operation is not None
        operation_log.tidy_after(txn, self._repository)
        log.save_images(txn, self._operation.id, branch.staging_token, paths)


def _state(view: View, paths: Sequence[bytes], below: bytes | None) -> list[object]:
    """Return what the values at some paths, and at all paths below a prefix, depend on.

    The values of paths that are not staged depend on the committed tree; trees are compared by ID.
    """
    tree = view.commit.metarange_id
    staged = map(view.staged_at, paths)
    every = () if below is None else (tree, *view.staged(prefix=below))
    return [*(tree if value is None else value for value in staged), *every]


def stage_entry(repository: Repository, branch: str, path: bytes, entry: Entry) -> None:
    """Claim the object of an entry, and stage the entry unless the branch has an equal entry.

    Raises:
        NotFound: no such branch.
        Gone: the object of the entry is not in the bucket.
    """
    value = claim_entry(repository, path, entry)
    if changes := new_on(repository, branch, [(path, value)]):
        Stager(repository, branch).write(changes, kind="stage")


def values_on(repository: Repository, branch: str, paths: Sequence[bytes]) -> list[bytes | None]:
    """Return the encoded entry that a branch has at each path, staged or committed, or ``None``.

    Raises:
        NotFound: no such branch.
    """
    with repository.lake.kv.read() as txn:
        return view_of_branch(repository, txn, branch).find_many(paths)


def new_on(repository: Repository, branch: str, changes: Sequence[Change]) -> list[Change]:
    """Return the changes whose values the branch does not have yet, staged or committed.

    Raises:
        NotFound: no such branch.
    """
    present = values_on(repository, branch, [path for path, _ in changes])
    return [
        (path, value)
        for (path, value), there in zip(changes, present, strict=True)
        if is_to_stage(branch, there, value)
    ]


def is_to_stage(branch: str, present: bytes | None, value: bytes) -> bool:
    """Return whether a value must be staged at a path that has the value `present`.

    In a workspace, every value must be staged: the present value may be staged only on the branch,
    or others may change the path, which must then be a conflict.
    """
    return workspaces.is_workspace(branch) or not is_same(present, value)


class NewAttributes(NamedTuple):
    """Content type and metadata to set on entries.

    Attributes:
        content_type: the new content type; ``None`` keeps the content type of each entry.
        metadata: the new user metadata; ``None`` keeps the metadata of each entry. Keys that
            clients record, such as the modification time of the file, are kept unless the new
            metadata has them.
    """

    content_type: str | None = None
    metadata: Mapping[str, str] | None = None

    def apply(self, value: bytes) -> bytes:
        """Return an encoded entry with these attributes.

        Raises:
            IntegrityError: the entry is damaged.
        """
        if self == UNCHANGED:
            return value
        entry = decode_entry(value)
        if self.content_type is not None:
            entry = entry._replace(content_type=self.content_type)
        if self.metadata is not None:
            recorded = {
                key: text
                for key, text in entry.metadata.items()
                if key.startswith(CLIENT_METADATA_PREFIX)
            }
            entry = entry._replace(metadata={**recorded, **self.metadata})
        return encode_entry(entry)


UNCHANGED = NewAttributes()


def batches_of(view: View, path: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the path and encoded entry of objects at and below a path, in batches."""
    below = as_directory(path)
    if path != below:
        value = view.find(path)
        if value is not None:
            yield [(path, value)]
    yield from batches(view.scan(prefix=below), BATCH)


def claimed_batches(view: View, below: bytes, target: bytes) -> Iterator[list[Change]]:
    """Yield (path, encoded entry) below a directory in batches, claimed for staging elsewhere.

    Args:
        below: the directory, with its trailing slash.
        target: the directory that will replace `below` in the paths.

    Raises:
        UsageError: a resulting path is too long; raised before the first batch.
        Gone: an object is no longer in the bucket.
    """
    for old, _ in view.scan(prefix=below):
        check_path(target + old[len(below) :])
    yield from batches(claim_below(view, prefix=below), BATCH)


def remove_unchanged(
    stager: Stager, view: View, branch: str, batch: Sequence[tuple[bytes, bytes]], kind: str
) -> int:
    """Stage the deletion of entries that have not changed since they were read.

    Args:
        view: the state in which the entries were read.
        batch: paths and encoded entries.
        kind: the kind of the operation, as the log shows it.

    Returns:
        The number of deleted entries.

    Raises:
        LostRace: other commands kept changing the entries.
    """

    def plan(now: View) -> tuple[Parts, int]:
        left = [path for path, value in batch if now is view or is_same(now.find(path), value)]
        return [(branch, [(path, TOMBSTONE) for path in left])], len(left)

    return stager.write_planned(branch, [path for path, _ in batch], plan, kind=kind, view=view)

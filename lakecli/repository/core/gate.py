"""The one gate into use: what is staged, and what a commit or a ref stands on, is claimed here.

Objects in the bucket may be garbage to every other clone, condemned, or deleted already. Before
anything of this clone refers to one, it is looked for and claimed against garbage collection (see
`lakecli.repository.core.gc_guard`), and only then the value or the commit gets a type that staging
areas, commits, branches and tags demand: `ClaimedValue` and `ClaimedCommit` are made by this module
alone.

A claimed tree protects everything that it refers to: a sweep follows the trees that are recent or
kept, and deletes trees before what they refer to.

Where nothing was ever collected, one GET of the state is all that a claim costs.

Refs are local: where the bucket cannot be asked, a branch or tag is created, and an operation is
taken back, all the same, unclaimed. What is lost by that, pushing finds out. Whatever writes to the
bucket or stages fails without it.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar, cast

from lakecli.committed.encode import encode_entry
from lakecli.committed.values import decode_entry
from lakecli.errors import IntegrityError, PermissionDenied, Unreachable
from lakecli.layout import data_digest, sstable_key
from lakecli.objectstore.base import BucketNotFound
from lakecli.repository.core.commit_record import ClaimedCommit
from lakecli.staging.area import TOMBSTONE, ClaimedValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakecli.kv.env import ReadTransaction
    from lakecli.model import Commit, Entry
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.view import View

    Change = tuple[bytes, ClaimedValue]
    """A path, and what is to be staged there."""

Uploaded_contra = TypeVar("Uploaded_contra", contravariant=True)

BATCH: Final = 5_000
"""Values claimed together."""

MAX_LISTED: Final = 1_000
"""Paths that an error lists, at most."""


class Gone(IntegrityError):
    """What was to be used is not in the bucket any more."""


class _Data(NamedTuple):
    """A data object of the namespace that a value refers to."""

    key: str
    size: int


# -- entries ---------------------------------------------------------------------------------


def claim_entry(repository: Repository, path: bytes, entry: Entry) -> ClaimedValue:
    """Return the encoded form of an entry that may be staged; its object is claimed.

    Raises:
        Gone: the object is not in the bucket, or has another size.
        Swept: it was deleted just now.
        SweepRunning: a sweep does not end.
    """
    ((_, value),) = claim_values(repository, [(path, encode_entry(entry))])
    return value


def claim_values(repository: Repository, values: Iterable[tuple[bytes, bytes]]) -> list[Change]:
    """Return (path, encoded entry or tombstone) as what may be staged; their objects are claimed.

    Objects outside the namespace are nobody's garbage, and are not looked for.

    Raises:
        Gone: naming the paths whose objects are not in the bucket, or have another size.
        Swept: one was deleted just now.
        SweepRunning: a sweep does not end.
    """
    claimed = list(values)
    gone: list[bytes] = []
    for start in range(0, len(claimed), BATCH):
        gone += _claim(repository, claimed[start : start + BATCH])
    if gone:
        what = "the objects of these paths are" if gone[1:] else "the object of this path is"
        raise Gone(
            f"{what} no longer in {repository.store.uri}, or damaged: {len(gone)}",
            hint="garbage collection may have deleted them; upload the same contents again, or "
            f"see what else is missing: lakecli fsck {repository.uri}",
            paths=gone[:MAX_LISTED],
        )
    return cast("list[Change]", claimed)


class Uploads(Protocol[Uploaded_contra]):
    """Uploads objects, and claims those that it has uploaded."""

    def claim(self, uploaded: Iterable[Uploaded_contra]) -> None:
        """Claim objects that were uploaded and are durable."""


def claim_uploaded(
    uploads: Uploads[Uploaded_contra],
    changes: Sequence[tuple[bytes, bytes]],
    uploaded: Iterable[Uploaded_contra],
) -> list[Change]:
    """Return (path, encoded entry) of uploaded objects, which are durable, as changes to stage.

    Args:
        uploads: has uploaded them.
        changes: the entries.
        uploaded: the uploaded objects: all that the entries refer to, and possibly more.

    Raises:
        Swept: some of it was deleted meanwhile.
        SweepRunning: a sweep does not end.
    """
    uploads.claim(uploaded)
    return cast("list[Change]", sorted(changes))


def claim_below(view: View, *, prefix: bytes) -> Iterator[Change]:
    """Claim everything that a view has under a prefix, and yield it in path order.

    The tree is claimed as a whole, what is staged object by object.

    Raises:
        Gone: some of it is not in the bucket.
        Swept: some of it was deleted just now.
        SweepRunning: a sweep does not end.
    """
    found = view.scan(prefix=prefix)
    first = next(found, None)
    if first is None:
        return
    claim_tree(view)
    staged = view.staged(prefix=prefix) if view.tokens else iter(())
    while batch := list(islice(staged, BATCH)):
        claim_values(view.repository, batch)
    yield cast("Change", first)
    yield from cast("Iterator[Change]", found)


def committed_value(head: View, path: bytes) -> ClaimedValue:
    """Return what the commit of a view has at a path, after `claim_head`; else a tombstone."""
    value = head.find_committed(path)
    return TOMBSTONE if value is None else ClaimedValue(value)


class Reclaimed:
    """What operations of the log bring back, claimed as far as it is there still.

    Args:
        repository: whose operations.

    Attributes:
        gone: how many trees and objects are not there any more.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.gone = 0

    def add_commit(self, txn: ReadTransaction, commit: Commit) -> None:
        """Claim a commit that a ref is put back to."""
        self.gone += not _claim_history(txn, self._repository, commit)

    def add_values(self, values: Iterable[tuple[bytes, bytes]]) -> None:
        """Claim what is staged again, as (path, encoded entry or tombstone)."""
        first = next((each for each in values if each[1]), None)
        guard = self._repository.guard
        if first is None:
            return
        guard.begin()
        if not guard.is_active:
            return
        remaining = chain([first], values)
        while batch := list(islice(remaining, BATCH)):
            self.gone += len(_claim(self._repository, batch))

    def value(self, image: bytes) -> ClaimedValue:
        """Return one of the values that were added, as what may be staged."""
        return ClaimedValue(image)


def _claim(repository: Repository, values: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
    """Claim the objects of some values; return the paths of those that are not there."""
    found = ((path, data) for path, value in values if (data := _data_of(value)) is not None)
    first = next(found, None)
    if first is None:
        return []
    repository.guard.begin()
    if not repository.guard.is_active:
        return []  # the others need not even be decoded
    wanted = [first, *found]
    sizes = repository.guard.claim(sorted({data.key for _, data in wanted}))
    if sizes is None:
        return []
    return [path for path, data in wanted if sizes.get(data.key) != data.size]


def _data_of(value: bytes) -> _Data | None:
    if not value:
        return None
    entry = decode_entry(value)
    if data_digest(entry.physical_address) is None:
        return None
    return _Data(entry.physical_address, entry.size)


# -- commits ---------------------------------------------------------------------------------


def claim_head(view: View) -> ClaimedCommit:
    """Return the commit of a branch as what a new commit on the branch may stand on.

    What only this clone knows of its history is claimed as far as it is there; what is gone is
    found out by pushing, and can be uploaded again.

    Raises:
        Swept: its tree was deleted just now.
        SweepRunning: a sweep does not end.
    """
    _claim_history(view.txn, view.repository, view.commit)
    return ClaimedCommit(view.commit)


def claim_tree(view: View) -> None:
    """Claim the tree of a view's commit, so that all that it refers to stays.

    Raises:
        Gone: the tree is not in the bucket any more.
        Swept: it was deleted just now.
        SweepRunning: a sweep does not end.
    """
    claim_commit(view.txn, view.repository, view.commit)


def claim_target(txn: ReadTransaction, repository: Repository, commit: Commit) -> ClaimedCommit:
    """Return a commit as what a ref of this clone may stand on, also while the bucket is away.

    Raises:
        Gone: its tree is not in the bucket any more.
        Swept: the tree was deleted just now.
        SweepRunning: a sweep does not end.
    """
    with unless_away():
        claim_commit(txn, repository, commit)
    return ClaimedCommit(commit)


@contextmanager
def unless_away() -> Iterator[None]:
    """Claim in the block; end it in silence where the bucket cannot be asked."""
    from lakecli.remote.collection import SweepRunning

    try:
        yield
    except SweepRunning:
        raise
    except (Unreachable, BucketNotFound, PermissionDenied):
        return


def claim_commit(txn: ReadTransaction, repository: Repository, commit: Commit) -> ClaimedCommit:
    """Return a commit as what refs and other commits may stand on; it and its history are claimed.

    Raises:
        Gone: its tree is not in the bucket any more.
        Swept: the tree was deleted just now.
        SweepRunning: a sweep does not end.
    """
    if not _claim_history(txn, repository, commit):
        raise Gone(
            f"the tree of commit {commit.id} is no longer in {repository.store.uri}",
            hint="garbage collection has deleted it; if a copy of it is known here: "
            f"lakecli fsck {repository.uri} --repair",
        )
    return ClaimedCommit(commit)


def _claim_history(txn: ReadTransaction, repository: Repository, commit: Commit) -> bool:
    """Claim what only this clone may know to be in use; tell whether the commit's tree is there."""
    guard = repository.guard
    guard.begin()
    if not guard.is_active:
        return True
    from lakecli.repository.core.unpushed import unreached_trees

    trees = unreached_trees(txn, repository, commit)
    sizes = guard.claim(sorted(map(sstable_key, trees)))
    return not commit.metarange_id or sizes is None or sstable_key(commit.metarange_id) in sizes

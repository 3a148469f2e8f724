"""Copy and move objects to another repository: first their bytes, then their entries.

An object that is named by its contents keeps its name and its checksum. If both namespaces are in
one store, the store copies the object: no bytes pass through this machine, and only the size is
compared. Otherwise this machine reads the object, and verifies it while writing. Objects of lakeFS,
which have other names, are read and get lakecli's names.

An object that was imported in place is outside the namespace, and is not copied: both repositories
refer to it. If the target repository may not read the object at its address, the object is copied
into the target's namespace.

A move stages the removal last: before anything is removed, the copies are durable and staged. So a
crash leaves both the source and the copies. Each repository has its own operation log, so each half
of a move is undone in its own repository.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import BinaryIO, Final, NamedTuple, cast

from lakecli import errors
from lakecli.base.layout import data_key
from lakecli.base.model import Entry
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.base.uri import as_directory, check_path
from lakecli.committed.values import decode_entry, encode_entry
from lakecli.repository.contract import Repository
from lakecli.repository.guard import uploaded_changes
from lakecli.repository.reading import addresses, contents
from lakecli.repository.reading.recorded import locate
from lakecli.repository.reading.view import check_branch, no_such_path, open_view
from lakecli.repository.staged import stager as stagers
from lakecli.repository.staged.stager import UNCHANGED, NewAttributes, Stager
from lakecli.repository.transfer.ingest import Ingest, Ingested
from lakecli.repository.transfer.parallel import FailureBudget
from lakecli.stores.capabilities import can_copy, copy_across
from lakecli.stores.contract import BucketNotFound, ObjectStore
from lakecli.stores.streams import PieceReader, batches
from lakecli.stores.uri import is_local

BATCH: Final = 1_024
"""Number of objects that are made durable and staged together."""

_OF_ONE_OBJECT: Final = (
    errors.PermissionDenied,
    errors.Unreachable,
    errors.NotFound,
    errors.IntegrityError,
    errors.UsageError,
    errors.Refused,
)
"""Errors that may concern one object only."""


class RepositoryPath(NamedTuple):
    """An object or a directory of a repository.

    Attributes:
        ref: a ref expression; for a destination, and for the source of a move, a branch.
    """

    repository: Repository
    ref: str
    path: bytes


@dataclass(slots=True)
class AcrossReport:
    """The result of copying objects between repositories.

    Attributes:
        objects: the number of objects that were copied.
        copied_by_store: the number of objects that the store copied, without passing through this
            machine.
        failures: (path, reason), in path order.
    """

    objects: int = 0
    copied_by_store: int = 0
    failures: list[tuple[bytes, str]] = field(default_factory=list)


def cp_across(
    source: RepositoryPath,
    target: RepositoryPath,
    *,
    attributes: NewAttributes = UNCHANGED,
    parallelism: int = 1,
    progress: Progress = NO_PROGRESS,
    moves: bool = False,
) -> AcrossReport:
    """Copy or move one object to another repository.

    Args:
        progress: counts objects and bytes.
        moves: remove the object from the source, unless another object is uploaded there meanwhile.

    Raises:
        NotFound: no such ref, branch or source, or its bytes are missing.
        IntegrityError: the object is damaged; nothing is staged.
        LostRace: other processes kept changing the source; the object was copied, but not removed.
    """
    check_path(target.path)
    stager, remover = _stagers(source, target, moves=moves)
    with open_view(source.repository, source.ref) as view:
        value = view.value(source.path)
        across = Across(source.repository, target.repository, parallelism, progress)
        progress.expect(items=1, size=decode_entry(value).size)
        own, ingested = across.bring_one(value)
        across.flush([] if ingested is None else [ingested])
        changes = uploaded_changes([(target.path, attributes.apply(own))])
        new = stagers.new_on(target.repository, target.ref, changes)
        stager.write(new, kind="mv" if moves else "cp")
        if remover is not None:
            stagers.remove_unchanged(remover, view, source.ref, [(source.path, value)], "mv")
    across.report.objects = 1
    return across.report


def cp_tree_across(
    source: RepositoryPath,
    target: RepositoryPath,
    *,
    attributes: NewAttributes = UNCHANGED,
    parallelism: int = 1,
    progress: Progress = NO_PROGRESS,
    moves: bool = False,
) -> AcrossReport:
    """Copy or move everything below a directory to another repository.

    If an object fails, the report lists it, all other objects are copied, and nothing is removed.

    Args:
        source: the directory; a missing trailing slash is added.
        target: the directory that replaces `source` in the resulting paths; a missing trailing
            slash is added.
        parallelism: number of objects that are copied at a time.
        progress: counts objects and bytes.
        moves: remove the objects from the source, except those that are uploaded there meanwhile.

    Raises:
        NotFound: no such ref or branch, or nothing below the source.
        UsageError: a resulting path is too long; nothing is staged.
        LostRace: other processes kept changing the objects; all are copied, and some are not
            removed.
    """
    below, to = as_directory(source.path), as_directory(target.path)
    stager, remover = _stagers(source, target, moves=moves)
    with open_view(source.repository, source.ref) as view:
        for old, _ in view.scan(prefix=below):
            check_path(to + old[len(below) :])
        across = Across(source.repository, target.repository, parallelism, progress)
        report = across.report
        for batch in batches(view.scan(prefix=below), BATCH):
            done = across.bring(batch)
            changes = [(to + old[len(below) :], attributes.apply(own)) for old, own in done]
            new = stagers.new_on(target.repository, target.ref, uploaded_changes(changes))
            stager.write(new, kind="mv" if moves else "cp")
            report.objects += len(done)
        if not report.objects and not report.failures:
            raise no_such_path(source.repository, source.ref, below)
        if remover is not None and not report.failures:
            for batch in batches(view.scan(prefix=below), BATCH):
                stagers.remove_unchanged(remover, view, source.ref, batch, "mv")
    return report


def _stagers(
    source: RepositoryPath, target: RepositoryPath, *, moves: bool
) -> tuple[Stager, Stager | None]:
    """Return the stager for the copies; for a move, also the stager for the removals.

    Raises:
        NotFound: no such branch.
    """
    check_branch(target.repository, target.ref)
    stager = Stager(target.repository, target.ref)
    if moves:
        check_branch(source.repository, source.ref)
    return stager, Stager(source.repository, source.ref) if moves else None


class Across:
    """Copies objects of one repository into another.

    Args:
        parallelism: number of objects that are copied at a time.
        progress: counts objects and bytes.

    Attributes:
        report: the report of all copies so far, except `objects`, which the caller counts.
    """

    def __init__(
        self, source: Repository, target: Repository, parallelism: int, progress: Progress
    ) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._budget = FailureBudget()
        self._lock = Lock()
        self._places: set[str] = set()
        self._can_copy = can_copy(source.store, target.store)
        self.report = AcrossReport()
        self.ingest = Ingest(target.store, target.guard, progress=progress, parallelism=parallelism)

    def bring(self, values: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Copy the objects of some entries, several at a time, and claim the copies.

        Args:
            values: pairs of a path and an encoded entry of the source.

        Returns:
            The same paths with the encoded entries for the target, in path order; paths that failed
            are left out.
        """
        done: list[tuple[bytes, bytes]] = []
        brought: list[Ingested] = []

        def one(item: tuple[bytes, bytes]) -> None:
            path, value = item
            try:
                own, ingested = self.bring_one(value)
            except BucketNotFound:
                raise
            except _OF_ONE_OBJECT as error:
                with self._lock:
                    self.report.failures.append((path, error.message))
                if self._budget.failed(error):
                    raise
                return
            self._budget.succeeded()
            with self._lock:
                done.append((path, own))
                if ingested is not None:
                    brought.append(ingested)
            self._progress.advance(items=1)

        self.ingest.workers.for_each(values, one)
        self.flush(brought)
        self.report.failures.sort()
        return sorted(done)

    def flush(self, brought: Sequence[Ingested]) -> None:
        """Make copied objects durable and claim them; let the target read imported objects."""
        self.ingest.flush(brought)
        if self._places:
            addresses.remember(self._target, sorted(self._places))
            self._places.clear()

    def bring_one(self, value: bytes) -> tuple[bytes, Ingested | None]:
        """Copy the object of one encoded entry, if necessary; call `flush` afterwards.

        Returns:
            The encoded entry for the target, and the object in the target's namespace; ``None`` if
            the object stays outside.

        Raises:
            NotFound: the object does not exist.
            IntegrityError: the object is damaged.
            OutsideAddress: the object is at an address that this user has not allowed.
        """
        entry = decode_entry(value)
        if addresses.is_external(entry) and self._stays(entry):
            self._progress.advance(size=entry.size)
            return value, None
        digest = contents.digest_of(entry)
        if digest is not None:
            return value, self._known(entry, digest)
        if addresses.is_external(entry):
            entry = contents.with_attributes(entry, *locate(self._source, entry))
        reader = PieceReader(self._pieces(entry))
        ingested = self.ingest.stream(cast("BinaryIO", reader))
        own = entry._replace(physical_address=data_key(ingested.digest), checksum=ingested.digest)
        return encode_entry(own), ingested

    def _stays(self, entry: Entry) -> bool:
        """Return whether the target can refer to an object outside the source's namespace.

        Raises:
            OutsideAddress: the source may not read the object.
        """
        place = self._source.addresses.check(entry.physical_address)
        assert place is not None
        bucket, key = place
        own = self._target.record.storage_namespace
        within = (self._trust.namespace, own)
        if is_local(bucket):
            if not is_local(own) or addresses.lies_below(bucket, key, within):
                return False
            wanted = self._trust.narrowest(bucket, key) or bucket
        else:
            if any(f"{bucket}/{key}".startswith(f"{each}/") for each in within):
                return False  # garbage collection may delete objects in both namespaces
            wanted = addresses.place_of(own, bucket, key)
            if wanted == addresses.bucket_of(own):
                return False  # the target would have to read its whole bucket
            # The target may read no more than it needs, and no more than the source may.
            wanted = max(wanted, self._trust.narrowest(bucket, key) or "", key=len)
        with self._lock:
            self._places.add(wanted)
        return True

    @cached_property
    def _trust(self) -> addresses.Trust:
        return addresses.trust_of(self._source)

    def _known(self, entry: Entry, digest: str) -> Ingested:
        """Copy an object that is named by its contents, unless the target has it."""
        if self.ingest.has(digest, entry.size):
            self._progress.advance(size=entry.size)
            return Ingested(digest, entry.size)
        store, key = locate(self._source, entry)
        if self._can_copy and self._copied(store, key, entry):
            self._progress.advance(size=entry.size)
            with self._lock:
                self.report.copied_by_store += 1
            self.ingest.written.add(key)
            return Ingested(digest, entry.size)
        return self.ingest.known(contents.read_object(self._source, entry), digest, entry.size)

    def _copied(self, store: ObjectStore, key: str, entry: Entry) -> bool:
        """Ask the store to copy an object; return whether it copied the object.

        Raises:
            NotFound: there is no such object.
            IntegrityError: the object does not have the size in the entry.
        """
        try:
            found = store.head(key)
        except BucketNotFound:
            raise
        except errors.NotFound as error:
            raise contents.gone(self._source.uri, store, key) from error
        if found.size != entry.size:
            raise contents.damaged(self._source.uri, store, key)
        try:
            if copy_across(store, key, self._target.store, key):
                return True
        except (errors.PermissionDenied, errors.Unsupported):
            pass  # the target's credentials cannot read the source, but the source's own may
        self._can_copy = False
        return False

    def _pieces(self, entry: Entry) -> Iterator[bytes]:
        """Yield the bytes of an object that is not named by its contents."""
        for piece in contents.read_object(self._source, entry):
            self.ingest.workers.check()
            yield piece

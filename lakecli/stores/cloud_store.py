"""Base classes of the adapters of the clouds, and the batch that sends requests in parallel."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from threading import BoundedSemaphore, Lock, RLock
from typing import BinaryIO, ClassVar, Final, Generic, Protocol, Self, TypeVar

from lakecli.base.retry import REQUESTS
from lakecli.errors import LakeError, UsageError
from lakecli.stores import capabilities, contract
from lakecli.stores.capabilities import PART_SIZE, DeletesMatching, WritesGarbled
from lakecli.stores.cloud_errors import Translator
from lakecli.stores.contract import PLAIN, Attributes, Condition, Version
from lakecli.stores.responses import ServerDate, check_moves
from lakecli.stores.streams import batches, read_exactly, waited

Failure = tuple[str, int, str]
"""The full name of an object that could not be deleted, the HTTP status and the error code."""


class SdkClient(Protocol):
    """The requests of an SDK about the objects of one bucket; they raise the SDK's own errors."""

    def page(self, prefix: str, /) -> object:
        """Return the first page of a listing."""

    def write(
        self, name: str, data: bytes, attributes: Attributes, condition: Condition, *, repeats: bool
    ) -> Version:
        """Write an object by one request, which is retried if it has no condition.

        With `repeats`, a conditional request is retried, too, even though the first attempt may
        have written the object.
        """

    def write_stream(
        self, name: str, first: bytes, rest: BinaryIO, attributes: Attributes
    ) -> Version:
        """Write an object in parts; `first` is its beginning, which the caller has already read."""

    def write_garbled(self, name: str, data: bytes) -> None:
        """Write an object by a request with a wrong checksum."""

    def delete(self, names: Sequence[str], versions: Sequence[Version]) -> Iterable[Failure]:
        """Delete objects by one request; return the failures, each with its HTTP status and code.

        Args:
            versions: the versions that the objects must have; empty: any.
        """


BUCKET_EXISTS: Final = "the bucket exists"
"""The fact that a store remembers after it has found its bucket, so that it checks only once."""

T = TypeVar("T")
Client = TypeVar("Client", bound=SdkClient)
Position = TypeVar("Position")
Refusal = tuple[str, LakeError]
"""The full name of an object that could not be deleted, and the reason."""


class CloudStore(
    capabilities.VersionedStore,
    capabilities.CopiesFrom,
    capabilities.HasUploads,
    capabilities.ReportsAccess,
    capabilities.ShowsClock,
):
    """A namespace in a bucket of a cloud; nothing is loaded or requested before the first call.

    Keys are relative to the namespace; `full` returns the full name of an object, which is its name
    in the bucket.

    Args:
        prefix: prefix of every key, without a trailing slash; may be empty.

    Attributes:
        delete_size: largest number of objects that one request deletes.
        start: the prefix of all names in the bucket, with a slash if it is not empty.
        version_id: ID of the version that get, open, head and presign use; ``""``: the current one.
    """

    cloud: ClassVar[str]
    delete_size: ClassVar[int]
    version_id = ""

    def __init__(self, root: str, prefix: str, translator: Translator, date: ServerDate) -> None:
        self.root = root
        self._prefix = prefix
        self.start = f"{prefix}/" if prefix else ""
        self.translator = translator
        self.server_date = date
        self._learned: set[str] = set()  # shared with the stores that `at_version` returns

    @property
    def uri(self) -> str:
        """The URI of the bucket with the prefix of the namespace."""
        return f"{self.root}/{self._prefix}" if self._prefix else self.root

    def at_version(self, version_id: str) -> Self:
        """Return a store that reads a version; it shares the clients of this store."""
        found = copy(self)
        found.version_id = version_id
        return found

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        """Return a range of an object; see `ObjectStore.get`.

        Raises:
            Unsupported: the server does not implement ranges.
            IntegrityError: the bytes do not have the checksum that the store keeps.
        """
        contract.check_range(start, length)
        data = b"" if length == 0 else self._get(key, start, length, matching)
        if length == 0 or (matching and not data):  # a range past the end has no tag to compare
            found = self.head(key)
            contract.check_matching(matching, key, found.etag, found.version, found.md5)
        return data

    @abstractmethod
    def _get(self, key: str, start: int, length: int | None, matching: str) -> bytes: ...

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        """Write an object; see `ObjectStore.put`.

        A stream of 8 MiB or more is sent in parts, unless there is a condition: not every server
        honours a condition when parts are joined.
        """
        if isinstance(body, bytes | bytearray | memoryview):
            data = bytes(body)
        elif not isinstance(condition, contract.AnyVersion):
            data = b"".join(iter(lambda: waited(body.read(PART_SIZE)), b""))
        else:
            data = read_exactly(body, PART_SIZE)
            if len(data) == PART_SIZE:
                return self._put_stream(key, data, body, attributes)
        return self._put_whole(key, data, condition, attributes)

    @abstractmethod
    def _put_whole(
        self, key: str, data: bytes, condition: Condition, attributes: Attributes
    ) -> Version: ...

    @abstractmethod
    def _put_stream(
        self, key: str, first: bytes, rest: BinaryIO, attributes: Attributes
    ) -> Version: ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, many by one request; a missing object is ignored."""
        for batch in batches(map(self.full, keys), self.delete_size):
            for _, error in self._delete(batch):
                if not isinstance(error, contract.ObjectNotFound):
                    raise error
                self._check_bucket_once()

    @abstractmethod
    def _delete(self, names: Sequence[str], versions: Sequence[Version] = ()) -> Iterable[Refusal]:
        """Delete objects by one request; return the failures, each with its reason."""

    def batch(self) -> "ParallelBatch":
        """Start a batch of parallel create-only requests."""
        return ParallelBatch(self)

    def local_path(self, key: str) -> str | None:
        """Return ``None``: no file on this machine contains the object."""
        del key
        return None

    def translated(
        self, key: str | None = None, *, may_be_absent: bool = False
    ) -> AbstractContextManager[str]:
        """Convert the errors of a block about an object, and yield the object's full name.

        Args:
            key: key of the object; ``None``: the block is about the bucket, and the name is ``""``.
        """
        full = "" if key is None else self.full(key)
        return self.translator.translated(full, may_be_absent=may_be_absent)

    @contextmanager
    def reading(self, key: str) -> Iterator[str]:
        """Convert the errors of a read, and check the bucket if the object is not found."""
        try:
            with self.translator.translated(self.readable(key)) as full:
                yield full
        except contract.ObjectNotFound:
            self._check_bucket_once()
            raise
        self._learned.add(BUCKET_EXISTS)

    def follow_pages(
        self, ask: Callable[[Position], tuple[Iterable[T], Position | None]], position: Position
    ) -> Iterator[T]:
        """Yield the items of all pages of a listing, and convert errors of the page requests.

        Args:
            ask: a function that returns a page and the position of the next page. After the last
                page the position is ``None`` or empty.
        """
        while True:
            with self.translated():
                found, following = ask(position)
                check_moves(position, following)
            yield from found
            if not following:
                return
            position = following

    def in_order(self, items: Iterable[T], name_of: Callable[[T], str]) -> Iterator[T]:
        """Yield the items of a listing; raise `Unsupported` if they are not in byte order."""
        last: bytes | None = None
        for item in items:
            name = contract.key_bytes(name_of(item))
            if last is not None and name <= last:
                raise self.translator.no_order()
            last = name
            yield item

    def full(self, key: str) -> str:
        """Return the full name of an object: the prefix of the namespace and the key.

        Raises:
            UsageError: the cloud cannot store an object with this key.
        """
        if not key:
            raise UsageError("an object needs a key")
        return self.utf8(self.start + key)

    def readable(self, key: str) -> str:
        """Return the full name of an object to read; some names can be read but not written."""
        return self.full(key)

    def utf8(self, name: str) -> str:
        """Return a name unchanged; raise `UsageError` if it is not UTF-8."""
        try:
            name.isascii() or name.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"{self.cloud} cannot hold an object of this key, it is not UTF-8: {name!r}"
            ) from None
        return name

    def prepare(self) -> str:
        """Check that the bucket exists; see `registry.prepare_namespace`."""
        self.check_bucket()
        return ""

    @abstractmethod
    def check_bucket(self) -> None:
        """Check that the bucket exists.

        Raises:
            BucketNotFound: the bucket does not exist.
            PermissionDenied: the credentials do not permit listing its objects.
        """

    def _check_bucket_once(self) -> None:
        """Raise `BucketNotFound` if the bucket is missing; do nothing once the bucket was found."""
        if BUCKET_EXISTS in self._learned:
            return
        try:
            self.check_bucket()
        except contract.BucketNotFound:
            raise
        except LakeError:
            return  # unknown; the object is missing either way
        self._learned.add(BUCKET_EXISTS)


class MatchingCloudStore(CloudStore, DeletesMatching, WritesGarbled, Generic[Client]):
    """A namespace in a cloud other than S3, where any request accepts a version as its condition.

    Attributes:
        attempts: largest number of attempts for each request that may be repeated.
    """

    attempts: int = REQUESTS.attempts

    def __init__(self, root: str, prefix: str, translator: Translator) -> None:
        super().__init__(root, prefix, translator, ServerDate())
        self._lock = RLock()
        self._clients: list[Client] = []  # shared with stores that `at_version` returns

    def sdk(self) -> Client:
        """Return the SDK's client, which is created by the first call."""
        with self._lock:
            if not self._clients:
                self._clients.append(self._new_client())
            return self._clients[0]

    @abstractmethod
    def _new_client(self) -> Client: ...

    def check_bucket(self) -> None:
        """Check that the bucket exists; see `CloudStore.check_bucket`."""
        with self.translated():
            self.sdk().page(self.start)

    def put_garbled(self, key: str, body: bytes) -> None:
        """Send `body` with a wrong checksum; see `WritesGarbled`."""
        with self.translated(key) as full:
            self.sdk().write_garbled(full, body)

    def put_new(self, key: str, body: bytes) -> bool:
        """Write `body` unless the key exists; a retry is safe, as the key determines the bytes."""
        try:
            with self.translated(key, may_be_absent=True) as full:
                self.sdk().write(full, body, PLAIN, contract.ABSENT, repeats=True)
        except contract.ConditionFailed:
            return False
        return True

    def _put_whole(
        self, key: str, data: bytes, condition: Condition, attributes: Attributes
    ) -> Version:
        with self.translated(key, may_be_absent=True) as full:
            return self.sdk().write(full, data, attributes, condition, repeats=False)

    def _put_stream(
        self, key: str, first: bytes, rest: BinaryIO, attributes: Attributes
    ) -> Version:
        with self.translated(key, may_be_absent=True) as full:
            return self.sdk().write_stream(full, first, rest, attributes)

    def _delete(self, names: Sequence[str], versions: Sequence[Version] = ()) -> Iterable[Refusal]:
        with self.translated():
            failed = self.sdk().delete(names, versions)
        refused = self.translator.refused_delete
        return [(full, refused(status, code, full)) for full, status, code in failed]

    def delete_matching(self, objects: Iterable[tuple[str, Version]]) -> Collection[str]:
        """Delete the objects that still have the given versions; see `DeletesMatching`."""
        kept: list[str] = []
        for batch in batches(objects, self.delete_size):
            names = [self.full(key) for key, _ in batch]
            for full, error in self._delete(names, [version for _, version in batch]):
                if isinstance(error, contract.ConditionFailed):
                    # A condition on an object that does not exist fails, too.
                    with suppress(contract.ObjectNotFound):
                        key = full[len(self.start) :]
                        self.head(key)
                        kept.append(key)
                elif isinstance(error, contract.ObjectNotFound):
                    self._check_bucket_once()
                else:
                    raise error
        return kept


WORKERS = 16
WAITING = 16
"""Number of bodies that may wait in memory for a worker, in addition to the bodies being sent."""


class ParallelBatch:
    """A batch of writes to a bucket; see `contract.WriteBatch`.

    Objects become visible one by one, each complete and durable; `flush` waits for all of them.
    """

    def __init__(self, store: contract.ObjectStore) -> None:
        self._store = store
        self._lock = Lock()
        self._slots = BoundedSemaphore(WORKERS + WAITING)
        self._pool = ThreadPoolExecutor(WORKERS, "put")
        self._sent: list[tuple[str, Future[bool]]] = []
        self._failed: list[Future[bool]] = []

    def put_new(self, key: str, body: bytes) -> None:
        """Send `body` in a thread of the pool; raise the error of an earlier request, if any."""
        for failed in self._failed[:1]:
            failed.result()
        self._slots.acquire()
        with self._lock:
            future = self._pool.submit(self._store.put_new, key, body)
            self._sent.append((key, future))
        future.add_done_callback(self._finished)

    def _finished(self, future: Future[bool]) -> None:
        if future.exception() is not None:
            self._failed.append(future)
        self._slots.release()

    def flush(self) -> Collection[str]:
        """Wait for all requests, then raise the first error."""
        with self._lock:
            pool, self._pool = self._pool, ThreadPoolExecutor(WORKERS, "put")
            sent, self._sent = self._sent, []
        pool.shutdown()
        self._failed.clear()
        return {key for key, future in sent if not future.result()}

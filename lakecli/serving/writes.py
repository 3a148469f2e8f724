"""Writes to branches; concurrent writes share one transaction.

A write has two steps. `BranchWriter.deposit` stores data in the namespace and makes it durable;
nothing refers to it yet. `BranchWriter.apply` stages changes; each is computed from the present
entry of its path. So a condition is checked in the transaction that makes the change, even if other
processes write to the branch. If several threads are in `apply`, one of them makes the changes of
all: the objects of each client are claimed together, so that garbage collection keeps them, and its
changes are staged in one transaction.

The operation log has one operation for all requests that a client sends without a pause of `PAUSE`
seconds, as long as nothing else is logged in between.

Objects are named by their digest, which is known only when all data has arrived. So the data of a
larger object goes to a temporary file first. A directory keeps this file, a bucket is sent it.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from threading import Lock
from typing import BinaryIO, Final, NamedTuple, cast

from blake3 import blake3

from lakecli.base.ids import DataDigest
from lakecli.base.layout import data_key
from lakecli.base.uri import check_path
from lakecli.errors import LakeError
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_values, uploaded_changes
from lakecli.repository.policy.early import check_early
from lakecli.repository.reading.view import View
from lakecli.repository.staged.stager import Parts, Stager, is_to_stage
from lakecli.repository.transfer.ingest import SMALL, Ingest
from lakecli.repository.transfer.parallel import Memory
from lakecli.staging.area import TOMBSTONE
from lakecli.stores.capabilities import clear_temporaries
from lakecli.stores.contract import put_content
from lakecli.stores.streams import PieceReader

PAUSE: Final = 10.0
"""Seconds without a request from a client after which its next request is a new operation."""

MOST_CLIENTS: Final = 64
"""The maximum number of clients per branch whose operations can be continued."""


class Client(NamedTuple):
    """The client of a request, for the operation log.

    Attributes:
        surface: ``s3``, ``api`` or ``page``.
        name: the program: the first word of the ``User-Agent`` header, without its version.
    """

    surface: str
    name: str

    def command(self, action: str) -> str:
        """Return the text that the operation log shows instead of a command line."""
        return f"{self.surface}: {action} by {self.name}"


class Deposited(NamedTuple):
    """An object that is durable in the namespace, and to which no entry refers yet.

    Attributes:
        address: the physical address for its entry.
        digest: the BLAKE3 digest in 64 hex digits, which becomes the checksum of its entry.
        size: the size in bytes.
        is_new: whether the namespace is known not to have had this object before.
    """

    address: str
    digest: str
    size: int
    is_new: bool = False


class PathChange(NamedTuple):
    """A change of one path.

    Attributes:
        decide: gets the present encoded entry of the path, or ``None`` if there is none. It returns
            the new encoded entry, `TOMBSTONE` to delete the object, or ``None`` to change nothing.
            If it raises a `LakeError`, this change is not made. It may be called several times, and
            must not block.
        deposited: the deposited object that the new entry refers to; ``None`` if the entry refers
            to another object, inside or outside the namespace.
    """

    path: bytes
    decide: Callable[[bytes | None], bytes | None]
    deposited: Deposited | None = None


Outcome = bytes | LakeError | None
"""The encoded entry of a path after a change, ``None`` if it has none, or the error."""


@dataclass(eq=False)
class _Request:
    """The changes of one call of `BranchWriter.apply`, and their outcomes."""

    changes: Sequence[PathChange]
    client: Client
    action: str
    outcomes: Future[list[Outcome]] = field(default_factory=Future)


class BranchWriter:
    """Writes to one branch. Safe to share between threads.

    Args:
        acting: returns a handle of the repository for writing that records the given text in the
            operation log.
        elapsed: returns the seconds of a monotonic clock.
        memory: limits the bytes of large objects that are being sent to buckets, for all writers
            that share it; ``None``: a limit for this writer alone.
    """

    def __init__(
        self,
        acting: Callable[[str], Repository],
        branch: str,
        *,
        elapsed: Callable[[], float],
        memory: Memory | None = None,
    ) -> None:
        self.branch = branch
        self._acting = acting
        self._repository = acting("")
        self._elapsed = elapsed
        self._memory = memory or Memory()
        self._lock = Lock()  # of the attributes below
        self._waiting: list[_Request] = []
        self._leading = Lock()
        self._operations: dict[Client, tuple[Stager, float]] = {}
        """Of each client, the operation that its next request may continue, and its last time."""
        clear_temporaries(self._repository.store)

    def deposit(self, source: Iterable[bytes]) -> Deposited:
        """Store the data of an object in the namespace.

        A small object is in memory first. Threads that store small objects at the same time hardly
        wait longer than one thread, although each syncs its file.

        Args:
            source: the pieces of the data. If the iterable raises, nothing is stored.

        Raises:
            Unreachable: the namespace cannot be written.
        """
        store, guard, pieces = self._repository.store, self._repository.guard, iter(source)
        guard.begin()  # a sweep that is running could delete an object that is stored meanwhile
        first: list[bytes] = []
        size = 0
        for piece in pieces:
            first.append(piece)
            size += len(piece)
            if size > SMALL:
                ingest = Ingest(store, guard, memory=self._memory)
                whole = PieceReader(chain(first, pieces))
                done = ingest.stream(cast("BinaryIO", whole))
                ingest.flush()
                return Deposited(data_key(done.digest), done.digest, done.size)
        data = b"".join(first)
        digest = DataDigest(blake3(data).hexdigest())
        address = data_key(digest)
        return Deposited(address, digest, size, put_content(store, address, data))

    def apply(self, changes: Sequence[PathChange], *, client: Client, action: str) -> list[Outcome]:
        """Make changes in order in one transaction, and return the outcome of each.

        Args:
            action: the operation that the client requested, such as ``PutObject``.

        Raises:
            LakeError: nothing was changed, for example because the branch does not exist or a rule
                forbids the change.
        """
        mine = _Request(changes, client, action)
        with self._lock:
            self._waiting.append(mine)
        with self._leading:
            if not mine.outcomes.done():
                with self._lock:
                    requests, self._waiting = self._waiting, []
                self._make(requests)
        return mine.outcomes.result()

    def apply_one(self, change: PathChange, *, client: Client, action: str) -> bytes | None:
        """Make one change, and return its outcome; raise it if it is an error."""
        (outcome,) = self.apply([change], client=client, action=action)
        if isinstance(outcome, LakeError):
            raise outcome
        return outcome

    def _make(self, requests: Sequence[_Request]) -> None:
        """Make the changes of requests; afterwards each has its outcomes or an error."""
        by_client: dict[Client, list[_Request]] = {}
        for request in requests:
            by_client.setdefault(request.client, []).append(request)
        for client, own in by_client.items():
            try:
                self._stage(client, own)
            except BaseException as error:  # noqa: BLE001 - each thread raises it
                for request in own:
                    if not request.outcomes.done():
                        request.outcomes.set_exception(error)

    def _stage(self, client: Client, requests: Sequence[_Request]) -> None:
        changes = chain.from_iterable(request.changes for request in requests)
        deposited = [each.deposited for each in changes if each.deposited is not None]
        if deposited:
            written = {each.address for each in deposited if each.is_new}
            found = {each.address for each in deposited} - written
            self._repository.guard.settle(found=found, written=written)
        now = self._elapsed()
        stager, last = self._operations.pop(client, (None, 0.0))
        if stager is None or now - last >= PAUSE:
            stager = Stager(self._acting(client.command(requests[0].action)), self.branch)
        else:
            check_early(self._repository, self.branch)
        paths = sorted({each.path for request in requests for each in request.changes})
        plan = partial(_planned, self._repository, self.branch, requests)
        outcomes = stager.write_planned(self.branch, paths, plan, kind=client.surface)
        for request, own in zip(requests, outcomes, strict=True):
            request.outcomes.set_result(own)
        self._operations[client] = stager, now  # moved to the end, so that the oldest is first
        while len(self._operations) > MOST_CLIENTS:
            del self._operations[next(iter(self._operations))]


def _planned(
    repository: Repository, branch: str, requests: Sequence[_Request], view: View
) -> tuple[Parts, list[list[Outcome]]]:
    """Apply the changes of requests to a view of the branch.

    Returns:
        the entries to stage, and the outcomes of each request.
    """
    before: dict[bytes, bytes | None] = {}
    after: dict[bytes, bytes | None] = {}

    def make(change: PathChange) -> Outcome:
        path = change.path
        try:
            if path not in before:
                check_path(path)
                before[path] = after[path] = view.find(path)
            value = change.decide(after[path])
            if value and value != after[path] and change.deposited is None:
                claim_values(repository, [(path, value)])
        except LakeError as error:
            return error
        if value is not None:
            after[path] = value or None
        return after[path]

    outcomes = [[make(change) for change in request.changes] for request in requests]
    changed: list[tuple[bytes, bytes]] = []
    for path, value in after.items():
        present = before[path]
        if value is not None and is_to_stage(branch, present, value):
            changed.append((path, value))
        elif value is None and present is not None:
            changed.append((path, TOMBSTONE))
    return [(branch, uploaded_changes(changed))], outcomes

"""What the verbs and rooms of this package know of a repository and of its lake.

`Repository` and `OwnLake` are protocols, so that nothing below `lakecli.repository.handle.lake`,
which makes them, has to import it. `Home` and `Runtime` are what comes in from outside.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lakecli.base.directories import StrPath
from lakecli.base.model import NO_ACCOUNT, Account, Branch, Commit, RepositoryRecord
from lakecli.base.progress import NO_PROGRESS, Progress, elapsed, ignore_step
from lakecli.errors import LakeError
from lakecli.kv.local_store import LocalStore, ReadTransaction, WriteTransaction

if TYPE_CHECKING:
    from lakecli.committed.cache import Reads
    from lakecli.committed.tree_store import TreeStore
    from lakecli.kv.bucket import LocalMove, UnsentMove
    from lakecli.remote.refs import Intent, MoveOutcome
    from lakecli.stores.contract import Guard, ObjectStore

DEFAULT_CACHE_SIZE = 10 << 30
DEFAULT_MEMORY_SIZE = 1 << 30


def _open_store(uri: str, region: str, *, account: Account = NO_ACCOUNT) -> "ObjectStore":
    from lakecli.stores.registry import open_store

    return open_store(uri, region=region, account=account)


def _prepare_namespace(uri: str, *, account: Account = NO_ACCOUNT) -> str:
    from lakecli.stores.registry import prepare_namespace

    return prepare_namespace(uri, account=account)


class Home(NamedTuple):
    """The directories of a lake on this machine.

    Attributes:
        store: the directory of the LMDB environment.
        cache: the directory of cached SSTables; it may be deleted at any time.
        cache_size: the limit of the cache of a repository in bytes.
        memory_size: the limit of the parts of trees that a repository keeps in memory, in bytes.
    """

    store: StrPath
    cache: StrPath
    cache_size: int = DEFAULT_CACHE_SIZE
    memory_size: int = DEFAULT_MEMORY_SIZE


def _show_nothing(_entries: int) -> AbstractContextManager[Progress]:
    return nullcontext(NO_PROGRESS)


def _give_at_once(answer: "GivenLater") -> None:
    answer.give()


class Runtime(NamedTuple):
    """The clocks, random numbers and stores that a lake uses; tests replace them.

    Attributes:
        clock: returns the present as an aware UTC datetime.
        new_id: returns 16 random bytes.
        command: the command line that the operation log records; no secrets.
        on_step: called with the name of each step of a protocol before it is taken.
        trusted: given the name of a repository, returns the places outside its namespace that the
            configuration allows it to read; see `lakecli.repository.reading.addresses`.
        open_store: given the URI of a storage namespace and its region, returns its store.
        prepare_namespace: given the URI of a storage namespace, makes its directory if it is
            missing, and returns its region.
        elapsed: returns seconds that only grow, also while the machine is asleep.
        sleep: waits for some seconds.
        show_rebuild: given a number of entries, shows how a tree of lakeFS is rebuilt; see
            `lakecli.committed.writer`.
        account: given the name of a repository, returns how its buckets of S3 are accessed.
        on_answer: takes over the answer of a verb, which the caller gives; by default, it has.
    """

    clock: Callable[[], datetime]
    new_id: Callable[[], bytes]
    command: str = ""
    on_step: Callable[[str], None] = ignore_step
    trusted: Callable[[str], Sequence[str]] = lambda _repository: ()
    open_store: Callable[[str, str], "ObjectStore"] = _open_store
    prepare_namespace: Callable[[str], str] = _prepare_namespace
    elapsed: Callable[[], float] = elapsed
    sleep: Callable[[float], None] = sleep
    show_rebuild: Callable[[int], AbstractContextManager[Progress]] = _show_nothing
    account: Callable[[str], Account] = lambda _repository: NO_ACCOUNT
    on_answer: Callable[["GivenLater"], None] = _give_at_once

    def now(self) -> datetime:
        """Return the present in whole seconds."""
        return self.clock().replace(microsecond=0)

    def random_number(self) -> float:
        """Return a random number from 0 to 1."""
        return int.from_bytes(self.new_id()[:4]) / 0xFFFFFFFF

    def for_repository(self, name: str) -> "Runtime":
        """Return a runtime that opens stores as a repository's settings say."""
        account = self.account(name)
        if account == NO_ACCOUNT:
            return self
        return self._replace(
            open_store=partial(_open_store, account=account),
            prepare_namespace=partial(_prepare_namespace, account=account),
        )

    def find_store(self, uri: str) -> "tuple[ObjectStore, str]":
        """Return the store of a namespace that exists, and the region of its bucket.

        A missing directory is not made: it may be a disk that is not mounted.

        Raises:
            BucketNotFound: no such bucket.
        """
        from lakecli.stores.uri import is_local

        region = "" if is_local(uri) else self.prepare_namespace(uri)
        return self.open_store(uri, region), region


class GivenLater(Protocol):
    """The answer of a verb, which the caller gives once it has been shown."""

    def give(self) -> None:
        """Record that it was given."""

    def leave(self) -> None:
        """Leave it to the next command to give it."""


class OwnLake(Protocol):
    """The lake of a repository: the local store, and what is not a function of arguments."""

    home: Home
    kv: LocalStore
    runtime: Runtime

    def for_repository(self, name: str) -> "OwnLake":
        """Return this lake, opening stores as a repository's settings say."""

    def close(self) -> None:
        """Close the local store; safe to repeat."""

    def tidy(self, repository: "Repository") -> None:
        """Delete some of what has expired, more than was written; called after each operation."""

    def forgotten(self, txn: ReadTransaction) -> "Iterator[Repository]":
        """Yield the repositories that were deleted here, and can still be restored."""

    def forget(self, txn: WriteTransaction, repository: "Repository") -> None:
        """Delete the record of a deleted repository, which can then not be restored."""

    def repository(self, name: str) -> "Repository":
        """Return another repository of this lake.

        Raises:
            NotFound: no repository has that name.
        """

    def repositories(self, *, prefix: str = "", after: str = "") -> Iterator[RepositoryRecord]:
        """Yield the record of each repository, ordered by name."""


class Repository(Protocol):
    """One repository of a lake: what each verb takes as its first argument."""

    lake: OwnLake
    """The lake that it belongs to."""
    record: RepositoryRecord
    """What the local store holds of it."""
    name: str
    """The name on this machine."""
    uri: str
    """``lakefs://name``; of a repository that is read without a clone, that of its namespace."""
    mover: "BranchMover | None"
    """Moves its branches in the bucket first; ``None``: they move here only."""
    key: bytes
    """The 16 bytes that its rows in the local store begin with."""
    notices: "list[Notice]"
    """What verbs found out, for the caller to show and to clear."""
    store_in_use: "ObjectStore | None"
    """The storage namespace if it was used already, else ``None``."""
    reads: "Reads | None"
    """How many reads of trees each tier answered; ``None`` if there were none."""

    def at(self, ref: str, path: str = "") -> str:
        """Return the URI of a path, or of all of a ref, as it is typed."""

    @property
    def syncs(self) -> bool:
        """Whether it has a mover, so that what moves here goes to the bucket without a push."""

    def notify(self, notice: "Notice") -> None:
        """Add a notice for the caller, unless it is there already."""

    def is_here(self) -> bool:
        """Tell whether this machine still has the repository, under this name."""

    @property
    def store(self) -> "ObjectStore":
        """The storage namespace; the first use imports its adapter, and sends no request."""

    @property
    def addresses(self) -> "AddressResolver":
        """Resolves the physical addresses of entries."""

    @property
    def trees(self) -> "TreeStore":
        """The committed trees in the storage namespace, cached in the lake's home."""

    def note_reads(self) -> None:
        """Keep the counts of reads of trees for `lakecli doctor`, those since the last call."""

    def forget_trees(self) -> None:
        """Drop the trees in memory: a table that could not be read may be there now."""

    @property
    def guard(self) -> "Guard":
        """Protects what this process takes into use from garbage collection."""


class AddressResolver(Protocol):
    """Opens what the addresses of one repository's entries name.

    Attributes:
        compared: what `lakecli.repository.reading.recorded` remembers of objects.
    """

    compared: dict[Any, str]

    def locate(self, address: str) -> "tuple[ObjectStore, str]":
        """Return the store and the key of an object.

        Raises:
            Refused: the place is not one that the repository may read.
        """

    def check(self, address: str) -> tuple[str, str] | None:
        """Refuse a place that may not be read; return bucket and key of another namespace."""


class FinishedMove(NamedTuple):
    """A move that an earlier command began, and what became of it.

    Attributes:
        intent: the move.
        state: applied, lost (somebody else moved it first), or open: it is made when the command is
            repeated.
    """

    intent: "Intent"
    state: "MoveOutcome"

    def text(self) -> str:
        """Return what became of the move, in words."""
        what = f"an interrupted push of {self.intent.kind} {self.intent.name}"
        if self.state == "applied":
            return f"{what} reached the bucket"
        if self.state == "lost":
            return f"{what} failed: somebody else moved it first"
        return f"{what} did not reach the bucket"


class CaughtUp:
    """What became of what earlier commands left.

    Args:
        finished: moves whose outcome was not recorded.
        unsent: why refs that were moved here are not in the bucket.
    """

    def __init__(self, finished: tuple[FinishedMove, ...], unsent: tuple[LakeError, ...]) -> None:
        self.finished = finished
        self.unsent = unsent


class BranchMover(Protocol):
    """Moves branches in the bucket, to the commits that were built for them, before they move here.

    It is `lakecli.repository.sharing.automatic.SharedMover`, made when a command or the library
    opens the repository.

    Attributes:
        resumed: notes that earlier commands left, and that `catch_up` sent or gave up, each with
            why the bucket refused it; ``None``: it has it. Who tells what became of them clears it.
    """

    resumed: "list[tuple[UnsentMove, LakeError | None]]"

    @property
    def command_id(self) -> bytes:
        """Random bytes that identify the command whose moves go to the bucket."""

    def catch_up(self, repository: Repository) -> CaughtUp:
        """Finish what earlier commands left, fetch, and let local refs follow the bucket.

        Moves that earlier commands made and could not send are sent. Where one cannot be, its
        error is in the result, and the others are tried.

        Raises:
            Unreachable: the store does not answer; everything here is as it was.
            PermissionDenied: reading or listing is not allowed; everything here is as it was.
        """

    def move(
        self, repository: Repository, branch: Branch, commit: Commit, landing: "LocalMove"
    ) -> bool:
        """Move a branch to a commit, and return whether it moved.

        If not, another process or another machine moved it first, and the commit has to be built
        again; this machine's branch has followed the bucket by then, as far as it could.

        Args:
            repository: the repository of the branch.
            branch: as the commit was built from it.
            commit: not in the local store yet.
            landing: what the move changes on this machine besides the head.

        Raises:
            NotFound: the branch was deleted meanwhile.
            CommitUnderWay: another process is sending a commit of the branch to the bucket.
            LostRace: the branch has commits that were never pushed, so it cannot follow.
            OutcomeUnknown: the next command finds out whether it moved.
            Unreachable: nothing moved.
        """

    def finish(self, repository: Repository) -> None:
        """Send the moves that were made here and noted; called when the command has succeeded.

        Raises:
            LostRace, AlreadyExists: a move would undo others' moves; it was not sent.
            OutcomeUnknown: the next command finds out.
            Unreachable, PermissionDenied, …: a move was not sent; the next command tries again.
        """


class Notice(NamedTuple):
    """Something that a verb found out, for its caller to show.

    Attributes:
        message: what happened.
        hint: what to do about it, or ``None``.
    """

    message: str
    hint: str | None = None

"""The protocols of a repository and of its lake, for all modules of this package.

`Repository` and `OwnLake` are protocols, so that no module has to import their implementations in
`lakecli.repository.handle.lake`. Code that only reads needs a smaller part of a repository: see
`lakecli.repository.readable`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lakecli.base.model import Branch, Commit, RepositoryRecord
from lakecli.errors import LakeError
from lakecli.kv.local_store import LocalStore, ReadTransaction, WriteTransaction
from lakecli.repository.readable import Readable

if TYPE_CHECKING:
    from lakecli.committed.cache import Reads
    from lakecli.kv.bucket import LocalMove, UnsentMove
    from lakecli.remote.refs import Intent, MoveOutcome
    from lakecli.repository.runtime import Home, Runtime
    from lakecli.stores.contract import Guard, ObjectStore


class OwnLake(Protocol):
    """The lake of a repository: its local store, directories, clocks and access to stores."""

    home: "Home"
    kv: LocalStore
    runtime: "Runtime"

    def for_repository(self, name: str) -> "OwnLake":
        """Return this lake with a runtime that opens stores with the settings of a repository."""

    def close(self) -> None:
        """Close the local store; safe to repeat."""

    def tidy(self, repository: "Repository") -> None:
        """Delete some expired records, more than were written; called after each operation."""

    def forgotten(self, txn: ReadTransaction) -> "Iterator[Repository]":
        """Yield the repositories that were deleted here and can still be restored."""

    def forget(self, txn: WriteTransaction, repository: "Repository") -> None:
        """Delete the record of a deleted repository, which then cannot be restored any more."""

    def repository(self, name: str) -> "Repository":
        """Return another repository of this lake.

        Raises:
            NotFound: no repository has that name.
        """

    def repositories(self, *, prefix: str = "", after: str = "") -> Iterator[RepositoryRecord]:
        """Yield the record of each repository, ordered by name."""


class Repository(Readable, Protocol):
    """One repository of a lake: the first argument of each verb that changes something."""

    lake: OwnLake
    """The lake that it belongs to."""
    name: str
    """The name on this machine."""
    mover: "BranchMover | None"
    """Moves its branches in the bucket first; ``None``: they move here only."""
    notices: "list[Notice]"
    """What verbs found out, for the caller to show and to clear."""
    store_in_use: "ObjectStore | None"
    """The storage namespace if it was used already, else ``None``."""
    reads: "Reads | None"
    """How many reads of trees each tier answered; ``None`` if there were none."""

    @property
    def syncs(self) -> bool:
        """Whether sharing is automatic: moves of refs reach the bucket without a push."""

    def notify(self, notice: "Notice") -> None:
        """Add a notice for the caller, unless it is there already."""

    def is_here(self) -> bool:
        """Return whether this machine still has the repository, under this name."""

    @property
    def addresses(self) -> "AddressResolver":
        """Resolves the physical addresses of entries."""

    def note_reads(self) -> None:
        """Save the counts of tree reads since the last call, for `lakecli doctor`."""

    def forget_trees(self) -> None:
        """Drop the cached trees in memory: a table that could not be read may exist now."""

    @property
    def guard(self) -> "Guard":
        """Protects objects that this process starts to use from garbage collection."""


class AddressResolver(Protocol):
    """Opens the objects to which the entries of one repository refer.

    Attributes:
        compared: what `lakecli.repository.reading.recorded` remembers of objects.
    """

    compared: dict[Any, str]

    def locate(self, address: str) -> "tuple[ObjectStore, str]":
        """Return the store and the key of an object.

        Raises:
            Refused: the repository may not read objects at that address.
        """

    def check(self, address: str) -> tuple[str, str] | None:
        """Check that an address may be read; return bucket and key if it is in another namespace.

        Raises:
            Refused: the repository may not read objects at that address.
        """


class FinishedMove(NamedTuple):
    """A move that an earlier command began, and its outcome.

    Attributes:
        intent: the move.
        state: applied, lost (somebody else moved the ref first), or open: the move is made when the
            command is repeated.
    """

    intent: "Intent"
    state: "MoveOutcome"

    def text(self) -> str:
        """Return the outcome of the move, in words."""
        what = f"an interrupted push of {self.intent.kind} {self.intent.name}"
        if self.state == "applied":
            return f"{what} reached the bucket"
        if self.state == "lost":
            return f"{what} failed: somebody else moved it first"
        return f"{what} did not reach the bucket"


class CaughtUp:
    """The outcome of moves that earlier commands left unfinished.

    Args:
        finished: moves whose outcome was not recorded.
        unsent: why refs that were moved here are not in the bucket.
    """

    def __init__(self, finished: tuple[FinishedMove, ...], unsent: tuple[LakeError, ...]) -> None:
        self.finished = finished
        self.unsent = unsent


class BranchMover(Protocol):
    """Moves branches in the bucket to new commits, before the branches move here.

    The implementation is `lakecli.repository.sharing.automatic.SharedMover`, made when a command or
    the library opens the repository.

    Attributes:
        resumed: notes of earlier commands that `catch_up` sent or gave up. Each has the reason why
            the bucket refused it, or ``None`` if the bucket accepted it. The caller that reports
            them clears the list.
    """

    resumed: "list[tuple[UnsentMove, LakeError | None]]"

    @property
    def command_id(self) -> bytes:
        """Random bytes that identify the command whose moves are sent to the bucket."""

    def catch_up(self, repository: Repository) -> CaughtUp:
        """Finish moves that earlier commands left, fetch, and let local refs follow the bucket.

        Moves that earlier commands made here and could not send are sent. If one of them cannot be
        sent, its error is in the result, and the others are still tried.

        Raises:
            Unreachable: the store does not answer; nothing has changed here.
            PermissionDenied: reading or listing is not allowed; nothing has changed here.
        """

    def move(
        self, repository: Repository, branch: Branch, commit: Commit, landing: "LocalMove"
    ) -> bool:
        """Move a branch to a commit, and return whether it moved.

        If it did not move, another process or machine moved it first, and the commit has to be
        built again. By then the branch here has followed the bucket as far as it could.

        Args:
            branch: the branch as it was when the commit was built from it.
            commit: the new head, which is not in the local store yet.
            landing: what the move changes on this machine besides the head.

        Raises:
            NotFound: the branch was deleted meanwhile.
            CommitUnderWay: another process is sending a commit of the branch to the bucket.
            LostRace: the branch has commits that were never pushed, so it cannot follow.
            OutcomeUnknown: the next command finds out whether it moved.
            Unreachable: nothing moved.
        """

    def finish(self, repository: Repository) -> None:
        """Send the noted moves that were made here; called when the command has succeeded.

        Raises:
            LostRace, AlreadyExists: a move would undo moves of others; it was not sent.
            OutcomeUnknown: the next command finds out.
            Unreachable, PermissionDenied, …: a move was not sent; the next command tries again.
        """


class Notice(NamedTuple):
    """A message of a verb, for its caller to show.

    Attributes:
        hint: what to do about it, or ``None``.
    """

    message: str
    hint: str | None = None

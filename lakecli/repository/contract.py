"""The protocols of a repository and of its lake, for all modules of this package.

`Repository` and `OwnLake` are protocols, so that no module has to import their implementations in
`lakecli.repository.handle.lake`. Code that only reads needs a smaller part of a repository: see
`lakecli.repository.readable`.
"""

from collections.abc import Callable, Iterator, Mapping
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


Hook = Callable[[Mapping[str, Any]], object]
"""A function that is called with a mapping that describes a move; see
`lakecli.repository.journal.hooks`."""


class OwnLake(Protocol):
    """A lake: the repositories of one home, with their local store, directories and clocks."""

    home: "Home"
    kv: LocalStore
    runtime: "Runtime"

    def for_repository(self, name: str) -> "OwnLake":
        """Return this lake with a runtime that opens stores with the settings of a repository."""

    def close(self) -> None:
        """Close the local store; safe to repeat."""

    def tidy(self, repository: "Repository") -> None:
        """Delete some expired records; called after each operation.

        One call may delete more records than an operation writes, so they do not accumulate.
        """

    def forgotten(self, txn: ReadTransaction) -> "Iterator[Repository]":
        """Yield the repositories that were deleted on this machine and can still be restored."""

    def forget(self, txn: WriteTransaction, repository: "Repository") -> None:
        """Delete the record of a deleted repository, so that it can no longer be restored."""

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
    """The lake to which the repository belongs."""
    name: str
    """The name of the repository on this machine."""
    mover: "BranchMover | None"
    """Moves branches in the bucket before they move locally; ``None``: they only move locally."""
    hooks: dict[str, Hook]
    """Functions that are called before and after branches move, by name such as ``pre-commit``."""
    skips_hooks: bool
    """Whether the user asked to skip hooks; the operation log records this."""
    notices: "list[Notice]"
    """Messages of verbs, which the caller shows and then removes."""
    store_in_use: "ObjectStore | None"
    """The store of the namespace if it was used already, else ``None``."""
    reads: "Reads | None"
    """The number of tree reads served by each cache tier; ``None`` if no tree was read."""

    @property
    def syncs(self) -> bool:
        """Whether sharing is automatic: moves of refs reach the bucket without a push."""

    def notify(self, message: str, hint: str | None = None) -> None:
        """Add a notice for the caller, unless the same notice was added before."""

    def is_here(self) -> bool:
        """Return whether this machine still has the repository, under this name."""

    @property
    def addresses(self) -> "AddressResolver":
        """Resolves the physical addresses of entries."""

    def note_reads(self) -> None:
        """Save the counts of tree reads since the last call, for `lakecli doctor`."""

    def forget_trees(self) -> None:
        """Drop the trees cached in memory: a table that could not be read may be readable now."""

    @property
    def guard(self) -> "Guard":
        """Protects from garbage collection what this process is about to use."""


class AddressResolver(Protocol):
    """Resolves the physical addresses in the entries of one repository to stores and keys.

    Attributes:
        compared: for each object that was found unchanged, the condition for reading it; see
            `lakecli.repository.reading.recorded.AsRecorded`.
    """

    compared: dict[Any, str]

    def locate(self, address: str) -> "tuple[ObjectStore, str]":
        """Return the store and the key of an object.

        Raises:
            Refused: the repository may not read objects at that address.
        """

    def check(self, address: str) -> tuple[str, str] | None:
        """Check that an address may be read; if it is outside the namespace, return bucket and key.

        Raises:
            Refused: the repository may not read objects at that address.
        """


class FinishedMove(NamedTuple):
    """A move of a ref in the bucket that an earlier command began, and its outcome.

    Attributes:
        intent: the move.
        state: applied, lost (somebody else moved the ref first), or open (repeat the command to
            make the move).
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


class CaughtUp(NamedTuple):
    """The outcome of moves that earlier commands left unfinished.

    Attributes:
        finished: moves whose outcome had not been recorded, with the outcome.
        unsent: errors, one for each move made on this machine that could not be sent to the bucket.
    """

    finished: tuple[FinishedMove, ...]
    unsent: tuple[LakeError, ...]


class BranchMover(Protocol):
    """Moves branches to new commits in the bucket, before they move on this machine.

    The implementation is `lakecli.repository.sharing.automatic.SharedMover`, made when a command or
    the library opens the repository.

    Attributes:
        resumed: moves of earlier commands that `catch_up` sent or gave up. Each move has the error
            if the bucket refused it, or ``None`` if the bucket accepted it. The caller that reports
            the moves clears the list.
    """

    resumed: "list[tuple[UnsentMove, LakeError | None]]"

    @property
    def command_id(self) -> bytes:
        """Random bytes that identify, in the bucket, the command that moved a ref."""

    def catch_up(self, repository: Repository) -> CaughtUp:
        """Finish moves of earlier commands, fetch, and let local refs follow the bucket.

        Moves that earlier commands made on this machine, but could not send to the bucket, are sent
        now. If a move cannot be sent, its error is in the result, and the next moves are still
        tried.

        Raises:
            Unreachable: the store does not answer; nothing has changed on this machine.
            PermissionDenied: reading or listing is not allowed; nothing has changed on this
                machine.
        """

    def move(
        self, repository: Repository, branch: Branch, commit: Commit, landing: "LocalMove"
    ) -> bool:
        """Move a branch to a commit, and return whether it moved.

        If the branch did not move, another process or machine moved it first, and the commit has to
        be built again. In this case the local branch already follows the bucket, as far as
        possible.

        Args:
            branch: the branch as it was when the commit was built from it.
            commit: the new head, which is not in the local store yet.
            landing: the changes that the move makes on this machine, besides the new head.

        Raises:
            NotFound: the branch was deleted meanwhile.
            CommitUnderWay: another process is sending a commit of the branch to the bucket.
            LostRace: the branch has commits that were never pushed, so it cannot follow the bucket.
            OutcomeUnknown: the bucket's reply was lost; the next command finds out whether the
                branch moved.
            Unreachable: the bucket cannot be reached; nothing moved.
        """

    def finish(self, repository: Repository) -> None:
        """Send noted local moves to the bucket; called when the command has succeeded.

        Raises:
            LostRace, AlreadyExists: a move would undo moves of others, and was not sent.
            OutcomeUnknown: the bucket's reply was lost; the next command finds out whether the ref
                moved.
            Unreachable, PermissionDenied, …: a move was not sent; the next command tries again.
        """


class Notice(NamedTuple):
    """A message of a verb, for its caller to show.

    Attributes:
        hint: what the user can do about it, or ``None``.
    """

    message: str
    hint: str | None = None

"""What the verbs and rooms of this package know of a repository and of its lake.

`Repository` and `OwnLake` are protocols, so that nothing below `lakecli.repository.handle.lake`,
which makes them, has to import it. What only reads takes less of a repository: see
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
"""Called with a document about a move; see `lakecli.repository.journal.hooks`."""


class OwnLake(Protocol):
    """The lake of a repository: the local store, and what is not a function of arguments."""

    home: "Home"
    kv: LocalStore
    runtime: "Runtime"

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


class Repository(Readable, Protocol):
    """One repository of a lake: what each verb that changes something takes first."""

    lake: OwnLake
    """The lake that it belongs to."""
    name: str
    """The name on this machine."""
    mover: "BranchMover | None"
    """Moves its branches in the bucket first; ``None``: they move here only."""
    hooks: dict[str, Hook]
    """What is called before and after branches move, by name such as ``pre-commit``."""
    skips_hooks: bool
    """Whether hooks are left out on request, which the operation log records."""
    notices: "list[Notice]"
    """What verbs found out, for the caller to show and to clear."""
    store_in_use: "ObjectStore | None"
    """The storage namespace if it was used already, else ``None``."""
    reads: "Reads | None"
    """How many reads of trees each tier answered; ``None`` if there were none."""

    @property
    def syncs(self) -> bool:
        """Whether it has a mover, so that what moves here goes to the bucket without a push."""

    def notify(self, notice: "Notice") -> None:
        """Add a notice for the caller, unless it is there already."""

    def is_here(self) -> bool:
        """Tell whether this machine still has the repository, under this name."""

    @property
    def addresses(self) -> "AddressResolver":
        """Resolves the physical addresses of entries."""

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
        hint: what to do about it, or ``None``.
    """

    message: str
    hint: str | None = None

"""Writes to branches: those that arrive at the same time are made together.

A write has two steps. `BranchWriter.deposit` brings bytes into the namespace; nothing refers to
them. `BranchWriter.apply` stages changes, each of which is computed from what its path has at this
moment. So a condition is judged in the same transaction in which the change is made, also if other
processes write to the branch. Of all threads that call `apply`, one makes the changes of all that
wait: what they deposited becomes durable together, and one transaction stages their changes.

The operation log has one operation for all requests that one client sends without a pause of
`PAUSE`, as far as nothing else is logged in between.

A large object in a bucket is sent as it arrives, in the parts of a multipart upload. Its digest is
known only at the end, so its key is a random one of the form that lakeFS uses (`own_key`), and its
entry has the BLAKE3 as checksum. Unfinished uploads of such keys are aborted by `gc run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from lakecli.base.layout import data_key
from lakecli.base.uri import check_path
from lakecli.errors import LakeError, Unreachable
from lakecli.repository.contract import Repository
from lakecli.repository.guard import Change as Claimed
from lakecli.repository.guard import claim_values, uploaded_changes
from lakecli.repository.reading.view import View
from lakecli.repository.staged.stager import Parts, Stager, is_to_stage
from lakecli.repository.transfer.ingest import Ingest, Ingested
from lakecli.staging.area import TOMBSTONE
from lakecli.stores.streams import PieceReader

if TYPE_CHECKING:
    from typing import BinaryIO

PAUSE: Final = 10.0
"""Seconds without a request of a client after which its next request is a new operation."""

MOST_CLIENTS: Final = 64
"""The most clients of a branch whose operations are continued."""


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
    """An object in the namespace that nothing refers to yet.

    Attributes:
        address: the physical address for its entry.
        digest: the BLAKE3 of its bytes, 64 hex digits; the checksum of its entry.
        size: the number of its bytes.
        ingest: what wrote it, which must also make it durable.
    """

    address: str
    digest: str
    size: int
    ingest: Ingest | None = None


class Change(NamedTuple):
    """A change of one path.

    Attributes:
        decide: given the encoded entry that the path has (``None``: none), returns the new encoded
            entry, `TOMBSTONE` to delete the object, or ``None`` to change nothing. It may raise a
            `LakeError`; then this change is not made. It may be called several times, and must not
            wait for anything.
        deposited: the objects to which the new entry refers; an entry that refers to other objects
            of the namespace may be returned, too.
    """

    path: bytes
    decide: Callable[[bytes | None], bytes | None]
    deposited: Sequence[Deposited] = ()


Outcome = bytes | LakeError | None
"""The encoded entry that a path has after a change, ``None`` without one, or why it failed."""


class BranchWriter:
    """Writes to one branch. Safe to share between threads.

    Args:
        acting: given the text for the operation log, returns the repository with which to write.
        elapsed: returns seconds that never decrease.
    """

    def __init__(
        self, acting: Callable[[str], Repository], branch: str, *, elapsed: Callable[[], float]
    ) -> None:
        self.branch = branch
        self._acting = acting
        self._elapsed = elapsed

    def deposit(self, source: Iterable[bytes] | bytes, *, size: int | None = None) -> Deposited:
        """Bring the bytes of an object into the namespace; it is durable only after `apply`.

        Args:
            source: the bytes, or an iterable of pieces. If it raises, nothing remains.
            size: the number of bytes, if it is known.

        Raises:
            Unreachable: the namespace cannot be written.
        """
        raise NotImplementedError

    def apply(self, changes: Sequence[Change], *, client: Client, action: str) -> list[Outcome]:
        """Make changes in their order, all in one transaction; return the outcome of each.

        Args:
            action: what the client asked for, such as ``PutObject``.

        Raises:
            LakeError: nothing was changed: the branch does not exist, a rule forbids it, ….
        """
        raise NotImplementedError

"""Conflicts: what is known of them, and how their contents decide them.

The same bytes have an MD5 in an entry that lakeFS wrote, and a BLAKE3 in one of lakecli. The
identities of such entries differ, so a merge of both is a conflict, until somebody reads the bytes.
"""

from __future__ import annotations

from enum import Enum

from lakecli.committed.values import decode_entry
from lakecli.errors import ConflictError, IntegrityError
from lakecli.identity import DIGEST_SIZE, is_md5
from lakecli.typed import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakecli.committed.threeway import Candidate

MAX_CONFLICTS_LISTED: Final = 1_000


class SameContents(Protocol):
    """Tells whether two entries of a path have the same bytes."""

    def __call__(self, path: bytes, left: bytes, right: bytes) -> bool:
        """Return whether the objects of two encoded entries have the same bytes."""


class Settled(Enum):
    """What the contents of a conflict decide."""

    SOURCE = "source"
    """The destination has the contents of the base, so that only the source changed them."""
    DESTINATION = "destination"
    """The source has the contents of the destination, or of the base."""


class MergeConflict(ConflictError):
    """Both sides changed the same paths differently.

    Attributes:
        count: number of paths; ``paths`` lists the first `MAX_CONFLICTS_LISTED` of them.
        unlike_checksums: those of ``paths`` that `may_be_none`.
    """

    def __init__(
        self, paths: Sequence[bytes], count: int, *, unlike: Sequence[bytes] = (), unlikes: int = 0
    ) -> None:
        what = "1 path was" if count == 1 else f"{count:,} paths were"
        message = f"merge conflict: {what} changed differently on both sides"
        hint = "change them on one side, or merge with --strategy source-wins or dest-wins"
        if unlikes:
            those = "it" if count == 1 else f"{unlikes:,} of them"
            message += (
                f"; {those} may be no conflict: entries have one size, but one has an MD5 (from "
                "lakeFS) and the other a BLAKE3"
            )
            hint = "compare the bytes of these: --compare-contents"
        super().__init__(message, hint=hint, paths=paths)
        self.count = count
        self.unlike_checksums = tuple(unlike)


class Conflicts:
    """Collects conflicts, and raises the error that lists the first of them."""

    def __init__(self) -> None:
        self._paths: list[bytes] = []
        self._unlike: list[bytes] = []
        self._count = self._unlikes = 0

    def add(self, path: bytes, *, unlike_checksums: bool) -> None:
        """Add a conflict."""
        self._count += 1
        self._unlikes += unlike_checksums
        if self._count <= MAX_CONFLICTS_LISTED:
            self._paths.append(path)
            if unlike_checksums:
                self._unlike.append(path)

    def check(self) -> None:
        """Raise an error if there are conflicts.

        Raises:
            MergeConflict: there are.
        """
        if self._count:
            raise MergeConflict(
                self._paths, self._count, unlike=self._unlike, unlikes=self._unlikes
            )


def may_be_none(conflict: Candidate) -> bool:
    """Return whether the bytes of two sides of a conflict may be the same; see `settle`."""
    _, base, source, destination = conflict
    return (
        have_unlike_checksums(source, destination)
        or have_unlike_checksums(source, base)
        or have_unlike_checksums(destination, base)
    )


def have_unlike_checksums(left: bytes | None, right: bytes | None) -> bool:
    """Return whether two encoded entries have one size, and checksums that cannot be compared.

    So they have an MD5 and a BLAKE3, and only their bytes say whether they are the same.
    """
    if not left or not right:
        return False
    try:
        one, other = decode_entry(left), decode_entry(right)
    except IntegrityError:
        return False
    return one.size == other.size and (
        (is_md5(one.checksum) and _is_blake3(other.checksum))
        or (_is_blake3(one.checksum) and is_md5(other.checksum))
    )


def _is_blake3(checksum: str) -> bool:
    return len(checksum) == 2 * DIGEST_SIZE


def settle(conflict: Candidate, same: SameContents | None) -> Settled | None:
    """Return what the contents of a conflict decide; ``None``: it stays a conflict.

    Args:
        conflict: the values of its three sides.
        same: compares contents; ``None`` if they are not to be compared.
    """
    if same is None:
        return None
    path, base, source, destination = conflict

    def is_same(left: bytes | None, right: bytes | None) -> bool:
        return left is not None and right is not None and same(path, left, right)

    if is_same(source, destination) or is_same(source, base):
        return Settled.DESTINATION
    return Settled.SOURCE if is_same(destination, base) else None

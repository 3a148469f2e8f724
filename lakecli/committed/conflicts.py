"""Conflicts: what is known of them.

The same bytes have an MD5 in an entry that lakeFS wrote, and a BLAKE3 in one of lakecli. The
identities of such entries differ, so a merge of both is a conflict, which may be none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakecli.committed.threeway import Candidate
from lakecli.committed.values import decode_entry
from lakecli.errors import ConflictError, IntegrityError
from lakecli.identity import DIGEST_SIZE, is_md5

MAX_CONFLICTS_LISTED: Final = 1_000


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
    """Return whether the bytes of two sides of a conflict may be the same."""
    _, base, source, destination = conflict
    return (
        have_unlike_checksums(source, destination)
        or have_unlike_checksums(source, base)
        or have_unlike_checksums(destination, base)
    )


def have_unlike_checksums(left: bytes | None, right: bytes | None) -> bool:
    """Return whether two encoded entries have one size, and checksums that cannot be compared.

    So they have an MD5 and a BLAKE3, and only their bytes could say whether they are the same.
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

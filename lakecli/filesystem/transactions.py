"""fsspec transactions: all changes of one file system instance are staged together at the end."""

from collections.abc import Mapping
from threading import Lock
from typing import Any

from fsspec.transaction import Transaction

from lakecli.filesystem import lakes
from lakecli.filesystem.files import discard_open
from lakecli.filesystem.paths import LakePath, finding
from lakecli.repository.upload import Removal, stage_together
from lakecli.staging.area import TOMBSTONE


class Pending:
    """Changes to stage; for each path, only the last change. Safe to share between threads."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str], dict[bytes, bytes | Removal]] = {}
        self._above: dict[tuple[str, str], dict[bytes, bytes]] = {}
        self._lock = Lock()
        self._is_over = False

    def add(self, place: LakePath, change: bytes | Removal) -> None:
        """Add an encoded entry or a removal; raise `ValueError` if the transaction has ended."""
        with self._lock:
            if self._is_over:
                raise ValueError(f"its transaction has ended: {place.name(place.path)}")
            key = place.repository, place.ref
            branch = self._changes.setdefault(key, {})
            if isinstance(change, Removal) and isinstance(branch.get(place.path), bytes):
                change = Removal(b"")  # `seen` is only in this transaction: remove any entry
            branch[place.path] = change
            value = TOMBSTONE if isinstance(change, Removal) else change
            self._above.setdefault(key, {})[place.path] = value

    def above(self, place: LakePath) -> Mapping[bytes, bytes]:
        """Return the changes of a branch, as a mapping of path to encoded entry or tombstone.

        Changes that are added later appear in the mapping as well.
        """
        return self._above.get((place.repository, place.ref.removesuffix("$")), {})

    def end(self) -> None:
        """End the transaction: `add` raises an error from now on."""
        with self._lock:
            self._is_over = True

    def stage(self, home: str | None) -> None:
        """Stage all changes: one branch after the other, each branch atomically."""
        for (name, branch), changes in self._changes.items():
            with finding(f"{name}/{branch}"), lakes.repository(home, name) as found:
                stage_together(found, branch, changes, kind="file system")


class LakeTransaction(Transaction):  # type: ignore[misc]  # fsspec has no types
    """A transaction, which stages all changes of one instance at its end, or discards them.

    The transaction covers all threads that use the instance. These threads see the changes; other
    instances and processes do not. If the changes concern several branches, one branch is staged
    after the other, each atomically.
    """

    def __init__(self, fs: Any, **options: Any) -> None:
        super().__init__(fs, **options)
        self.pending = Pending()

    def start(self) -> None:
        """Begin the transaction; raise `ValueError` if the instance already has a transaction."""
        if not self.fs.begins(self.pending):
            raise ValueError(
                "a transaction of this file system has begun already, in this thread or another "
                "one (for separate ones use separate instances: skip_instance_cache=True)"
            )
        super().start()

    def complete(self, commit: bool = True) -> None:
        """Stage all changes, or with ``commit=False`` discard them.

        Raises:
            ValueError: a file of the transaction is still open; nothing is staged.
        """
        fs = self.fs
        self.pending.end()
        fs.begins(None)
        left = discard_open(self.pending)
        super().complete(commit=commit and not left)
        if commit:
            check_closed(left, "transaction")
            self.pending.stage(fs.home)


def check_closed(left: list[str], what: str) -> None:
    """Raise an error if files were not closed when a transaction or block ended.

    Args:
        left: the paths of files that were still open, or could not be written.
        what: ``transaction`` or ``block``, for the message.

    Raises:
        ValueError: `left` is not empty.
    """
    if left:
        paths = ", ".join(left[:10])
        raise ValueError(f"file not closed when its {what} ended, or not written: {paths}")

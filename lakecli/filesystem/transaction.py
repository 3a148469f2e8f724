"""Changes that are staged together: those of a transaction, or of one call."""

from __future__ import annotations

from threading import Lock

from fsspec.transaction import Transaction

from lakecli.filesystem.lakes import repository
from lakecli.filesystem.paths import Place, finding
from lakecli.repository.upload import Removal, stage_together


class Pending:
    """Changes to stage, the last one of each path; safe to share between threads."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str], dict[bytes, bytes | Removal]] = {}
        self._lock = Lock()

    def add(self, place: Place, change: bytes | Removal) -> None:
        """Add an encoded entry or a removal."""
        with self._lock:
            branch = self._changes.setdefault((place.repository, place.ref), {})
            branch[place.path] = change

    def stage(self, home: str | None) -> None:
        """Stage all changes: those of one branch atomically, one branch after the other."""
        for (name, branch), changes in self._changes.items():
            with finding(f"{name}/{branch}"), repository(home, name) as found:
                stage_together(found, branch, changes, kind="file system")


class LakeTransaction(Transaction):  # type: ignore[misc]  # fsspec has no types
    """Stages everything that is written, copied and removed at its end, or nothing.

    Until then the changes are invisible, also within the transaction. With several branches, each
    is staged atomically, one after the other.
    """

    pending: Pending

    def start(self) -> None:
        """Begin the transaction."""
        super().start()
        self.pending = Pending()

    def complete(self, commit: bool = True) -> None:
        """Stage all changes, or with ``commit=False`` discard them."""
        fs = self.fs
        super().complete(commit=commit)  # each file adds its entry to the pending changes
        if commit:
            self.pending.stage(fs.home)

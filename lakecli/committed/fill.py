"""Entries of a tree that a thread reads into memory while others are read."""

from __future__ import annotations

from threading import Event, Thread

from lakecli.committed.points import PointReader
from lakecli.model import MetarangeId


class Fill:
    """A thread that reads the entries of a tree into memory, in the order of their paths.

    It ends with the last entry, when the memory for entries is used, or at the first error, which
    disturbs no read: one that needs the same table meets it, too. Close it; any thread may.

    Args:
        points: keeps the entries.
        tree: the tree to read.
        prefix: only ranges that may have a path that begins with it.
    """

    def __init__(self, points: PointReader, tree: MetarangeId, *, prefix: bytes) -> None:
        self._points = points
        self._tree = tree
        self._prefix = prefix
        self._is_whole = False
        self._error: Exception | None = None
        self._stop = Event()
        # A daemon, so that a fill that nobody closes does not delay the end of the process.
        self._thread = Thread(target=self._run, name="lakecli-fill", daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; return whether all entries are in memory.

        Args:
            timeout: seconds to wait at most.

        Raises:
            IntegrityError: a table is missing or damaged.
            Unreachable, PermissionDenied, …: the bucket could not be read.
        """
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return self._is_whole

    def close(self) -> None:
        """End it, within the time that a few blocks or one request take; safe to repeat."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._is_whole = self._points.fill(
                self._tree, prefix=self._prefix, is_stopped=self._stop.is_set
            )
        except Exception as error:  # noqa: BLE001 - `wait` raises it
            self._error = error

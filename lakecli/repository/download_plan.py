"""What a download would do: objects compared with files, and nothing fetched or written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from lakecli.base.model import Entry
from lakecli.base.uri import as_directory
from lakecli.errors import LakeError
from lakecli.repository.core.lake import Repository
from lakecli.repository.core.read import content_digest
from lakecli.repository.core.view import open_view
from lakecli.repository.download import (
    LOOK_AHEAD,
    DownloadOptions,
    TreeDownload,
    find_target,
)
from lakecli.repository.transfer.destination import Destination, State, UnsafeName
from lakecli.repository.transfer.plan import Action, Step

_ACTIONS: Final = {
    State.MISSING: Action.NEW,
    State.SAME: Action.UNCHANGED,
    State.DIFFERENT: Action.CHANGED,
}


def plan_object(repository: Repository, ref: str, path: bytes, *, target: Path) -> Step:
    """Return what `download_object` would find at the file that it writes.

    A file of the size of the object is read and compared.

    Raises:
        NotFound: the ref or the path does not exist.
        UsageError: `target` cannot be a file.
    """
    entry, target = find_target(repository, ref, path, target)
    with Destination(os.fsencode(target.parent)) as destination:
        state = destination.state_of(
            os.fsencode(target.name), size=entry.size, digest=content_digest(entry)
        )
    return Step(_ACTIONS[state], path, entry.size)


def plan_download(
    repository: Repository,
    ref: str,
    prefix: bytes,
    *,
    target: Path,
    options: DownloadOptions = DownloadOptions(),  # noqa: B008 - immutable
    names: Sequence[bytes] | None = None,
) -> Iterator[Step]:
    """Yield what `download_tree` would do, in path order, without fetching or writing.

    A file of the size of its object is read and compared.

    Raises:
        NotFound: the ref does not exist, or there is nothing below the prefix.
        UsageError: `target` cannot be a directory.
    """
    below = as_directory(prefix)
    planned = TreePlan(repository, options)
    with open_view(repository, ref) as view, Destination(os.fsencode(target)) as destination:
        yield from planned.steps(destination, planned.records(view, ref, below, names), len(below))


class TreePlan(TreeDownload):
    """A recursive download that compares and writes nothing."""

    def __init__(self, repository: Repository, options: DownloadOptions) -> None:
        super().__init__(repository, options)
        self._steps: list[Step] = []

    def steps(
        self, destination: Destination, records: Iterator[tuple[bytes, bytes]], below: int
    ) -> Iterator[Step]:
        """Yield what `fetch_all` would do, a batch at a time."""
        while True:
            batch = list(islice(records, LOOK_AHEAD))
            self.fetch_all(destination, iter(batch), below)
            steps, self._steps = self._steps, []  # names without an object are in it, too
            yield from sorted(steps, key=lambda step: step.path)
            if not batch:
                return

    def _leave_out(self, path: bytes) -> None:
        self._steps.append(Step(Action.EXCLUDED, path))

    def _exclude(self, path: bytes, entry: Entry) -> None:
        self._steps.append(Step(Action.EXCLUDED, path, entry.size))

    def _fail(self, path: bytes, error: LakeError) -> None:
        self._steps.append(Step(Action.FAILED, path, error=error.message))

    def _one(self, destination: Destination, path: bytes, name: bytes, entry: Entry) -> None:
        if not name or name.endswith(b"/"):
            return
        try:
            state = self._state(destination, name, entry)
        except UnsafeName as error:
            self._refuse(path, entry, error)
            return
        self._steps.append(Step(_ACTIONS[state], path, entry.size))
        self._options.progress.advance(items=1)

    def _refuse(self, path: bytes, _entry: Entry, error: UnsafeName) -> None:
        """Record an object that cannot be a file at its place."""
        self._fail(path, error)

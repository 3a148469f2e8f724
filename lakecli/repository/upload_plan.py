"""What an upload would do: files are compared with the branch, and nothing is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from lakecli.base.uri import as_directory, check_path
from lakecli.committed.encode import encode_entry
from lakecli.errors import NotFound
from lakecli.repository.core.lake import Repository
from lakecli.repository.core.walk import Found, by_own_names, opener_below, size_of
from lakecli.repository.transfer.plan import Action, Step
from lakecli.repository.transfer.readers import FileChanged, SpecialFile
from lakecli.repository.upload import UploadOptions, check_branch, is_same
from lakecli.repository.upload_tree import (
    LOOK_AHEAD,
    TreeUpload,
    UploadReport,
    check_tree,
    files_of,
)


def plan_file(
    repository: Repository, branch: str, path: bytes, *, source: Path, options: UploadOptions
) -> Iterator[Step]:
    """Yield what `upload_file` would do, as `plan_upload` does.

    Raises:
        NotFound: the file or the branch does not exist.
    """
    check_path(path)
    check_branch(repository, branch)
    if not source.exists():
        raise NotFound(f"no such file: {source}")
    found = Found(os.path.realpath(os.fsencode(source)), path)
    return _TreePlan(repository, branch, b"", options).steps(iter([found]))


def plan_files(
    repository: Repository,
    branch: str,
    prefix: bytes,
    *,
    sources: Sequence[Path],
    options: UploadOptions,
) -> Iterator[Step]:
    """Yield what `upload_files` would do, as `plan_upload` does."""
    check_branch(repository, branch)
    found = by_own_names(sources)
    return _TreePlan(repository, branch, as_directory(prefix), options).steps(iter(found))


def plan_upload(
    repository: Repository,
    branch: str,
    prefix: bytes,
    *,
    source: Path,
    options: UploadOptions,
    names: Sequence[bytes] | None = None,
    found: Iterator[Found] | None = None,
    left_out: list[bytes] | None = None,
) -> Iterator[Step]:
    """Yield what `upload_tree` would do, in path order, from what this machine knows.

    Nothing is written. A file is read and compared if the branch has an object of its size at its
    path. Names that are not data are excluded; with `found`, `left_out` has them.

    Raises:
        NotFound: no such directory or branch.
        Refused: the storage namespace lies below the directory.
    """
    prefix = check_tree(repository, branch, prefix, source, names)
    opener = opener_below(os.fsencode(source), options.links)
    plan = _TreePlan(repository, branch, prefix, options, opener)
    left_out = [] if left_out is None else left_out
    return plan.steps(found or files_of(source, names, options, left_out), left_out)


class _TreePlan(TreeUpload):
    """A recursive upload that compares and writes nothing."""

    def __init__(
        self,
        repository: Repository,
        branch: str,
        prefix: bytes,
        options: UploadOptions,
        opener: Callable[[bytes, int], int] = os.open,
    ) -> None:
        report = UploadReport()
        super().__init__(repository, branch, prefix, options, report, writes=False, opener=opener)
        self._steps: list[tuple[bytes, Step]] = []

    def steps(self, found: Iterator[Found], left_out: list[bytes] | None = None) -> Iterator[Step]:
        """Yield what would be done with the files of a walk, a batch at a time.

        Args:
            found: the files.
            left_out: names beside them that are not data, as far as the walk has come.
        """
        waiting = [] if left_out is None else left_out
        while batch := list(islice(found, LOOK_AHEAD)):
            self._upload.workers.for_each(self._with_present(iter(batch)), self._one)
            self._leave_out([name for name in waiting if name < batch[-1].relative])
            waiting[:] = [name for name in waiting if name > batch[-1].relative]
            steps, self._steps = self._steps, []
            yield from (step for _, step in sorted(steps))
        self._leave_out(waiting)
        yield from (step for _, step in sorted(self._steps))

    def _leave_out(self, names: Iterable[bytes]) -> None:
        self._steps += [(name, Step(Action.EXCLUDED, self._prefix + name)) for name in names]

    def _add(self, action: Action, found: Found, size: int) -> None:
        self._steps.append((found.relative, Step(action, self._prefix + found.relative, size)))

    def _exclude(self, found: Found) -> None:
        self._add(Action.EXCLUDED, found, size_of(found))

    def _fail(self, found: Found, problem: str) -> None:
        self._steps.append((found.relative, Step(Action.FAILED, found.path, error=problem)))

    def _one(self, item: tuple[Found, bytes | None, int]) -> None:
        found, present, size = item
        try:
            is_there = present is not None and self._is_same(found, size, present)
        except OSError as error:
            self._fail(found, (error.strerror or str(error)).lower())
            return
        except (SpecialFile, FileChanged) as error:
            self._fail(found, error.message)
            return
        self._options.progress.advance(items=1)
        if present is None:
            self._add(Action.NEW, found, size)
        else:
            self._add(Action.UNCHANGED if is_there else Action.CHANGED, found, size)

    def _is_same(self, found: Found, size: int, present: bytes) -> bool:
        expected = self._upload.expected(present)
        if expected is None or expected.size != size:
            return False
        looked = self._upload.ingest.look(found.path, expected=expected, opener=self._open)
        if looked.is_kept:
            return True
        entry = self._upload.entry(
            self._prefix + found.relative, looked, at=self._now(), has_mtime=True
        )
        return is_same(present, encode_entry(entry))

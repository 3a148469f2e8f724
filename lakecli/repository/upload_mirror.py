"""Uploading a directory, and removing from the branch what the directory lacks."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Self

from lakecli.base.uri import as_directory
from lakecli.committed.values import decode_entry
from lakecli.errors import Refused
from lakecli.repository.core.lake import Repository
from lakecli.repository.core.listed_less import is_much_less
from lakecli.repository.core.notice import Notice
from lakecli.repository.core.own_files import is_own
from lakecli.repository.core.view import check_branch, open_view
from lakecli.repository.core.walk import Found
from lakecli.repository.transfer.plan import Action, Step
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_plan import plan_upload
from lakecli.repository.upload_tree import UploadReport, files_of, upload_tree

if TYPE_CHECKING:
    _Records = Sequence[tuple[bytes, bytes]]


def upload_mirror(
    repository: Repository,
    branch: str,
    prefix: bytes,
    *,
    source: Path,
    options: UploadOptions,
    max_delete: int | None = None,
    report: UploadReport,
) -> UploadReport:
    """Upload as `upload_tree` does, and stage the deletion of other objects below the prefix.

    All of it is one operation, and the deletions are staged together with the last files. If a file
    fails, nothing is deleted, because its object may be meant to stay. Objects that the selection
    leaves out stay, and so do objects that somebody else changes meanwhile, and markers of
    directories that exist.

    Args:
        repository: to upload to.
        branch: to stage on.
        prefix: of the paths.
        source: the directory.
        options: of the upload.
        max_delete: refuse to delete more objects than this.
        report: filled while the upload runs.

    Raises:
        NotFound: no such directory or branch.
        Refused: too many objects would be deleted, the directory has no file, or it has much less
            than the branch and a second walk differs; nothing is staged.
    """
    with _Listing(source, options, report.left_out) as listing:
        surplus = _surplus(repository, branch, prefix, listing)
        if max_delete is not None and len(surplus) > max_delete:
            raise Refused(
                f"{len(surplus):,} objects would be deleted, more than {max_delete:,}",
                hint="list them: --dry-run",
            )
        return upload_tree(
            repository,
            branch,
            prefix,
            source=source,
            options=options,
            report=report,
            found=iter(listing),
            surplus=lambda: listing.absent(surplus, as_directory(prefix)),
        )


def plan_mirror(
    repository: Repository, branch: str, prefix: bytes, *, source: Path, options: UploadOptions
) -> Iterator[Step]:
    """Yield what `upload_mirror` would do; the deletions come last.

    Raises:
        NotFound: no such directory or branch.
        Refused: as `upload_mirror`, but for the number of objects.
    """
    left_out: list[bytes] = []
    with _Listing(source, options, left_out) as listing:
        failed = False
        for step in plan_upload(
            repository,
            branch,
            prefix,
            source=source,
            options=options,
            found=iter(listing),
            left_out=left_out,
        ):
            failed = failed or step.action is Action.FAILED
            yield step
        if failed:
            return
        for path, value in _surplus(repository, branch, prefix, listing):
            yield Step(Action.DELETED, path, decode_entry(value).size)


class _Listing:
    """The files of a directory, as one walk finds them, for what is sent and what is removed.

    They wait in a temporary file, because there may be millions. Use it as a context manager.

    Args:
        source: the directory.
        options: the options of the upload.
        left_out: gets the names that are not data.
    """

    def __init__(
        self, source: Path, options: UploadOptions, left_out: list[bytes] | None = None
    ) -> None:
        self.source = source
        self._options = options
        self.takes = options.selection.takes
        self._file = TemporaryFile("w+", encoding="ascii")  # noqa: SIM115 - closed by `__exit__`
        for path, relative, problem in files_of(source, None, options, left_out):
            line = json.dumps([os.fsdecode(path), os.fsdecode(relative), problem])
            self._file.write(line + "\n")

    def __enter__(self) -> Self:
        """Return the listing itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Delete the temporary file."""
        self._file.close()

    def __iter__(self) -> Iterator[Found]:
        """Yield the files in byte order of their names; one iteration at a time."""
        self._file.seek(0)
        for line in self._file:
            path, relative, problem = json.loads(line)
            yield Found(os.fsencode(path), os.fsencode(relative), problem)

    def is_same_again(self) -> bool:
        """Walk the directory again, and return whether the same names are found."""
        again = (found.relative for found in files_of(self.source, None, self._options))
        names = (found.relative for found in self)
        return all(name == other for name, other in zip_longest(names, again))

    def absent(self, records: Iterable[tuple[bytes, bytes]], below: bytes) -> _Records:
        """Return the selected records of which the directory has no file.

        A file that the walk has missed, or that was made since, is found here.

        Args:
            records: paths and encoded entries.
            below: the prefix of the paths, which ends in a slash unless it is empty.
        """
        cut = len(below)
        return [(path, value) for path, value in records if self._lacks(path[cut:])]

    def _lacks(self, relative: bytes) -> bool:
        if not relative or is_own(relative) or not self.takes(relative):
            return False
        name = b"/" + relative.removesuffix(b"/")
        if os.path.normpath(b"." + name) != name[1:]:
            return True  # no file has such a name
        try:
            status = os.lstat(os.fsencode(self.source) + b"/" + relative)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return True
        except OSError as error:
            return error.errno == errno.ENAMETOOLONG  # else it may be there
        # A directory is no file of this name, but a marker of it stays.
        return stat.S_ISDIR(status.st_mode) and not relative.endswith(b"/")


def _surplus(repository: Repository, branch: str, prefix: bytes, listing: _Listing) -> _Records:
    """Return the selected objects below a prefix that the directory lacks, with their values."""
    check_branch(repository, branch)
    below = as_directory(prefix)
    names = (found.relative for found in listing)
    before = 0

    def counted(records: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        nonlocal before
        for record in records:
            before += listing.takes(record[0][len(below) :])
            yield record

    with open_view(repository, branch) as view:
        first = next(names, None)
        records = counted(view.scan(prefix=below))
        found = listing.absent(_without(records, len(below), first, names), below)
    if found and first is None:
        raise Refused(
            f"there is no file in {listing.source}, so everything would be deleted",
            hint="if that is meant: lakecli fs rm -r",
        )
    if is_much_less(before - len(found), before):
        _walk_again(repository, listing, f"{len(found):,} of {before:,} objects of the branch")
    return found


def _walk_again(repository: Repository, listing: _Listing, lacking: str) -> None:
    """Walk the directory again, because much of what the branch has was not found.

    Raises:
        Refused: the walks differ.
    """
    if not listing.is_same_again():
        raise Refused(
            f"{listing.source} lacks {lacking}, and a second walk found other files than the first",
            hint="nothing was staged; repeat it when the directory does not change",
        )
    repository.notify(
        Notice(
            f"{listing.source} lacks {lacking}; a second walk found the same",
            hint="if that is not meant, check the directory and undo the upload",
        )
    )


def _without(
    records: Iterator[tuple[bytes, bytes]],
    cut: int,
    name: bytes | None,
    names: Iterator[bytes],
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records whose path, behind `cut`, is not among the names; both are in order."""
    for path, value in records:
        relative = path[cut:]
        while name is not None and name < relative:
            name = next(names, None)
        if name != relative:
            yield path, value

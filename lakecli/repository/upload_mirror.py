"""Uploading a directory, and removing from the branch what the directory lacks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakecli.committed.values import decode_entry
from lakecli.errors import Refused
from lakecli.repository.core.own_files import is_below_own
from lakecli.repository.core.view import check_branch, open_view
from lakecli.repository.transfer.plan import Action, Step
from lakecli.repository.upload_plan import plan_upload
from lakecli.repository.upload_tree import files_of, upload_tree
from lakecli.uri import as_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lakecli.repository.core.lake import Repository
    from lakecli.repository.upload import UploadOptions
    from lakecli.repository.upload_tree import UploadReport

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
        Refused: too many objects would be deleted, or the directory has no file; nothing is
            staged.
    """
    surplus = _surplus(repository, branch, prefix, source=source, options=options)
    if max_delete is not None and len(surplus) > max_delete:
        raise Refused(
            f"{len(surplus):,} objects would be deleted, more than {max_delete:,}",
            hint="list them first, without doing anything",
        )
    return upload_tree(
        repository, branch, prefix, source=source, options=options, report=report, surplus=surplus
    )


def plan_mirror(
    repository: Repository, branch: str, prefix: bytes, *, source: Path, options: UploadOptions
) -> Iterator[Step]:
    """Yield what `upload_mirror` would do; the deletions come last.

    Raises:
        NotFound: no such directory or branch.
        Refused: the directory has no file.
    """
    failed = False
    for step in plan_upload(repository, branch, prefix, source=source, options=options):
        failed = failed or step.action is Action.FAILED
        yield step
    if failed:
        return
    for path, value in _surplus(repository, branch, prefix, source=source, options=options):
        yield Step(Action.DELETED, path, decode_entry(value).size)


def _surplus(
    repository: Repository, branch: str, prefix: bytes, *, source: Path, options: UploadOptions
) -> _Records:
    """Return the selected objects below a prefix that the directory lacks, with their values."""
    check_branch(repository, branch)
    below = as_directory(prefix)
    names = (found.relative for found in files_of(source, None, options))
    with open_view(repository, branch) as view:
        first = next(names, None)
        records = view.scan(prefix=below)
        found = [
            (path, value)
            for path, value in _without(records, len(below), first, names)
            if _is_surplus(path[len(below) :], source, options)
        ]
    if found and first is None:
        raise Refused(
            f"there is no file in {source}, so everything would be deleted",
            hint="if that is meant: lakecli fs rm -r",
        )
    return found


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


def _is_surplus(relative: bytes, source: Path, options: UploadOptions) -> bool:
    if not relative or (relative.endswith(b"/") and (source / os.fsdecode(relative)).is_dir()):
        return False  # the marker of a directory
    if is_below_own(relative):
        return False  # such a file is not uploaded
    return options.selection.takes(relative)

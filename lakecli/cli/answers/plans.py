"""JSON answers of dry runs: what would be done with each path, and then the totals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

from lakecli.cli.answers.history import Commit
from lakecli.cli.answers.objects import Failure
from lakecli.model import CommitId


class TransferPlan(TypedDict):
    """What an upload or download would do with a path; the last object has the totals.

    Attributes:
        action: new, changed, unchanged, excluded, deleted or failed; total of the last object,
            which alone has the fields after error.
        path: path of the object; of a file that cannot be uploaded or would be deleted, the path
            of the file; null with the totals.
        size: size in bytes.
        error: the reason of a failure.
        destination: of a download without -r, absolute path of the file.
        new: number of objects that are not there yet.
        new_size: their bytes.
        changed: number of objects that would replace another one.
        changed_size: their bytes.
        unchanged: number of objects that are there already.
        unchanged_size: their bytes.
        excluded: number of objects left out by --include and --exclude.
        excluded_size: their bytes.
        deleted: with --delete, number of objects that would be deleted.
        deleted_size: their bytes.
        failed: number of objects that would fail.
        failures: the objects that failed.
    """

    action: str
    path: bytes | str | None
    size: NotRequired[int]
    error: NotRequired[str]
    destination: NotRequired[Path]
    new: NotRequired[int]
    new_size: NotRequired[int]
    changed: NotRequired[int]
    changed_size: NotRequired[int]
    unchanged: NotRequired[int]
    unchanged_size: NotRequired[int]
    excluded: NotRequired[int]
    excluded_size: NotRequired[int]
    deleted: NotRequired[int]
    deleted_size: NotRequired[int]
    failed: NotRequired[int]
    failures: NotRequired[Sequence[Failure]]


class RemovalPlan(TypedDict):
    """An object that a removal would delete; the last one has the totals.

    Attributes:
        action: deleted; total of the last one.
        path: path of the object; null with the totals.
        size: size in bytes.
        objects: of the totals, number of objects that would be deleted.
    """

    action: str
    path: bytes | str | None
    size: int
    objects: NotRequired[int]


class ImportPlan(TypedDict):
    """What an import would do with a path; the last object has the totals.

    Attributes:
        action: new, changed, unchanged, deleted or failed; total of the last object, which alone
            has the fields after error.
        path: path of the object; null with the totals.
        size: size in bytes; with the totals, of all objects of the source.
        error: the reason of a failure.
        objects: number of objects of the source.
        added: number of new paths on the branch.
        changed: number of paths with another object.
        removed: number of paths that the source lacks.
        unchanged: number of unchanged paths.
        verified: number of objects of a manifest that were asked for where they are.
        failed: number of objects that failed; if any, nothing is committed.
        failures: the first objects that failed.
        commit: always null.
    """

    action: str
    path: bytes | str | None
    size: NotRequired[int]
    error: NotRequired[str]
    objects: NotRequired[int]
    added: NotRequired[int]
    changed: NotRequired[int]
    removed: NotRequired[int]
    unchanged: NotRequired[int]
    verified: NotRequired[int]
    failed: NotRequired[int]
    failures: NotRequired[Sequence[Failure]]
    commit: NotRequired[Commit | None]


class ExportPlan(TypedDict):
    """What an export would do with a path; the last object has the totals.

    Attributes:
        action: new, changed, unchanged, deleted or failed; total of the last object, which alone
            has the fields after error.
        path: path of the object; null with the totals.
        size: size in bytes.
        error: the reason of a failure.
        commit_id: the commit that was exported.
        since_commit_id: with --since, the commit of the earlier export.
        since_was_exported: whether the destination has a report of the earlier export.
        destination: URI of the destination.
        uncommitted: whether the branch has uncommitted changes.
        new: number of objects that the destination lacked.
        new_size: their bytes.
        changed: number of objects that replaced another one.
        changed_size: their bytes.
        copied_by_store: number of both that the store copied itself.
        unchanged: number of objects that were there already.
        unchanged_size: their bytes.
        deleted: number of objects that the earlier ref had and this one lacks.
        deleted_size: their bytes.
        without_metadata: number of objects whose metadata the destination does not support.
        failed: number of objects that failed.
        failures: the objects that failed, at most 10000.
        status: always null.
        dry_run: always true.
    """

    action: str
    path: bytes | str | None
    size: NotRequired[int]
    error: NotRequired[str]
    commit_id: NotRequired[CommitId]
    since_commit_id: NotRequired[CommitId | None]
    since_was_exported: NotRequired[bool | None]
    destination: NotRequired[str]
    uncommitted: NotRequired[bool]
    new: NotRequired[int]
    new_size: NotRequired[int]
    changed: NotRequired[int]
    changed_size: NotRequired[int]
    copied_by_store: NotRequired[int]
    unchanged: NotRequired[int]
    unchanged_size: NotRequired[int]
    deleted: NotRequired[int]
    deleted_size: NotRequired[int]
    without_metadata: NotRequired[int]
    failed: NotRequired[int]
    failures: NotRequired[Sequence[Failure]]
    status: NotRequired[str | None]
    dry_run: NotRequired[bool]

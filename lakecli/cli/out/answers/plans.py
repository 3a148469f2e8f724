"""JSON answers of dry runs: what would be done with each path, and then the totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NotRequired, TypedDict

from lakecli.cli.out.answers.objects import Export, Failure, Imported


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
    """What an import would do with a path; the last object has the totals, as those of an import.

    Attributes:
        action: new, changed, unchanged, deleted or failed; total of the last object, which alone
            has the fields after error.
        path: path of the object; null with the totals.
        size: size in bytes; with the totals, of all objects of the source.
        error: the reason of a failure.
    """

    action: str
    path: bytes | str | None
    size: NotRequired[int]
    error: NotRequired[str]


class ExportPlan(TypedDict):
    """What an export would do with a path; the last object has the totals, as those of an export.

    Attributes:
        action: new, changed, unchanged, deleted or failed; total of the last object, which alone
            has the fields after error.
        path: path of the object; null with the totals.
        size: size in bytes.
        error: the reason of a failure.
    """

    action: str
    path: bytes | str | None
    size: NotRequired[int]
    error: NotRequired[str]


TOTALS: Final[Mapping[type, type]] = {ImportPlan: Imported, ExportPlan: Export}
"""The answers whose fields the last object of a dry run has, too."""

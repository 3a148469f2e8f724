"""JSON answers about objects, and moving them in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NotRequired, TypedDict

from lakecli.base.model import CommitId
from lakecli.cli.out.answers.history import Commit


class Entry(TypedDict):
    """An object.

    Attributes:
        size: size in bytes.
        checksum: BLAKE3 in 64 hex digits if lakecli uploaded it, else an ETag.
        modified_at: time of the upload.
        metadata: metadata; ::lakefs::client-mtime is the modification time of the file, in unix
            seconds.
        physical_address: URI of its bytes.
    """

    path: bytes | str
    size: int
    checksum: str
    modified_at: datetime
    content_type: str
    metadata: Mapping[str, str]
    physical_address: str


class AskedEntry(TypedDict):
    """An object that was asked for by its path; one that is missing has the path only.

    Attributes:
        missing: whether there is no such object.
        size: size in bytes.
        checksum: BLAKE3 in 64 hex digits if lakecli uploaded it, else an ETag.
        modified_at: time of the upload.
        metadata: metadata; ::lakefs::client-mtime is the modification time of the file, in unix
            seconds.
        physical_address: URI of its bytes.
    """

    path: bytes | str
    missing: bool
    size: NotRequired[int]
    checksum: NotRequired[str]
    modified_at: NotRequired[datetime]
    content_type: NotRequired[str]
    metadata: NotRequired[Mapping[str, str]]
    physical_address: NotRequired[str]


class PresignedEntry(Entry):
    """An object with a presigned URL.

    Attributes:
        size: size in bytes.
        checksum: BLAKE3 in 64 hex digits if lakecli uploaded it, else an ETag.
        modified_at: time of the upload.
        metadata: metadata; ::lakefs::client-mtime is the modification time of the file, in unix
            seconds.
        physical_address: URI of its bytes.
        url: URL that reads the object; keep it secret.
        expires_at: time when the URL expires.
    """

    url: str
    expires_at: datetime


class Listed(TypedDict):
    """An object or a common prefix.

    Attributes:
        type: object, or common_prefix, which has only a path; with --summarize the last one is a
            total, whose path is the prefix.
        size: size in bytes; of a total, of all listed objects.
        objects: of a total, how many objects are listed.
        checksum: BLAKE3 in 64 hex digits if lakecli uploaded it, else an ETag.
        modified_at: time of the upload.
        metadata: metadata; ::lakefs::client-mtime is the modification time of the file, in unix
            seconds.
        physical_address: URI of its bytes.
    """

    type: str
    path: bytes | str
    objects: NotRequired[int]
    size: NotRequired[int]
    checksum: NotRequired[str]
    modified_at: NotRequired[datetime]
    content_type: NotRequired[str]
    metadata: NotRequired[Mapping[str, str]]
    physical_address: NotRequired[str]


class Usage(TypedDict):
    """What the objects below a directory take.

    Attributes:
        prefix: the directory, with its slash; null for the total, which is the last object.
        objects: number of paths.
        size: bytes of all paths.
        physical: bytes that are stored for them, each counted for the first path that has it.
        shared: the part of it that other branches or tags have too; null without --shared.
    """

    prefix: bytes | str | None
    objects: int
    size: int
    physical: int
    shared: int | None


class DownloadedEntry(Entry):
    """An object that was downloaded.

    Attributes:
        size: size in bytes.
        checksum: BLAKE3 in 64 hex digits if lakecli uploaded it, else an ETag.
        modified_at: time of the upload.
        metadata: metadata; ::lakefs::client-mtime is the modification time of the file, in unix
            seconds.
        physical_address: URI of its bytes.
        destination: absolute path of the file.
    """

    destination: Path


class Failure(TypedDict):
    """An object that failed.

    Attributes:
        path: path of the object; for an upload, of the file.
        error: the reason.
    """

    path: bytes | str
    error: str


class Upload(TypedDict):
    """The result of a recursive upload.

    Attributes:
        excluded: number of objects left out by --include and --exclude.
        left_out: paths left out because Git, lakecli or the system itself uses their names.
        failed: number of objects that failed.
        size: bytes of all objects that did not fail.
        failures: the objects that failed.
        uploaded: number of new or changed objects.
        unchanged: number of objects that were there already.
        deleted: with --delete, number of objects that the directory lacks.
    """

    uploaded: int
    unchanged: int
    failed: int
    excluded: int
    left_out: Sequence[bytes | str]
    deleted: int
    size: int
    failures: Sequence[Failure]


class Download(TypedDict):
    """The result of a recursive download.

    Attributes:
        excluded: number of objects left out by --include and --exclude.
        left_out: paths left out because Git, lakecli or the system itself uses their names.
        failed: number of objects that failed.
        size: bytes of all objects that did not fail.
        failures: the objects that failed.
        downloaded: number of objects.
        unchanged: number of objects whose file was there already.
        deleted: with --delete, number of files that the ref lacks.
        destination: absolute path of the directory.
    """

    downloaded: int
    unchanged: int
    deleted: int
    excluded: int
    left_out: Sequence[bytes | str]
    failed: int
    size: int
    destination: Path
    failures: Sequence[Failure]


class Imported(TypedDict):
    """The result of an import.

    Attributes:
        objects: number of objects of the source.
        size: their bytes.
        added: number of new paths on the branch.
        changed: number of paths with another object.
        removed: number of paths that the source lacks.
        unchanged: number of unchanged paths.
        verified: number of objects of a manifest that were asked for where they are.
        left_out: names left out because Git, lakecli or the system itself uses them.
        failed: number of objects that failed; if any, nothing is committed.
        failures: the first objects that failed.
        commit: the new commit; null with --dry-run or if objects failed.
    """

    objects: int
    size: int
    added: int
    changed: int
    removed: int
    unchanged: int
    verified: int
    left_out: Sequence[bytes | str]
    failed: int
    failures: Sequence[Failure]
    commit: Commit | None


class ExportManifest(TypedDict):
    """A manifest that export --to-lakefs-import wrote.

    Attributes:
        commit_id: the commit whose objects it lists.
        destination: path of the file.
        objects: number of objects.
        size: their bytes.
        uncommitted: whether the branch has uncommitted changes, which are not in it.
    """

    commit_id: CommitId
    destination: str
    objects: int
    size: int
    uncommitted: bool


class ExportSymlinks(TypedDict):
    """What export --symlink wrote, or with --dry-run would write.

    Attributes:
        commit_id: the commit whose objects the manifests list.
        destination: normalised URI; the manifests are below it in _symlink_format_manifest/.
        manifests: number of manifests: one, or one for each partition.
        objects: number of objects.
        size: their bytes.
        removed: number of manifests of an earlier export that were deleted.
        uncommitted: whether the branch has uncommitted changes, which are not in them.
        dry_run: whether nothing was written.
    """

    commit_id: CommitId
    destination: str
    manifests: int
    objects: int
    size: int
    removed: int
    uncommitted: bool
    dry_run: bool


class Export(TypedDict):
    """The result of an export.

    Attributes:
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
        left_out: paths left out because Git, lakecli or the system itself uses their names.
        status: path of the report below the destination; null with --dry-run.
        dry_run: whether nothing was done because of --dry-run.
    """

    commit_id: CommitId
    since_commit_id: CommitId | None
    since_was_exported: bool | None
    destination: str
    uncommitted: bool
    new: int
    new_size: int
    changed: int
    changed_size: int
    copied_by_store: int
    unchanged: int
    unchanged_size: int
    deleted: int
    deleted_size: int
    without_metadata: int
    failed: int
    failures: Sequence[Failure]
    left_out: Sequence[bytes | str]
    status: str | None
    dry_run: bool


class Removed(TypedDict):
    """The result of a removal.

    Attributes:
        removed: number of objects.
    """

    removed: int


class Rearranged(TypedDict):
    """The result of a copy or a move.

    Attributes:
        source: URI of the source.
        destination: URI of the destination.
        objects: number of objects copied or moved.
        copied_by_store: number of those between repositories that the store copied itself.
        failed: number of objects that failed.
        failures: the objects that failed.
    """

    source: str
    destination: str
    objects: int
    copied_by_store: int
    failed: int
    failures: Sequence[Failure]

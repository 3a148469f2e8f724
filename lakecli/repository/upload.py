"""Uploading: bytes into the storage namespace, then entries into a branch's staging area."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final

from lakecli.committed.values import encode_entry, identity_of
from lakecli.errors import NotFound, UsageError
from lakecli.kv import file_hashes
from lakecli.layout import data_key
from lakecli.model import CLIENT_MTIME, Entry
from lakecli.repository.content_types import content_type_of
from lakecli.repository.ingest import FileChanged, Ingest, Ingested, SpecialFile
from lakecli.repository.stage import Stager
from lakecli.repository.view import branch_at, open_view
from lakecli.repository.walk import LinkPolicy, walk
from lakecli.uri import check_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from lakecli.kv.file_hashes import FileKey
    from lakecli.repository.lake import Repository
    from lakecli.repository.walk import Found

CHUNK: Final = 16_384
"""Files made durable and staged together."""

CHUNK_BYTES: Final = 4 << 30
"""Or this many bytes, whichever comes first."""


@dataclass(frozen=True, slots=True)
class UploadOptions:
    """What an upload records beside the bytes.

    Attributes:
        content_type: for every object, instead of what its suffix implies.
        metadata: user metadata of every object.
        links: what to do about symbolic links and special files in a directory.
        on_object: told the size of each object that is done.
        on_bytes: told the progress inside large objects.
    """

    content_type: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    links: LinkPolicy = LinkPolicy.FAIL
    on_object: Callable[[int], None] | None = None
    on_bytes: Callable[[int], None] | None = None


@dataclass(slots=True)
class UploadReport:
    """What a recursive upload did; `failures` are (path on disk, why)."""

    uploaded: int = 0
    unchanged: int = 0
    size: int = 0
    failures: list[tuple[bytes, str]] = field(default_factory=list)


class _Upload:
    """One upload command: an ingest, a stager, and the entries between them."""

    def __init__(self, repository: Repository, branch: str, options: UploadOptions) -> None:
        self._repository = repository
        self._branch = branch
        self._options = options
        self._stager = Stager(repository, branch, kind="upload")
        self._new_hashes: list[tuple[FileKey, str]] = []
        self.ingest = Ingest(
            repository.store,
            known=self._known,
            remember=lambda key, digest: self._new_hashes.append((key, digest)),
            follow=options.links is LinkPolicy.FOLLOW,
        )

    def _known(self, key: FileKey) -> str | None:
        with self._repository.lake.kv.read() as txn:
            return file_hashes.find(txn, key)

    def entry(self, path: bytes, ingested: Ingested, *, has_mtime: bool) -> Entry:
        metadata = dict(self._options.metadata)
        if has_mtime:
            metadata.setdefault(CLIENT_MTIME, str(ingested.mtime))
        content_type = self._options.content_type
        return Entry(
            physical_address=data_key(ingested.digest),
            size=ingested.size,
            checksum=ingested.digest,
            modified_at=self._repository.lake.now(),
            content_type=content_type_of(path) if content_type is None else content_type,
            metadata=metadata,
        )

    def record(self, entries: Iterable[tuple[bytes, Entry]]) -> int:
        """Make the bytes durable, then stage the entries that change something; count those."""
        self.ingest.flush()
        encoded = sorted((path, encode_entry(entry)) for path, entry in entries)
        with open_view(self._repository, self._branch) as view:
            changes = [
                (path, value) for path, value in encoded if not _same(view.find(path), value)
            ]
        self._stager.write(changes)
        self._save_hashes()
        return len(changes)

    def _save_hashes(self) -> None:
        if not self._new_hashes:
            return
        lake = self._repository.lake
        with lake.kv.write() as txn:
            now_ns = int(lake.surroundings.clock().timestamp() * 1_000_000_000)
            file_hashes.remember_many(txn, self._new_hashes, now_ns=now_ns)
        self._new_hashes = []


def _same(present: bytes | None, value: bytes) -> bool:
    return present is not None and identity_of(present) == identity_of(value)


def upload_file(
    repository: Repository, branch: str, path: bytes, *, source: Path, options: UploadOptions
) -> Entry:
    """Upload one file and stage it; the same contents, type and metadata again change nothing.

    Raises:
        NotFound: no such file or branch.
        UsageError: it is a directory, or no regular file.
    """
    check_path(path)
    _check_branch(repository, branch)
    upload = _Upload(repository, branch, options)
    name = os.fsencode(source)
    try:
        # A path that somebody typed is followed; only links found inside a directory are not.
        ingested = upload.ingest.file(os.path.realpath(name), on_bytes=options.on_bytes)
    except FileNotFoundError as error:
        raise NotFound(f"no such file: {source}") from error
    except IsADirectoryError as error:
        raise _is_directory(source) from error
    except SpecialFile as error:
        if source.is_dir():
            raise _is_directory(source) from error
        raise UsageError(f"not a regular file: {source}", hint="pipe it in: SRC is -") from error
    entry = upload.entry(path, ingested, has_mtime=True)
    upload.record([(path, entry)])
    return entry


def _is_directory(source: Path) -> UsageError:
    return UsageError(f"{source} is a directory", hint="upload it with -r")


def upload_stream(
    repository: Repository, branch: str, path: bytes, *, source: BinaryIO, options: UploadOptions
) -> Entry:
    """Upload everything a stream gives, such as standard input, and stage it."""
    check_path(path)
    _check_branch(repository, branch)
    upload = _Upload(repository, branch, options)
    ingested = upload.ingest.stream(source, on_bytes=options.on_bytes)
    entry = upload.entry(path, ingested, has_mtime=False)
    upload.record([(path, entry)])
    return entry


def upload_tree(
    repository: Repository, branch: str, prefix: bytes, *, source: Path, options: UploadOptions
) -> UploadReport:
    """Upload every file below a directory; what fails is reported, the rest is done.

    Names below `source` are put behind `prefix`, with a slash between unless it is empty or ends
    in one. Nothing on the branch is deleted.

    Raises:
        NotFound: no such directory or branch.
    """
    if not source.is_dir():
        raise NotFound(f"no such directory: {source}")
    _check_branch(repository, branch)
    if prefix and not prefix.endswith(b"/"):
        prefix += b"/"
    upload = _Upload(repository, branch, options)
    report = UploadReport()
    pending: list[tuple[bytes, Entry]] = []
    pending_bytes = 0
    for found in walk(os.fsencode(source), options.links):
        entry = _upload_found(upload, found, prefix, report, options)
        if entry is None:
            continue
        pending.append(entry)
        pending_bytes += entry[1].size
        if len(pending) >= CHUNK or pending_bytes >= CHUNK_BYTES:
            _record(upload, pending, report)
            pending, pending_bytes = [], 0
    _record(upload, pending, report)
    return report


def _upload_found(
    upload: _Upload, found: Found, prefix: bytes, report: UploadReport, options: UploadOptions
) -> tuple[bytes, Entry] | None:
    if found.problem is not None:
        report.failures.append((found.path, found.problem))
        return None
    path = prefix + found.relative
    try:
        check_path(path)
        ingested = upload.ingest.file(found.path, on_bytes=options.on_bytes)
    except OSError as error:
        report.failures.append((found.path, error.strerror or str(error)))
        return None
    except (SpecialFile, FileChanged, UsageError) as error:
        report.failures.append((found.path, error.message))
        return None
    report.size += ingested.size
    if options.on_object is not None:
        options.on_object(ingested.size)
    return path, upload.entry(path, ingested, has_mtime=True)


def _record(upload: _Upload, pending: list[tuple[bytes, Entry]], report: UploadReport) -> None:
    if not pending:
        return
    changed = upload.record(pending)
    report.uploaded += changed
    report.unchanged += len(pending) - changed


def _check_branch(repository: Repository, branch: str) -> None:
    """Fail before the first byte is read where there is no such branch."""
    with repository.lake.kv.read() as txn:
        branch_at(repository, txn, branch)

"""Uploading: bytes into the storage namespace, then entries into a branch's staging area."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, Final

from lakecli.committed.encode import encode_entry
from lakecli.committed.values import decode_entry, identity_of
from lakecli.errors import IntegrityError, LakeError, NotFound, Refused, Unreachable, UsageError
from lakecli.kv import file_hashes
from lakecli.layout import data_digest, data_key
from lakecli.model import CLIENT_MTIME, Entry
from lakecli.objectstore.capabilities import clear_temporaries
from lakecli.objectstore.uploads import PART_SIZE, uploads_of
from lakecli.objectstore.uri import is_local
from lakecli.progress import NO_PROGRESS, Progress
from lakecli.repository.core.gate import claim_uploaded
from lakecli.repository.core.stager import Stager
from lakecli.repository.core.view import branch_at, open_view
from lakecli.repository.core.walk import LinkPolicy, size_of, walk
from lakecli.repository.transfer.content_types import content_type_of
from lakecli.repository.transfer.ingest import SMALL, Ingest, Ingested, SpecialFile
from lakecli.repository.transfer.leftovers import drop_leftovers
from lakecli.repository.transfer.parallel import (
    Background,
    CheckedProgress,
    FailureBudget,
    Memory,
    Workers,
    part_retries,
)
from lakecli.repository.transfer.readers import FileChanged
from lakecli.repository.transfer.selection import EVERYTHING, Selection
from lakecli.uri import check_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from lakecli.kv.file_hashes import FileKey
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.walk import Found
    from lakecli.repository.transfer.send import Sender

    _Item = tuple[Found, bytes | None, int]
    """What was found, the encoded value that the branch has at its path, and the file's size."""

CHUNK: Final = 16_384
"""Files in a directory made durable and staged together: each time costs a sync of the disk."""

BUCKET_CHUNK: Final = 1_024
"""Likewise in a bucket, where every object is durable at once."""

CHUNK_BYTES: Final = 4 << 30
"""Or this many bytes, whichever comes first."""

LOOK_AHEAD: Final = 1_024
"""Files whose present entries are looked up together."""


@dataclass(frozen=True, slots=True)
class UploadOptions:
    """How to upload, and what to record beside the bytes.

    Attributes:
        selection: which files of a directory are meant.
        content_type: for every object, instead of what its suffix implies.
        metadata: user metadata of every object.
        links: what to do about symbolic links and special files in a directory.
        parallelism: requests to the store, or objects copied, at a time.
        part_size: in bytes, of large objects that are sent to a bucket; huge ones have larger
            parts, as the store limits their number. Smaller objects are sent whole.
        progress: expects the objects of a directory as they are found, and counts objects and
            bytes, whether they are sent or are in the namespace already.
    """

    selection: Selection = EVERYTHING
    content_type: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    links: LinkPolicy = LinkPolicy.FAIL
    parallelism: int = 1
    part_size: int = PART_SIZE
    progress: Progress = NO_PROGRESS


@dataclass(slots=True)
class UploadReport:
    """What a recursive upload did.

    Attributes:
        uploaded: objects staged because they are new or changed.
        unchanged: objects that were there already, with the same contents, type and metadata.
        size: bytes of all these.
        excluded: files that patterns left out.
        failures: (path on disk, why), in path order.
    """

    uploaded: int = 0
    unchanged: int = 0
    size: int = 0
    excluded: int = 0
    failures: list[tuple[bytes, str]] = field(default_factory=list)


class Upload:
    """One upload: an ingest, a stager, and the entries between them.

    Several threads may bring files in; one at a time stages.

    Args:
        repository: where to.
        branch: likewise.
        options: how.
    """

    def __init__(
        self,
        repository: Repository,
        branch: str,
        options: UploadOptions,
        *,
        writes: bool = True,
    ) -> None:
        self._repository = repository
        self._branch = branch
        self._options = options
        if writes:
            clear_temporaries(repository.store)
        # What cannot be recorded is found out before the first byte is read.
        encode_entry(
            self.entry(b"", Ingested("0" * 64, 0, 0), at=repository.lake.now(), has_mtime=True)
        )
        self._stager = Stager(repository, branch, kind="upload")
        self._new_hashes: list[tuple[FileKey, str, int]] = []
        self.workers = Workers(options.parallelism)
        self._progress = CheckedProgress(options.progress, self.workers)
        self._memory = Memory()
        self.ingest = Ingest(
            repository.store,
            known=self._known,
            remember=lambda *hashed: self._new_hashes.append(hashed),
            clock_ns=lambda: int(repository.lake.runtime.clock().timestamp() * 10**9),
            follow=options.links is LinkPolicy.FOLLOW,
            sender=self._sender(),
            memory=self._memory,
            progress=self._progress,
            guard=repository.guard if writes else None,
        )

    def _sender(self) -> Sender | None:
        """Return what sends large files in parts, where the namespace takes these."""
        uploads = uploads_of(self._repository.store)
        if uploads is None:
            return None
        from lakecli.repository.transfer.send import Sender, Transfers

        return Sender(
            self._repository.store,
            uploads,
            known=Transfers(self._repository),
            workers=self.workers,
            retries=part_retries(self.workers, self._repository.lake.random_number),
            memory=self._memory,
            part_size=self._options.part_size,
            progress=self._progress,
        )

    def _known(self, key: FileKey) -> str | None:
        with self._repository.lake.kv.read() as txn:
            return file_hashes.find(txn, key)

    def present(self, paths: Iterable[bytes]) -> list[bytes | None]:
        """Return the encoded values that the branch has at some paths now."""
        with open_view(self._repository, self._branch) as view:
            return [view.find(path) for path in paths]

    def entry(self, path: bytes, ingested: Ingested, *, at: datetime, has_mtime: bool) -> Entry:
        """Return the entry of what was brought in; without `has_mtime` it has no own time."""
        metadata = dict(self._options.metadata)
        if has_mtime:
            metadata.setdefault(CLIENT_MTIME, str(ingested.mtime))
        content_type = self._options.content_type
        return Entry(
            physical_address=data_key(ingested.digest),
            size=ingested.size,
            checksum=ingested.digest,
            modified_at=at,
            content_type=content_type_of(path) if content_type is None else content_type,
            metadata=metadata,
        )

    def stage(self, changes: list[tuple[bytes, bytes]], ingested: Iterable[Ingested]) -> None:
        """Stage encoded entries by path.

        Args:
            changes: the entries.
            ingested: what was brought in, and is durable by now; also for entries that are the
                same as before: whoever uploads an object again still wants it.
        """
        self._stager.write(claim_uploaded(self.ingest, changes, ingested))
        self._save_hashes()

    def record_one(self, path: bytes, entry: Entry, ingested: Ingested) -> None:
        """Stage one entry, if it changes anything."""
        value = encode_entry(entry)
        (present,) = self.present([path])
        self.ingest.flush()
        self.stage([] if is_same(present, value) else [(path, value)], [ingested])

    def _save_hashes(self) -> None:
        hashes, self._new_hashes = self._new_hashes, []
        if not hashes:
            return
        with self._repository.lake.kv.write() as txn:
            file_hashes.remember_many(txn, hashes)


def is_same(present: bytes | None, value: bytes) -> bool:
    """Tell whether an encoded entry changes nothing about what a branch has."""
    return present is not None and identity_of(present) == identity_of(value)


def expected_of(present: bytes | None) -> tuple[str, int] | None:
    """Return digest and size of the content-addressed object that a branch has at a path."""
    if present is None:
        return None
    try:
        entry = decode_entry(present)
    except IntegrityError:
        return None  # it is about to be replaced
    digest = data_digest(entry.physical_address)
    return None if digest is None else (digest, entry.size)


def upload_file(
    repository: Repository, branch: str, path: bytes, *, source: Path, options: UploadOptions
) -> Entry:
    """Upload one file and stage it; the same contents, type and metadata again change nothing.

    Raises:
        NotFound: no such file or branch.
        UsageError: it is a directory, or no regular file.
        FileChanged: it was written to meanwhile; nothing was staged.
    """
    check_path(path)
    _check_branch(repository, branch)
    upload = Upload(repository, branch, options)
    name = os.fsencode(source)
    try:
        # A path that somebody typed is followed; only links found inside a directory are not.
        ingested = upload.ingest.file(os.path.realpath(name))
    except FileNotFoundError as error:
        raise NotFound(f"no such file: {source}") from error
    except IsADirectoryError as error:
        raise _is_directory(source) from error
    except SpecialFile as error:
        if source.is_dir():
            raise _is_directory(source) from error
        raise UsageError(f"not a regular file: {source}", hint="pipe it in: SRC is -") from error
    entry = upload.entry(path, ingested, at=repository.lake.now(), has_mtime=True)
    upload.record_one(path, entry, ingested)
    drop_leftovers(repository)
    return entry


def _is_directory(source: Path) -> UsageError:
    return UsageError(f"{source} is a directory", hint="upload it with -r")


def upload_stream(
    repository: Repository, branch: str, path: bytes, *, source: BinaryIO, options: UploadOptions
) -> Entry:
    """Upload everything a stream gives, such as standard input, and stage it."""
    check_path(path)
    _check_branch(repository, branch)
    upload = Upload(repository, branch, options)
    ingested = upload.ingest.stream(source)
    entry = upload.entry(path, ingested, at=repository.lake.now(), has_mtime=False)
    upload.record_one(path, entry, ingested)
    return entry


def upload_tree(
    repository: Repository,
    branch: str,
    prefix: bytes,
    *,
    source: Path,
    options: UploadOptions,
    report: UploadReport | None = None,
) -> UploadReport:
    """Upload every file below a directory; what fails is reported, the rest is done.

    Names below `source` are put behind `prefix`, with a slash between unless it is empty or ends
    in one. Nothing on the branch is deleted.

    Args:
        repository: where to.
        branch: likewise.
        prefix: of the paths.
        source: the directory.
        options: how.
        report: filled while the upload runs, for those who want to know how far it came.

    Raises:
        NotFound: no such directory or branch.
        Refused: the storage namespace lies below the directory.
    """
    prefix = check_tree(repository, branch, prefix, source)
    upload = TreeUpload(repository, branch, prefix, options, report or UploadReport())
    report = upload.run(walk(os.fsencode(source), options.links))
    drop_leftovers(repository)
    return report


class TreeUpload:
    """A recursive upload: files come in by several threads and are staged in chunks."""

    def __init__(
        self,
        repository: Repository,
        branch: str,
        prefix: bytes,
        options: UploadOptions,
        report: UploadReport,
        *,
        writes: bool = True,
    ) -> None:
        self._upload = Upload(repository, branch, options, writes=writes)
        self._now = repository.lake.now
        self._prefix = prefix
        self._options = options
        self._is_local = is_local(repository.store.uri)
        self._chunk = CHUNK if self._is_local else BUCKET_CHUNK
        self._report = report
        self._patience = FailureBudget()
        self._lock = Lock()
        self._staging = Lock()
        self._pending: list[tuple[bytes, Ingested, bytes | None]] = []
        self._pending_bytes = 0

    def run(self, found: Iterator[Found]) -> UploadReport:
        """Upload what was found."""
        try:
            self._move(self._with_present(found))
        except BaseException:
            # What is in the namespace is staged even if the rest cannot be: the same command
            # again finds it there.
            with suppress(LakeError):
                self._stage_pending()
            raise
        self._stage_pending()
        self._report.failures.sort()
        return self._report

    def _move(self, items: Iterator[_Item]) -> None:
        for_each = self._upload.workers.for_each
        if not self._is_local:
            for_each(items, self._one)
            return
        # On one machine, threads with small files wait for the interpreter and for the directory
        # that all of them create files in: one is as fast as several.
        while batch := list(islice(items, LOOK_AHEAD)):
            large = []
            for item in batch:
                if item[2] > SMALL:
                    large.append(item)
                else:
                    self._one(item)
            for_each(large, self._one)

    def _with_present(self, found: Iterator[Found]) -> Iterator[_Item]:
        """Yield what was found with what the branch has at its path, and keep the problems."""
        while batch := list(islice(found, LOOK_AHEAD)):
            files = []
            for each in batch:
                if not self._options.selection.takes(each.relative):
                    self._exclude(each)
                    continue
                problem = each.problem or self._problem_of(each)
                if problem is None:
                    files.append(each)
                else:
                    self._fail(each, problem)
            sizes = list(map(size_of, files))
            self._options.progress.expect(items=len(files), size=sum(sizes))
            paths = [self._prefix + each.relative for each in files]
            yield from zip(files, self._upload.present(paths), sizes, strict=True)

    def _problem_of(self, found: Found) -> str | None:
        try:
            check_path(self._prefix + found.relative)
        except UsageError as error:
            return error.message
        return None

    def _exclude(self, _found: Found) -> None:
        self._report.excluded += 1

    def _fail(self, found: Found, problem: str) -> None:
        self._report.failures.append((found.path, problem))

    def _one(self, item: _Item) -> None:
        found, present, _ = item
        try:
            ingested = self._upload.ingest.file(found.path, expected=expected_of(present))
        except OSError as error:
            self._fail(found, (error.strerror or str(error)).lower())
            return
        except (SpecialFile, FileChanged, IntegrityError, Unreachable) as error:
            self._fail(found, error.message)
            self._patience.failed(error)
            return
        self._patience.succeeded()
        self._options.progress.advance(items=1)
        with self._lock:
            self._pending.append((self._prefix + found.relative, ingested, present))
            self._pending_bytes += ingested.size
            is_full = len(self._pending) >= self._chunk or self._pending_bytes >= CHUNK_BYTES
        if is_full:
            self._stage_pending()

    def _stage_pending(self) -> None:
        with self._staging:
            with self._lock:
                pending, self._pending = self._pending, []
                self._pending_bytes = 0
            if not pending:
                return
            flushing = Background(self._upload.ingest.flush)
            try:
                changes = self._changes(pending)
            finally:
                flushing.wait()
            self._upload.stage(changes, [ingested for _, ingested, _ in pending])
            self._report.uploaded += len(changes)
            self._report.unchanged += len(pending) - len(changes)
            self._report.size += sum(ingested.size for _, ingested, _ in pending)

    def _changes(
        self, pending: list[tuple[bytes, Ingested, bytes | None]]
    ) -> list[tuple[bytes, bytes]]:
        """Return what differs from what the branch has, as encoded entries by path."""
        entry = partial(self._upload.entry, at=self._now(), has_mtime=True)
        encoded = (
            (path, encode_entry(entry(path, ingested)), present)
            for path, ingested, present in pending
        )
        return [(path, value) for path, value, present in encoded if not is_same(present, value)]


def check_tree(repository: Repository, branch: str, prefix: bytes, source: Path) -> bytes:
    """Fail before the first byte is read; return the prefix as that of a directory."""
    if not source.is_dir():
        raise NotFound(f"no such directory: {source}")
    _check_branch(repository, branch)
    _check_outside(repository, source)
    return prefix + b"/" if prefix and not prefix.endswith(b"/") else prefix


def _check_branch(repository: Repository, branch: str) -> None:
    """Fail before the first byte is read where there is no such branch."""
    with repository.lake.kv.read() as txn:
        branch_at(repository, txn, branch)


def _check_outside(repository: Repository, source: Path) -> None:
    """Refuse to upload a namespace into itself."""
    from lakecli.objectstore.uri import parse

    namespace = parse(repository.record.storage_namespace)
    if namespace.bucket:
        return
    root, place = os.path.realpath(source), os.path.realpath(namespace.path)
    if os.path.commonpath([root, place]) == root:
        raise Refused(
            f"the storage namespace {namespace} lies in {source}, which would be uploaded into it",
            hint="upload another directory",
        )

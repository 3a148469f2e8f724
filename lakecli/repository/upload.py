"""Upload a file or a stream: write its bytes into the namespace, then stage its entry.

`deposit` only writes an object, for callers that stage many objects together later, or not at all.
The object is stored under the digest of its contents, and no entry refers to it until
`stage_together` is called. Otherwise garbage collection deletes the object after the grace period.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from lakecli.base.content_types import content_type_of
from lakecli.base.directories import StrPath
from lakecli.base.identity import is_md5
from lakecli.base.layout import data_digest, data_key
from lakecli.base.model import CLIENT_METADATA_PREFIX, CLIENT_MTIME, Entry
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.base.uri import check_path
from lakecli.committed.values import Columns, decode_entry, encode_entry, encode_external, is_same
from lakecli.errors import IntegrityError, NotFound, UsageError
from lakecli.kv.local_store import Record
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_values, uploaded_changes
from lakecli.repository.reading.addresses import find_object, is_external
from lakecli.repository.reading.recorded import md5_of
from lakecli.repository.reading.view import View
from lakecli.repository.staged.stager import Parts, Stager, is_to_stage, values_on
from lakecli.repository.transfer.ignore_patterns import EVERYTHING, Selection
from lakecli.repository.transfer.ingest import ExpectedObject, Ingest, Ingested
from lakecli.repository.transfer.walk import FileOpener, LinkPolicy, OpenFile
from lakecli.staging.area import TOMBSTONE
from lakecli.stores.capabilities import clear_temporaries, uploads_of

if TYPE_CHECKING:
    from pathlib import Path


class UploadOptions(NamedTuple):
    """How to upload, and what to record with the objects.

    Attributes:
        selection: selects the files in a directory that are uploaded.
        content_type: the content type of every object; ``None``: the type that the suffix of its
            path implies.
        metadata: user metadata of every object. If neither metadata nor a content type is given, an
            object that lakeFS uploaded to the same path, with the same contents as the file, keeps
            its content type and metadata.
        links: how to treat symbolic links and special files in a directory.
        parallelism: number of concurrent requests or copies.
        progress: receives the number and size of the objects of a directory as they are found;
            counts the objects and bytes that are done, including those that were in the namespace
            before.
    """

    selection: Selection = EVERYTHING
    content_type: str | None = None
    metadata: Mapping[str, str] = MappingProxyType({})
    links: LinkPolicy = LinkPolicy.FAIL
    parallelism: int = 1
    progress: Progress = NO_PROGRESS

    def entry(self, path: bytes, ingested: Ingested, *, at: datetime, has_mtime: bool) -> Entry:
        """Return the entry of an object; with `has_mtime`, it records the file's mtime."""
        metadata = dict(self.metadata)
        if has_mtime:
            metadata.setdefault(CLIENT_MTIME, str(ingested.mtime))
        return Entry(
            physical_address=data_key(ingested.digest),
            size=ingested.size,
            checksum=ingested.digest,
            modified_at=at,
            content_type=self.type_of(path),
            metadata=metadata,
        )

    def type_of(self, path: bytes) -> str:
        """Return the content type of an object."""
        return content_type_of(path) if self.content_type is None else self.content_type

    def check(self, at: datetime) -> None:
        """Raise an error if an entry cannot record the options; call this before reading files."""
        if self.metadata or self.content_type is not None:
            encode_entry(self.entry(b"", Ingested("0" * 64, 0), at=at, has_mtime=True))

    def keeps(self, entry: Entry) -> bool:
        """Return whether an entry has the content type and metadata that these options set."""
        if self.content_type not in {None, entry.content_type}:
            return False
        return not self.metadata or _own(self.metadata) == _own(entry.metadata)


def upload_file(
    repository: Repository, branch: str, path: bytes, *, source: StrPath, options: UploadOptions
) -> Entry:
    """Upload one file and stage its entry, unless the branch has the same entry; return it.

    Raises:
        NotFound: the file or the branch does not exist.
        UsageError: `source` is a directory or a special file.
        FileChanged: the file was written to meanwhile; nothing was staged.
    """
    upload, present = _begin(repository, branch, path, options)
    # A link that the user names is followed; one inside a directory is not.
    name = os.path.realpath(os.fsencode(source))
    try:
        status = os.stat(name)
    except FileNotFoundError as error:
        raise NotFound(f"no such file: {source}") from error
    if stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{source} is a directory", hint="upload it with -r")
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"not a regular file: {source}", hint="pipe it in: SRC is -")
    options.progress.expect(items=1, size=status.st_size)
    with FileOpener(None, options.links).open(name) as file:
        brought = upload.file(file, path, present)
    entry = upload.stage_one(brought, has_mtime=True)
    upload.finish()
    return entry


def upload_stream(
    repository: Repository, branch: str, path: bytes, *, source: BinaryIO, options: UploadOptions
) -> Entry:
    """Upload a stream, such as standard input, and stage its entry."""
    upload, present = _begin(repository, branch, path, options)
    options.progress.expect(items=1)
    return upload.stage_one(upload.stream(source, path, present), has_mtime=False)


def deposit(
    repository: Repository,
    branch: str,
    path: bytes,
    *,
    source: "BinaryIO | Path",
    options: UploadOptions,
) -> bytes:
    """Write an object into the namespace, durably; return the encoded entry for its path.

    If lakeFS has uploaded an object with the same contents at the path, the present entry is
    returned.

    Args:
        branch: the branch on which the entry will be staged; it must exist.
        path: the path at which the entry will be staged; its suffix implies the content type.
        source: a stream, read to its end, or a file, which must not change meanwhile.
        options: content type and metadata, and how many parts are sent at a time.

    Raises:
        NotFound: no such branch.
        UsageError: an illegal path.
        FileChanged: the file changed while it was read.
    """
    upload, present = _begin(repository, branch, path, options)
    if isinstance(source, os.PathLike):
        with FileOpener(None, options.links).open(os.fsencode(source)) as file:
            brought = upload.file(file, path, present)
    else:
        brought = upload.stream(source, path, present)
    upload.ingest.flush()
    return brought.value(options, at=repository.lake.runtime.now(), has_mtime=False)


def _begin(
    repository: Repository, branch: str, path: bytes, options: UploadOptions
) -> "tuple[Uploader, bytes | None]":
    """Begin the upload of one object; return the upload and the encoded entry at the path."""
    check_path(path)
    (present,) = values_on(repository, branch, [path])
    return Uploader(repository, branch, options), present


class BroughtIn(NamedTuple):
    """An object that is in the namespace now, and the path at which it is to be staged.

    Attributes:
        present: the encoded entry that the branch had at the path when the upload began.
    """

    path: bytes
    ingested: Ingested
    present: bytes | None

    def value(self, options: UploadOptions, *, at: datetime, has_mtime: bool) -> bytes:
        """Return the encoded entry of the object, or the present entry if its object is kept."""
        if self.present is not None and self.ingested.is_kept:
            return self.present
        return encode_entry(options.entry(self.path, self.ingested, at=at, has_mtime=has_mtime))


def values_of(brought: Sequence[BroughtIn], options: UploadOptions, *, at: datetime) -> list[bytes]:
    """Return `BroughtIn.value` of many files; if possible, all are encoded together."""
    if options.metadata or any(each.ingested.is_kept for each in brought):
        return [each.value(options, at=at, has_mtime=True) for each in brought]
    digests = [each.ingested.digest for each in brought]
    return encode_external(
        Columns(
            [data_key(digest).encode() for digest in digests],
            [each.ingested.size for each in brought],
            list(map(str.encode, digests)),
            [int(at.timestamp())] * len(brought),
            [options.type_of(each.path).encode() for each in brought],
            [b"%d" % each.ingested.mtime for each in brought],
        )
    )


class Uploader:
    """One upload: writes objects into the namespace, and stages their entries.

    Several threads may write objects at a time; only one thread at a time may stage.
    """

    def __init__(self, repository: Repository, branch: str, options: UploadOptions) -> None:
        self._repository = repository
        self._branch = branch
        self.options = options
        clear_temporaries(repository.store)
        options.check(repository.lake.runtime.now())
        self._stager = Stager(repository, branch)
        self.ingest = Ingest(
            repository.store,
            repository.guard,
            repository=repository,
            progress=options.progress,
            parallelism=options.parallelism,
        )

    def file(self, file: OpenFile, path: bytes, present: bytes | None) -> BroughtIn:
        """Write a file into the namespace, unless the branch has these contents at the path."""
        size = file.status.st_size
        expected = expected_object(self._repository, present, size, self.options)
        return BroughtIn(path, self.ingest.file(file, expected=expected), present)

    def stream(self, source: BinaryIO, path: bytes, present: bytes | None) -> BroughtIn:
        """Write a stream into the namespace, unless the branch has these contents at the path."""
        expected = expected_object(self._repository, present, None, self.options)
        return BroughtIn(path, self.ingest.stream(source, expected=expected), present)

    def flush(self, brought: Sequence[BroughtIn]) -> None:
        """Make new objects durable; claim them and the existing objects that the branch keeps."""
        self.ingest.flush([each.ingested for each in brought])
        kept = [(path, present) for path, done, present in brought if present and done.is_kept]
        claim_values(self._repository, kept)

    def stage_one(self, brought: BroughtIn, *, has_mtime: bool) -> Entry:
        """Stage the entry of one object, if it changes anything; return the entry of the path."""
        at = self._repository.lake.runtime.now()
        value = brought.value(self.options, at=at, has_mtime=has_mtime)
        is_new = is_to_stage(self._branch, brought.present, value)
        changes = [(brought.path, value)] if is_new else []
        self.flush([brought])
        self.stage(changes)
        self.options.progress.advance(items=1)
        return decode_entry(value)

    def stage(self, changes: list[Record], surplus: Sequence[Record] = ()) -> int:
        """Stage encoded entries by path; `flush` must have been called for their objects.

        Args:
            changes: paths and entries that differ from those on the branch.
            surplus: paths and encoded entries to delete in the same transaction, unless somebody
                has changed them: a commit contains all changes and deletions, or none.

        Returns:
            The number of entries that were deleted.
        """
        claimed = uploaded_changes(changes)
        if not surplus:
            self._stager.write(claimed, kind="upload")
            return 0

        def plan(view: View) -> tuple[Parts, int]:
            left = [path for path, value in surplus if is_same(view.find(path), value)]
            changes = sorted([*claimed, *((path, TOMBSTONE) for path in left)])
            return [(self._branch, changes)], len(left)

        paths = [path for path, _ in surplus]
        return self._stager.write_planned(self._branch, paths, plan, kind="upload")

    def finish(self) -> None:
        """Abort abandoned multipart uploads, at most once a day; called after staging."""
        if (uploads := uploads_of(self._repository.store)) is not None:
            from lakecli.repository.transfer.multipart_upload import drop_leftovers

            drop_leftovers(self._repository, uploads)


def expected_object(
    repository: Repository, present: bytes | None, size: int | None, options: UploadOptions
) -> ExpectedObject | None:
    """Return the object that a path has now if its contents may equal the bytes to upload.

    Args:
        present: the encoded entry that the path has now; ``None``: the branch has none.
        size: the number of bytes to upload; ``None``: unknown.
        options: the options of the upload, which may set another content type or metadata.
    """
    if present is None:
        return None
    try:
        entry = decode_entry(present)
    except IntegrityError:
        return None  # it will be replaced
    digest = data_digest(entry.physical_address)
    if digest is not None:
        return ExpectedObject(digest, entry.size)
    if size not in {None, entry.size} or not is_md5(entry.checksum) or not options.keeps(entry):
        return None
    found = find_object(repository, entry)
    if found is None or found.size != entry.size:
        return None
    # An object outside the namespace may have been replaced; an equal MD5 shows that it was not.
    is_same_object = not is_external(entry) or md5_of(found) == entry.checksum
    return ExpectedObject(entry.checksum, entry.size) if is_same_object else None


def _own(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata that users set."""
    return {
        key: text for key, text in metadata.items() if not key.startswith(CLIENT_METADATA_PREFIX)
    }


class Removal(NamedTuple):
    """The removal of the entry that the caller saw at a path; another entry at the path is kept.

    Attributes:
        seen: the encoded entry to remove; ``b""``: any entry.
    """

    seen: bytes


def stage_together(
    repository: Repository, branch: str, changes: Mapping[bytes, bytes | Removal], *, kind: str
) -> int:
    """Stage encoded entries and removals by path, all or none; return how many paths changed.

    Entries that the branch has already are not staged again. The objects of all other entries are
    claimed, because they may have been written long before, or belong to other paths of the
    repository.

    Raises:
        NotFound: no such branch; nothing is staged.
        Gone: the object of an entry is no longer in the bucket; nothing is staged.
        LostRace: other processes kept changing paths to be removed; nothing is staged.
    """
    encoded = {
        path: change.seen if isinstance(change, Removal) else change
        for path, change in sorted(changes.items())
    }
    removals = [path for path in encoded if isinstance(changes[path], Removal)]

    def plan(view: View) -> tuple[Parts, int]:
        changed: list[tuple[bytes, bytes]] = []
        for path, value in encoded.items():
            present = view.find(path)
            if not isinstance(changes[path], Removal):
                if is_to_stage(branch, present, value):
                    changed.append((path, value))
            elif present is not None and (not value or is_same(present, value)):
                changed.append((path, TOMBSTONE))
        return [(branch, claim_values(repository, changed))], len(changed)

    return Stager(repository, branch).write_planned(branch, removals, plan, kind=kind)

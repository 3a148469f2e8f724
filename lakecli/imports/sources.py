"""The sources that ``--from`` names: a directory, a bucket prefix, a manifest, an S3 Inventory.

For a directory of this machine, the driver lists the files, and the tasks of the parts hash them.
"""

import os
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from lakecli.base.model import Account
from lakecli.base.pipes import is_pipe
from lakecli.engine.runner import Runner, account_of, open_by_uri
from lakecli.errors import LakeError, NotFound, Unsupported, UsageError
from lakecli.imports.address_checks import check_outside
from lakecli.imports.bucket import BucketSource
from lakecli.imports.inventory import SUFFIX, read_inventory
from lakecli.imports.manifest import KINDS, Manifest, file_at, files_below, kind_of, manifest_of
from lakecli.imports.manifest_rows import rows_of_tuples
from lakecli.imports.model import ROWS_AT_ONCE, EmptySource, Failures, ImportPart, Rows, Task
from lakecli.repository.contract import Repository
from lakecli.repository.reading.addresses import unpinned_bytes
from lakecli.repository.transfer.ignore_patterns import is_own
from lakecli.repository.transfer.ingest import look
from lakecli.repository.transfer.walk import FileOpener, LinkPolicy, WalkedFile, walk
from lakecli.stores.capabilities import versions_of
from lakecli.stores.streams import batches, groups_of
from lakecli.stores.uri import is_local, parse


class Unversioned(Unsupported):
    """The source keeps no object versions that entries could name."""


ImportSource: TypeAlias = "BucketSource | DirectorySource | Manifest"
"""A source of objects to import."""


def open_source(
    repository: Repository,
    text: str,
    *,
    is_manifest: bool = False,
    links: LinkPolicy,
    may_be_empty: bool = False,
) -> ImportSource:
    """Return the source at a URI.

    Args:
        text: the value of ``--from``; a path without a scheme is on this machine.
        is_manifest: whether the source is a manifest, whatever its name.

    Raises:
        UsageError: nothing at the URI can be imported.
        Refused: the source is inside the repository's own namespace, or contains it.
    """
    if is_pipe(text):
        raise UsageError(
            f"{text} is a pipe, and an import reads its source more than once",
            hint="write it to a file first",
        )
    uri = str(parse(text if "://" in text else os.path.abspath(text)))
    found = _find_manifest(uri, account_of(repository), is_manifest=is_manifest)
    if found is not None:
        return found
    check_outside(repository, uri)
    if is_local(uri):
        root = os.fsencode(uri.removeprefix("local://"))
        return DirectorySource(root, links, set(), may_be_empty)
    return BucketSource(uri, may_be_empty)


def check_pinnable(source: ImportSource, account: Account) -> None:
    """Refuse a source whose listing does not contain the versions of its objects.

    Raises:
        Unsupported: the source is not a bucket prefix, or the bucket keeps no versions.
    """
    if isinstance(source, Manifest):
        raise Unsupported(
            "versions cannot be pinned when a manifest or inventory is imported",
            hint="name the versions in the manifest: s3://BUCKET/KEY?versionId=ID",
        )
    if not isinstance(source, BucketSource):
        hint = "copy the bytes into the repository instead: `copies=True`"
        raise Unversioned("a directory keeps no versions of its files", hint=hint)
    versions_of(open_by_uri(source.uri, account=account)).check_versions()


def roots_of(source: ImportSource) -> tuple[str, ...]:
    """Return the local directory that is the source or contains its manifest, or an empty tuple."""
    if isinstance(source, DirectorySource):
        return ("local://" + os.fsdecode(source.root),)
    if isinstance(source, Manifest) and source.files and is_local(source.files[0].uri):
        return (source.files[0].uri.rpartition("/")[0],)
    return ()


def _find_manifest(uri: str, account: Account, *, is_manifest: bool) -> Manifest | None:
    """Return the manifest at a URI; ``None`` if another kind of source is at the URI."""
    kind = kind_of(uri)
    if not (is_manifest or kind or uri.endswith(SUFFIX)):
        return None
    file = file_at(uri, account)
    if file is None:
        return manifest_of(files_below(uri, account), uri) if is_manifest else None
    if uri.endswith(SUFFIX):
        return read_inventory(uri, account)
    if not kind:
        hint = f"rename it to end in {', '.join(KINDS)}, except for Parquet also with .gz"
        raise UsageError(f"the name of the manifest {uri} does not tell its format", hint=hint)
    return manifest_of([file], uri)


FILES_PER_PART: Final = 8_192
BYTES_PER_PART: Final = 1 << 30
"""Maximum number (`FILES_PER_PART`) and total size in bytes (`BYTES_PER_PART`) of a part's files.

A file that is larger than `BYTES_PER_PART` is a part of its own.
"""


class DirectorySource(NamedTuple):
    """All files below a directory.

    Attributes:
        left_out: receives the names of files that are not imported, because Git, lakecli or the
            system reserves such names.
    """

    root: bytes
    links: LinkPolicy
    left_out: set[bytes]
    may_be_empty: bool = False

    def recount(self, task: Task) -> int:
        """List the directory again, and return the number of files below it."""
        del task
        return sum(not is_own(each.relative) for each in walk(self.root, self.links))

    def plan(self, task: Task, runner: Runner, high: bytes | None) -> Iterator[ImportPart]:
        """Yield the parts that cover all paths from the prefix up to `high`, in order.

        Raises:
            NotFound: there is no directory, or no file. The mount point of a disk that is not
                mounted looks like an empty directory, and importing it would remove everything from
                the branch.
        """
        del runner
        if not os.path.isdir(self.root):
            hint = "name a directory, a bucket prefix or a manifest"
            raise NotFound(f"no directory {os.fsdecode(self.root)}", hint=hint)
        walked = walk(self.root, self.links)
        if not self.may_be_empty and all(is_own(each.relative) for each in walked):
            raise EmptySource(
                f"no file below {os.fsdecode(self.root)}",
                hint="check that the disk is mounted, or allow an empty source: "
                "`may_be_empty=True`",
            )
        size_of, count = attrgetter("size"), FILES_PER_PART
        groups = groups_of(self._files(), size_of, most=BYTES_PER_PART, count=count)
        low, files = task.prefix, next(groups, [])
        for following in groups:
            end = task.prefix + following[0].name
            yield ImportPart(low, end, FilesSource(self.root, tuple(files), self.links))
            low, files = end, following
        yield ImportPart(low, high, FilesSource(self.root, tuple(files), self.links))

    def _files(self) -> Iterator["File"]:
        for found in walk(self.root, self.links):
            if is_own(found.relative):
                self.left_out.add(found.relative)
            else:
                yield _file(found)


class File(NamedTuple):
    """A file of the directory; `problem` is the reason why it cannot be imported, or ``""``."""

    name: bytes
    size: int
    mtime_ns: int
    problem: str = ""


class FilesSource(NamedTuple):
    """Some files below a directory, in byte order of their names."""

    root: bytes
    files: tuple[File, ...]
    links: LinkPolicy

    def rows(self, task: Task, failures: Failures) -> Iterator[Rows]:
        """Yield the files as rows; hash each file unless it will be copied."""
        yield from map(rows_of_tuples, batches(self._rows(task, failures), ROWS_AT_ONCE))

    def _rows(self, task: Task, failures: Failures) -> Iterator[tuple[Any, ...]]:
        opener = FileOpener(self.root, self.links)
        start = b"local://" + self.root.rstrip(b"/") + b"/"
        for file in self.files:
            problem, checksum, size = file.problem, "", file.size
            if not (task.copies or problem):
                try:
                    with opener.open(os.path.join(self.root, file.name)) as opened:
                        done = look(opened)
                    checksum, size = done.digest, done.size
                except OSError as error:
                    problem = (error.strerror or str(error)).lower()
                except LakeError as error:
                    problem = error.message
            if problem:
                failures.add(task.prefix + file.name, problem)
                continue
            plain = unpinned_bytes(start + file.name)
            address = plain if task.copies else self._real(start, file)
            seconds = file.mtime_ns // 1_000_000_000
            yield file.name, address, size, checksum.encode(), seconds, b""

    def _real(self, start: bytes, file: File) -> bytes:
        """Return the address of a file, with symbolic links resolved.

        If an address contained a link, the address would name another file as soon as the link
        changes.
        """
        path = os.path.join(self.root, file.name)
        real = os.path.realpath(path)
        plain = os.path.join(os.path.realpath(self.root), file.name)
        return unpinned_bytes(start + file.name if real == plain else b"local://" + real)

    def identity(self) -> list[Any]:
        """Return the names, sizes and times of the files."""
        files = [[os.fsdecode(file.name), *file[1:]] for file in self.files]
        return ["files", os.fsdecode(self.root), files, self.links.value]


def _file(found: WalkedFile) -> File:
    if found.problem is not None:
        return File(found.relative, 0, 0, found.problem)
    try:
        status = os.stat(found.path)
    except OSError as error:
        return File(found.relative, 0, 0, (error.strerror or str(error)).lower())
    return File(found.relative, status.st_size, status.st_mtime_ns)

"""Export paths only: as a Parquet manifest, or as symlink manifests for Trino, Athena and Hive.

No object is read or copied.

A Parquet manifest has a row for each object, in the order of the paths: ``path``,
``physical_address`` (a full URI), ``size``, ``checksum``, ``mtime``, ``content_type`` and
``metadata``. `lakecli import` and any program that reads Parquet can read it.

With symlink manifests, Trino, Athena and Hive read a table of a ref. The layout is that of Delta
Lake: below the destination is a directory ``_symlink_format_manifest/``. It has a file named
``manifest`` for the whole table, or one in each ``column=value`` directory. The file lists the URIs
of the data objects, one per line.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import BinaryIO, Final, NamedTuple

from lakecli.base.model import CommitId, Entry, MetarangeId
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.base.uri import as_directory
from lakecli.committed.scan import scan, scan_columns
from lakecli.committed.values import decode_entry
from lakecli.engine.runner import account_of
from lakecli.errors import Refused, Unsupported, UsageError, install_command
from lakecli.exports.run import checked_destination, committed_at
from lakecli.exports.target import OwnFiles
from lakecli.repository.contract import Repository
from lakecli.repository.reading.addresses import full_address, split_address, split_pin
from lakecli.repository.reading.hadoop_names import is_read, names_its_object
from lakecli.repository.reading.view import no_such_path
from lakecli.stores.contract import Attributes
from lakecli.stores.uri import as_url, is_local

ROWS: Final = 65_536
"""Number of rows of a row group, rounded up to whole blocks of the tree."""


class WrittenManifest(NamedTuple):
    """A manifest that was written.

    Attributes:
        commit_id: the commit whose objects the manifest lists.
        objects: number of objects.
        size: total size of the objects in bytes.
        uncommitted: whether the branch has uncommitted changes, which the manifest lacks.
    """

    commit_id: CommitId
    objects: int
    size: int
    uncommitted: bool


def check_can_write() -> None:
    """Raise `Unsupported` if Arrow, which writes Parquet, is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401 - tests the installation
    except ImportError:
        raise Unsupported(
            "writing Parquet needs pyarrow, which is not installed", hint=install_command("spark")
        ) from None


def write_manifest(
    repository: Repository, ref: str, prefix: bytes, file: BinaryIO, *, progress: Progress
) -> WrittenManifest:
    """Write a manifest of the committed objects of a ref below a directory.

    Args:
        prefix: a directory of the ref, or ``b""``; paths in the manifest are relative to it.

    Raises:
        NotFound: the ref does not exist, or nothing is below the prefix.
        Refused: a path is not UTF-8.
        Unsupported: Arrow is not installed.
    """
    check_can_write()
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    from lakecli.exports.entry_columns import SCHEMA, batched, columns_of, paths_of

    namespace = f"{as_url(repository.record.storage_namespace)}/"
    commit, has_changes = committed_at(repository, ref)
    below = as_directory(prefix)
    objects = size = 0
    repeated = ["content_type"]  # nearly all paths, addresses and checksums differ
    with ParquetWriter(file, SCHEMA, compression="zstd", use_dictionary=repeated) as writer:
        blocks = scan_columns(repository.trees, commit.metarange_id, prefix=below)
        for keys, values in batched(blocks, rows=ROWS):
            paths = [key[len(below) :] for key in keys] if below else keys
            names = paths_of(paths)
            try:
                names.validate(full=True)
            except pa.ArrowInvalid:
                _refuse_name(paths)
                raise
            columns = {"path": names, **columns_of(values, namespace=namespace)}
            writer.write_table(pa.table(columns, schema=SCHEMA))
            objects += len(keys)
            size += sum(memoryview(columns["size"].buffers()[1]).cast("q")[: len(keys)])
            progress.advance(items=len(keys))
    if not objects and below:
        raise no_such_path(repository, ref, prefix, is_prefix=False)
    return WrittenManifest(commit.id, objects, size, has_changes)


def _refuse_name(paths: Sequence[bytes]) -> None:
    """Raise the error for the first path that is not UTF-8."""
    for path in paths:
        try:
            path.decode()
        except UnicodeDecodeError:
            raise Refused(
                f"a path that is not UTF-8, which Parquet and lakeFS cannot hold: {path!r}",
                hint="move the object to another path",
            ) from None


DIRECTORY: Final = "_symlink_format_manifest"
NAME: Final = "manifest"

_TEXT: Final = Attributes("text/plain")
_PACKED: Final = (b".gz", b".bz2", b".deflate", b".lz4", b".snappy", b".zst", b".lzo")
_COLUMNAR: Final = (b".parquet", b".orc", b".avro")


class WrittenSymlinks(NamedTuple):
    """Symlink manifests that were written, or in a dry run would be.

    Attributes:
        commit_id: the commit whose objects the manifests list.
        manifests: number of manifests: one, or one for each partition.
        objects: number of objects.
        size: total size of the objects in bytes.
        removed: number of manifests of an earlier export that were deleted.
        uncommitted: whether the branch has uncommitted changes, which the manifests lack.
    """

    commit_id: CommitId
    manifests: int
    objects: int
    size: int
    removed: int
    uncommitted: bool


def write_symlinks(
    repository: Repository,
    ref: str,
    prefix: bytes,
    destination: str,
    *,
    dry_run: bool = False,
    progress: Progress = NO_PROGRESS,
) -> WrittenSymlinks:
    """Write symlink manifests for a table: the committed objects of a ref below a directory.

    Manifests of partitions that the table no longer has are deleted last.

    Args:
        prefix: the table's directory, or ``b""``.
        destination: a URI in any spelling, or an absolute path.
        dry_run: write nothing.

    Raises:
        NotFound: the ref does not exist, or nothing is below the prefix.
        UsageError: the directory is not a table, or the destination cannot be written to.
        Unsupported: an object cannot be named in a manifest.
        Refused: the destination is in the repository's own namespace.
    """
    uri = checked_destination(repository, destination)
    region = "" if is_local(uri) else repository.lake.runtime.prepare_namespace(uri)
    files = OwnFiles(uri, region=region, account=account_of(repository))
    commit, has_changes = committed_at(repository, ref)
    objects = size = 0
    below = as_directory(prefix)
    if not dry_run:  # check all manifests first: if one is impossible, nothing is replaced
        for _ in _manifests(repository, commit.metarange_id, below):
            pass
    written: set[str] = set()
    for name, uris, total in _manifests(repository, commit.metarange_id, below):
        written.add(name)
        if not dry_run:
            files.put(name, "".join(f"{uri}\n" for uri in uris).encode(), _TEXT)
        objects += len(uris)
        size += total
        progress.advance(items=len(uris))
    if not written:
        raise no_such_path(repository, ref, prefix, is_prefix=False)
    found = {name for name in files.names(f"{DIRECTORY}/") if name.endswith(f"/{NAME}")}
    removed = sorted(found - written)
    if removed and not dry_run:
        files.delete(removed)
    return WrittenSymlinks(commit.id, len(written), objects, size, len(removed), has_changes)


def _manifests(
    repository: Repository, tree: MetarangeId, below: bytes
) -> Iterator[tuple[str, list[str], int]]:
    """Yield each partition's manifest: its name, the URIs in it, and their objects' total size.

    Raise `UsageError` if there are files beside the directories of partitions.
    """
    scanned = scan(repository.trees, tree, prefix=below)
    files = ((path[len(below) :], value) for path, value in scanned)
    data = (
        (name, decode_entry(value))
        for name, value in files
        if name[-1:] not in {b"", b"/"} and is_read(os.fsdecode(name))
    )
    last: str | None = None
    seen: set[str] = set()
    for directory, members in groupby(data, lambda member: _partition(member[0])):
        uris: list[str] = []
        size = 0
        for name, entry in members:
            if not (uris or last is None or (last and directory)):
                raise _not_a_table(os.fsdecode(below + name))
            uris.append(_uri_of(repository, name, entry))
            size += entry.size
        if directory in seen:
            raise _not_a_table(uris[0])
        seen.add(directory)
        yield "/".join(filter(None, (DIRECTORY, directory, NAME))), uris, size
        last = directory


def _partition(name: bytes) -> str:
    """Return the ``column=value`` directories of a file; refuse other directories above them."""
    parts = name.split(b"/")[:-1]
    columns = [part for part in parts if b"=" in part]
    if columns != parts[: len(columns)]:
        raise _not_a_table(os.fsdecode(name))
    try:
        return b"/".join(columns).decode()
    except UnicodeDecodeError:
        raise _not_a_table(repr(name)) from None


def _not_a_table(what: str) -> UsageError:
    return UsageError(
        f"not a table: {what} is not in a directory column=value as others are",
        hint="name the directory of the table, which has all its files or all its partitions",
    )


def _uri_of(repository: Repository, name: bytes, entry: Entry) -> str:
    """Return the URI of an object as Hadoop spells it.

    Raises:
        Unsupported: a manifest cannot name the object, or Hadoop could not read the object by this
            name, or would read another object.
        LakeError: the object is outside the namespace, in a place that is not allowed.
    """
    shown = os.fsdecode(name)
    lower = name.lower()
    if lower.endswith(_PACKED) and not any(kind in lower for kind in _COLUMNAR):
        raise Unsupported(
            f"{shown} is compressed text, which readers recognise by the name of a file; data "
            "objects have another one",
            hint="write the table in Parquet, or export it without a symlink manifest",
        )
    repository.addresses.check(entry.physical_address)
    plain, version_id = split_pin(full_address(repository, entry))
    place, key = split_address(plain)
    scheme, _, bucket = place.partition("://")
    why = ""
    if version_id:
        why = "names a version of it"
    elif "\n" in plain or "\r" in plain:
        why = "has a line break"
    elif not names_its_object(f"{bucket}/{key}" if scheme == "local" else f"/{key}"):
        why = f"stands for another file, or for none, where Hadoop reads it: {plain}"
    if why:
        hint = "export the table without a symlink manifest"
        raise Unsupported(f"{shown} cannot be in a symlink manifest: its address {why}", hint=hint)
    if scheme == "local":
        return f"file://{bucket}/{key}"
    if scheme == "az":
        account, _, container = bucket.partition("/")
        return f"abfss://{container}@{account}.dfs.core.windows.net/{key}"
    return f"{place}/{key}"

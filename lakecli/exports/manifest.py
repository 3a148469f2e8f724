"""Export paths only: a Parquet manifest of what a ref has, in the order of the paths.

A manifest has a row for each object: ``path``, ``physical_address`` (a full URI), ``size``,
``checksum``, ``mtime``, ``content_type`` and ``metadata``. `lakecli import` reads it, and so does
whatever reads Parquet. No object is read or copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NamedTuple

from lakecli.base.model import CommitId, Entry, MetarangeId
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.base.uri import as_directory
from lakecli.committed.scan import scan
from lakecli.committed.values import decode_entry
from lakecli.errors import Refused, Unsupported, install_command
from lakecli.exports.run import has_changes
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.reading.addresses import is_external
from lakecli.repository.reading.view import commit_at, no_such_path
from lakecli.stores.uri import as_url

ROWS: Final = 65_536
"""Rows of a row group."""


class WrittenManifest(NamedTuple):
    """A manifest that was written.

    Attributes:
        commit_id: the commit whose objects it lists.
        objects: number of objects.
        size: their bytes.
        uncommitted: whether the branch has uncommitted changes, which are not in it.
    """

    commit_id: CommitId
    objects: int
    size: int
    uncommitted: bool


def check_can_write() -> None:
    """Refuse to write Parquet without Arrow.

    Raises:
        Unsupported: Arrow is not installed.
    """
    try:
        import pyarrow.parquet  # noqa: F401 - tests the installation
    except ImportError:
        raise Unsupported(
            "writing Parquet needs pyarrow, which is not installed",
            hint=install_command("spark"),
        ) from None


def write_manifest(
    repository: Repository,
    ref: str,
    prefix: bytes,
    file: BinaryIO,
    *,
    progress: Progress = NO_PROGRESS,
) -> WrittenManifest:
    """Write a manifest of the committed objects of a ref below a directory.

    Args:
        repository: to export from.
        ref: a ref expression.
        prefix: a directory of the ref, or ``b""``; paths in the manifest are below it.
        file: takes the manifest.
        progress: counts the objects.

    Raises:
        NotFound: the ref does not exist, or nothing is below the prefix.
        Refused: a path is not UTF-8.
        Unsupported: Arrow is not installed.
    """
    check_can_write()
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    schema = pa.schema(
        [
            ("path", pa.string()),
            ("physical_address", pa.string()),
            ("size", pa.int64()),
            ("checksum", pa.string()),
            ("mtime", pa.timestamp("s", tz="UTC")),
            ("content_type", pa.string()),
            ("metadata", pa.map_(pa.string(), pa.string())),
        ]
    )
    with repository.lake.kv.read() as txn:
        commit = commit_at(repository, txn, ref)
        branch = RefStore(txn, repository.key).find_branch(ref)
    below = as_directory(prefix)
    objects = size = 0
    with ParquetWriter(file, schema, compression="zstd") as writer:
        for rows in _row_groups(repository, commit.metarange_id, below):
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            objects += len(rows)
            size += sum(row["size"] for row in rows)
            progress.advance(items=len(rows))
    if not objects and below:
        raise no_such_path(repository, ref, prefix, is_prefix=False)
    uncommitted = branch is not None and has_changes(repository, ref)
    return WrittenManifest(commit.id, objects, size, uncommitted)


def _row_groups(
    repository: Repository, tree: MetarangeId, below: bytes
) -> Iterator[list[dict[str, Any]]]:
    rows = []
    for path, value in scan(repository.trees, tree, prefix=below):
        rows.append(_row(repository, path[len(below) :], decode_entry(value)))
        if len(rows) == ROWS:
            yield rows
            rows = []
    if rows:
        yield rows


def _row(repository: Repository, path: bytes, entry: Entry) -> dict[str, Any]:
    try:
        name = path.decode()
    except UnicodeDecodeError:
        raise Refused(
            f"a path that is not UTF-8, which Parquet and lakeFS cannot hold: {path!r}",
            hint="move the object to another path",
        ) from None
    address = entry.physical_address
    if not is_external(entry):
        address = f"{as_url(repository.record.storage_namespace)}/{address}"
    return {
        "path": name,
        "physical_address": address,
        "size": entry.size,
        "checksum": entry.checksum,
        "mtime": entry.modified_at,
        "content_type": entry.content_type,
        "metadata": list(entry.metadata.items()),
    }

"""List the files of a table at a ref: their names below its path, and their addresses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from lakecli.base.uri import as_directory, parse_path, ref_of
from lakecli.committed.values import decode_entry
from lakecli.errors import NotFound, UsageError
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import no_such_path, open_view
from lakecli.spark.batches import Origin
from lakecli.spark.fetch import Remote

COPYING = "._COPYING_"


class TableFiles(NamedTuple):
    """The files of a table at a ref.

    Attributes:
        files: ordered by name.
        origin: the commit that was read, if the URI names a branch.
    """

    files: list[TableFile]
    origin: Origin | None


class TableFile(NamedTuple):
    """A file of a table.

    Attributes:
        name: path below the table's path, in UTF-8.
        address: relative to the storage namespace, or a full URI.
        size: size in bytes.
    """

    name: str
    address: str
    size: int

    @property
    def directory(self) -> str:
        """The name up to its last slash; ``""`` without one."""
        return self.name.rpartition("/")[0]


def table_files(repository: Repository, uri: str) -> TableFiles:
    """Return the files that Spark would read below a path.

    The ref is resolved here, once. A path that names an object is a table of one file.

    Raises:
        UsageError: a name is not valid in a directory, or not UTF-8.
        NotFound: the ref does not exist, or there is nothing to read.
        LakeError: the address of a file may not or cannot be read; see `address.Resolver`.
    """
    parsed = parse_path(uri, allow_empty=True)
    path = parsed.path or b""
    below = as_directory(path)
    with open_view(repository, ref_of(parsed)) as view:
        found = [(key[len(below) :], value) for key, value in view.scan(prefix=below)]
        alone = None if found or path == below else view.find(path)
        if alone is not None:
            found = [(path.rpartition(b"/")[2], alone)]
        branch = RefStore(view.txn, repository.key).find_branch(ref_of(parsed))
        origin = branch and Origin(repository.record.name, branch.name, branch.commit_id)
    if not found:
        raise no_such_path(repository, ref_of(parsed), path)
    files = []
    for key, value in found:
        name = _checked(key, uri)
        if is_read(name):
            entry = decode_entry(value)
            repository.addresses.check(entry.physical_address)
            files.append(TableFile(name, entry.physical_address, entry.size))
    if not files:
        raise NotFound(
            f"nothing to read at {uri}",
            hint="all names begin with '_' or '.', which Spark ignores",
        )
    return TableFiles(files, origin)


def is_read(name: str) -> bool:
    """Return whether Spark reads a file: it ignores hidden files and its own markers."""
    return not any(
        part.startswith(".") or (part.startswith("_") and "=" not in part) or part.endswith(COPYING)
        for part in name.split("/")
    )


def _checked(key: bytes, uri: str) -> str:
    name = os.fsdecode(key)
    if not all(name.split("/")) or "\0" in name:
        raise UsageError(
            f"not a table: an object has a path that is not valid in a directory: {key!r} at {uri}",
            hint="name a path below it, or move the object",
        )
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise UsageError(
            f"not a table: a path in it is not UTF-8: {key!r} at {uri}",
            hint="move the object to another path",
        ) from None


def remote_files(files: Sequence[TableFile]) -> list[Remote]:
    """Return the files for executors, with numbers for their directories."""
    numbers = {name: at for at, name in enumerate(sorted({file.directory for file in files}))}
    return [Remote(file.name, file.address, file.size, numbers[file.directory]) for file in files]

"""The files that executors uploaded, and the entries for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from lakecli.base.layout import data_key
from lakecli.base.model import Entry
from lakecli.base.uri import check_path
from lakecli.committed.encode import encode_entry
from lakecli.repository.contract import Repository
from lakecli.repository.transfer.content_types import content_type_of


class Uploaded(NamedTuple):
    """A file that an executor uploaded; see `lakecli.spark.sink.RESULT`."""

    path: str
    checksum: str
    size: int
    rows: int


def uploads_in(result: Any) -> list[Uploaded]:  # noqa: ANN401 - a record batch
    """Return the files in the result of a `Sink`."""
    columns = result.to_pydict()
    return [Uploaded(*row) for row in zip(*columns.values(), strict=True)]


def new_entries(
    repository: Repository, prefix: bytes, files: Sequence[Uploaded]
) -> list[tuple[bytes, bytes]]:
    """Return path and encoded entry of each file, in path order.

    Raises:
        UsageError: a path is too long.
    """
    now = repository.lake.now()
    additions = []
    for name, checksum, size, _ in files:
        path = prefix + name.encode()
        check_path(path)
        entry = Entry(data_key(checksum), size, checksum, now, content_type_of(path))
        additions.append((path, encode_entry(entry)))
    return sorted(additions)


def new_write_id(repository: Repository) -> str:
    """Return the part of files' names that no other write has."""
    return str(UUID(bytes=repository.lake.runtime.new_id()))

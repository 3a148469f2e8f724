"""A ref pinned on the driver, as plain values for executors.

The ref is resolved once. All later reads, on any machine, see this state: a tree, and the staged
changes on top of it if the ref is a branch that is read with its staging area.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lakecli.base.model import MetarangeId
from lakecli.base.uri import parse, parse_path, ref_of
from lakecli.committed.listing import prefix_end
from lakecli.engine.store_location import StoreLocation
from lakecli.errors import LakeError
from lakecli.opening import warn_of_notices
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import View, open_view
from lakecli.settings.home import chosen_home

_QUICK = 1
_SIZES = struct.Struct("<II")
"""Sizes of a path and a value, before their bytes."""


class Snapshot(NamedTuple):
    """A state of a repository.

    Attributes:
        location: the repository's namespace.
        commit_id: commit of the ref; of a branch, its head.
        metarange_id: tree of that commit.
        prefix: prefix of the paths to read.
        staged: staged records below the prefix, packed; see `staged_records`.
    """

    location: StoreLocation
    commit_id: str
    metarange_id: MetarangeId
    prefix: bytes
    staged: bytes

    def staged_records(self) -> list[tuple[bytes, bytes]]:
        """Return (path, encoded value or tombstone) of staged changes, in path order."""
        if not self.staged:
            return []
        data = zlib.decompress(self.staged)
        records = []
        at = 0
        while at < len(data):
            path_size, value_size = _SIZES.unpack_from(data, at)
            start = at + _SIZES.size
            at = start + path_size + value_size
            records.append((data[start : start + path_size], data[start + path_size : at]))
        return records


class Window(NamedTuple):
    """Keys from `start` to before `stop`; ``None``: there is no end."""

    start: bytes = b""
    stop: bytes | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the window contains no key."""
        return self.stop is not None and self.start >= self.stop


def window_of(prefix: bytes) -> Window:
    """Return the keys that start with a prefix."""
    return Window(prefix, prefix_end(prefix))


def home_of(given: str | Path | None) -> str | None:
    """Return the given home, or that of the environment; ``None`` without either."""
    return chosen_home(given, os.environ)


def take_snapshot(uri: str, *, home: str | None, prefix: str = "") -> Snapshot:
    """Pin a ref.

    Args:
        uri: ``lakefs://REPOSITORY/REF[/PREFIX]``.
        home: as in `register`.
        prefix: additional prefix of the paths, after the one in the URI.

    Raises:
        UsageError: a malformed URI.
        NotFound: the repository or the ref does not exist.
    """
    parsed = parse_path(uri, allow_empty=True)
    with opened(uri, home=home) as repository:
        return snapshot_of(
            repository, ref_of(parsed), prefix=(parsed.path or b"") + os.fsencode(prefix)
        )


def snapshot_of(repository: Repository, ref: str, *, prefix: bytes) -> Snapshot:
    """Pin a ref of an open repository.

    Raises:
        NotFound: the ref does not exist.
    """
    with open_view(repository, ref) as view:
        return Snapshot(
            StoreLocation.of(repository),
            view.commit.id,
            view.commit.metarange_id,
            prefix,
            _staged(view, prefix),
        )


def _staged(view: View, prefix: bytes) -> bytes:
    pieces: list[bytes] = []
    for path, value in view.staged(prefix=prefix):
        pieces += (_SIZES.pack(len(path), len(value)), path, value)
    return zlib.compress(b"".join(pieces), _QUICK) if pieces else b""


@contextmanager
def opened(uri: str, *, home: str | Path | None) -> Iterator[Repository]:
    """Open the repository of a URI, by the setting ``sync`` as the command line does.

    Errors that leave it have their hint in a note; notices become warnings.

    Raises:
        UsageError: a malformed URI.
        NotFound: there is no such repository on this machine.
    """
    import lakecli

    with (
        hints_told(),
        lakecli.open(f"lakefs://{parse(uri).repository}", home=home_of(home)) as repository,
    ):
        try:
            yield repository
        finally:
            warn_of_notices(repository)


@contextmanager
def hints_told() -> Iterator[None]:
    """Add the hint of an error to its traceback, as Spark shows nothing else."""
    try:
        yield
    except LakeError as error:
        note = f"hint: {error.hint}"
        if error.hint and note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise

"""Parse paths of the file system: ``demo/main/tables/a.parquet``, or with ``lakefs://``."""

from __future__ import annotations

import os
from typing import NamedTuple

SCHEME = "lakefs://"


class Place(NamedTuple):
    """The repository, ref and object path in a path.

    Attributes:
        repository: name of the repository; ``""`` for the root, which contains repositories.
        ref: a ref expression; ``""`` for a repository, which contains branches and tags.
        path: path of an object or directory; ``b""`` for the whole ref.
    """

    repository: str
    ref: str
    path: bytes

    @property
    def uri(self) -> str:
        """``lakefs://repository``."""
        return SCHEME + self.repository

    @property
    def directory(self) -> bytes:
        """The prefix of the paths below it."""
        return self.path + b"/" if self.path else b""

    def name(self, path: bytes) -> str:
        """Return another path of the same ref as a path of the file system."""
        return f"{self.repository}/{self.ref}/{os.fsdecode(path)}".rstrip("/")


def strip(path: str) -> str:
    """Return a path without ``lakefs://`` and without slashes at its ends."""
    path = path.removeprefix(SCHEME)
    return path.strip("/")


def parse(path: str) -> Place:
    """Parse a path, which need not exist."""
    repository, _, rest = strip(path).partition("/")
    ref, _, below = rest.partition("/")
    return Place(repository, ref, os.fsencode(below))

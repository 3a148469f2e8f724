"""Paths of the file system: ``demo/main/tables/a.parquet``, with or without ``lakefs://``."""

from __future__ import annotations

import os
from typing import NamedTuple

SCHEME = "lakefs://"


class Place(NamedTuple):
    """What a path names.

    Attributes:
        repository: its name; ``""`` for the root, which holds the repositories.
        ref: a ref expression; ``""`` for a repository, which holds branches and tags.
        path: of an object or of what lies below it; ``b""`` for the whole ref.
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
        """What the paths below it begin with."""
        return self.path + b"/" if self.path else b""

    def name(self, path: bytes) -> str:
        """Return the name of another path of the same ref."""
        return f"{self.repository}/{self.ref}/{os.fsdecode(path)}".rstrip("/")


def strip(path: str) -> str:
    """Return a path without ``lakefs://`` and without slashes at its ends."""
    path = path.removeprefix(SCHEME)
    return path.strip("/")


def parse(path: str) -> Place:
    """Return what a path names, whether that is there or not."""
    repository, _, rest = strip(path).partition("/")
    ref, _, below = rest.partition("/")
    return Place(repository, ref, os.fsencode(below))

"""Removing objects and empty directories of a local namespace."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from lakecli.stores.base import Version, key_bytes
from lakecli.stores.local.directory import TEMPORARY, Directory, split_key
from lakecli.stores.local.files import object_status, version_of


def delete(files: Directory, objects: Iterable[tuple[str, Version | None]]) -> Sequence[str]:
    """Delete objects that have these versions, ``None`` for any; return the other keys."""
    kept = []
    with files.translated("temporary files"):
        temporaries = files.open_directory(TEMPORARY, create=True)
    try:
        for key, version in objects:
            names = split_key(key)
            with (
                files.translated(key),
                suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError),
                files.opened(names[:-1]) as parent,
                files.locked(temporaries),
            ):
                current = object_status(parent, names[-1])
                if current is None:
                    continue
                if version is None or version_of(current) == version:
                    os.unlink(names[-1], dir_fd=parent)
                else:
                    kept.append(key)
    finally:
        os.close(temporaries)
    return kept


def prune(files: Directory, prefix: str) -> None:
    """Remove the directory of a prefix if it is empty; see `LocalStore.prune`."""
    names = key_bytes(prefix).rstrip(b"/").split(b"/")
    with files.translated(prefix):
        with (
            suppress(FileNotFoundError),
            files.opened(names[:-1]) as parent,
            suppress(OSError),
        ):
            os.rmdir(names[-1], dir_fd=parent)
        with suppress(FileNotFoundError):
            files.remove_own()

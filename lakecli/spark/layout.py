"""Lay out a table as a directory that Spark reads itself, if the bytes are on this machine.

Data objects are named by their contents, so the directory has a symbolic link for each file, under
its name in the table. The directory is in the cache, is named by a digest of its links, and is
deleted after a week without use.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from blake3 import blake3

from lakecli.errors import UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.reading.addresses import is_outside
from lakecli.stores.uri import is_local

if TYPE_CHECKING:
    from lakecli.spark.files import TableFile

KEPT: Final = timedelta(days=7)


def local_files(repository: Repository, files: Sequence[TableFile]) -> list[str] | None:
    """Return the paths of files' bytes on this machine; ``None`` if some are elsewhere."""
    paths = []
    for file in files:
        path = _local_path(repository, file.address)
        if path is None:
            return None
        paths.append(path)
    return paths


def _local_path(repository: Repository, address: str) -> str | None:
    store, key = repository.addresses.locate(address)
    if is_outside(address) and not is_local(store.uri):
        return None
    return store.local_path(key)


def lay_out(repository: Repository, files: Sequence[TableFile], paths: Sequence[str]) -> Path:
    """Return a directory in which each file has its name.

    Raises:
        UsageError: two of the names cannot be in one directory.
    """
    lake = repository.lake
    tables = Path(lake.home.cache) / "tables"
    hasher = blake3()
    for file, path in zip(files, paths, strict=True):
        hasher.update(b"%b\0%b\0" % (os.fsencode(file.name), os.fsencode(path)))
    target = tables / hasher.hexdigest()
    now = lake.now().timestamp()
    if not target.is_dir():
        drop_unused(tables, now - KEPT.total_seconds())
        fresh = tables / f"new-{lake.runtime.new_id().hex()}"
        try:
            _link(fresh, files, paths)
            with suppress(FileExistsError, OSError):  # another process was first
                fresh.rename(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    os.utime(target, (now, now))
    return target


def _link(directory: Path, files: Sequence[TableFile], paths: Sequence[str]) -> None:
    made: set[Path] = set()
    for file, path in zip(files, paths, strict=True):
        link = directory / file.name
        try:
            if link.parent not in made:
                link.parent.mkdir(parents=True, exist_ok=True)
                made.add(link.parent)
            link.symlink_to(path)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(
                f"not a table: {file.name!r} is both an object and a directory",
                hint="move the object to another path",
            ) from None


def drop_unused(directory: Path, before: float, *, kept: Collection[str] = ()) -> None:
    """Delete the files and directories in a directory that were not used since a time.

    Args:
        directory: of the files.
        before: the time, in seconds since 1970.
        kept: names of files and directories that stay.
    """
    with suppress(FileNotFoundError):
        for each in directory.iterdir():
            with suppress(FileNotFoundError):
                if each.name in kept or each.stat().st_mtime >= before:
                    continue
                if each.is_dir():
                    shutil.rmtree(each, ignore_errors=True)
                else:
                    each.unlink()

"""Read objects, whole or in part, and download them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, Final

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.utils import isfilelike

from lakecli.base.model import Entry
from lakecli.errors import LakeWarning
from lakecli.filesystem import lakes
from lakecli.filesystem.lookup import LookupFileSystem
from lakecli.filesystem.paths import Place, parse, transferring
from lakecli.repository.reading.contents import damaged, gone, read_located
from lakecli.repository.transfer.selection import LEFT_OUT, is_own
from lakecli.stores.contract import ObjectNotFound

PARALLEL_READS: Final = 16
"""Ranges that `ReadingFileSystem.cat_ranges` reads at a time."""

_target: ContextVar[str] = ContextVar("target", default="")
"""The directory that a recursive download of this thread must not leave; ``""`` for none."""


class ReadingFileSystem(LookupFileSystem):
    """Reads objects; see `LakeFileSystem`."""

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Return the bytes of a file or of a part; a whole file is verified by its checksum."""
        place, entry = self._found(path)
        if start is None and end is None:
            return b"".join(self._read(place, entry))
        first, last, _step = slice(start, end).indices(entry.size)
        return self.read_range(place, entry, first, last)

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """Return parts of files, in the given order; several are read at the same time."""
        del max_gap
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("paths, starts and ends must have the same length")
        if not paths:
            return []
        with ThreadPoolExecutor(min(PARALLEL_READS, len(paths)), "lakefs-read") as pool:
            asked = [
                pool.submit(self.cat_file, *each) for each in zip(paths, starts, ends, strict=True)
            ]
        answers: list[Any] = []
        for future in asked:
            error = future.exception()
            if error is not None and on_error == "raise":
                raise error
            answers.append(future.result() if error is None else error)
        return answers

    def get(self, rpath: Any, lpath: Any, *args: Any, **options: Any) -> None:
        """Download files; never write outside `lpath`, whatever the names of objects.

        Files of Git, of lakecli and of the system are left out, with a `LakeWarning`.

        Raises:
            ValueError: the name of an object leads outside `lpath`.
        """
        root = os.path.abspath(lpath) if isinstance(lpath, str | os.PathLike) else ""
        token = _target.set(root)
        try:
            super().get(rpath, lpath, *args, **options)
        finally:
            _target.reset(token)

    def get_file(
        self,
        rpath: str,
        lpath: Any,
        callback: Any = DEFAULT_CALLBACK,
        outfile: Any = None,
        **options: Any,
    ) -> None:
        """Download one file and verify it; remove it if it is damaged.

        A file of Git, of lakecli or of the system is left out, with a `LakeWarning`.
        """
        if outfile is None and not isfilelike(lpath) and is_left_out(rpath):
            return
        if not isfilelike(lpath):
            _check_inside(lpath, _target.get())
        if outfile is not None or isfilelike(lpath) or self.isdir(rpath):
            super().get_file(rpath, lpath, callback=callback, outfile=outfile, **options)
            return
        place, entry = self._found(rpath)
        callback.set_size(entry.size)
        parent = os.path.dirname(os.fspath(lpath))
        if parent:
            os.makedirs(parent, exist_ok=True)
        try:
            with open(lpath, "wb") as file:
                for piece in self._read(place, entry):
                    callback.relative_update(file.write(piece))
        except OSError:
            if os.path.exists(lpath):
                os.remove(lpath)
            raise

    def read_range(self, place: Place, entry: Entry, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)`` of an entry's object."""
        if end <= start:
            return b""
        name = place.name(place.path)
        with transferring(name), lakes.located(self.home, place.repository, entry) as (store, key):
            try:
                data = store.get(key, start=start, length=end - start)
            except ObjectNotFound as error:
                raise gone(place.uri, store, key) from error
            if len(data) != end - start:
                raise damaged(place.uri, store, key)
            return data

    def _read(self, place: Place, entry: Entry) -> Iterator[bytes]:
        name = place.name(place.path)
        with transferring(name), lakes.located(self.home, place.repository, entry) as (store, key):
            yield from read_located(place.uri, store, key, entry)


def is_left_out(path: str) -> bool:
    """Return whether a path is never transferred, because of its name; warn if so."""
    if not is_own(parse(path).path):
        return False
    warnings.warn(f"left out: {path}: {LEFT_OUT}", LakeWarning, stacklevel=3)
    return True


def _check_inside(path: Any, root: str) -> None:
    """Refuse a file outside a directory, which old versions of fsspec do not.

    Raises:
        ValueError: the file is outside.
    """
    place = os.path.abspath(path)
    if root and place != root and not place.startswith(root.rstrip("/") + "/"):
        raise ValueError(f"the name of an object leads outside {root}: {place}")

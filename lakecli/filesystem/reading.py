"""List, describe and read repositories, refs and objects, and download objects."""

import errno
import os
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from threading import local
from typing import Any, BinaryIO, Final

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractFileSystem
from fsspec.utils import isfilelike

from lakecli import blocks
from lakecli.base.model import Entry
from lakecli.base.temporary_files import replacing
from lakecli.committed.scan import ListedPrefix
from lakecli.committed.values import decode_entry
from lakecli.errors import LakeWarning
from lakecli.filesystem import lakes, paths
from lakecli.filesystem.paths import LakePath, finding, transferring
from lakecli.repository.contract import Repository
from lakecli.repository.handoff.links import presign_entry
from lakecli.repository.reading.addresses import full_address, lies_below
from lakecli.repository.reading.contents import damaged, gone, read_located
from lakecli.repository.reading.reader import Reader, open_reader
from lakecli.repository.reading.view import View, open_view
from lakecli.repository.transfer.destination import IN_NAMESPACE
from lakecli.repository.transfer.ignore_patterns import LEFT_OUT, is_own
from lakecli.stores.contract import ObjectNotFound

PARALLEL_READS: Final = 16
"""How many ranges `ReadingFileSystem.cat_ranges` reads at a time."""

_target: ContextVar[str] = ContextVar("target", default="")
"""The directory outside which this thread's download must not write; ``""``: no limit."""

Info = dict[str, Any]


class ReadingFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The reading part of `LakeFileSystem`: listing, describing, reading and downloading."""

    protocol = "lakefs"
    root_marker = ""
    blocksize = 5 << 20

    def __init__(
        self, home: str | os.PathLike[str] | None = None, committer: str = "", **options: Any
    ) -> None:
        super().__init__(**options)
        self._home = None if home is None else os.fspath(home)
        self.committer = committer
        self._mine = local()
        self._joined: dict[tuple[str, str], str] = {}
        """Workspaces of the `committing` blocks open at pickling, by repository and branch."""
        self._made: set[str] = set()

    @property
    def home(self) -> str | None:
        """The home of this file system; ``None`` for the platform's directories."""
        return lakes.home_of(self._home)

    @property
    def fsid(self) -> str:
        """An identifier that is equal for all file systems of the same home."""
        return f"lakefs:{self.home or ''}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return paths.strip(os.fspath(path))

    def _place(self, path: str) -> LakePath:
        """Parse a path; if its branch has a `committing` block, `ref` is the block's workspace."""
        place = paths.parse(path)
        if not place.ref:
            return place
        home, name = self.home, place.repository
        ref = self._joined.get((name, place.ref.removesuffix("$")))
        found = ref or blocks.find(home, name, place.ref, lambda: lakes.repository(home, name))
        return place._replace(ref=found)

    def _above(self, place: LakePath) -> Mapping[bytes, bytes]:
        """Return the changes of a transaction on a branch, by path: encoded entry or tombstone."""
        del place
        return {}

    def info(self, path: str, **_: Any) -> Info:
        """Describe a file or directory.

        A file has ``size``, ``checksum``, ``mtime`` (unix seconds), ``content_type``, ``metadata``
        and ``physical_address``, the URI of its bytes.

        Raises:
            FileNotFoundError: the path does not exist.
            ValueError: a name or ref expression is malformed.
        """
        path = self._strip_protocol(path)
        place = self._place(path)
        with finding(path):
            if not place.repository:
                return _directory("")
            if not place.ref:
                with lakes.repository(self.home, place.repository):
                    return _directory(path)
            with self._reader(place) as (repository, reader):
                if not place.path:
                    return _directory(path)
                entry = reader.find(place.path)
                if entry is not None:
                    return _file(repository, path, entry)
                if path in self._made or any(reader.iter(prefix=place.directory)):
                    return _directory(path)
        raise _missing(path)

    def exists(self, path: str, **_: Any) -> bool:
        """Return whether a path exists; false for a malformed path."""
        try:
            self.info(path)
        except (FileNotFoundError, ValueError):
            return False
        return True

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        """List a directory: repositories, branches and tags of a repository, or paths of a ref.

        Raises:
            FileNotFoundError: the path does not exist.
        """
        path = self._strip_protocol(path)
        with finding(path):
            found = self._list(path, self._place(path))
        return found if detail else [each["name"] for each in found]

    def _list(self, path: str, place: LakePath) -> list[Info]:
        if not place.repository:
            with lakes.lake(self.home) as held:
                return [_directory(record.name) for record in held.lake.repositories()]
        if not place.ref:
            with lakes.repository(self.home, place.repository) as repository:
                return _list_refs(repository, place)
        with self._view(place) as view:
            below, is_there = place.directory, not place.path or path in self._made
            found = []
            for item in view.list_paths(prefix=below, delimiter=b"/"):
                is_there = True
                name = place.name(item.path)
                if isinstance(item, ListedPrefix):
                    found.append(_directory(name))
                # Leave out the directory's own marker, whose path ends in a slash.
                elif item.path != below:
                    found.append(_file(view.repository, name, decode_entry(item.value)))
            value = view.find(place.path) if place.path and not found else None
            if value is not None:
                return [_file(view.repository, path, decode_entry(value))]
        if not is_there:
            raise _missing(path)
        return found

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        prefix: str = "",
        **options: Any,
    ) -> Any:
        """List all files below a path; without `maxdepth`, by a single scan.

        Args:
            prefix: list only files whose paths, relative to `path`, begin with this prefix.
        """
        path = self._strip_protocol(path)
        place = self._place(path)
        start = f"{path}/{prefix}".lstrip("/") if prefix else ""
        if maxdepth is not None or not place.ref:
            found = super().find(path, maxdepth, withdirs=withdirs, detail=True, **options)
        else:
            found = self._find(path, place, prefix=prefix, withdirs=withdirs)
        kept = {name: found[name] for name in sorted(found) if name.startswith(start)}
        return kept if detail else list(kept)

    def _find(self, path: str, place: LakePath, *, prefix: str, withdirs: bool) -> dict[str, Info]:
        found: dict[str, Info] = {}
        try:
            with finding(path), self._reader(place) as (repository, reader):
                for below, entry in reader.iter(prefix=place.directory + os.fsencode(prefix)):
                    name = place.name(below)
                    if withdirs:
                        _add_parents(found, path, f"{name}/" if below.endswith(b"/") else name)
                    if below.endswith(b"/") and entry.size:
                        why = "no file can have a name that ends in a slash"
                        warnings.warn(f"left out: {name}/: {why}", LakeWarning, stacklevel=2)
                    elif not below.endswith(b"/"):
                        found[name] = _file(repository, name, entry)
                own = reader.find(place.path) if place.path and not found else None
                if own is not None:
                    found[path] = _file(repository, path, own)
        except FileNotFoundError:
            return {}
        return found

    def expand_path(
        self, path: Any, recursive: bool = False, maxdepth: int | None = None, **options: Any
    ) -> list[str]:
        """List what paths and patterns match; a path that exists matches only itself.

        Args:
            recursive: whether to list also what is below directories.

        Raises:
            FileNotFoundError: nothing matches.
        """
        given = [path] if isinstance(path, str | os.PathLike) else path
        stripped = [self._strip_protocol(each) for each in given]
        names = {each for each in stripped if paths.is_existing_name(self, each)}
        found = set(names)
        if recursive:
            for name in names:
                found.update(self.find(name, maxdepth=maxdepth, withdirs=True))
        patterns = [each for each in stripped if each not in names]
        try:
            found.update(super().expand_path(patterns, recursive, maxdepth, **options))
        except FileNotFoundError:
            if not found:
                raise
        return sorted(found)

    def modified(self, path: str) -> datetime:
        """Return the time at which an object was recorded."""
        return self._found(path)[1].modified_at

    created = modified

    def checksum(self, path: str) -> int:
        """Return an integer that changes when the contents of a file change."""
        return int.from_bytes(self.ukey(path).encode())

    def ukey(self, path: str) -> str:
        """Return the checksum of a file: its BLAKE3; for an imported object, its ETag."""
        return self._found(path)[1].checksum

    def sign(self, path: str, expiration: int = 100, **_: Any) -> str:
        """Return a URL from which anybody can read the object for `expiration` seconds."""
        place, entry = self._found(path)
        with transferring(path), lakes.repository(self.home, place.repository) as repository:
            lifetime = timedelta(seconds=expiration)
            return presign_entry(repository, entry, place.path, expires_in=lifetime).url

    def describe(self, place: LakePath, entry: Entry) -> Info:
        """Return the description of an entry that `info` returns."""
        with lakes.repository(self.home, place.repository) as repository:
            return _file(repository, place.name(place.path), entry)

    def _found(self, path: str) -> tuple[LakePath, Entry]:
        """Return the parsed path and the entry of a file; raise the errors of `_found_value`."""
        place, value = self._found_value(path)
        with finding(path):
            return place, decode_entry(value)

    def _found_value(self, path: str) -> tuple[LakePath, bytes]:
        """Return the parsed path and the encoded entry of a file.

        Raises:
            FileNotFoundError: the path does not exist.
            IsADirectoryError: the path is a directory.
        """
        path = self._strip_protocol(path)
        place = self._place(path)
        if not place.path:
            self.info(path)
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        with finding(path), self._view(place) as view:
            value = view.find(place.path)
            if value is not None:
                return place, value
            if path in self._made or any(view.scan(prefix=place.directory)):
                raise IsADirectoryError(errno.EISDIR, "a directory", path)
        raise _missing(path)

    @contextmanager
    def _reader(self, place: LakePath) -> Iterator[tuple[Repository, Reader]]:
        """Open a ref for use in the calling thread; all threads share the cached trees."""
        with (
            lakes.repository(self.home, place.repository) as repository,
            open_reader(repository, place.ref, above=self._above(place)) as reader,
        ):
            yield repository, reader

    @contextmanager
    def _view(self, place: LakePath) -> Iterator[View]:
        with (
            lakes.repository(self.home, place.repository) as repository,
            open_view(repository, place.ref, above=self._above(place)) as view,
        ):
            yield view

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Return bytes of a file; if all bytes are read, they are verified by the checksum."""
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
        """Return parts of files, in the given order; several parts are read in parallel."""
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

    def get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """Download files, and never write outside `lpath`, even if objects have malicious names.

        Files with names that Git, lakecli or the system uses are left out, with a `LakeWarning`.

        Raises:
            ValueError: the name of an object leads outside `lpath`.
        """
        root, into = "", False
        if isinstance(lpath, str | os.PathLike):
            root, into = os.path.abspath(lpath), os.path.isdir(lpath) or str(lpath).endswith("/")
        pair = paths.as_file_lists(
            self, rpath, lpath, into=into, recursive=recursive, maxdepth=maxdepth
        )
        token = _target.set(root)
        try:
            super().get(*pair, recursive=recursive, callback=callback, maxdepth=maxdepth, **options)
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
        """Download one file and verify it; only then replace an existing file.

        A link or a device, such as ``/dev/stdout``, is written directly.

        If Git, lakecli or the system uses the name of the file, it is left out with a
        `LakeWarning`.
        """
        to_stream = outfile is not None or isfilelike(lpath)
        if not to_stream:
            if is_left_out(rpath):
                return
            _check_inside(lpath, _target.get())
        if to_stream or self.isdir(rpath):
            super().get_file(rpath, lpath, callback=callback, outfile=outfile, **options)
            return
        place, entry = self._found(rpath)
        with lakes.repository(self.home, place.repository) as repository:
            own = repository.record.storage_namespace
            if lies_below(*os.path.split(os.path.abspath(lpath)), [own]):
                raise ValueError(f"{lpath} {IN_NAMESPACE}")
        callback.set_size(entry.size)
        parent = os.path.dirname(os.fspath(lpath))
        if parent:
            os.makedirs(parent, exist_ok=True)
        with _open_target(os.fspath(lpath)) as file:
            for piece in self._read(place, entry):
                callback.relative_update(file.write(piece))

    def read_range(self, place: LakePath, entry: Entry, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)`` of an entry's object; fewer if the object ends earlier."""
        end = min(end, entry.size)
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

    def _read(self, place: LakePath, entry: Entry) -> Iterator[bytes]:
        name = place.name(place.path)
        with transferring(name), lakes.located(self.home, place.repository, entry) as (store, key):
            yield from read_located(place.uri, store, key, entry)


def _directory(name: str) -> Info:
    return {"name": name, "size": 0, "type": "directory"}


def _file(repository: Repository, name: str, entry: Entry) -> Info:
    return {
        "name": name,
        "size": entry.size,
        "type": "file",
        "checksum": entry.checksum,
        "mtime": entry.modified_at.timestamp(),
        "content_type": entry.content_type,
        "metadata": dict(entry.metadata),
        "physical_address": full_address(repository, entry),
    }


def _list_refs(repository: Repository, place: LakePath) -> list[Info]:
    with repository.lake.kv.read() as txn:
        names = [name for _, name, _ in repository.refs(txn).iter_refs()]
    return [_directory(place._replace(ref=name).name(b"")) for name in names]


def _add_parents(found: dict[str, Info], root: str, name: str) -> None:
    """Add the parent directories of a file, up to and including the root."""
    parent = name.rpartition("/")[0]
    while len(parent) >= len(root) and parent not in found:
        found[parent] = _directory(parent)
        parent = parent.rpartition("/")[0]


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such file or directory", path)


def is_left_out(path: str) -> bool:
    """Return whether a path is never transferred because of its name; if true, warn."""
    if not is_own(paths.parse(path).path):
        return False
    warnings.warn(f"left out: {path}: {LEFT_OUT}", LakeWarning, stacklevel=3)
    return True


def _open_target(path: str) -> AbstractContextManager[BinaryIO]:
    """Open a local file for writing; an error in the block leaves a regular file as it was."""
    if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
        return open(path, "wb")
    return replacing(path, mode=0o666, is_durable=False)


def _check_inside(path: Any, root: str) -> None:
    """Raise `ValueError` for a file outside a directory; old versions of fsspec do not check."""
    place = os.path.abspath(path)
    if root and place != root and not place.startswith(root.rstrip("/") + "/"):
        raise ValueError(f"the name of an object leads outside {root}: {place}")

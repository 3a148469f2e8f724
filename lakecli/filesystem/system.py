"""The file system itself: what fsspec asks, answered from refs, entries and stores.

fsspec asks everything of one class, which is why this one module is as long as it is; what can be
said without that class is beside it.
"""

from __future__ import annotations

import errno
import io
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from threading import local
from typing import TYPE_CHECKING, Any, Final

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.core import get_compression
from fsspec.spec import AbstractFileSystem
from fsspec.utils import isfilelike

from lakecli.committed.listing import ListedPrefix, list_prefix
from lakecli.committed.values import decode_entry
from lakecli.filesystem import lakes, paths
from lakecli.filesystem.failures import finding, transferring
from lakecli.filesystem.files import PackedFile, ReadFile, TextFile, WrittenFile
from lakecli.filesystem.transaction import LakeTransaction, Pending
from lakecli.objectstore.base import ObjectNotFound
from lakecli.refs.names import is_branch_name
from lakecli.refs.ref_store import RefStore
from lakecli.repository.core.address import full_address
from lakecli.repository.core.read import damaged, gone, read_located
from lakecli.repository.core.view import open_view

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from lakecli.filesystem.paths import Place
    from lakecli.model import Commit, Entry
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.view import View
    from lakecli.repository.deposit import Removal

PARALLEL_READS: Final = 16
"""Ranges that `LakeFileSystem.cat_ranges` reads at a time."""

_TEXT_OPTIONS: Final = frozenset({"encoding", "errors", "newline"})
_WITHOUT_KIND: Final = str.maketrans("", "", "bt")
_OBJECT_OPTIONS: Final = frozenset({"content_type", "metadata"})

_target: ContextVar[str] = ContextVar("target", default="")
"""The directory that a recursive download of this thread must not leave; ``""`` for none."""

Info = dict[str, Any]


class LakeFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The repositories of this machine as directories: ``lakefs://repository/ref/path``.

    A ref is any expression that commands take: a branch with what is staged on it, a tag, a
    commit, ``main~2``, ``main@{2026-11-01}``. What is written goes to a branch: uploaded when the
    file is closed, and staged, which a `commit` then makes part of history. Nothing is cached but
    ranges of committed trees, so what another process stages is seen at once.

    The setting ``sync`` counts as on the command line. With ``auto``, the first use of a repository
    in a process, each `commit` and each `refresh` fetch and let branches follow the bucket, and
    commits move their branch there. If the bucket cannot be reached, reads use the state of the
    last fetch and a `LakeWarning` says so.

    Instances hold no open store, may be pickled, and are safe to share between threads. Each open
    file belongs to one thread at a time. A `transaction` is the instance's: it takes what all
    threads write meanwhile. Threads that need transactions of their own use an instance each
    (``skip_instance_cache=True``).

    Args:
        home: where lakecli keeps things, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories.
        committer: of commits made here, ``Name <email>``.
        options: fsspec's own.
    """

    protocol = "lakefs"
    root_marker = ""
    transaction_type = LakeTransaction
    blocksize = 5 << 20

    def __init__(
        self, home: str | os.PathLike[str] | None = None, committer: str = "", **options: Any
    ) -> None:
        super().__init__(**options)
        self._home = None if home is None else os.fspath(home)
        self.committer = committer
        self._mine = local()
        self._made: set[str] = set()

    @property
    def home(self) -> str | None:
        """The home in use; ``None`` for the platform's directories."""
        return lakes.home_of(self._home)

    @property
    def fsid(self) -> str:
        """Which files these are: the same home, the same files."""
        return f"lakefs:{self.home or ''}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return paths.strip(os.fspath(path))

    # -- looking -----------------------------------------------------------------------------

    def info(self, path: str, **_: Any) -> Info:
        """Describe a file or directory.

        A file has ``size``, ``checksum``, ``mtime`` (unix seconds), ``content_type``, ``metadata``
        and ``physical_address``, the URI of its bytes.

        Raises:
            FileNotFoundError: nothing is there.
            ValueError: a malformed name or ref expression.
        """
        path = self._strip_protocol(path)
        place = paths.parse(path)
        with finding(path):
            if not place.repository:
                return _directory("")
            if not place.ref:
                with lakes.repository(self.home, place.repository):
                    return _directory(path)
            with self._view(place) as view:
                if not place.path:
                    return _directory(path)
                value = view.find(place.path)
                if value is not None:
                    return _file(view.repository, path, decode_entry(value))
                if path in self._made or _has_any(view, place):
                    return _directory(path)
        raise _missing(path)

    def exists(self, path: str, **_: Any) -> bool:
        """Tell whether something is there; a name that nothing can have is not."""
        try:
            self.info(path)
        except (FileNotFoundError, ValueError):
            return False
        return True

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        """List a directory: repositories, the branches and tags of one, or paths of a ref.

        Raises:
            FileNotFoundError: nothing is there.
        """
        path = self._strip_protocol(path)
        with finding(path):
            found = self._list(path, paths.parse(path))
        return found if detail else [each["name"] for each in found]

    def _list(self, path: str, place: Place) -> list[Info]:
        if not place.repository:
            with lakes.lake(self.home) as held:
                return [_directory(record.name) for record in held.lake.repositories()]
        if not place.ref:
            with lakes.repository(self.home, place.repository) as repository:
                return _list_refs(repository)
        with self._view(place) as view:
            below = place.directory
            found = []
            for item in list_prefix(
                lambda start: view.scan(prefix=below, start=start), prefix=below, delimiter=b"/"
            ):
                name = place.name(item.path)
                if isinstance(item, ListedPrefix):
                    found.append(_directory(name))
                elif item.path != below:  # an object whose path ends in a slash
                    found.append(_file(view.repository, name, decode_entry(item.value)))
            value = view.find(place.path) if place.path and not found else None
            if value is not None:
                return [_file(view.repository, path, decode_entry(value))]
        if not found and place.path and path not in self._made:
            raise _missing(path)
        return found

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **options: Any,
    ) -> Any:
        """List all files below a path, by one scan unless a depth is given."""
        path = self._strip_protocol(path)
        place = paths.parse(path)
        if maxdepth is not None or not place.ref:
            return super().find(path, maxdepth, withdirs=withdirs, detail=detail, **options)
        found: dict[str, Info] = {}
        try:
            with finding(path), self._view(place) as view:
                for below, value in view.scan(prefix=place.directory):
                    name = place.name(below)
                    if withdirs:
                        _add_parents(found, path, name)
                    if not below.endswith(b"/"):
                        found[name] = _file(view.repository, name, decode_entry(value))
                own = view.find(place.path) if place.path and not found else None
                if own is not None:
                    found[path] = _file(view.repository, path, decode_entry(own))
        except FileNotFoundError:
            return {} if detail else []
        found = dict(sorted(found.items()))
        return found if detail else list(found)

    def created(self, path: str) -> datetime:
        """Return when the object was recorded."""
        return self.modified(path)

    def modified(self, path: str) -> datetime:
        """Return when the object was recorded."""
        return self._found(path)[1].modified_at

    def checksum(self, path: str) -> int:
        """Return a number that changes with the contents."""
        return int.from_bytes(self.ukey(path).encode())

    def ukey(self, path: str) -> str:
        """Return the BLAKE3 of the contents; of an import its ETag. A directory has none."""
        return self._found(path)[1].checksum

    def sign(self, path: str, expiration: int = 100, **_: Any) -> str:
        """Return a URL that reads the object without credentials for some seconds."""
        from lakecli.repository.presign import presign_entry

        place, entry = self._found(path)
        with transferring(path), lakes.repository(self.home, place.repository) as repository:
            lifetime = timedelta(seconds=expiration)
            return presign_entry(repository, entry, place.path, expires_in=lifetime).url

    # -- reading -----------------------------------------------------------------------------

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Return the bytes of a file, or some; a whole one is verified against its checksum."""
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
        """Return parts of files, several at a time, in the order in which they are asked for."""
        del max_gap
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("as many starts and ends as paths are needed")
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
        """Download files; nothing is written outside of `lpath`, whatever names objects have.

        Raises:
            ValueError: the name of an object leads out of it.
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
        """Download one file, and verify it; one that turns out damaged is removed again."""
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
        """Return bytes ``[start, end)`` of an entry's object, from where they lie."""
        if end <= start:
            return b""
        name = place.name(place.path)
        with transferring(name), lakes.located(self.home, place.repository, entry) as (store, key):
            try:
                data = store.get(key, start=start, length=end - start)
            except ObjectNotFound as error:
                raise gone(place, store, key) from error
            if len(data) != end - start:
                raise damaged(place, store, key)
            return data

    def _read(self, place: Place, entry: Entry) -> Iterator[bytes]:
        name = place.name(place.path)
        with transferring(name), lakes.located(self.home, place.repository, entry) as (store, key):
            yield from read_located(place, store, key, entry)

    def describe(self, place: Place, entry: Entry) -> Info:
        """Return what `info` tells of an entry."""
        with lakes.repository(self.home, place.repository) as repository:
            return _file(repository, place.name(place.path), entry)

    def _found(self, path: str) -> tuple[Place, Entry]:
        """Return the entry of a file.

        Raises:
            FileNotFoundError: nothing is there.
            IsADirectoryError: it is a directory.
        """
        path = self._strip_protocol(path)
        place = paths.parse(path)
        if not place.path:
            self.info(path)
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        with finding(path), self._view(place) as view:
            value = view.find(place.path)
            if value is not None:
                return place, decode_entry(value)
            if path in self._made or _has_any(view, place):
                raise IsADirectoryError(errno.EISDIR, "a directory", path)
        raise _missing(path)

    @contextmanager
    def _view(self, place: Place) -> Iterator[View]:
        with (
            lakes.repository(self.home, place.repository) as repository,
            open_view(repository, place.ref) as view,
        ):
            yield view

    # -- writing -----------------------------------------------------------------------------

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """Open a file: to read it in any way, or to write it whole.

        Args:
            path: of the file.
            mode: ``r``, ``w`` or ``x``, with ``b`` for bytes, else text.
            options: ``block_size`` and ``cache_options`` of reading, ``compression``, those of
                text, and ``content_type`` and ``metadata`` of what is written.

        Raises:
            FileNotFoundError: there is no such file to read, or branch to write to.
            OSError: the ref is no branch (`errno.EROFS`).
            io.UnsupportedOperation: appending, or reading and writing at once.
        """
        if "r" in mode:
            return super().open(path, mode, **options)
        text = {key: options.pop(key) for key in _TEXT_OPTIONS & options.keys()}
        compression = get_compression(path, options.pop("compression", None))
        raw = super().open(path, mode.translate(_WITHOUT_KIND) + "b", **options)
        file: Any = raw if compression is None else PackedFile(raw, compression)
        return file if "b" in mode else TextFile(file, **text)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **options: Any,
    ) -> Any:
        if mode == "rb":
            place, entry = self._found(path)
            return ReadFile(
                self,
                path,
                place,
                entry,
                block_size=block_size or self.blocksize,
                cache_options=cache_options,
                cache_type=options.get("cache_type", "readahead"),
            )
        if mode not in {"wb", "xb"}:
            raise io.UnsupportedOperation(
                f"files are read (rb) or written whole (wb, xb), not {mode!r}: {path}"
            )
        place = self._writable(path)
        if mode == "xb" and self.isfile(path):
            raise FileExistsError(errno.EEXIST, "is there already", path)
        known = {key: value for key, value in options.items() if key in _OBJECT_OPTIONS}
        return WrittenFile(self, path, place, autocommit=autocommit, options=known)

    def _writable(self, path: str) -> Place:
        """Return what a path names, if it is one of an object on a branch."""
        path = self._strip_protocol(path)
        place = paths.parse(path)
        if not place.path:
            raise IsADirectoryError(errno.EISDIR, "no path of an object", path)
        with finding(path), lakes.repository(self.home, place.repository) as repository:
            with repository.lake.kv.read() as txn:
                refs = RefStore(txn, repository.key)
                if is_branch_name(place.ref) and refs.find_branch(place.ref) is not None:
                    return place
            with self._view(place):  # or it is not there at all
                raise OSError(errno.EROFS, "only branches can be written to", path)

    def record(self, place: Place, change: Entry | Removal) -> None:
        """Stage an entry or a removal: now, or with what is staged together."""
        parent = place.name(place.path)
        while parent:
            parent = self._parent(parent)
            self._made.discard(parent)
        pending = self._pending()
        if pending is None:
            pending = Pending()
            pending.add(place, change)
            pending.stage(self.home)
        else:
            pending.add(place, change)

    def _pending(self) -> Pending | None:
        if self._intrans:
            waiting: Pending = self.transaction.pending
            return waiting
        mine: Pending | None = getattr(self._mine, "pending", None)
        return mine

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Stage what this thread does in the block at its end, or nothing if it fails."""
        if self._pending() is not None:
            yield
            return
        self._mine.pending = pending = Pending()
        try:
            yield
        finally:
            self._mine.pending = None
        pending.stage(self.home)

    def put(self, lpath: Any, rpath: Any, **options: Any) -> None:
        """Upload files or directories; all of them are staged together."""
        with self._together():
            super().put(lpath, rpath, **options)

    def pipe(self, path: Any, value: Any = None, **options: Any) -> None:
        """Write values; several by path are staged together."""
        with self._together():
            super().pipe(path, value, **options)

    def copy(self, path1: Any, path2: Any, **options: Any) -> None:
        """Copy objects or directories, of any ref to a branch; no byte of data moves."""
        with self._together():
            super().copy(path1, path2, **options)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Stage at one path the entry of another; into another repository its bytes are sent."""
        if self.isdir(path1):
            return
        place, entry = self._found(path1)
        target = self._writable(path2)
        moved: dict[str, Entry] | None = getattr(self._mine, "moved", None)
        if moved is not None:
            moved[self._strip_protocol(path1)] = entry
        if place.repository == target.repository:
            self.record(target, entry)
            return
        options = {"content_type": entry.content_type, "metadata": dict(entry.metadata)}
        with WrittenFile(self, path2, target, autocommit=True, options=options) as file:
            for piece in self._read(place, entry):
                file.write(piece)

    def mv(self, path1: Any, path2: Any, **options: Any) -> None:
        """Move objects or directories of a branch, in one step.

        What others put in their place meanwhile stays there.
        """
        with self._together():
            self._mine.moved = {}
            try:
                super().mv(path1, path2, **options)
            finally:
                self._mine.moved = None

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove objects, with ``recursive`` also directories; all of it is staged together.

        Raises:
            FileNotFoundError: nothing is there.
            IsADirectoryError: a directory, without ``recursive``.
        """
        found = self.expand_path(path, recursive=recursive, maxdepth=maxdepth)
        with self._together():
            for each in found:
                self._made.discard(each)
                if not recursive or self.isfile(each):
                    self._rm(each)

    def _rm(self, path: str) -> None:
        from lakecli.repository.deposit import Removal

        moved: dict[str, Entry] | None = getattr(self._mine, "moved", None)
        if moved is None:
            entry = self._found(path)[1]
        elif (copied := moved.get(self._strip_protocol(path))) is not None:
            entry = copied  # whatever has come in its place since
        else:
            return  # it has come since
        self.record(self._writable(path), Removal(entry))

    def rm_file(self, path: str) -> None:
        """Remove one object."""
        self._rm(path)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Make a directory, which is one to this instance only until something is in it."""
        del create_parents
        path = self._strip_protocol(path)
        while paths.parse(path).path:
            self._made.add(path)
            path = self._parent(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory, as `mkdir`; those above it need not be there."""
        if not exist_ok and self.exists(path):
            raise FileExistsError(errno.EEXIST, "is there already", path)
        self.mkdir(path)

    def rmdir(self, path: str) -> None:
        """Forget a directory in which nothing is.

        Raises:
            OSError: something is in it.
        """
        path = self._strip_protocol(path)
        if self.ls(path, detail=False):
            raise OSError(errno.ENOTEMPTY, "the directory is not empty", path)
        self._made.discard(path)

    # -- history -----------------------------------------------------------------------------

    def refresh(self, path: str) -> None:
        """Fetch what others have pushed to the repository of a path, where ``sync = auto``.

        Raises:
            FileNotFoundError: no such repository.
        """
        path = self._strip_protocol(path)
        place = paths.parse(path)
        with finding(path), lakes.repository(self.home, place.repository, is_fresh=True):
            pass

    def commit(
        self,
        branch: str,
        message: str,
        *,
        committer: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Commit:
        """Commit everything that is staged on a branch, ``lakefs://repository/branch``.

        With ``sync = auto`` this fetches first, and the commit moves the branch in the bucket too.

        Raises:
            FileNotFoundError: no such branch.
            LakeFileError: nothing was committed. Its ``kind`` says why: nothing is staged, others
                have changed the same paths, or the bucket does not answer. Staged changes stay.
        """
        from lakecli.repository.commit import commit

        path = self._strip_protocol(branch)
        place = paths.parse(path)
        with (
            finding(path),
            lakes.repository(self.home, place.repository, is_fresh=True) as repository,
        ):
            made = commit(
                repository,
                place.ref,
                message=message,
                committer=self.committer if committer is None else committer,
                metadata=metadata,
            )
            repository.mover.finish(repository)
            return made

    @contextmanager
    def committing(self, branch: str, message: str, **options: Any) -> Iterator[None]:
        """Do what is in the block in a transaction, and commit the branch at its end.

        After an error nothing is staged and nothing committed. `options` are those of `commit`.
        """
        with self.transaction:
            yield
        self.commit(branch, message, **options)


def _check_inside(path: Any, root: str) -> None:
    """Refuse a file outside of a directory; old versions of fsspec do not.

    Raises:
        ValueError: it is.
    """
    place = os.path.abspath(path)
    if root and place != root and not place.startswith(root.rstrip("/") + "/"):
        raise ValueError(f"the name of an object leads out of {root}: {place}")


def _has_any(view: View, place: Place) -> bool:
    """Tell whether something is below a path."""
    return next(view.scan(prefix=place.directory), None) is not None


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


def _list_refs(repository: Repository) -> list[Info]:
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        names = [branch.name for branch in refs.iter_branches()]
        names += [tag.name for tag in refs.iter_tags()]
    return [_directory(f"{repository.name}/{name}") for name in names]


def _add_parents(found: dict[str, Info], root: str, name: str) -> None:
    """Add the directories that a file lies in, the root among them."""
    parent = name.rpartition("/")[0]
    while len(parent) >= len(root) and parent not in found:
        found[parent] = _directory(parent)
        parent = parent.rpartition("/")[0]


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such file or directory", path)

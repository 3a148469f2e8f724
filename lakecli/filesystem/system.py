"""The file system itself: writing and committing, on top of reading."""

from __future__ import annotations

import errno
import io
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final

from fsspec.core import get_compression
from fsspec.transaction import Transaction

from lakecli.base.model import Commit
from lakecli.committed.values import decode_entry
from lakecli.errors import LakeWarning
from lakecli.filesystem import lakes, paths
from lakecli.filesystem.files import GrowingReadAhead, PackedFile, ReadFile, TextFile, WrittenFile
from lakecli.filesystem.paths import LakePath, finding
from lakecli.filesystem.reading import ReadingFileSystem, is_left_out
from lakecli.refs.names import is_branch_name
from lakecli.refs.ref_store import RefStore
from lakecli.repository.commit import commit
from lakecli.repository.upload import Removal, stage_together

_TEXT_OPTIONS: Final = frozenset({"encoding", "errors", "newline"})
_WITHOUT_KIND: Final = str.maketrans("", "", "bt")
_OBJECT_OPTIONS: Final = frozenset({"content_type", "metadata"})


# The package lakefs-spec registers lakefs:// with fsspec too, for a lakeFS server. Which of the two
# fsspec takes depends on the order of their installation.
_SERVER: Final = frozenset(
    {
        *("host", "username", "password", "api_key", "api_key_prefix", "api_token"),
        *("access_token", "verify_ssl", "ssl_ca_cert", "proxy", "configfile"),
    }
)
_BRANCHES: Final = frozenset(("create_branch_ok", "source_branch"))


class Pending:
    """Changes to stage, the last one of each path; safe to share between threads."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str], dict[bytes, bytes | Removal]] = {}
        self._lock = Lock()

    def add(self, place: LakePath, change: bytes | Removal) -> None:
        """Add an encoded entry or a removal."""
        with self._lock:
            branch = self._changes.setdefault((place.repository, place.ref), {})
            branch[place.path] = change

    def stage(self, home: str | None) -> None:
        """Stage all changes: those of one branch atomically, one branch after the other."""
        for (name, branch), changes in self._changes.items():
            with finding(f"{name}/{branch}"), lakes.repository(home, name) as found:
                stage_together(found, branch, changes, kind="file system")


class LakeTransaction(Transaction):  # type: ignore[misc]  # fsspec has no types
    """Stages everything that is written, copied and removed at its end, or nothing.

    Until then the changes are invisible, also within the transaction. With several branches, each
    is staged atomically, one after the other.
    """

    pending: Pending

    def start(self) -> None:
        """Begin the transaction."""
        super().start()
        self.pending = Pending()

    def complete(self, commit: bool = True) -> None:
        """Stage all changes, or with ``commit=False`` discard them."""
        fs = self.fs
        super().complete(commit=commit)  # each file adds its entry to the pending changes
        if commit:
            self.pending.stage(fs.home)


class LakeFileSystem(ReadingFileSystem):
    """The repositories of this machine as directories: ``lakefs://repository/ref/path``.

    A ref is any expression that commands take: a branch with its staged changes, a tag, a commit,
    ``main~2``, ``main@{2026-11-01}``. ``lakefs://s3://bucket/sales@ref/path`` reads a repository
    without a clone: each ref once, until a `refresh`. Files are written to a branch: uploaded when
    closed, and staged until a `commit`. Only ranges of committed trees are cached, so changes that
    another process stages are visible at once.

    The setting ``sync`` counts as on the command line. With ``auto``, the first use of a repository
    in a process, each `commit` and each `refresh` fetch and let branches follow the bucket, and
    commits move their branch there. If the bucket cannot be reached, reads use the state of the
    last fetch and a `LakeWarning` says so.

    Instances hold no open store, can be pickled, and are safe to share between threads. Use each
    open file from one thread at a time. A `transaction` belongs to the instance and includes what
    all threads write. For separate transactions, use separate instances
    (``skip_instance_cache=True``).

    Args:
        home: directory of lakecli's data, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories.
        committer: committer of `commit`, ``Name <email>``.
        options: options of fsspec.

    Raises:
        ValueError: an option of the package lakefs-spec is given, such as ``host``.
    """

    transaction_type = LakeTransaction

    def __init__(
        self, home: str | os.PathLike[str] | None = None, committer: str = "", **options: Any
    ) -> None:
        check_options(options)
        super().__init__(home, committer, **options)

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """Open a file, to read it or to write it as a whole.

        Args:
            path: path of the file.
            mode: ``r``, ``w`` or ``x``, with ``b`` for bytes, otherwise text.
            options: ``block_size`` (the most that is read ahead), ``cache_type`` and
                ``cache_options`` for reading, ``compression``, options of text, and
                ``content_type`` and ``metadata`` for writing.

        Raises:
            FileNotFoundError: the file to read or the branch to write to does not exist.
            OSError: the ref is not a branch (`errno.EROFS`).
            io.UnsupportedOperation: the mode appends, or reads and writes.
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
                cache_type=options.get("cache_type", GrowingReadAhead.name),
            )
        if mode not in {"wb", "xb"}:
            raise io.UnsupportedOperation(f"mode must be rb, wb or xb, not {mode!r}: {path}")
        place = self._writable(path)
        if mode == "xb" and self.isfile(path):
            raise FileExistsError(errno.EEXIST, "already exists", path)
        known = {key: value for key, value in options.items() if key in _OBJECT_OPTIONS}
        return WrittenFile(
            self, path, place, record=self.record, autocommit=autocommit, options=known
        )

    def _writable(self, path: str) -> LakePath:
        """Parse the path of an object on a branch."""
        path = self._strip_protocol(path)
        place = paths.parse(path)
        if not place.path:
            raise IsADirectoryError(errno.EISDIR, "not the path of an object", path)
        if place.is_in_place:
            raise OSError(errno.EROFS, "a repository without a clone is only read", path)
        with finding(path), lakes.repository(self.home, place.repository) as repository:
            with repository.lake.kv.read() as txn:
                refs = RefStore(txn, repository.key)
                if is_branch_name(place.ref) and refs.find_branch(place.ref) is not None:
                    return place
            with self._view(place):  # raises an error if the ref does not exist
                raise OSError(errno.EROFS, "only branches are writable", path)

    def record(self, place: LakePath, change: bytes | Removal) -> None:
        """Stage an encoded entry or a removal, now or with the other pending changes."""
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
        """Stage the changes of this thread in the block at its end, or none after an error."""
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
        """Upload files or directories; stage all of them together.

        Files of Git, of lakecli and of the system are left out, with a `LakeWarning`.
        """
        with self._together():
            super().put(lpath, rpath, **options)

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        """Upload one file, unless its name is one that `put` leaves out."""
        if not is_left_out(rpath):
            super().put_file(lpath, rpath, **options)

    def pipe(self, path: Any, value: Any = None, **options: Any) -> None:
        """Write values; stage several of them together."""
        with self._together():
            super().pipe(path, value, **options)

    def copy(self, path1: Any, path2: Any, **options: Any) -> None:
        """Copy objects or directories of any ref to a branch, without copying data."""
        with self._together():
            super().copy(path1, path2, **options)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Stage the entry of one path at another; copy its bytes into another repository."""
        if self.isdir(path1):
            return
        place, value = self._found_value(path1)
        target = self._writable(path2)
        moved: dict[str, bytes] | None = getattr(self._mine, "moved", None)
        if moved is not None:
            moved[self._strip_protocol(path1)] = value
        if place.repository == target.repository:
            self.record(target, value)
            return
        entry = decode_entry(value)
        options = {"content_type": entry.content_type, "metadata": dict(entry.metadata)}
        with WrittenFile(
            self, path2, target, record=self.record, autocommit=True, options=options
        ) as file:
            for piece in self._read(place, entry):
                file.write(piece)

    def mv(self, path1: Any, path2: Any, **options: Any) -> None:
        """Move objects or directories of a branch, atomically.

        Objects that other processes write to the old paths meanwhile are kept.
        """
        with self._together():
            self._mine.moved = {}
            try:
                super().mv(path1, path2, **options)
            finally:
                self._mine.moved = None

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove objects, with ``recursive`` also directories; stage all removals together.

        Raises:
            FileNotFoundError: the path does not exist.
            IsADirectoryError: the path is a directory, and ``recursive`` is not set.
        """
        found = self.expand_path(path, recursive=recursive, maxdepth=maxdepth)
        with self._together():
            for each in found:
                self._made.discard(each)
                if not recursive or self.isfile(each):
                    self._rm(each)

    def _rm(self, path: str) -> None:
        moved: dict[str, bytes] | None = getattr(self._mine, "moved", None)
        if moved is None:
            seen = self._found_value(path)[1]
        elif (copied := moved.get(self._strip_protocol(path))) is not None:
            seen = copied  # not an object written to the path since
        else:
            return  # written to the path since
        self.record(self._writable(path), Removal(seen))

    def rm_file(self, path: str) -> None:
        """Remove one object."""
        self._rm(path)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Create a directory, which exists for this instance only until it contains an object."""
        del create_parents
        path = self._strip_protocol(path)
        while paths.parse(path).path:
            self._made.add(path)
            path = self._parent(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Create a directory, as `mkdir`; its parents need not exist."""
        if not exist_ok and self.exists(path):
            raise FileExistsError(errno.EEXIST, "already exists", path)
        self.mkdir(path)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory.

        Raises:
            OSError: the directory is not empty.
        """
        path = self._strip_protocol(path)
        if self.ls(path, detail=False):
            raise OSError(errno.ENOTEMPTY, "the directory is not empty", path)
        self._made.discard(path)

    # -- history -----------------------------------------------------------------------------

    def refresh(self, path: str) -> None:
        """Fetch what others have pushed to the repository of a path, where ``sync = auto``.

        Of a repository that is read without a clone, all refs are read anew.

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
            if repository.mover is not None:
                repository.mover.finish(repository)
            return made

    @contextmanager
    def committing(self, branch: str, message: str, **options: Any) -> Iterator[None]:
        """Run the block in a transaction, and commit the branch at its end.

        After an error nothing is staged and nothing is committed. `options` are those of `commit`.
        """
        with self.transaction:
            yield
        self.commit(branch, message, **options)


def check_options(options: Iterable[str]) -> None:
    """Refuse the options of lakefs-spec, and warn once if it is installed.

    Raises:
        ValueError: an option of it is given. Values are not shown: they may be secrets.
    """
    _warn_of_lakefs_spec()
    given = set(options)
    if found := sorted(_SERVER & given):
        raise ValueError(
            f"options of lakefs-spec, for a lakeFS server: {', '.join(found)} (lakecli has no "
            "server: clone the repository by `lakecli clone`, and leave these options out; for the "
            "server, use lakefs_spec.LakeFSFileSystem)"
        )
    if found := sorted(_BRANCHES & given):
        raise ValueError(
            f"options of lakefs-spec: {', '.join(found)} (lakecli creates no branches on writing: "
            "`lakecli branch create`)"
        )


@cache
def _warn_of_lakefs_spec() -> None:
    if find_spec("lakefs_spec") is not None:
        warnings.warn(
            "lakefs-spec is installed, too, and registers lakefs:// for a lakeFS server; this is "
            "lakecli's file system, of repositories without a server (uninstall lakefs-spec, or "
            "see `lakecli help python`)",
            LakeWarning,
            stacklevel=6,
        )

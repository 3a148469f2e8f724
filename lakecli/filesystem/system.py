"""The file system ``lakefs://``: adds writing and committing to the reading part."""

import errno
import io
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.core import get_compression
from fsspec.implementations.local import LocalFileSystem

from lakecli import blocks
from lakecli.base.model import Commit
from lakecli.base.uri import LakeUri
from lakecli.committed.values import decode_entry
from lakecli.errors import LakeError, LakeWarning
from lakecli.filesystem import files, lakes, paths
from lakecli.filesystem.paths import LakePath, finding
from lakecli.filesystem.reading import ReadingFileSystem, is_left_out
from lakecli.filesystem.transactions import LakeTransaction, Pending, check_closed
from lakecli.refs.names import is_branch_name
from lakecli.repository import workspace
from lakecli.repository.commit import commit
from lakecli.repository.journal.workspaces import is_workspace
from lakecli.repository.upload import Removal

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


class LakeFileSystem(ReadingFileSystem):
    """A file system of the repositories of this machine: ``lakefs://repository/ref/path``.

    A ref is any expression that commands take: a branch with its staged changes, a tag, a commit,
    ``main~2``, ``main@{2026-11-01}``. ``lakefs://s3://bucket/sales@ref/path`` reads a repository
    without a clone; until a `refresh`, each ref is looked up only once. Files can be written to a
    branch: a file is uploaded and staged when it is closed, and `commit` commits it. Only ranges of
    committed trees are cached, so changes that another process stages are visible immediately.

    The setting ``sync`` works as on the command line. With ``auto``, the first use of a repository
    in a process, each `commit` and each `refresh` fetch, and branches follow the bucket; a commit
    also moves its branch in the bucket. If the bucket cannot be reached, reads use the state of the
    last fetch, and issue a `LakeWarning`.

    Instances have no open store, can be pickled, and are safe to share between threads. Use each
    open file from one thread at a time. A file that was not closed explicitly is closed, and so
    written, when Python deletes the file object.

    `committing` makes one commit of everything that this process changes on a branch, by any
    instance. A `transaction` stages together all changes of one instance, made by any thread, and
    makes no commit. For separate transactions, use separate instances
    (``skip_instance_cache=True``).

    Args:
        home: directory of lakecli's data, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories.
        committer: committer of `commit`, ``Name <email>``.

    Raises:
        ValueError: an option of the package lakefs-spec is given, such as ``host``.
    """

    transaction_type = LakeTransaction

    def __init__(
        self, home: str | os.PathLike[str] | None = None, committer: str = "", **options: Any
    ) -> None:
        check_options(options)
        super().__init__(home, committer, **options)
        self._starting = Lock()
        self._waiting: Pending | None = None
        """The changes of the open transaction, or ``None``."""

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """Open a file, to read it or to replace it.

        Args:
            mode: ``r``, ``w`` or ``x``, with ``b`` for bytes, otherwise text.
            options: for reading, ``block_size`` (the largest number of bytes to read ahead),
                ``cache_type`` and ``cache_options``; for writing, ``content_type`` and
                ``metadata``; for both, ``compression`` and options of text files.

        Raises:
            FileNotFoundError: the file to read or the branch to write to does not exist.
            OSError: the ref is not a branch (`errno.EROFS`).
            io.UnsupportedOperation: the mode is for appending, or for both reading and writing.
        """
        if "r" in mode:
            return super().open(path, mode, **options)
        options.setdefault("autocommit", True)  # in a transaction, `_record` delays the staging
        text = {key: options.pop(key) for key in _TEXT_OPTIONS & options.keys()}
        compression = get_compression(path, options.pop("compression", None))
        raw = super().open(path, mode.translate(_WITHOUT_KIND) + "b", **options)
        try:
            file: Any = raw if compression is None else files.PackedFile(raw, compression)
            return file if "b" in mode else files.TextFile(file, **text)
        except BaseException:
            raw.discard()
            raise

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
            return files.ReadFile(
                self,
                path,
                place,
                entry,
                block_size=block_size or self.blocksize,
                cache_options=cache_options,
                cache_type=options.get("cache_type", files.GrowingReadAhead.name),
            )
        if mode not in {"wb", "xb"}:
            raise io.UnsupportedOperation(f"mode must be rb, wb or xb, not {mode!r}: {path}")
        place = self._writable(path)
        if mode == "xb" and self.isfile(path):
            raise FileExistsError(errno.EEXIST, "already exists", path)
        known = {key: value for key, value in options.items() if key in _OBJECT_OPTIONS}
        pending = self._pending()
        return files.WrittenFile(
            self,
            path,
            place,
            record=partial(self._record, pending),
            belongs_to=pending or (place.ref if is_workspace(place.ref) else None),
            autocommit=autocommit,
            options=known,
        )

    def _writable(self, path: str) -> LakePath:
        """Parse the path of an object to write; in a `committing` block, `ref` is its workspace.

        Raises:
            FileNotFoundError: the repository or ref does not exist.
            IsADirectoryError: the path names a repository, a ref or a directory, not an object.
            OSError: the ref is not a branch, or the repository is read without a clone
                (`errno.EROFS`).
        """
        path = self._strip_protocol(path)
        place = paths.parse(path)
        if not place.path:
            raise IsADirectoryError(errno.EISDIR, "not the path of an object", path)
        if LakeUri(place.repository).namespace is not None:
            raise OSError(errno.EROFS, "a repository without a clone is only read", path)
        with finding(path), lakes.repository(self.home, place.repository) as repository:
            with repository.lake.kv.read() as txn:
                refs = repository.refs(txn)
                if is_branch_name(place.ref) and refs.find_branch(place.ref) is not None:
                    return self._place(path)
            with self._view(place):  # raises an error if the ref does not exist
                raise OSError(errno.EROFS, "only branches are writable", path)

    def _record(self, pending: Pending | None, place: LakePath, change: bytes | Removal) -> None:
        """Stage an encoded entry or a removal immediately, or add it to the pending changes."""
        parent = place.name(place.path)
        while parent:
            parent = self._parent(parent)
            self._made.discard(parent)
        changes = pending or Pending()
        changes.add(place, change)
        if pending is None:
            changes.stage(self.home)

    def _above(self, place: LakePath) -> Mapping[bytes, bytes]:
        waiting = self._waiting
        return {} if waiting is None else waiting.above(place)

    def begins(self, pending: Pending | None) -> bool:
        """Begin or end a transaction.

        Args:
            pending: the changes of the transaction to begin; ``None`` to end the present
                transaction.

        Returns:
            ``False`` if a transaction should begin, but another one has not ended.
        """
        with self._starting:
            if pending is not None and self._waiting is not None:
                return False
            self._waiting = pending
            return True

    def start_transaction(self) -> Any:
        """Begin a transaction, which `end_transaction` ends."""
        self.transaction.start()
        return self.transaction

    def __reduce__(self) -> Any:
        """Pickle the instance; a process that unpickles it joins the open `committing` blocks."""
        if self._waiting is not None:
            raise TypeError(
                "a file system in a transaction cannot be given to another process, whose writes "
                "would not be part of it (use `committing`)"
            )
        joined = {**blocks.workspaces(self.home), **self._joined}
        make, arguments = super().__reduce__()
        return (_join, (joined, *arguments)) if joined else (make, arguments)

    def _pending(self) -> Pending | None:
        mine: Pending | None = getattr(self._mine, "pending", None)
        return self._waiting or mine

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Stage this thread's changes together at the end of the block; after an error, stage none.

        Within a transaction, or within another block of this thread, the changes are added to
        that transaction or block.
        """
        if self._pending() is not None:
            yield
            return
        self._mine.pending = pending = Pending()
        try:
            yield
        finally:
            self._mine.pending = None
        pending.stage(self.home)

    def put(
        self,
        lpath: Any,
        rpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """Upload files or directories; stage all of them together.

        Files of Git, of lakecli and of the system are left out, with a `LakeWarning`.
        """
        pair = self._as_file_lists(LocalFileSystem(), lpath, rpath, recursive, maxdepth)
        with self._together():
            super().put(*pair, recursive=recursive, callback=callback, maxdepth=maxdepth, **options)

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        """Upload one file, unless `put` leaves out files with its name."""
        if not is_left_out(rpath):
            super().put_file(lpath, rpath, **options)

    def pipe(self, path: Any, value: Any = None, **options: Any) -> None:
        """Write values to files; if there are several, stage them together."""
        with self._together():
            super().pipe(path, value, **options)

    def copy(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """Copy objects or directories of any ref to a branch, without copying data."""
        pair = self._as_file_lists(self, path1, path2, recursive, maxdepth)
        with self._together():
            super().copy(*pair, recursive=recursive, maxdepth=maxdepth, **options)

    def _as_file_lists(
        self, files: Any, source: Any, target: Any, recursive: bool, maxdepth: int | None
    ) -> tuple[Any, Any]:
        into = isinstance(target, str) and (target.endswith("/") or self.isdir(target))
        return paths.as_file_lists(
            files, source, target, into=into, recursive=recursive, maxdepth=maxdepth
        )

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Stage the entry of one path at another; between repositories, copy the bytes, too."""
        if self.isdir(path1):
            return
        place, value = self._found_value(path1)
        target = self._writable(path2)
        moved: dict[str, bytes | None] | None = getattr(self._mine, "moved", None)
        if moved is not None:
            moved.setdefault(self._strip_protocol(path1), value)
            moved[self._strip_protocol(path2)] = None  # what has moved to a path stays there
        if place.repository == target.repository:
            self._record(self._pending(), target, value)
            return
        entry = decode_entry(value)
        metadata = dict(entry.metadata)
        with self._open(path2, "wb", content_type=entry.content_type, metadata=metadata) as file:
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
        self._forget_made(set(found))
        with self._together():
            for each in found:
                if not recursive or self.isfile(each):
                    self.rm_file(each)
                else:
                    self._remove_marker(each)

    def _forget_made(self, removed: set[str]) -> None:
        """Forget the directories of `mkdir` that are among removed paths or below one of them."""
        for made in list(self._made):
            above = made
            while above and above not in removed:
                above = self._parent(above)
            if above:
                self._made.discard(made)

    def _remove_marker(self, path: str) -> None:
        """Remove the empty object with which other programs, such as Hadoop, mark a directory."""
        place = self._place(path)
        marker = place._replace(path=place.directory)
        with finding(path), self._view(place) as view:
            value = view.find(marker.path) if place.path else None
        if value is not None and not decode_entry(value).size:
            self._record(self._pending(), marker, Removal(value))

    def rm_file(self, path: str) -> None:
        """Remove one object."""
        moved: dict[str, bytes | None] | None = getattr(self._mine, "moved", None)
        if moved is None:
            seen = self._found_value(path)[1]
        elif (copied := moved.get(self._strip_protocol(path))) is not None:
            seen = copied  # an object that was written to the path since is kept
        else:
            return  # the object was written by or after the copying
        self._record(self._pending(), self._writable(path), Removal(seen))

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Create a directory; only this instance sees it until it contains an object."""
        del create_parents
        path = self._strip_protocol(path)
        while paths.parse(path).path:
            self._made.add(path)
            path = self._parent(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Create a directory like `mkdir`; without `exist_ok`, raise an error if it exists."""
        if not exist_ok and self.exists(path):
            raise FileExistsError(errno.EEXIST, "already exists", path)
        self.mkdir(path)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory; raise `OSError` if it is not empty."""
        path = self._strip_protocol(path)
        if self.ls(path, detail=False):
            raise OSError(errno.ENOTEMPTY, "the directory is not empty", path)
        self._made.discard(path)
        self._remove_marker(path)

    # -- history -----------------------------------------------------------------------------

    def refresh(self, path: str) -> None:
        """Fetch what others have pushed to the repository of a path, if ``sync = auto``.

        For a repository that is read without a clone, all refs are looked up again.

        Raises:
            FileNotFoundError: the repository does not exist.
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
        allow_empty: bool = False,
    ) -> Commit:
        """Commit everything that is staged on a branch, ``lakefs://repository/branch``.

        With ``sync = auto``, the repository fetches first, and the commit moves the branch in the
        bucket, too. With `allow_empty`, a commit is made even if nothing is staged.

        Raises:
            FileNotFoundError: the branch does not exist.
            LakeFileError: nothing was committed, and staged changes stay. Its ``kind`` says why:
                nothing is staged, others have changed the same paths, the bucket does not answer,
                or a `committing` block on the branch is open.
        """
        path = self._strip_protocol(branch)
        place = paths.parse(path)
        with finding(path):
            self._check_free(path, place)
            fields = {"message": message, "metadata": metadata, "allow_empty": allow_empty}
            return self._commit(commit, place, place.ref, committer, fields)

    def _commit(
        self,
        make: Callable[..., Commit],
        place: LakePath,
        ref: str,
        committer: str | None,
        fields: Mapping[str, Any],
    ) -> Commit:
        """Make a commit on a branch or from a workspace, and finish its move in the bucket."""
        committer = self.committer if committer is None else committer
        with lakes.repository(self.home, place.repository, is_fresh=True) as repository:
            made = make(repository, ref, committer=committer, **fields)
            if repository.mover is not None:
                repository.mover.finish(repository)
            return made

    def _check_free(self, path: str, place: LakePath) -> None:
        """Raise `AlreadyOpen` if a `committing` block on the branch is open."""
        if self._place(path) != place:
            raise blocks.AlreadyOpen(place.repository, place.ref)

    @contextmanager
    def committing(
        self,
        branch: str,
        message: str,
        *,
        committer: str | None = None,
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
    ) -> Iterator[None]:
        """At the end of a ``with`` block, commit exactly the changes of the block on a branch.

        If the block raises an error, its changes are discarded.

        Within the block, this process works on a private copy of the branch, which starts with the
        branch's state and staged changes at the beginning of the block. This copy is used by all
        file systems of this process, in all threads, including file systems that libraries create
        for a URL; by `write_table` and `read_table`; by processes that multiprocessing starts; and
        by other processes that unpickle a file system that was pickled within the block.

        All other processes see and change the branch itself, and their changes are not part of the
        commit. The commit is made on top of their commits. It fails with a conflict if others have
        committed or staged changes of the same paths. Changes that were staged before the block
        stay staged, unless the block changed the same paths.

        Args:
            branch: ``lakefs://repository/branch``.
            committer: the committer of the commit; ``None``: the committer of this file system.
            allow_empty: commit even if nothing changed, for example in a job that runs again.

        Raises:
            FileNotFoundError: the branch does not exist.
            ValueError: a file that was opened in the block is still open.
            LakeFileError: nothing was committed, and the changes of the block are discarded. Its
                ``kind`` says why: this process already has a block on the branch, nothing changed,
                others have changed the same paths, or the bucket does not answer.
        """
        path = self._strip_protocol(branch)
        place = paths.parse(path)
        if self._waiting is not None:
            raise ValueError("a block within a transaction of this file system: leave out that one")
        name, process = "", os.getpid()
        try:
            with ExitStack() as stack:
                with finding(path):
                    self._check_free(path, place)
                    block = stack.enter_context(
                        blocks.opened(self.home, place.repository, place.ref)
                    )
                    with lakes.repository(self.home, place.repository, is_fresh=True) as repository:
                        name = block.begin(repository, place.ref)
                yield
                if process != os.getpid():
                    return  # this process was forked within the block of its parent
                check_closed(files.discard_open(name), "block")
            with finding(path):
                fields = {"message": message, "metadata": metadata, "allow_empty": allow_empty}
                self._commit(workspace.commit, place, name, committer, fields)
        except BaseException:
            if name and process == os.getpid():
                files.discard_open(name)
                # If this fails, housekeeping discards the workspace; nothing can write to it.
                opening = lakes.repository(self.home, place.repository)
                with suppress(LakeError), opening as repository:
                    workspace.discard(repository, name)
            raise


def _join(
    joined: dict[tuple[str, str], str],
    kind: type[LakeFileSystem],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> LakeFileSystem:
    """Unpickle an instance that was pickled within `committing` blocks."""
    loaded = kind(*arguments, **options, skip_instance_cache=True)
    loaded._joined = joined  # noqa: SLF001 - of this class
    return loaded


def check_options(options: Iterable[str]) -> None:
    """Reject the options of lakefs-spec, and warn once if that package is installed.

    Raises:
        ValueError: an option of lakefs-spec is given. Values are not shown: they may be secrets.
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

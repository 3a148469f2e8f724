"""Open files of the file system: read block by block, or uploaded when they are closed."""

import atexit
import io
import os
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from errno import EIO
from pathlib import Path
from typing import Any, Final, cast
from weakref import ref

from fsspec.caching import ReadAheadCache, register_cache
from fsspec.compression import compr
from fsspec.spec import AbstractBufferedFile

from lakecli.base.model import Entry
from lakecli.base.temporary_files import temporary_space
from lakecli.filesystem.lakes import repository
from lakecli.filesystem.paths import LakeFileError, LakePath, finding, transferring
from lakecli.filesystem.reading import ReadingFileSystem
from lakecli.repository.upload import UploadOptions, deposit

WHOLE: Final = 1 << 20
"""Files up to this size are kept in memory until closed, larger files in a temporary file."""


PARALLEL_PARTS: Final = 8
"""How many parts of a large file are sent to a bucket at the same time."""


FIRST_READ: Final = 64 << 10
"""The smallest number of bytes that a read fetches, even if it does not continue another read."""


class GrowingReadAhead(ReadAheadCache):  # type: ignore[misc]  # fsspec has no types
    """A cache that reads ahead further while a file is read in order, up to the block size.

    A read at another position fetches little more than the requested bytes, so that columns of a
    Parquet file can be read without their neighbours. Each read that continues the previous one
    doubles the number of bytes that are read ahead.
    """

    name = "growing"

    def __init__(self, blocksize: int, fetcher: Callable[[int, int], bytes], size: int) -> None:
        super().__init__(blocksize, fetcher, size)
        self._most = blocksize
        self._ahead = 0

    def _fetch(self, start: int | None, end: int | None) -> bytes:
        start, end = start or 0, self.size if end is None else end
        if not self.start <= start <= end <= self.end:
            follows = self.start <= start <= self.end and self.end > 0
            self._ahead = min(self._most, self._ahead * 2 or FIRST_READ) if follows else 0
            self.blocksize = max(self._ahead, min(self._most, FIRST_READ - (end - start)))
        data: bytes = super()._fetch(start, end)
        return data


register_cache(GrowingReadAhead, clobber=True)


class ReadFile(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """An object, open for reading; later changes of the branch have no effect on it.

    A file compares equal only to itself, like Python's own files. Use each file from one thread at
    a time.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(
        self, fs: ReadingFileSystem, path: str, place: LakePath, entry: Entry, **kwargs: Any
    ) -> None:
        self._place = place
        self._value = entry
        super().__init__(fs, path, mode="rb", size=entry.size, **kwargs)

    @property
    def details(self) -> dict[str, Any]:
        """The result of `LakeFileSystem.info` for the object when the file was opened."""
        described: dict[str, Any] = self.fs.describe(self._place, self._value)
        return described

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self.fs.read_range(self._place, self._value, start, end)
        return data

    def __reduce__(self) -> Any:
        """Pickle the file; unpickling reopens it at the same position."""
        what = (self.fs, self.path, self._place, self._value)
        return _reopen, (what, self.blocksize, self.loc)


def _reopen(
    what: tuple[ReadingFileSystem, str, LakePath, Entry], block_size: int, position: int
) -> ReadFile:
    file = ReadFile(*what, block_size=block_size)
    file.seek(position)
    return file


class _Discardable(io.IOBase):
    """A file for writing, which is discarded if its ``with`` block raises an error."""

    _process = 0
    """The ID of the process that opened the file; 0 until it is completely open."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._process = os.getpid()
        _writing[id(self)] = ref(self)

    def writable(self) -> bool:
        """Return ``True``."""
        return True

    def discard(self) -> None:
        """Discard what was written, and ignore later writes."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the file."""
        _writing.pop(id(self), None)
        super().close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the file; after an error, discard it."""
        if kind is not None:
            self.discard()
        self.close()

    def __del__(self) -> None:
        """Close a file that the caller did not close, as Python's and fsspec's own files do."""
        if not self._process or self.closed:
            return
        if self._process != os.getpid():
            self.discard()  # it belongs to the process from which this one was forked
        self.close()


class WrittenFile(_Discardable, io.BufferedIOBase):
    """A file for writing; closing it makes its contents an object of a branch.

    If its ``with`` block raises an error, the file is discarded, unlike fsspec's own files. Use
    each file from one thread at a time; several threads may use different files.

    Args:
        record: a function that stages an encoded entry, or adds the entry to the transaction.
        belongs_to: the transaction or workspace that must not end while the file is open, or
            ``None``.
        autocommit: stage the object when the file is closed; otherwise `commit` stages it.
        options: ``content_type`` and ``metadata`` of the object.
    """

    def __init__(
        self,
        fs: ReadingFileSystem,
        path: str,
        place: LakePath,
        *,
        record: Callable[[LakePath, bytes], None],
        belongs_to: object,
        autocommit: bool,
        options: dict[str, Any],
    ) -> None:
        self.fs = fs
        self.path = path
        self.mode = "wb"
        self.blocksize = WHOLE
        self.autocommit = autocommit
        self._record = record
        self._place = place
        self._options = options
        self._memory = io.BytesIO()
        self._file: Any = None
        self._size = 0
        self._value: bytes | None = None
        self._failure: BaseException | None = None
        self._is_discarded = False
        self._belongs_to = belongs_to
        super().__init__()  # last: the destructor ignores a file that is not complete

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._size

    def write(self, data: Any) -> int:
        """Write bytes; other readers see them only after the file is closed.

        After an error, the file is discarded, and `close` raises an error, too.
        """
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        view = memoryview(data)
        if self._is_discarded:
            return view.nbytes
        try:
            with transferring(self.path), temporary_space():
                if self._file is None and self._size + view.nbytes > WHOLE:
                    # `_drop` closes and removes it.
                    self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115
                        prefix="lakecli-", delete=False
                    )
                    self._file.write(self._memory.getbuffer())
                    self._memory = io.BytesIO()
                (self._memory if self._file is None else self._file).write(view)
        except BaseException as error:
            self.discard()  # these bytes are missing
            self._failure = error
            raise
        self._size += view.nbytes
        return view.nbytes

    def close(self) -> None:
        """Upload the object, and stage it if `autocommit` is set."""
        if self.closed:
            return
        try:
            if not self._is_discarded:
                self._upload()
        finally:
            self._drop()
            super().close()
        if self._failure is not None:
            what = f"discarded, because a write failed: {self._failure}"
            number = getattr(self._failure, "errno", None) or EIO
            raise LakeFileError(number, what, self.path) from self._failure
        if not self._is_discarded and self.autocommit:
            self.commit()

    def commit(self) -> None:
        """Stage the object, or add it to the transaction."""
        if self._value is not None:
            self._record(self._place, self._value)

    def is_open_in(self, belongs_to: object) -> bool:
        """Return whether the file is still open and part of this transaction or workspace."""
        return self._belongs_to == belongs_to and not self.closed and not self._is_discarded

    def discard(self) -> None:
        """Discard what was written, and ignore later writes."""
        self._is_discarded = True
        self._value = self._failure = None
        self._drop()

    def __del__(self) -> None:
        """Close a file that the caller did not close; remember a failure for `discard_open`.

        Python only prints errors that are raised in this method.
        """
        try:
            super().__del__()
        except BaseException:
            if self._belongs_to is not None:
                _lost.append((self._belongs_to, self.path))
            raise

    def _upload(self) -> None:
        options = UploadOptions(**self._options, parallelism=PARALLEL_PARTS)
        source: Any = self._memory
        if self._file is None:
            self._memory.seek(0)
        else:
            self._file.flush()
            source = Path(os.path.realpath(self._file.name))
        place = self._place
        opening = repository(self.fs.home, place.repository)
        with finding(self.path), opening as found, transferring(self.path):
            self._value = deposit(found, place.ref, place.path, source=source, options=options)

    def _drop(self) -> None:
        self._memory = io.BytesIO()
        if self._file is not None:
            # Only `_upload` flushes the buffer: after a fork, both processes have its bytes.
            self._file.raw.close()
            if self._process == os.getpid():
                with suppress(FileNotFoundError):
                    os.unlink(self._file.name)
            self._file = None


_writing: Final[dict[int, ref[io.IOBase]]] = {}
"""The files of this process that are open for writing; a file precedes the files that wrap it."""

_lost: Final[deque[tuple[object, str]]] = deque(maxlen=1000)
"""Files that were not closed and could not be written: for each, its owner and its path.

The owner is a transaction or a workspace.
"""


def _open_files() -> list[io.IOBase]:
    return [file for each in list(_writing.values()) if (file := each()) is not None]


def discard_open(belongs_to: object) -> list[str]:
    """Discard the files of a transaction or workspace that are still open.

    Returns:
        The paths of these files, and of files that were not closed explicitly and could not be
        written.
    """
    files = [file for file in _open_files() if isinstance(file, WrittenFile)]
    left = [file for file in files if file.is_open_in(belongs_to)]
    for file in left:
        file.discard()
    lost = [path for owner, path in list(_lost) if owner == belongs_to]
    return sorted([*lost, *(file.path for file in left)])


@atexit.register
def _close_all() -> None:
    """Close the files that are still open at exit, while the modules they need still work."""
    with ExitStack() as stack:
        for file in _open_files():
            stack.callback(file.__del__)


class PackedFile(_Discardable, io.BufferedIOBase):
    """A file that compresses data for a `WrittenFile`, and closes the `WrittenFile` at the end."""

    def __init__(self, raw: WrittenFile, compression: str) -> None:
        self._raw = raw
        self._packing = compr[compression](raw, mode="wb")
        super().__init__()

    def write(self, data: Any) -> int:
        """Write bytes."""
        written: int = self._packing.write(data)
        return written

    def discard(self) -> None:
        """Discard what was written."""
        self._raw.discard()

    def close(self) -> None:
        """Write the remaining compressed data, and close the underlying file."""
        if not self.closed:
            try:
                self._packing.close()
            except BaseException:
                self.discard()
                raise
            finally:
                super().close()
            self._raw.close()


class TextFile(_Discardable, io.TextIOWrapper):
    """A text file for writing, which is discarded if its ``with`` block raises an error."""

    def __init__(self, file: WrittenFile | PackedFile, **options: Any) -> None:
        super().__init__(cast("Any", file), **options)

    def discard(self) -> None:
        """Discard what was written, and ignore later writes."""
        cast("WrittenFile | PackedFile", self.buffer).discard()

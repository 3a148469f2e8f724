"""Creates many files with two syncs: first of the contents, then of the names.

Staging directories contain unfinished files, and can become the final directories::

    <root>/_lakecli/tmp/<name>/<number>/<last component of the key>

Each numbered directory has the new files of one final directory. If the final directory does not
exist yet, the staging directory is renamed to it: one operation instead of two for every file. Only
this user may enter the directory ``<name>``, so that no one else can put a symbolic link there.

Temporary files that killed processes left behind are found by their age and by their locks. A
process has a shared lock on each temporary file that it writes, and on each directory of such files
that it has created; the lock ends with the process. A file that is older than a day and not locked
is a leftover. On a file system without such locks nothing is removed, because any file may be in
use.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from itertools import compress
from threading import Lock, Thread
from typing import BinaryIO

from lakecli import native
from lakecli.base.temporary_files import finalize_here
from lakecli.errors import LakeError
from lakecli.stores.local import files
from lakecli.stores.local.directory import LOCK_NAME, TEMPORARY, RootDirectory, split_key
from lakecli.stores.local.files import closing

EARLY = 64 << 20
"""Number of bytes in small files after which a thread syncs them early, before `flush`."""

LEFT_OVER_NS = 24 * 3_600 * 10**9
"""Age in nanoseconds from which a temporary file that no process has locked is a leftover."""

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})


class LocalBatch:
    """A batch of writes to a directory; see `contract.WriteBatch`.

    Files are written to temporary names without a sync. `flush` syncs all of them together, gives
    them their final names and syncs the names, so a crash leaves only temporary files and complete
    objects. Only one thread at a time writes a small file: on one file system several threads are
    no faster.
    """

    def __init__(self, root: RootDirectory) -> None:
        self._files = root
        with root.translated("temporary files"):
            self._temporaries = root.open_directory(TEMPORARY, create=True)
        self._lock = Lock()
        """Protects the attributes below; also held while a small file is written."""
        self._written = 0
        self._flushing = Lock()
        self._open_dirs: dict[bool, StagingDirs] = {}
        """The staging directories in use: for `put_content` (key ``True``) and for `put_new`."""
        self._unpublished_dirs: list[StagingDirs] = []
        """All staging directories whose files do not have their final names yet."""
        self._own: StagingDirs | None = None
        """The staging directory for temporary objects, kept until all of them have final keys."""
        self._spools: set[str] = set()
        """Paths of the temporary objects that have no final key yet."""
        finalize_here(self, _clean_up, self._temporaries, self._unpublished_dirs)

    def put_new(self, key: str, body: bytes) -> None:
        """Write `body` to a temporary file for a new key; `flush` publishes it."""
        self._put(key, body, is_content=False)

    def put_content(self, key: str, body: bytes) -> None:
        """Write `body` to a temporary file, unless an object of this key and size exists.

        Only for keys derived from the digest of their bytes: an object of a different size is
        damaged and is replaced.
        """
        self._put(key, body, is_content=True)

    def _put(self, key: str, body: bytes, *, is_content: bool) -> None:
        names = split_key(key)
        try:
            with self._lock:
                self._open(is_content=is_content).write(b"/".join(names[:-1]), names[-1], body)
                self._count(len(body))
        except OSError as error:
            raise self._files.translate(error, key) from error

    def put_contents(self, keys: Sequence[str], bodies: list[bytes]) -> list[bool]:
        """Write many objects as `put_content` does; return for each whether it was written."""
        with self._files.translated("new objects"), self._lock:
            staging_dirs = self._open(is_content=True)
            written = staging_dirs.write_together(list(map(str.encode, keys)), bodies)
            self._count(sum(map(len, bodies)))
        return written

    def _count(self, size: int) -> None:
        """Count written bytes; after every `EARLY` bytes, let a thread write them to disk."""
        before, self._written = self._written, self._written + size
        if before // EARLY != self._written // EARLY:
            Thread(target=self._write_out, name="write-out", daemon=True).start()

    def _write_out(self) -> None:
        """Sync the file system, so that the next `flush` takes less time.

        If this sync fails, the next `flush` also reports the error, because it syncs a descriptor
        that was opened before.
        """
        with suppress(OSError, LakeError), closing(self._files.open_root()) as root:
            files.sync_file_system(root)

    def _open(self, *, is_content: bool) -> StagingDirs:
        """Return the staging directories for files of one kind; the caller holds the lock."""
        if is_content not in self._open_dirs:
            self._open_dirs[is_content] = self._new_dirs(is_content=is_content)
        return self._open_dirs[is_content]

    def _new_dirs(self, *, is_content: bool) -> StagingDirs:
        made = StagingDirs(self._files, self._temporaries, is_content=is_content)
        self._unpublished_dirs.append(made)
        return made

    def spool(self) -> tuple[str, BinaryIO]:
        """Open a temporary file for an object of unknown key; the caller closes the file."""
        with self._files.translated("temporary files"), self._lock:
            self._own = self._own or self._new_dirs(is_content=True)
            temporary, descriptor = self._files.create_temporary(self._own.descriptor)
            self._spools.add(temporary)
        return temporary, os.fdopen(descriptor, "wb")

    def adopt(self, key: str, temporary: str) -> None:
        """Give a closed temporary file its final key, derived from the digest of its bytes.

        `flush` publishes the object. An existing object is kept if it has the same size, and
        replaced otherwise.
        """
        names = split_key(key)
        with self._files.translated(key), self._lock:
            if self._own is None or temporary not in self._spools:
                raise ValueError(f"not a spool of this batch: {temporary!r}")
            target = self._open(is_content=True)
            target.take(b"/".join(names[:-1]), names[-1], temporary, self._own.descriptor)
            self._spools.remove(temporary)

    @contextmanager
    def reopen(self, temporary: str) -> Iterator[FileIO]:
        """Open the temporary file of a spool again, to read and write it in the block.

        Raises:
            Unreachable: reading or writing failed, or the file was discarded meanwhile.
        """
        with self._files.translated("temporary files"):
            with self._lock:
                if self._own is None or temporary not in self._spools:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptor = os.open(temporary, flags, dir_fd=self._own.descriptor)
            with FileIO(descriptor, "r+b") as file:
                yield file

    def discard(self, temporary: str) -> None:
        """Remove the temporary file of a spool that will not be finished."""
        with self._files.translated("temporary files"), self._lock:
            if self._own is not None and temporary in self._spools:
                os.unlink(temporary, dir_fd=self._own.descriptor)
                self._spools.remove(temporary)

    def flush(self) -> Collection[str]:
        """Sync all files written so far, give them their final names, and sync the names.

        After an error, files without their final names are kept for another `flush`. After a failed
        sync they are dropped, because the next sync could succeed although data was lost.
        """
        with self._flushing:
            with self._lock:
                self._open_dirs.clear()
                if not self._spools:
                    self._own = None
                all_dirs = [each for each in self._unpublished_dirs if each is not self._own]
            count = sum(staging_dirs.count for staging_dirs in all_dirs)
            try:
                with self._files.translated("new objects"):
                    self._publish(all_dirs, few=count <= files.FEW)
            except BaseException as error:
                if isinstance(error.__cause__, files.SyncError):
                    for staging_dirs in set(all_dirs).intersection(self._unpublished_dirs):
                        self._remove(staging_dirs)
                raise
            return ()

    def _publish(self, all_dirs: Sequence[StagingDirs], *, few: bool) -> None:
        if few:
            for staging_dirs in all_dirs:
                staging_dirs.sync_content()
        else:
            files.sync_file_system(self._temporaries)
        for staging_dirs in all_dirs:
            staging_dirs.publish(sync=few)
            self._remove(staging_dirs)
        if not few:
            files.sync_file_system(self._temporaries)

    def _remove(self, staging_dirs: StagingDirs) -> None:
        self._unpublished_dirs.remove(staging_dirs)
        staging_dirs.remove()


def _clean_up(temporaries: int, all_dirs: Sequence[StagingDirs]) -> None:
    """Remove the files of a dropped batch that do not have their final names."""
    for staging_dirs in all_dirs:
        staging_dirs.remove()
    os.close(temporaries)


class StagingDirs:
    """The new files of a batch before its next flush, in staging directories.

    Args:
        is_content: whether the keys are digests of the contents. Then an existing object of another
            size is damaged, and a new file replaces it.

    Attributes:
        descriptor: descriptor of the directory that contains all numbered directories.
    """

    def __init__(self, root: RootDirectory, temporaries: int, *, is_content: bool = False) -> None:
        self._files = root
        self._temporaries = temporaries
        self._is_content = is_content
        self._name, self.descriptor = root.open_temporary_directory(temporaries)
        self._places: dict[bytes, bytes] = {}
        self._names: dict[bytes, list[bytes]] = {}

    @property
    def count(self) -> int:
        """Number of finished files that do not have their final names yet."""
        return sum(map(len, self._names.values()))

    def write(self, parent: bytes, name: bytes, body: bytes) -> None:
        """Write a new file whose final directory is `parent`, unless the final name exists."""
        path = self._place(parent) + b"/" + name
        try:
            descriptor = os.open(path, files.CREATE_NEW, files.FILE_MODE, dir_fd=self.descriptor)
        except FileExistsError:
            return
        try:
            files.write_all(descriptor, body)
        except BaseException:
            os.unlink(path, dir_fd=self.descriptor)
            raise
        finally:
            os.close(descriptor)
        self._names.setdefault(parent, []).append(name)

    def take(self, parent: bytes, name: bytes, temporary: str, source: int) -> None:
        """Move a finished file here from the directory `source`, unless the final name exists."""
        path = self._place(parent) + b"/" + name
        if files.status_of(self.descriptor, path) is not None:
            os.unlink(temporary, dir_fd=source)
            return
        os.rename(temporary, path, src_dir_fd=source, dst_dir_fd=self.descriptor)
        self._names.setdefault(parent, []).append(name)

    def write_together(self, keys: Sequence[bytes], bodies: list[bytes]) -> list[bool]:
        """Write many small files as `write` does; return for each whether it was written."""
        core = native.core()
        if core is None:
            return [False] * len(keys)
        split = [key.rpartition(b"/") for key in keys]
        paths = [b"%b/%b" % (self._place(parent), name) for parent, _, name in split]
        written = core.write_files(self.descriptor, paths, bodies, None)
        for parent, _, name in compress(split, written):
            self._names.setdefault(parent, []).append(name)
        return list(map(bool, written))

    def _place(self, parent: bytes) -> bytes:
        """Return the name of the staging directory for `parent`; create it if it is missing."""
        place = self._places.get(parent)
        if place is None:
            place = b"%x" % len(self._places)
            os.mkdir(place, dir_fd=self.descriptor)
            self._places[parent] = place
        return place

    def sync_content(self) -> None:
        """Make the contents of the finished files durable, one by one."""
        for parent, names in self._names.items():
            place = self._places[parent]
            for name in names:
                path = place + b"/" + name
                with closing(os.open(path, os.O_RDONLY, dir_fd=self.descriptor)) as descriptor:
                    files.sync_file(descriptor)

    def publish(self, *, sync: bool) -> None:
        """Give all files their final names; see `RootDirectory.publish`.

        After an error, the files without their final names are kept.

        Args:
            sync: whether to make the names durable, directory by directory.
        """
        for parent in sorted(self._names):
            self._publish_directory(parent, sync=sync)
            del self._names[parent]

    def _publish_directory(self, parent: bytes, *, sync: bool) -> None:
        place, components = self._places[parent], parent.split(b"/") if parent else []
        if components and self._move(place, components, sync=sync):
            return
        names = self._names[parent]
        with (
            closing(os.open(place, _DIRECTORY, dir_fd=self.descriptor)) as source,
            self._files.opened(components, create=True, sync=sync) as target,
        ):
            while names:
                is_published = self._files.publish(
                    self._temporaries, names[-1], target, source=source, is_content=self._is_content
                )
                if sync and not is_published:
                    key = b"/".join([*components, names[-1]])
                    files.sync_published(self._files.root, os.fsdecode(key))
                names.pop()
            if sync:
                files.sync_names(target)

    def _move(self, place: bytes, components: list[bytes], *, sync: bool) -> bool:
        """Rename a staging directory to the final directory; return ``False`` if that exists."""
        with self._files.opened(components[:-1], create=True, sync=sync) as above:
            name = components[-1]
            # The rename would replace an empty directory, into which another process may be about
            # to write.
            if files.status_of(above, name) is not None:
                return False
            try:
                os.rename(place, name, src_dir_fd=self.descriptor, dst_dir_fd=above)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
                return False
            if sync:
                with closing(os.open(name, _DIRECTORY, dir_fd=above)) as moved:
                    files.sync_names(moved)
                files.sync_names(above)
        return True

    def remove(self) -> None:
        """Remove all files without their final names, and the directory that contains them."""
        with suppress(OSError):
            remove_all(self.descriptor)
        os.close(self.descriptor)
        with suppress(OSError):
            os.rmdir(self._name, dir_fd=self._temporaries)


def clear_temporaries(root: RootDirectory) -> None:
    """Remove leftovers: temporary files that no process has locked, unchanged for a day.

    Files that cannot be locked or removed are kept: another process may use them, the file system
    may have no locks, or they may belong to another user.
    """
    before_ns = root.clock_ns() - LEFT_OVER_NS
    with suppress(FileNotFoundError), root.opened(TEMPORARY) as temporaries:
        for name in sorted(files.names_in(temporaries) - {LOCK_NAME}):
            with suppress(OSError):
                _clear(temporaries, name, before_ns)


def _clear(parent: int, name: bytes, before_ns: int) -> None:
    status = files.status_of(parent, name)
    if status is None or status.st_mtime_ns >= before_ns:
        return
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        return  # lakecli creates only files and directories
    with closing(os.open(name, _OPEN, dir_fd=parent)) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if a process holds it
        if stat.S_ISREG(status.st_mode):
            os.unlink(name, dir_fd=parent)
        elif _changed_at(descriptor) < before_ns:
            remove_all(descriptor)
            os.rmdir(name, dir_fd=parent)


def _changed_at(descriptor: int) -> int:
    """Return the time of the last change of a directory, or of anything in it, in nanoseconds."""
    times = [os.fstat(descriptor).st_mtime_ns]
    with os.scandir(descriptor) as entries:
        times += [entry.stat(follow_symlinks=False).st_mtime_ns for entry in entries]
    return max(times)


def remove_all(descriptor: int) -> None:
    """Remove all files below a directory, and its subdirectories."""
    for name in files.names_in(descriptor):
        status = files.status_of(descriptor, name)
        if status is not None and stat.S_ISDIR(status.st_mode):
            with closing(os.open(name, _DIRECTORY, dir_fd=descriptor)) as opened:
                remove_all(opened)
            os.rmdir(name, dir_fd=descriptor)
        elif status is not None:
            os.unlink(name, dir_fd=descriptor)

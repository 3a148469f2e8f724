"""Access to the files of a local namespace: only below the root, and only complete files.

::

    <root>/<key>                 objects, named by their keys
    <root>/_lakecli/tmp/<name>   files being written, and directories of them, with a shared lock;
                                 a crash leaves only these behind, see `clear_temporaries`
    <root>/_lakecli/tmp/lock     locked during a compare-and-rename; never removed

Directories below the root are opened by descriptor, one component at a time, without following
symbolic links. So nobody who can write into the namespace can make a key refer to a file outside of
it.
"""

import errno
import fcntl
import itertools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from lakecli.base.directories import PRIVATE, make_durable
from lakecli.base.os_errors import MACHINE_HINTS
from lakecli.errors import LakeError, Refused, Unreachable, Unsupported, UsageError
from lakecli.stores.contract import BucketNotFound, NotAllowed, key_bytes
from lakecli.stores.local import files

TEMPORARY = (b"_lakecli", b"tmp")
LOCK_NAME = b"lock"
MAX_NAME_SIZE = 255
"""Longest component of a key, in bytes: the limit of all common file systems."""


_SPECIAL = frozenset({b"", b".", b".."})
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_PERMISSION = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def split_key(key: str) -> list[bytes]:
    """Split a key into the names of directories and of a file.

    Raises:
        UsageError: no file can have this path. All of lakecli's own keys are possible paths.
    """
    path = key_bytes(key)
    names = path.split(b"/")
    if not is_possible_path(path):
        raise UsageError(
            f"a directory cannot hold an object of this key: {key!r}",
            hint=f"no empty component, no '.' or '..', no NUL, at most {MAX_NAME_SIZE} bytes "
            "between slashes; a bucket has no such limits",
        )
    if len(names) > 1 and names[0] == TEMPORARY[0] and names[1] == TEMPORARY[1]:
        raise UsageError(f"reserved for unfinished files: {key!r}")
    return names


def is_possible_path(path: bytes) -> bool:
    """Return whether all components of a path are possible names of files."""
    names = path.split(b"/")
    is_short = len(path) <= MAX_NAME_SIZE or max(map(len, names)) <= MAX_NAME_SIZE
    return is_short and _SPECIAL.isdisjoint(names) and b"\0" not in path


class RootDirectory:
    """The root of a local namespace.

    Args:
        root: absolute path; may itself be a symbolic link, since the user named it.
        clock_ns: a function that returns unix nanoseconds, which become part of an object's
            version; see `stamp`.
    """

    def __init__(self, root: str, *, clock_ns: Callable[[], int]) -> None:
        self.root = root
        self.clock_ns = clock_ns
        self._series = f"{clock_ns():x}-{os.getpid():x}"
        self._numbers = itertools.count()

    @contextmanager
    def translated(self, what: str) -> Iterator[None]:
        """Convert an `OSError` of the block, as `translate` does."""
        try:
            yield
        except OSError as error:
            raise self.translate(error, what) from error

    def translate(self, error: OSError, what: str) -> LakeError:
        """Return lakecli's error for an `OSError`; `what` names the file in the message."""
        number, text = error.errno, (error.strerror or str(error)).lower()
        where = f"{text}: {what} in {self.root}"
        if number in _PERMISSION:
            hint = MACHINE_HINTS.get(number or 0, f"check owner and mode of {self.root}")
            return NotAllowed(where, hint=hint)
        if number in _FULL:
            return Unreachable(
                f"no space left on the disk, {where}",
                hint="free some space and repeat the command; nothing was half-written",
            )
        if number == errno.ELOOP:
            return Refused(
                f"symbolic link inside a storage namespace: {what} in {self.root}",
                hint="mount or move the directory instead of linking it",
            )
        if number in {errno.ENOTDIR, errno.EISDIR}:
            return Unsupported(
                where,
                hint="a directory cannot hold an object 'a' and an object 'a/b'; a bucket can",
            )
        if number == errno.EXDEV:
            return Unsupported(where, hint="a namespace must lie on one file system")
        hint = MACHINE_HINTS.get(number or 0, "check the disk, and repeat the command")
        return Unreachable(where, hint=hint)

    def open_root(self) -> int:
        """Open the root directory; raise `BucketNotFound` if it does not exist."""
        try:
            return os.open(self.root, files.OPEN_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError) as error:
            text = (error.strerror or "").lower()
            is_file = isinstance(error, NotADirectoryError)
            hint = "create the directory, or mount the disk that holds it"
            raise BucketNotFound(
                f"{text}: {self.root}", hint="name a directory, not a file" if is_file else hint
            ) from error

    def make_root(self) -> None:
        """Durably create the root and its missing parents.

        Raises:
            BucketNotFound: a file has the name of the root or of a parent.
        """
        with self.translated("the root"), suppress(FileExistsError, NotADirectoryError):
            make_durable(self.root)
        self.check_root()

    def check_root(self) -> None:
        """Raise `BucketNotFound` unless the root exists."""
        with self.translated("the root"):
            os.close(self.open_root())

    def open_directory(
        self, names: Sequence[bytes], *, create: bool = False, sync: bool = True
    ) -> int:
        """Open a directory below the root; the caller closes the descriptor.

        Args:
            names: the components of the directory's path, without ``.`` and ``..``.
            sync: whether to make created directories durable.

        Raises:
            BucketNotFound: the root does not exist.
            FileNotFoundError: a directory is missing, and `create` is false.
            OSError: a component is a symbolic link (``ELOOP``).
        """
        current = self.open_root()
        try:
            for name in names:
                above, current = current, files.open_below(current, name, create=create, sync=sync)
                os.close(above)
        except BaseException:
            os.close(current)
            raise
        return current

    def opened(
        self, names: Sequence[bytes], *, create: bool = False, sync: bool = True
    ) -> AbstractContextManager[int]:
        """Open a directory for a ``with`` block; see `open_directory`."""
        return files.closing(self.open_directory(names, create=create, sync=sync))

    def open_file(self, names: Sequence[bytes]) -> tuple[int, os.stat_result]:
        """Open a regular file for reading; the caller closes it.

        Raises:
            FileNotFoundError: there is no regular file of this name.
        """
        # Without O_NONBLOCK, opening a named pipe would block.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with self.opened(names[:-1]) as parent:
            descriptor = os.open(names[-1], flags, dir_fd=parent)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            return descriptor, status
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "not a regular file", names[-1])

    def create_temporary(self, parent: int) -> tuple[str, int]:
        """Create an empty temporary file in the open directory `parent`, and lock it."""
        while True:
            name = f"{self._series}-{next(self._numbers):x}"
            with suppress(FileExistsError):  # a fork or another machine may use the same number
                descriptor = os.open(name, files.CREATE_NEW, files.FILE_MODE, dir_fd=parent)
                files.hold(descriptor)
                return name, descriptor

    def open_temporary_directory(self, parent: int) -> tuple[str, int]:
        """Create a directory for temporary files that only this user may enter, and lock it."""
        while True:
            name = f"{self._series}-{next(self._numbers):x}"
            with suppress(FileExistsError):  # as above
                os.mkdir(name, PRIVATE, dir_fd=parent)
                descriptor = os.open(name, files.OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
                files.hold(descriptor)
                return name, descriptor

    def stamp(self, descriptor: int, *, later_than: int = 0) -> None:
        """Set a file's modification time to now, or to `later_than` plus one nanosecond if later.

        The kernel's clock has ticks of up to 4 ms, and inode numbers are reused immediately, so
        without this call two versions of a small object could look the same.
        """
        now = max(self.clock_ns(), later_than + 1)
        os.utime(descriptor, ns=(now, now))

    def stamp_object(self, parent: int, name: bytes, current: os.stat_result) -> None:
        """Set the modification time of a published file, as `stamp` does."""
        now = max(self.clock_ns(), current.st_mtime_ns + 1)
        os.utime(name, ns=(now, now), dir_fd=parent, follow_symlinks=False)

    @contextmanager
    def locked(self, temporaries: int) -> Iterator[None]:
        """Lock the namespace against other threads and processes for the block."""
        descriptor = os.open(
            LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, files.FILE_MODE, dir_fd=temporaries
        )
        with files.closing(descriptor):  # which also unlocks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield

    def remove_own(self) -> None:
        """Remove lakecli's lock file and its directories, if they contain no other files.

        Never call this in a repository's namespace: another process could then lock the removed
        file.
        """
        above, name = TEMPORARY
        with self.opened([above]) as parent:
            if files.names_in(parent) != {name}:
                return
            with self.opened(TEMPORARY) as temporaries:
                if not files.names_in(temporaries) <= {LOCK_NAME}:
                    return
                with suppress(FileNotFoundError):
                    os.unlink(LOCK_NAME, dir_fd=temporaries)
            with suppress(OSError):  # another process may just have begun to write
                os.rmdir(name, dir_fd=parent)
        with suppress(OSError), self.opened([]) as root:
            os.rmdir(above, dir_fd=root)

    def publish_new(
        self, temporaries: int, temporary: str | bytes, parent: int, name: bytes, *, source: int
    ) -> None:
        """Rename a finished temporary file to `name`, unless `name` exists.

        Raises:
            FileExistsError: the name exists; the temporary file is unchanged.
        """
        try:
            os.link(temporary, name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
        else:
            os.unlink(temporary, dir_fd=source)
            return
        with self.locked(temporaries):  # FAT and some network file systems have no hard links
            if files.status_of(parent, name) is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
            os.rename(temporary, name, src_dir_fd=source, dst_dir_fd=parent)

    def publish(
        self, temporaries: int, name: bytes, parent: int, *, source: int, is_content: bool
    ) -> bool:
        """Move a finished file to `parent` under its name, or remove the file if the object exists.

        Args:
            is_content: whether the name determines the bytes, so that an object of a different
                size is damaged and is replaced.

        Returns:
            Whether the file was moved. If not, another process has published the object, and may
            not have synced it yet.

        Raises:
            OSError: a directory (``EISDIR``) or a link (``ELOOP``) has the name.
        """
        while True:
            try:
                self.publish_new(temporaries, name, parent, name, source=source)
            except FileExistsError:
                with self.locked(temporaries):
                    current = files.object_status(parent, name)
                    if current is None:
                        continue  # deleted meanwhile
                    new = os.stat(name, dir_fd=source, follow_symlinks=False)
                    if is_content and new.st_size != current.st_size:
                        os.rename(name, name, src_dir_fd=source, dst_dir_fd=parent)
                    else:
                        os.unlink(name, dir_fd=source)
                        return False
            return True

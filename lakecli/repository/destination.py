"""A local directory that files are written into, and never out of.

Names come from a bucket and are not to be trusted: every component is checked, directories are
entered one by one without following symbolic links, and a file appears under its name only when it
is complete and its digest is right.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, Final, Self

from blake3 import blake3

from lakecli.errors import IntegrityError, LakeError, PermissionDenied, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIECE: Final = 4 << 20
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeName(LakeError):
    """A path that cannot be a file below the destination."""


class Destination:
    """A directory to write below; made where needed. Close it, or use it as a context manager."""

    def __init__(self, root: bytes) -> None:
        with translated(root):
            os.makedirs(root or b".", exist_ok=True)
            self._root = os.open(root or b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._number = 0

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._root)

    def __enter__(self) -> Self:
        """Return the destination itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def write(
        self,
        name: bytes,
        source: BinaryIO,
        *,
        digest: str | None,
        mtime: int | None,
        on_bytes: Callable[[int], None] | None = None,
    ) -> int:
        """Write one file and return its size; an existing file is replaced when this is complete.

        Args:
            name: relative to the root, with slashes.
            source: read to its end.
            digest: 64 hex digits of BLAKE3 that the bytes must have, where known.
            mtime: what to set as the file's own time, in unix seconds.
            on_bytes: told the size of each piece.

        Raises:
            UnsafeName: the name leads out of the root, through a symbolic link, or is no file name.
            IntegrityError: the bytes are not what `digest` says; nothing was written.
            PermissionDenied: the destination cannot be written.
            Unreachable: no room on the disk.
        """
        components = _components(name)
        with translated(name), self._directory(components[:-1]) as directory:
            return self._write(
                directory, components[-1], source, digest=digest, mtime=mtime, on_bytes=on_bytes
            )

    def _write(
        self,
        directory: int,
        name: bytes,
        source: BinaryIO,
        *,
        digest: str | None,
        mtime: int | None,
        on_bytes: Callable[[int], None] | None,
    ) -> int:
        self._number += 1
        temporary = b".lakecli-%d-%d.tmp" % (os.getpid(), self._number)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o666, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                size = _copy(source, file, digest, on_bytes)
                if mtime is not None:
                    os.utime(file.fileno(), (mtime, mtime))
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
            raise
        return size

    @contextmanager
    def _directory(self, components: list[bytes]) -> Iterator[int]:
        current = os.dup(self._root)
        try:
            for component in components:
                with suppress(FileExistsError):
                    os.mkdir(component, dir_fd=current)
                try:
                    below = os.open(component, _DIRECTORY, dir_fd=current)
                except NotADirectoryError as error:
                    raise UnsafeName(
                        f"{os.fsdecode(component)!r} is a file or a symbolic link, not a directory"
                    ) from error
                os.close(current)
                current = below
            yield current
        finally:
            os.close(current)


def _components(name: bytes) -> list[bytes]:
    components = name.split(b"/")
    for component in components:
        if component in (b"", b".", b"..") or b"\0" in component:
            raise UnsafeName(f"no file can have the name {os.fsdecode(name)!r}")
    return components


def _copy(
    source: BinaryIO, file: BinaryIO, digest: str | None, on_bytes: Callable[[int], None] | None
) -> int:
    hasher = blake3()
    size = 0
    while piece := source.read(PIECE):
        hasher.update(piece)
        view = memoryview(piece)
        while view:
            view = view[file.write(view) :]
        size += len(piece)
        if on_bytes is not None:
            on_bytes(len(piece))
    if digest is not None and hasher.hexdigest() != digest:
        raise IntegrityError(
            f"the bytes in the store are not those of checksum {digest}",
            hint="see what is damaged: lakecli fsck --data",
        )
    return size


@contextmanager
def translated(name: bytes) -> Iterator[None]:
    """Turn the operating system's errors about a local file into lakecli's.

    Raises:
        UnsafeName: the name is too long, or a directory stands there.
        PermissionDenied: not ours to write.
        Unreachable: no room.
    """
    import errno

    shown = os.fsdecode(name)
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise PermissionDenied(f"cannot write {shown!r}: {reason}") from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Unreachable(f"no room to write {shown!r}", hint="free some space") from error
        if error.errno in (
            errno.ENAMETOOLONG,
            errno.EISDIR,
            errno.ENOTDIR,
            errno.EEXIST,
            errno.EINVAL,
            errno.ELOOP,
        ):
            raise UnsafeName(f"cannot write {shown!r}: {reason}") from error
        raise

"""Copying large files into a namespace in a directory, hashing them in the same pass."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, Final

from lakecli.base.progress import Progress
from lakecli.errors import Unreachable
from lakecli.repository.transfer.expected import Digests

if TYPE_CHECKING:
    from lakecli.stores.base import Batch

WRITE_BACK: Final = 64 << 20
"""Bytes of a large copy after which the system is asked to start writing them to disk."""


def copy_pieces(
    pieces: Iterable[bytes | memoryview],
    batch: Batch,
    digests: Digests,
    *,
    uri: str,
    progress: Progress,
) -> tuple[str, int]:
    """Copy pieces to a temporary object of a batch; return its name and its size.

    Args:
        pieces: the contents.
        batch: of the namespace.
        digests: receive the contents.
        uri: of the namespace, for errors.
        progress: counts the bytes.
    """
    temporary, target = batch.spool()
    size = 0
    with target:
        for piece in pieces:
            digests.update(piece)
            with _writing(uri):
                target.write(piece)
                if size // WRITE_BACK != (size + len(piece)) // WRITE_BACK:
                    _start_writing(target)
            size += len(piece)
            progress.advance(size=len(piece))
        with _writing(uri):
            _start_writing(target)
    return temporary, size


@contextmanager
def _writing(uri: str) -> Iterator[None]:
    """Make an error of the namespace's disk another one than that of an unreadable source."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Unreachable(
            f"cannot write into {uri}: {reason}",
            hint="free some space and repeat the command; nothing was half-written",
        ) from error


def _start_writing(target: BinaryIO) -> None:
    """Ask the disk to start with what was written, instead of with everything at the end."""
    target.flush()
    with suppress(AttributeError, OSError):  # a hint, which some platforms do not have
        os.posix_fadvise(target.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

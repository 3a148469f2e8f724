"""Recognises and opens pipes by path: ``/dev/stdin``, a shell's ``<(…)`` and ``>(…)``, named pipes.

A path such as ``/dev/stdout`` or ``/dev/fd/63`` names an open descriptor. The descriptor may refer
to a regular file: if the shell opened that file for appending, lakecli appends to it and never
replaces it. So a path is checked before its symbolic links are resolved.
"""

import os
import re
import stat
from contextlib import suppress
from errno import ENOENT
from io import BufferedReader
from typing import BinaryIO, Final

from lakecli.base.directories import StrPath

_DESCRIPTORS: Final = re.compile(r"/dev/fd|/proc/(\d+)(?:/task/\d+)?/fd")
_MOST_LINKS: Final = 40


def descriptor_of(path: StrPath) -> int | None:
    """Return the number of the descriptor that a path names, open or closed; else ``None``."""
    path = os.fsdecode(path)
    for _ in range(_MOST_LINKS):
        above, name = os.path.split(path)
        above = os.path.realpath(above)
        found = _DESCRIPTORS.fullmatch(above)
        if found and name.isdecimal():
            return int(name) if found[1] in {None, str(os.getpid())} else None
        path = os.path.join(above, name)
        if not os.path.islink(path):
            break
        path = os.path.join(above, os.readlink(path))
    return None


def is_pipe(path: StrPath) -> bool:
    """Return whether a path names an open descriptor or a pipe, which can be used only once."""
    if descriptor_of(path) is not None:
        return True
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def is_stdout(path: StrPath) -> bool:
    """Return whether a path names a descriptor that refers to the same file as standard output."""
    descriptor = descriptor_of(path)
    with suppress(OSError, OverflowError):  # one of the descriptors is closed
        return descriptor is not None and os.path.sameopenfile(descriptor, 1)
    return False


def open_input(path: StrPath) -> BufferedReader:
    """Open a user's file or pipe for reading; a pipe is read from its current position.

    Opening a named pipe waits for its writer, and reading waits for data, even if another program
    has made the pipe non-blocking.
    """
    file = open(_opened(path), "rb")  # noqa: SIM115 - the caller closes it
    os.set_blocking(file.fileno(), True)
    return file


def open_pipe(path: StrPath) -> BinaryIO:
    """Open a path for writing at its current position; `is_pipe` must accept the path."""
    return open(_opened(path), "wb")


def _opened(path: StrPath) -> StrPath | int:
    """Return a duplicate of the inherited descriptor that a path names, else the path itself."""
    descriptor = descriptor_of(path)
    if descriptor is None:
        return path
    # Descriptors that lakecli opened itself, such as the one of its database, are not inheritable.
    with suppress(OSError, OverflowError):
        if os.get_inheritable(descriptor):
            return os.dup(descriptor)
    raise FileNotFoundError(ENOENT, os.strerror(ENOENT), path)

"""lakecli's own directories, which only their owner may read."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from os import PathLike

    StrPath = str | PathLike[str]

PRIVATE: Final = 0o700


def make_private(path: StrPath) -> None:
    """Create a directory and missing ones above it, readable by their owner only.

    `os.makedirs` would apply the umask to those above. An existing directory of this user that
    others may enter is closed to them; existing directories above it are unchanged.

    Raises:
        OSError: it cannot be created, or a file has its name.
    """
    if not _make(os.fspath(path)):
        _close(path)


def _make(path: str) -> bool:
    """Create a directory and those above it; return whether it was missing."""
    try:
        os.mkdir(path, PRIVATE)
    except FileNotFoundError:
        above = os.path.dirname(path)
        if above in {"", path}:
            raise
        _make(above)
        with suppress(FileExistsError):  # of another process
            os.mkdir(path, PRIVATE)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return False
    return True


def _close(path: StrPath) -> None:
    status = os.stat(path)
    is_open = stat.S_IMODE(status.st_mode) & ~PRIVATE
    if is_open and status.st_uid == os.geteuid():
        os.chmod(path, PRIVATE)

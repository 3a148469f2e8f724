"""lakecli's own directories, which only their owner may read."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

PRIVATE: Final = 0o700


def make_private(path: Path) -> None:
    """Create a directory and missing ones above it, readable by their owner only.

    `Path.mkdir` would apply the umask to those above. An existing directory of this user that
    others may enter is closed to them; existing directories above it are unchanged.

    Raises:
        OSError: it cannot be created, or a file has its name.
    """
    if not _make(path):
        _close(path)


def _make(path: Path) -> bool:
    """Create a directory and those above it; return whether it was missing."""
    try:
        path.mkdir(PRIVATE)
    except FileNotFoundError:
        if path.parent == path:
            raise
        _make(path.parent)
        path.mkdir(PRIVATE, exist_ok=True)
    except FileExistsError:
        if not path.is_dir():
            raise
        return False
    return True


def _close(path: Path) -> None:
    status = path.stat()
    is_open = stat.S_IMODE(status.st_mode) & ~PRIVATE
    if is_open and status.st_uid == os.geteuid():
        path.chmod(PRIVATE)

"""Directories of lakecli's own: nobody but their owner may look into them."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

PRIVATE: Final = 0o700


def make_private(path: Path) -> None:
    """Make a directory and all that are missing above it, each for its owner alone.

    `Path.mkdir` makes those above by the umask. A directory of ours that is there already and that
    others may enter is closed to them; directories above it that are there stay as they are.

    Raises:
        OSError: it cannot be made, or something else has its name.
    """
    if not _make(path):
        _close(path)


def _make(path: Path) -> bool:
    """Make a directory and those above it; return whether it was missing."""
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

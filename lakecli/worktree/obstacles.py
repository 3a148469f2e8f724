"""Obstacles to a file: a directory or a link at its path, or a file above it.

Each command checks the paths that `.lakefs_ref.yaml` lists as left out. Such a path is *free* if a
file can be there now. It is *blocked* if files of the user are in the way, which is a conflict.
Otherwise it cannot be a file on this machine.
"""

import errno
import os
import stat
from collections.abc import Iterable
from typing import Final, NamedTuple

from lakecli.repository.transfer.destination import ANOTHER_CASE, has_name
from lakecli.repository.transfer.walk import OPEN_DIRECTORY, open_below
from lakecli.stores.local.files import closing

A_DIRECTORY: Final = "a directory has this name"
A_FILE_ABOVE: Final = "a file or a symbolic link has the name of its directory"


class Obstacle(NamedTuple):
    """The reason why no file can have a path.

    Attributes:
        reason: the reason in words.
        can_go: whether the obstacle is a file or directory that could be removed.
    """

    reason: str
    can_go: bool


def obstacle_at(root: bytes, relative: bytes) -> Obstacle | None:
    """Return the obstacle in the way of a file below a working directory, or ``None``.

    A file that has the path already is not in the way.
    """
    parent, _, name = relative.rpartition(b"/")
    try:
        with closing(open_below(root, parent, OPEN_DIRECTORY)) as directory:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                return Obstacle(A_DIRECTORY, can_go=True)
            return None if has_name(directory, name) else Obstacle(ANOTHER_CASE, can_go=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in {errno.ENOTDIR, errno.ELOOP}:
            return Obstacle(A_FILE_ABOVE, can_go=True)
        return Obstacle((error.strerror or str(error)).lower(), can_go=False)


class InTheWay:
    """Finds which of the user's files are in the way of a file at another path."""

    def __init__(self, files: Iterable[bytes]) -> None:
        self._files = {*files}
        self._directories: dict[bytes, list[bytes]] = {}
        for path in self._files:
            for above in parents_of(path):
                self._directories.setdefault(above, []).append(path)

    def of(self, path: bytes) -> list[bytes]:
        """Return the files in the way of a file at `path`: above it, or else below it."""
        above = [each for each in parents_of(path) if each in self._files]
        return above or sorted(self._directories.get(path, ()))


def parents_of(path: bytes) -> list[bytes]:
    """Return the paths of the directories above a path, the nearest last."""
    names = path.split(b"/")[:-1]
    return [b"/".join(names[:count]) for count in range(1, len(names) + 1)]

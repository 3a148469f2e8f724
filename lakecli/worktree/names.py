"""Which paths of a ref can be files below a working directory.

Paths come from a bucket and are not trusted. One that cannot be a file here is left out: it is
neither written nor ever taken for deleted.
"""

from __future__ import annotations

from typing import Final

from lakecli.repository.transfer.own_files import is_own

IGNORE_FILE: Final = b".lakefsignore"
MAX_COMPONENT: Final = 255
"""Bytes of a file name, at most, on every file system in use."""

_IMPOSSIBLE: Final = frozenset({b"", b".", b".."})


def is_possible(relative: bytes) -> bool:
    """Return whether a path can be a file below a working directory.

    A path that ends in a slash marks a directory in a bucket, and is no file.
    """
    if b"\0" in relative:
        return False
    for each in relative.split(b"/"):
        if each in _IMPOSSIBLE or len(each) > MAX_COMPONENT:
            return False
    return not is_own(relative)

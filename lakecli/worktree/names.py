"""Which paths of a ref can be files below a working directory, and which files are lakecli's own.

Paths come from a bucket and are not trusted. One that cannot be a file here is left out: it is
neither written nor ever taken for deleted.
"""

from __future__ import annotations

from typing import Final

LINK_FILE: Final = b".lakefs_ref.yaml"
IGNORE_FILE: Final = b".lakefsignore"
INCOMING: Final = b".lakecli-incoming"
"""The directory, in the working directory, of files that are not complete yet."""

MAX_COMPONENT: Final = 255
"""Bytes of a file name, at most, on every file system in use."""

_SKIPPED: Final = frozenset({LINK_FILE, b".DS_Store", INCOMING})
_IMPOSSIBLE: Final = frozenset({b"", b".", b".."})


def is_own(name: bytes) -> bool:
    """Return whether a file of this name is never transferred, in either direction."""
    return name in _SKIPPED or (
        name.startswith(b".lakecli-") and name.endswith((b".tmp", b".partial"))
    )


def is_possible(relative: bytes) -> bool:
    """Return whether a path can be a file below a working directory.

    A path that ends in a slash marks a directory in a bucket, and is no file.
    """
    if b"\0" in relative:
        return False
    components = relative.split(b"/")
    return not any(
        each in _IMPOSSIBLE or len(each) > MAX_COMPONENT or is_own(each) for each in components
    )

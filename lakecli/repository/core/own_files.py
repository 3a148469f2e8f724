"""Files in directories of users that are lakecli's own, or the system's, and are not data."""

from __future__ import annotations

from lakecli.typed import Final

LINK_FILE: Final = b".lakefs_ref.yaml"
"""Links a directory with a path of a ref."""

INCOMING: Final = b".lakecli-incoming"
"""The directory, in a working directory, of files that are not complete yet."""

_SKIPPED: Final = frozenset({LINK_FILE, b".DS_Store", INCOMING})


def is_own(name: bytes) -> bool:
    """Return whether a file or directory of this name is never transferred, in either direction."""
    return name in _SKIPPED or (
        name.startswith(b".lakecli-") and name.endswith((b".tmp", b".partial"))
    )


def is_below_own(relative: bytes) -> bool:
    """Return whether a file, or a directory above it, has such a name."""
    if not relative.startswith(b".") and b"/." not in relative:
        return False  # all of these names begin with a dot
    return any(map(is_own, relative.split(b"/")))

"""Names that are never data: files of Git, of lakecli itself, and of the system.

`is_own` knows them in directories of users. A namespace that could write ``.git`` would run
commands on the machines of its readers, with the next ``git status``; one that could read it would
get their tokens. So `is_own` is asked by all that writes files of a namespace into a directory, or
reads a directory for one. File systems take other names for these, too, and Git lists which: in
upper case, with characters that are not shown, with dots and blanks at the end, with the name of a
stream of NTFS, and by the short names of Windows.
"""

from __future__ import annotations

import re
from typing import Final

LINK_FILE: Final = b".lakefs_ref.yaml"
"""Links a directory with a path of a ref."""

INCOMING: Final = b".lakecli-incoming"
"""The directory, in a working directory, of files that are not complete yet."""

LEFT_OUT: Final = "Git, lakecli or the system itself uses a file of this name"
"""Why an object with such a name is left out."""

_OWN: Final = re.compile(
    rb"(?:^|[/\\])"
    rb"(?:\.git|git~[1-9]|\.lakefs_ref\.yaml|lakefs~[1-9]\.yam|\.lakecli[^/\\:]*|\.ds_store)"
    rb"[ .]*(?:[/\\:]|\Z)",
    re.IGNORECASE,
)
_NOT_SHOWN: Final = (
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
"""What Unicode lets a comparison ignore (``Default_Ignorable_Code_Point``), as HFS+ and ext4 do."""


def is_own(relative: bytes) -> bool:
    """Return whether a file is never transferred, because of its name or a directory above it.

    Args:
        relative: the path of a file or directory, or a single name.
    """
    if not relative.isascii():
        relative = _folded(relative)
    return _OWN.search(relative) is not None


def _folded(relative: bytes) -> bytes:
    """Return a path as a file system reads it that ignores case and what is not shown."""
    from unicodedata import normalize

    text = re.sub(_NOT_SHOWN, "", relative.decode("utf-8", "surrogateescape"))
    return normalize("NFD", text).casefold().encode("utf-8", "surrogateescape")

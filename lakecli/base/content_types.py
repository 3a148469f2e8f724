"""Content types by file name suffix, from the fixed table ``mime.types`` in this directory.

The table of the operating system is not used, because a file must get the same content type, and
so the same identity, on every machine. If the content type of a suffix changes, the next upload of
a file with this suffix gives the file another identity. So add suffixes only for new formats, and
never change the content type of an existing suffix.
"""

import os
from functools import cache

DEFAULT = "application/octet-stream"


@cache
def _by_suffix() -> dict[bytes, str]:
    """Return the content types by suffix in lower case."""
    with open(os.path.join(os.path.dirname(__file__), "mime.types"), "rb") as table:
        rows = [line.split() for line in table]
    return {suffix: kind.decode() for kind, *suffixes in rows for suffix in suffixes}


def content_type_of(path: bytes) -> str:
    """Return the content type that the suffix of a path implies."""
    name = path.rpartition(b"/")[2]
    stem, dot, suffix = name.rpartition(b".")
    if not (dot and stem):
        return DEFAULT
    return _by_suffix().get(suffix.lower(), DEFAULT)

"""Which names Hadoop, and so Spark, Hive and Trino, take for the objects that have them.

Hadoop takes the path of an object for a pattern, joins slashes that follow each other, resolves
``.`` and ``..``, and leaves out files whose names say that they are hidden or markers. So a name
may stand for another object, for several, or for none.
"""

from __future__ import annotations

import re
from typing import Final

_OTHERS: Final = re.compile("[*?{[\\\\:\ud800-\udfff]")
"""What begins or is part of a pattern, what Hadoop refuses, and bytes that are no text."""


def is_read(name: str) -> bool:
    """Return whether Spark reads a file: it ignores hidden files and its own markers."""
    return not any(
        part.startswith(".") or (part[:1] == "_" and "=" not in part) or part.endswith("._COPYING_")
        for part in name.split("/")
    )


def names_its_object(path: str) -> bool:
    """Return whether Hadoop reads what has a path in a bucket or on disk, and nothing else.

    Measured with Hadoop 3 and Hive's SymlinkTextInputFormat in Spark 4.
    """
    parts = path.removeprefix("/").split("/")
    is_plain = _OTHERS.search(path) is None and {"", ".", ".."}.isdisjoint(parts)
    return is_plain and is_read(parts[-1])

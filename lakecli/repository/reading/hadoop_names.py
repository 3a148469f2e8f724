"""Which names Hadoop, and so Spark, Hive and Trino, read as the object that has the name.

Hadoop treats the path of an object as a pattern, joins slashes that follow each other, resolves
``.`` and ``..``, and leaves out files whose names say that they are hidden or markers. So Hadoop
may read another object by a name, or several objects, or none.
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
    """Return whether Hadoop reads exactly the object or file at a path, and nothing else.

    Measured with Hadoop 3 and Hive's SymlinkTextInputFormat in Spark 4.
    """
    parts = path.removeprefix("/").split("/")
    is_plain = _OTHERS.search(path) is None and {"", ".", ".."}.isdisjoint(parts)
    return is_plain and is_read(parts[-1])

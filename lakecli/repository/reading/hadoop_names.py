"""Check whether Hadoop (so also Spark, Hive and Trino) reads exactly the object with a name.

Hadoop treats the path of an object as a pattern, joins consecutive slashes, resolves ``.`` and
``..``, and ignores files whose names mark them as hidden or as markers. So for some names Hadoop
reads another object, several objects, or none.
"""

import re
from typing import Final

_OTHERS: Final = re.compile("[*?{[\\\\:\ud800-\udfff]")
"""Characters of patterns, characters that Hadoop refuses, and bytes that are not UTF-8."""


def is_read(name: str) -> bool:
    """Return whether Spark reads a file with this name.

    Spark ignores hidden files, and markers such as ``_SUCCESS``.
    """
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

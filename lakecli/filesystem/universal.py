"""Paths of universal-pathlib: ``UPath("lakefs://repository/ref/path")``.

universal-pathlib finds the class by the entry point, and asks for nothing of it that it does not
have by itself. Airflow and Dagster take the same paths.
"""

from __future__ import annotations

import re
from typing import Any, Final

from upath import UPath

from lakecli.base.uri import SCHEME

_NAMESPACE: Final = r"(?!lakefs:)\w+:/"


class LakeUPath(UPath):
    """A path of the ``lakefs://`` file system."""

    __slots__ = ()

    def with_segments(self, *segments: Any) -> LakeUPath:
        """Return a path of segments; the first may begin with a storage namespace."""
        first, *rest = segments or ("",)
        if isinstance(first, str) and re.match(_NAMESPACE, first):
            first = SCHEME + first
        return super().with_segments(first, *rest)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Create a directory, which exists for this process until it contains an object.

        Raises:
            FileExistsError: there is a file, or without `exist_ok` a directory.
        """
        if self.exists() and not (exist_ok and self.is_dir()):
            raise FileExistsError(str(self))
        super().mkdir(mode=mode, parents=parents, exist_ok=exist_ok)

"""Paths of universal-pathlib: ``UPath("lakefs://repository/ref/path")``.

universal-pathlib finds the class `LakeUPath` by its entry point; the class adds little to `UPath`.
Airflow and Dagster accept the same paths.
"""

import re
from typing import Any, Final

from upath import UPath

from lakecli.base.uri import SCHEME

_NAMESPACE: Final = r"(?!lakefs:)\w+:/"


class LakeUPath(UPath):
    """A path of the ``lakefs://`` file system."""

    __slots__ = ()

    def with_segments(self, *segments: Any) -> "LakeUPath":
        """Join segments to a path; the first segment may begin with a storage namespace."""
        first, *rest = segments or ("",)
        if isinstance(first, str) and re.match(_NAMESPACE, first):
            first = SCHEME + first
        return super().with_segments(first, *rest)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Create a directory, which only this process sees until the directory contains an object.

        Raises:
            FileExistsError: the path is a file; or it is a directory, and `exist_ok` is not set.
        """
        if self.exists() and not (exist_ok and self.is_dir()):
            raise FileExistsError(str(self))
        super().mkdir(mode=mode, parents=parents, exist_ok=exist_ok)

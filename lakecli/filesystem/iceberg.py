"""Iceberg tables in repositories: a FileIO for pyiceberg.

pyiceberg looks a FileIO up by the property ``py-io-impl``; it has no entry points for them::

    load_catalog("lake", **{"py-io-impl": "lakecli.filesystem.iceberg.LakeFileIO", …})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyiceberg.io.fsspec import FsspecFileIO, FsspecInputFile, FsspecOutputFile

from lakecli.filesystem.system import LakeFileSystem

if TYPE_CHECKING:
    from pyiceberg.io import InputFile, OutputFile

HOME: Final = "lakefs.home"
REF: Final = "lakefs.ref"

_SCHEME: Final = "lakefs://"


class LakeFileIO(FsspecFileIO):
    """Reads and writes ``lakefs://REPOSITORY/REF/PATH`` for pyiceberg, and other URIs as it does.

    Written files are staged on the branch, until a commit.

    Properties:
        lakefs.home: directory of lakecli's data, as ``LAKECLI_HOME``.
        lakefs.ref: the ref at which files are read and written, whatever the ref in their URI is.
            The metadata of a table names its files by full URIs, with the branch on which it was
            created; so this is how a table is used on another branch, at a tag or at a commit.
    """

    def new_input(self, location: str) -> FsspecInputFile:
        """Return a file to read."""
        if not location.startswith(_SCHEME):
            return super().new_input(location)
        return FsspecInputFile(location, self._lake())

    def new_output(self, location: str) -> FsspecOutputFile:
        """Return a file to write."""
        if not location.startswith(_SCHEME):
            return super().new_output(location)
        return FsspecOutputFile(location, self._lake())

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        name = location if isinstance(location, str) else location.location
        if not name.startswith(_SCHEME):
            super().delete(location)
            return
        self._lake().rm(name)

    def _lake(self) -> Any:
        system = LakeFileSystem(home=self.properties.get(HOME))
        ref = self.properties.get(REF)
        return _AtRef(system, ref) if ref else system


class _AtRef:
    """What pyiceberg uses of a file system, with another ref in place of that in each URI."""

    def __init__(self, system: LakeFileSystem, ref: str) -> None:
        self._system = system
        self._ref = ref

    def open(self, path: str, mode: str) -> Any:
        """Open a file."""
        return self._system.open(self._placed(path), mode)

    def info(self, path: str) -> Any:
        """Return the size of a file, and more."""
        return self._system.info(self._placed(path))

    def lexists(self, path: str) -> bool:
        """Return whether there is a file."""
        return bool(self._system.lexists(self._placed(path)))

    def rm(self, path: str) -> None:
        """Delete a file."""
        self._system.rm(self._placed(path))

    def _placed(self, path: str) -> str:
        repository, _, rest = path.removeprefix(_SCHEME).partition("/")
        return f"{_SCHEME}{repository}/{self._ref}/{rest.partition('/')[2]}"

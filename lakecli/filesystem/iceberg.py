"""A FileIO for pyiceberg, so that Iceberg tables can be stored in repositories.

pyiceberg finds a FileIO by the property ``py-io-impl``; it has no entry points for FileIOs::

    load_catalog("lake", **{"py-io-impl": "lakecli.filesystem.iceberg.LakeFileIO", …})

Everybody who may write to a repository may write the metadata of its tables, and metadata can name
any URI. Therefore only the URI of the metadata file, which comes from the catalog, decides which
files belong to a table; the contents of the metadata file cannot allow more files. pyiceberg
creates one FileIO to read the metadata file, and a second FileIO, from the properties in that file,
for everything else. So the first FileIO adds the property `TABLE` to the metadata, with a value
that only this process can make, and removes properties that only a catalog may set: names of Python
classes, servers and credentials. To purge a table, pyiceberg creates a third FileIO, from the
properties of the catalog. It is bound to the table whose metadata file the thread has read last.
"""

from __future__ import annotations

import io
import json
import secrets
import threading
import zlib
from gzip import BadGzipFile, GzipFile, compress
from typing import Any, Final, NamedTuple, NoReturn

from pyiceberg.io import InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.io.fsspec import FsspecFileIO, FsspecInputFile, FsspecOutputFile

from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.uri import SCHEME
from lakecli.errors import IntegrityError
from lakecli.filesystem import lakes, paths
from lakecli.filesystem.paths import finding
from lakecli.filesystem.system import LakeFileSystem
from lakecli.repository.reading.addresses import OutsideAddress

HOME: Final = "lakefs.home"
REF: Final = "lakefs.ref"
TABLE: Final = "lakefs.table"
"""The property with the location of a FileIO's table; it is never written to a file."""

MAX_METADATA: Final = 64 << 20
"""The maximum size of a metadata file in bytes."""

_METADATA: Final = ".json"
_PACKED: Final = ".gz.metadata.json"
_OF_CATALOGS: Final = (
    "py-",
    "lakefs.",
    "client.",
    "s3.",
    "gcs.",
    "adls.",
    "hdfs.",
    "hf.",
    "write.py-location-provider.impl",
)
"""The prefixes of properties that only a catalog may set, not the metadata of a table."""

_NONCE: Final = secrets.token_hex(16)
"""A random part of `TABLE` values, which proves that this process made the value."""


class _Table(NamedTuple):
    """The location of a table.

    Attributes:
        ref: the ref, as written in the URI of the metadata file.
        directory: the path of the directory with all files of the table; ``None`` if only single
            files are known.
    """

    repository: str
    ref: str
    directory: bytes | None

    @classmethod
    def of(cls, metadata: str) -> _Table:
        """Return the location of the table to which a metadata file belongs."""
        place = paths.parse(metadata)
        directory, _, last = place.path.rpartition(b"/")[0].rpartition(b"/")
        if last != b"metadata":
            directory = place.path.rpartition(b"/")[0]
        return cls(place.repository, place.ref, directory)


class _Recent(threading.local):
    """Thread-local: the table whose metadata file this thread has requested last."""

    table: _Table | None = None


_recent: Final = _Recent()


class LakeFileIO(FsspecFileIO):
    """A FileIO for ``lakefs://REPOSITORY/REF/PATH``; other URIs are handled by pyiceberg.

    Written files are staged on the branch, and can then be committed.

    If the metadata file of a table is in a repository, the table's files are expected in that
    repository, at that ref. Files elsewhere can only be read, and only if ``trust.addresses``
    allows them; local files of this machine are never allowed. Files are deleted only in the
    directory of the table.

    Properties:
        lakefs.home: directory of lakecli's data; it replaces ``LAKECLI_HOME``.
        lakefs.ref: the ref at which files are read and written; it replaces the ref in their URIs.
            The metadata of a table names its files by full URIs, with the branch on which it was
            created. Set this property to use the table on another branch, at a tag or at a commit.
    """

    def __init__(self, properties: dict[str, str]) -> None:
        super().__init__(properties=properties)
        nonce, _, metadata = properties.get(TABLE, "").partition(" ")
        self._table = _Table.of(metadata) if nonce == _NONCE else None
        self._recent = _recent.table
        self._written: set[str] = set()

    def new_input(self, location: str) -> FsspecInputFile:
        """Return a file to read; raise `OSError` if the table may not refer to this file."""
        if self._table is None and location.endswith(_METADATA):
            # The catalog names this file; the metadata of a table does not.
            self._named(_Table.of(location) if location.startswith(SCHEME) else None)
            _recent.table = self._table
        self._check(location, reads=True)
        if not location.startswith(SCHEME):
            return super().new_input(location)
        if location.endswith(_METADATA):
            return _MetadataInput(location, self._lake())
        return FsspecInputFile(location, self._lake())

    def new_output(self, location: str) -> FsspecOutputFile:
        """Return a file to write; raise `OSError` if the table may not refer to this file."""
        if self._table is None:
            # A new table: so far only the caller names its files.
            self._named(_file_of(location))
        self._check(location)
        self._written.add(location)
        if not location.startswith(SCHEME):
            return super().new_output(location)
        if location.endswith(_METADATA):
            return _MetadataOutput(location, self._lake())
        return FsspecOutputFile(location, self._lake())

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file; raise `OSError` if the file is not in the directory of the table."""
        name = location if isinstance(location, str) else location.location
        self._check(name)
        if not name.startswith(SCHEME):
            super().delete(location)
            return
        if name not in self._written and not _is_below(self._table, name):
            _refuse(name, "a table deletes only files in its own directory")
        self._lake().rm(name)

    def _named(self, table: _Table | None) -> None:
        """Bind this FileIO to a table that the catalog or caller names; ``None``: to no table."""
        self._table = table
        self._recent = None

    def _check(self, location: str, *, reads: bool = False) -> None:
        """Raise `OSError` for a file to which the table may not refer."""
        table = self._table = self._table or self._recent or _file_of(location)
        if table is None:
            return  # a table outside of repositories: pyiceberg's own rules
        owner = f"{SCHEME}{table.repository}/{self.properties.get(REF) or table.ref}"
        if location.startswith(SCHEME):
            place = paths.parse(location)
            if place.repository != table.repository:
                _refuse(location, f"outside the repository of a table in {owner}")
            if place.ref != table.ref and not self.properties.get(REF):
                _refuse(
                    location,
                    f"at another ref than a table in {owner}",
                    f"to read all its files at one ref, set the property {REF}",
                )
            return
        scheme, separator, _ = location.partition("://")
        if not separator or scheme.lower() in {"file", "local"}:
            _refuse(location, f"never followed from a table in {owner}: a file of this machine")
        if not reads:
            _refuse(location, f"neither written nor deleted by a table in {owner}")
        with finding(location), lakes.repository(self._home(), table.repository) as repository:
            repository.addresses.check(location)

    def _home(self) -> str | None:
        return lakes.home_of(self.properties.get(HOME))

    def _lake(self) -> Any:
        system = LakeFileSystem(home=self.properties.get(HOME))
        ref = self.properties.get(REF)
        return _AtRef(system, ref) if ref else system


def _file_of(location: str) -> _Table | None:
    """Return a table that consists of one known file; ``None`` if it is not in a repository."""
    if not location.startswith(SCHEME):
        return None
    return _Table.of(location)._replace(directory=None)


def _refuse(location: str, what: str, hint: str | None = None) -> NoReturn:
    """Raise the `OSError` for a file to which a table may not refer."""
    with finding(location):
        raise OutsideAddress(what, hint=hint)
    raise AssertionError  # not reached


def _is_below(table: _Table | None, location: str) -> bool:
    """Return whether a file is in the directory of a table."""
    if table is None or table.directory is None:
        return False
    path = paths.parse(location).path
    return not table.directory or path.startswith(table.directory + b"/")


class _MetadataInput(FsspecInputFile):
    """A metadata file to read, with the property `TABLE` added and catalog properties removed."""

    def open(self, seekable: bool = True) -> InputStream:
        with finding(self.location), super().open(seekable) as file:
            metadata = _unpacked(self.location, file.read(MAX_METADATA + 1))
        kept = _own_properties(metadata)
        metadata["properties"] = {**kept, TABLE: f"{_NONCE} {self.location}"}
        return io.BytesIO(_packed(self.location, metadata))


class _MetadataOutput(FsspecOutputFile):
    """A metadata file to write, without properties that belong to a catalog."""

    def create(self, overwrite: bool = False) -> OutputStream:
        return _MetadataStream(self.location, super().create(overwrite))


class _MetadataStream(io.BytesIO):
    """A buffer that is written to a metadata file when closed, without catalog properties."""

    def __init__(self, location: str, file: Any) -> None:
        super().__init__()
        self._location = location
        self._file = file

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self._file.__exit__(*error)
        else:
            self.close()

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            with self._file, finding(self._location):
                metadata = _unpacked(self._location, data)
                kept = _own_properties(metadata)
                if kept != metadata.get("properties", {}):
                    metadata["properties"] = kept
                    data = _packed(self._location, metadata)
                self._file.write(data)


def _own_properties(metadata: dict[str, Any]) -> dict[str, str]:
    """Return the properties of a metadata file that do not belong to a catalog.

    Raises:
        IntegrityError: the properties are not an object of strings.
    """
    found = metadata.get("properties", {})
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise IntegrityError("the properties of an Iceberg table are not names and texts")
    return {name: text for name, text in found.items() if not name.startswith(_OF_CATALOGS)}


def _unpacked(location: str, data: bytes) -> dict[str, Any]:
    """Parse a metadata file; raise `IntegrityError` if it is too large or malformed."""
    try:
        if location.endswith(_PACKED):
            data = GzipFile(fileobj=io.BytesIO(data)).read(MAX_METADATA + 1)
        return parse_json_object(data, max_size=MAX_METADATA)
    except (Unparsable, BadGzipFile, EOFError, zlib.error) as error:
        raise IntegrityError(f"not the metadata of an Iceberg table: {error}") from error


def _packed(location: str, metadata: dict[str, Any]) -> bytes:
    data = json.dumps(metadata, ensure_ascii=False, separators=(",", ":")).encode()
    return compress(data) if location.endswith(_PACKED) else data


class _AtRef:
    """A file system that reads and writes at one ref, which replaces the ref in each URI."""

    def __init__(self, system: LakeFileSystem, ref: str) -> None:
        self._system = system
        self._ref = ref

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._system, name)

        def at_ref(path: str, *arguments: Any) -> Any:
            place = paths.parse(path)
            return method(SCHEME + place._replace(ref=self._ref).name(place.path), *arguments)

        return at_ref

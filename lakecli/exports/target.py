"""Where an export writes: a directory, or a prefix of a bucket.

In a bucket, the metadata of every object has the identity of its entry. So the next run can find
out whether an object is unchanged without reading the object. Files are compared by their bytes.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import BinaryIO, Final, NamedTuple, cast

from lakecli.base.model import CLIENT_METADATA_PREFIX, CONTENT_ENCODING, Account, Entry
from lakecli.engine.runner import open_by_uri
from lakecli.errors import LakeError, NotFound, Refused, Unsupported, UsageError
from lakecli.repository.reading.contents import digest_of
from lakecli.repository.transfer.destination import Destination, UnsafeName, is_marker
from lakecli.repository.transfer.plan import PathAction
from lakecli.stores import contract
from lakecli.stores.capabilities import copy_across
from lakecli.stores.streams import PieceReader
from lakecli.stores.uri import is_local, parse
from lakecli.worktree.obstacles import obstacle_at

IDENTITY: Final = "lakecli-identity"
"""The metadata key with the identity of the entry that an object was exported from."""

WHOLE: Final = 8 << 20
"""Objects of at most this size in bytes are sent by one request, larger objects as a stream."""

SKIPPED_LISTING: Final = 2_000
"""Maximum number of other objects that are listed between two exported objects.

If there are more, a new listing begins shortly before the second exported object.
"""

_MAX_KEY: Final = 1024
_LONG: Final = 200
_MAX_METADATA: Final = 2_048
"""Maximum size of all metadata in bytes: the limit of S3.

MinIO counts the headers' prefix, too (`isHTTPHeaderSizeTooLarge` in its source).
"""

_META: Final = "x-amz-meta-"
_METADATA_KEY: Final = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_METADATA_VALUE: Final = re.compile(r"[!-~]([ -~]*[!-~])?|", re.ASCII)


class ExportItem(NamedTuple):
    """An object to export, or to delete if `entry` is ``None``.

    Attributes:
        path: the path of the object in the repository.
        name: the path below the exported prefix, and so below the destination.
        entry: the entry to export.
        identity: the identity of `entry` in hex, or ``""``.
        old: the entry in the tree of the earlier export, if that tree has the path.
        old_identity: the identity of `old` in hex, or ``""``.
    """

    path: bytes
    name: bytes
    entry: Entry | None
    identity: str
    old: Entry | None
    old_identity: str


class Changed(Refused):
    """The object to delete is not the one that the earlier export wrote."""

    def __init__(self) -> None:
        super().__init__("it was changed at the destination, so it was not deleted")


def open_target(
    uri: str, region: str, account: Account, check: Callable[[], None], *, dry_run: bool = False
) -> "DirectoryTarget | BucketTarget":
    """Return the target of an export.

    Args:
        check: called often while a file is compared; an error that it raises ends the comparison.
        dry_run: whether nothing is changed, not even the times of files.
    """
    if is_local(uri):
        return DirectoryTarget(os.fsencode(parse(uri).path), check, dry_run=dry_run)
    return BucketTarget(open_by_uri(uri, region=region, account=account))


class OwnFiles:
    """Lists, writes and deletes lakecli's own files at a destination, such as ``_SUCCESS``."""

    def __init__(self, uri: str, *, region: str, account: Account) -> None:
        self._directory = os.fsencode(parse(uri).path) if is_local(uri) else b""
        self._open = partial(open_by_uri, uri, region=region, account=account)

    @cached_property
    def _store(self) -> contract.ObjectStore:
        return self._open()

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names that begin with a prefix; yield none if a directory cannot be read."""
        try:
            yield from (info.key for info in self._store.list(prefix))
        except LakeError:
            if not self._directory:
                raise

    def put(self, name: str, body: bytes, attributes: contract.Attributes) -> None:
        """Write one of lakecli's own files at the destination."""
        if self._directory:
            with Destination(self._directory) as target:
                target.write(name.encode(), [body])
        else:
            self._store.put(name, body, contract.ANY, attributes)

    def delete(self, names: Sequence[str]) -> None:
        """Delete files of lakecli at the destination; missing files are ignored."""
        if self._directory:
            with Destination(self._directory) as target:
                for name in names:
                    target.delete(os.fsencode(name))
        else:
            self._store.delete(names)


class DirectoryTarget:
    """A directory as the target of an export, on this machine or shared by all machines."""

    def __init__(self, root: bytes, check: Callable[[], None], *, dry_run: bool) -> None:
        self._root = root
        self._destination = Destination(root)
        self._check = check
        self._dry_run = dry_run

    def state_of(self, item: ExportItem, found: contract.ObjectInfo | None) -> PathAction:
        """Compare a file with its object, by the BLAKE3 if it is known, else by size and time."""
        del found
        assert item.entry is not None
        if is_marker(item.name, item.entry.size):
            return PathAction.NEW
        return self._compare(item.name, item.entry)

    def write(self, item: ExportItem, pieces: Iterator[bytes]) -> bool:
        """Write a file, or create the directory of a directory marker; return ``True``."""
        assert item.entry is not None
        if is_marker(item.name, item.entry.size):
            self._destination.make_directory(item.name[:-1])
        else:
            self._destination.write(item.name, pieces, mtime=item.entry.file_mtime)
        return True

    def is_there(self, item: ExportItem, found: contract.ObjectInfo | None) -> bool:
        """Return whether a file with the contents that the earlier export wrote still exists.

        Return ``False``, too, if a directory now has its name, or if one of its directories is now
        a file.

        Raises:
            Changed: another file has this name now.
        """
        del found
        assert item.old is not None
        if obstacle_at(self._root, item.name) is not None or item.name.endswith(b"/"):
            return False  # a marker's directory is removed with the last file in it
        try:
            state = self._compare(item.name, item.old)
        except UnsafeName:
            return False  # no file can have the name here
        if state is PathAction.CHANGED:
            raise Changed
        return state is PathAction.UNCHANGED

    def delete(self, item: ExportItem) -> None:
        """Delete a file, and then the parent directories that became empty."""
        self._destination.delete(item.name)

    def close(self) -> None:
        """Close the directory."""
        self._destination.close()

    def _compare(self, name: bytes, entry: Entry) -> PathAction:
        return self._destination.state_of(
            name,
            size=entry.size,
            digest=digest_of(entry),
            mtime=entry.file_mtime,
            trusts_time=True,
            sets_time=not self._dry_run,
            check=self._check,
        )


class BucketTarget:
    """A prefix of a bucket as the target of an export.

    Only one thread at a time may call `find`; it is fastest in path order.
    """

    def __init__(self, store: contract.ObjectStore) -> None:
        self.store = store
        parsed = parse(store.uri)
        self._room = _MAX_KEY - (len(os.fsencode(parsed.path)) + 1 if parsed.path else 0)
        self._is_strict = parsed.scheme != "gs"
        self._listed = _Listed(store)

    def find(self, name: bytes) -> contract.ObjectInfo | None:
        """Return an object as a listing of the bucket shows it; ``None`` if it is not listed.

        Raises:
            UsageError: the bucket refuses the name, or its response for the name is unusable.
        """
        if len(name) > self._room:
            return None
        try:
            return self._listed.find(name)
        except Unsupported:
            raise
        except Refused as error:
            next(self.store.list(), None)  # raises if the bucket refuses more than this name
            raise UsageError(error.message) from error

    def versions_of(self, name: bytes) -> set[contract.Version]:
        """Return the version of an object, listed or not, as a set; empty if it is missing."""
        try:
            return {self.store.head(os.fsdecode(name)).version}
        except (NotFound, Refused, UsageError):
            return set()

    def state_of(self, item: ExportItem, found: contract.ObjectInfo | None) -> PathAction:
        """Compare an object by size and by the identity in its metadata."""
        assert item.entry is not None
        if found is None:
            return PathAction.NEW
        if found.size != item.entry.size:
            return PathAction.CHANGED
        try:
            carried = self.store.head(found.key).metadata.get(IDENTITY)
        except contract.ObjectNotFound:
            return PathAction.NEW
        return PathAction.UNCHANGED if carried == item.identity else PathAction.CHANGED

    def write(self, item: ExportItem, pieces: Iterator[bytes]) -> bool:
        """Upload an object: verify a small one before the upload, a large one during the upload.

        Returns:
            Whether the object's metadata was written, too.

        Raises:
            UsageError: the destination cannot hold an object of this name.
        """
        assert item.entry is not None
        is_small = item.entry.size <= WHOLE
        body = b"".join(pieces) if is_small else cast("BinaryIO", PieceReader(pieces))
        attributes, is_whole = self._attributes(item)
        self.store.put(self._key(item), body, contract.ANY, attributes)
        return is_whole

    def copy(self, item: ExportItem, source: contract.ObjectStore, key: str) -> bool:
        """Have the store copy an object on its side; return whether it did."""
        attributes, _ = self._attributes(item)
        return copy_across(source, key, self.store, self._key(item), attributes)

    def is_there(self, item: ExportItem, found: contract.ObjectInfo | None) -> bool:
        """Return whether the object that the earlier export wrote still exists, without reading it.

        Raises:
            Changed: another object has this name now.
        """
        assert item.old is not None
        if found is None:
            return False
        try:
            carried = self.store.head(found.key).metadata.get(IDENTITY, item.old_identity)
        except contract.ObjectNotFound:
            return False
        if found.size != item.old.size or carried != item.old_identity:
            raise Changed
        return True

    def delete(self, item: ExportItem) -> None:
        """Delete an object."""
        self.store.delete([self._key(item)])

    def close(self) -> None:
        """Do nothing: a bucket need not be closed."""

    def _key(self, item: ExportItem) -> str:
        if len(item.name) > self._room:
            raise UsageError(f"its key would be longer than {_MAX_KEY} bytes")
        return os.fsdecode(item.name)

    def _attributes(self, item: ExportItem) -> tuple[contract.Attributes, bool]:
        """Return the attributes to write, and whether they include all of the entry's metadata."""
        entry = item.entry
        assert entry is not None
        users = {
            key: value
            for key, value in entry.metadata.items()
            if not key.startswith(CLIENT_METADATA_PREFIX)
        }
        if entry.content_encoding:
            del users[CONTENT_ENCODING]  # sent as a header instead
        own = {IDENTITY: item.identity}
        pairs = (users | own).items()
        size = sum(len(f"{_META}{key}{text}".encode("utf-8", "replace")) for key, text in pairs)
        fits = size <= _MAX_METADATA
        if fits and self._is_strict:
            fits = all(
                _METADATA_KEY.fullmatch(key) and _METADATA_VALUE.fullmatch(value)
                for key, value in users.items()
            )
        metadata = users | own if fits else own
        return contract.Attributes(entry.content_type, metadata, entry.content_encoding), fits


class _Listed:
    """Looks up names in a listing; starts a new listing if the next name is far ahead or behind."""

    def __init__(self, store: contract.ObjectStore) -> None:
        self._store = store
        self._items: Iterator[contract.ObjectInfo] | None = None
        self._ahead: contract.ObjectInfo | None = None
        self._last = b""

    def find(self, name: bytes) -> contract.ObjectInfo | None:
        jumps = self._items is None or name < self._last
        passed = 0
        while not jumps and self._ahead is not None and os.fsencode(self._ahead.key) < name:
            self._advance()
            passed += 1
            jumps = passed > SKIPPED_LISTING
        if jumps:
            # A HEAD, or a listing of only this name, may show an object that a full listing lacks.
            self._items = self._store.list(after=_before(os.fsdecode(name)))
            self._advance()
            while self._ahead is not None and os.fsencode(self._ahead.key) < name:
                self._advance()
        self._last = name
        is_it = self._ahead is not None and os.fsencode(self._ahead.key) == name
        return self._ahead if is_it else None

    def _advance(self) -> None:
        items = self._items
        assert items is not None
        try:
            self._ahead = next(items, None)
        except LakeError:
            self._items = None  # the listing broke off, so later objects are unknown
            raise


def _before(key: str) -> str:
    """Return a key that sorts shortly before `key` and, if `key` is long, is not longer."""
    previous = chr(max(0, ord(key[-1]) - 1))
    if not previous.isprintable():
        return key[:-1]
    return key[:-1] + previous + "~" * (len(key) < _LONG)

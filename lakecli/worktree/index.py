"""The index of a linked directory: which files are known to have the bytes of their objects.

For each path of the base the index has the state (`FileState`) in which the file had the base's
bytes, so that a file in that state is not read again. The index is a cache: if it is missing,
unreadable, damaged or of another base, all files are read once more. Each directory has one index
file in the home::

    magic, key, root         the base and link that the index belongs to; the directory's path
    per directory            sizes, its path, the names of its files joined by NUL, the records
    BLAKE3                   the digest of all bytes before it, 32 bytes

    record (64 bytes)        inode, size, mtime, ctime, the BLAKE3 of the base's bytes

Inode 0 means that no file was seen with these bytes. 32 zero bytes instead of a BLAKE3 mean that
the base does not record the BLAKE3 of the object. A state is recorded only if every later change of
the file will change the state, too: see `is_settled`.

The index of a deleted directory is deleted. The index is kept if the directory may exist out of
reach, for example on a disk that is not mounted.
"""

import os
import struct
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from blake3 import blake3

from lakecli.base.directories import make_private
from lakecli.base.temporary_files import replacing

_MAGIC: Final = b"lakecli index 2\n"
_HEAD: Final = struct.Struct(">IIII")
_LENGTH: Final = 4
_DIGEST_SIZE: Final = 32
_MAX_HEADER: Final = 1 << 24

STATE: Final = struct.Struct("<Qqqq")
"""The encoding of a `FileState` in a record."""

STATES: Final = struct.Struct("<Qqqq32x")
"""A whole record, of which only the `FileState` is decoded."""

RECORD_SIZE: Final = STATE.size + _DIGEST_SIZE

NO_DIGEST: Final = bytes(_DIGEST_SIZE)
"""The digest in a record if the base does not record the BLAKE3 of the object."""

_LARGEST: Final = 2**63 - 1
"""The largest number that fits in every field of a record."""

MAPPED_NS: Final = 30_000_000_000
"""The longest time for which a write to a memory-mapped page may leave a file's time unchanged."""

TICK_NS: Final = 20_000_000
"""A duration longer than the resolution of the times that a kernel records for files."""


class FileState(NamedTuple):
    """The state of a file, from ``stat``: a file in the same state has the same bytes.

    Attributes:
        inode: the inode number; 0 if the file is missing, or was never compared.
        mtime_ns: the last change of the contents, in unix nanoseconds.
        ctime_ns: the last change of the inode, in unix nanoseconds.
    """

    inode: int
    size: int
    mtime_ns: int = 0
    ctime_ns: int = 0


def state_of(status: os.stat_result) -> FileState:
    """Return the state of a file that was described by ``stat``."""
    return FileState(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def is_settled(state: FileState, *, at_ns: int, is_own: bool = False) -> bool:
    """Return whether a file in this state certainly still has the bytes that were seen.

    Args:
        at_ns: when the bytes were read or written, in unix nanoseconds.
        is_own: whether lakecli has written the file itself, so that no program has it mapped.
    """
    if is_own:
        return state.ctime_ns <= at_ns - TICK_NS
    return max(state.mtime_ns, state.ctime_ns) <= at_ns - MAPPED_NS


class TrackedFile(NamedTuple):
    """The record of one path in the index.

    Attributes:
        state: the state in which a file was seen to have the bytes of the base; see `FileState`.
        digest: the BLAKE3 of the base's bytes, or `NO_DIGEST`.
    """

    state: FileState
    digest: bytes


@dataclass(slots=True, eq=False)
class TrackedDirectory:
    """The tracked files of one directory.

    Attributes:
        names: the names of the files, in ascending order.
        records: `RECORD_SIZE` bytes for each name.
    """

    names: list[bytes]
    records: bytearray

    def at(self, position: int) -> TrackedFile:
        """Return the tracked file at an index of `names`."""
        start = position * RECORD_SIZE
        state = FileState(*STATE.unpack_from(self.records, start))
        return TrackedFile(state, bytes(self.records[start + STATE.size : start + RECORD_SIZE]))

    def find(self, name: bytes) -> TrackedFile | None:
        """Return the tracked file with a name, or ``None``."""
        position = bisect_left(self.names, name)
        is_tracked = position < len(self.names) and self.names[position] == name
        return self.at(position) if is_tracked else None


class Index:
    """The tracked files of one working directory, by directory.

    Args:
        key: identifies the base and the link; an index with another key is not used.
        root: the path of the working directory; `prune` needs it.
    """

    def __init__(self, key: str, root: bytes = b"") -> None:
        self.key = key
        self.root = root
        self.blocks: dict[bytes, TrackedDirectory] = {}
        self._edits: dict[bytes, dict[bytes, bytes | None]] = {}
        self.has_changed = False

    # -- reading and changing ----------------------------------------------------------------

    def find(self, path: bytes) -> TrackedFile | None:
        """Return the tracked file at a path, or ``None``."""
        if self._edits:
            self.settle()
        if not self.blocks:
            return None
        directory, _, name = path.rpartition(b"/")
        block = self.blocks.get(directory)
        return None if block is None else block.find(name)

    def put(self, path: bytes, state: FileState, digest: bytes) -> None:
        """Record the state and the digest of a tracked file."""
        directory, _, name = path.rpartition(b"/")
        try:
            packed = STATE.pack(*state)
        except struct.error:
            packed = STATE.pack(0, min(state.size, _LARGEST), 0, 0)
        self._edits.setdefault(directory, {})[name] = packed + digest

    def drop(self, path: bytes) -> None:
        """Stop tracking the file at a path."""
        directory, _, name = path.rpartition(b"/")
        self._edits.setdefault(directory, {})[name] = None

    def see(self, block: TrackedDirectory, position: int, state: FileState) -> None:
        """Record that a tracked file has the bytes of the base while it is in this state."""
        if max(map(abs, state)) <= _LARGEST:
            STATE.pack_into(block.records, position * RECORD_SIZE, *state)
            self.has_changed = True

    def settle(self) -> None:
        """Apply the pending calls of `put` and `drop` to `blocks`, which saves memory."""
        edits, self._edits = self._edits, {}
        for directory, changed in edits.items():
            self.has_changed = True
            block = self.blocks.get(directory)
            merged: dict[bytes, bytes | None] = {}
            if block is not None:
                merged.update(zip(block.names, _records_of(block), strict=True))
            merged.update(changed)
            kept = {name: record for name, record in sorted(merged.items()) if record is not None}
            if kept:
                records = bytearray(b"".join(kept.values()))
                self.blocks[directory] = TrackedDirectory([*kept], records)
            else:
                self.blocks.pop(directory, None)

    def paths(self) -> Iterator[bytes]:
        """Yield the tracked paths, one directory after the other."""
        self.settle()
        for directory, block in self.blocks.items():
            lead = directory + b"/" if directory else b""
            for name in block.names:
                yield lead + name

    # -- the file ----------------------------------------------------------------------------

    def save(self, file: Path) -> None:
        """Write the index file; after a crash, it is the old or new file, or `load` rejects it."""
        self.settle()
        make_private(file.parent)
        header = self.key.encode("utf-8", "surrogateescape")
        pieces = [_MAGIC]
        for field in (header, self.root):
            pieces += [len(field).to_bytes(_LENGTH), field]
        for directory, block in sorted(self.blocks.items()):
            names = b"\0".join(block.names)
            pieces += [
                _HEAD.pack(len(directory), len(block.names), len(names), len(block.records)),
                directory,
                names,
                bytes(block.records),
            ]
        hasher = blake3()
        with replacing(file, is_durable=False) as opened:
            for piece in pieces:
                hasher.update(piece)
            opened.writelines(pieces)
            opened.write(hasher.digest())
        self.has_changed = False

    @classmethod
    def load(cls, file: Path, key: str) -> "Index | None":
        """Return the index in a file; ``None`` if it cannot be read or has another key."""
        try:
            data = file.read_bytes()
        except OSError:
            return None
        header = key.encode("utf-8", "surrogateescape")
        found, at = _field_at(data, len(_MAGIC))
        if not data.startswith(_MAGIC) or found != header:
            return None
        body = memoryview(data)[:-_DIGEST_SIZE]
        if blake3(body).digest() != data[-_DIGEST_SIZE:]:
            return None
        root, at = _field_at(data, at)
        index, end = cls(key, root), len(body)
        while at < end:
            lead, count, names_size, records_size = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            directory = data[at : at + lead]
            at += lead
            names = data[at : at + names_size].split(b"\0")
            at += names_size
            if len(names) != count or records_size != count * RECORD_SIZE:
                return None
            records = bytearray(body[at : at + records_size])
            index.blocks[directory] = TrackedDirectory(names, records)
            at += records_size
        return index


def _field_at(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the field whose length is stored at `at`, and the offset of the next field."""
    start = at + _LENGTH
    end = start + int.from_bytes(data[at:start])
    return data[start:end], end


def root_of(file: Path) -> bytes | None:
    """Return the path of the directory that an index file is for; ``None`` if it cannot be read."""
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_HEADER)
    except OSError:
        return None
    if not data.startswith(_MAGIC):
        return None
    return _field_at(data, _field_at(data, len(_MAGIC))[1])[0] or None


def _records_of(block: TrackedDirectory) -> Iterator[bytes]:
    records = bytes(block.records)
    return (records[at : at + RECORD_SIZE] for at in range(0, len(records), RECORD_SIZE))


DIRECTORIES: Final = "directories"
"""The name of the directory of the index files; it is beside the local store."""

_DAY_NS: Final = 24 * 3600 * 10**9

UNUSED_NS: Final = 90 * _DAY_NS
"""How long an unused index file is kept, even if its directory may still exist."""


def note_use(file: Path, *, now_ns: int) -> None:
    """Set the time of an index file to the present, at most once a day, to show that it is used."""
    with suppress(OSError):
        if file.stat().st_mtime_ns < now_ns - _DAY_NS:
            os.utime(file, ns=(now_ns, now_ns))


def clear_unused(directory: Path, *, now_ns: int) -> None:
    """Delete the index files that were not used for 90 days."""
    for file, status in _files(directory):
        if status.st_mtime_ns < now_ns - UNUSED_NS:
            with suppress(OSError):
                file.unlink()


def prune(directory: Path) -> list[bytes]:
    """Delete the index files of directories that certainly no longer exist; return the directories.

    A directory no longer exists if its file system is mounted, but its path is free or belongs to
    another directory now.
    """
    pruned = []
    for file, _ in _files(directory):
        root = root_of(file)
        if root is not None and _is_gone(root, file.stem):
            file.unlink(missing_ok=True)
            pruned.append(root)
    return sorted(pruned)


def _files(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for file in sorted(directory.glob("*.index")):
        with suppress(OSError):
            yield file, file.stat()


def _is_gone(root: bytes, name: str) -> bool:
    """Return whether a path no longer has the directory whose device and inode are in `name`."""
    device, _, inode = name.partition("-")
    directory = Path(os.fsdecode(root))
    for place in (directory, *directory.parents):
        try:
            status = place.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return False
        is_same = place == directory and f"{status.st_ino:x}" == inode
        return f"{status.st_dev:x}" == device and not is_same
    return False

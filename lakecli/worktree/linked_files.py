"""Link files with objects of a namespace on the same file system; record the executable bit.

A reflink shares the blocks with the object until one of the two files is written to. A hard link is
a second name of the object's file. The file is made read-only, because writing to it would damage
the repository. Root can write to it nevertheless; this changes the object, and so all commits that
contain it. `restore_objects` repairs such an object: the user's file keeps the new bytes, and the
object gets its old bytes back. If bytes were only appended, the old bytes are the beginning of the
file; otherwise they are read from the file that was uploaded.

The executable bit is recorded in lakectl's metadata for POSIX permissions. The key begins with
``::lakefs::``, so the comparison of entries ignores it: a file counts as unchanged if only this bit
has changed, and the new bit is recorded when the file's bytes change.
"""

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

from blake3 import blake3

from lakecli.base.ids import DataDigest
from lakecli.base.layout import data_key
from lakecli.base.model import Entry
from lakecli.errors import IntegrityError, Unsupported
from lakecli.repository.reading.contents import hash_rest
from lakecli.repository.reading.recorded import PIECE
from lakecli.stores.contract import ANY
from lakecli.stores.local.files import closing
from lakecli.stores.streams import PieceReader
from lakecli.worktree.index import NO_DIGEST
from lakecli.worktree.scan import LocalChange, Scan, ScanProblem
from lakecli.worktree.worktree import Worktree

_CLONE: Final = 0x40049409
"""The request code ``FICLONE`` of Linux, which makes a reflink."""

_CANNOT: Final = frozenset(
    {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM}
)
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITABLE: Final = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def reflink(source: Path, name: bytes, directory: int) -> bool:
    """Make a new file that shares the blocks of another; return ``False`` if unsupported."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with (
        closing(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as origin,
        closing(os.open(name, flags, 0o666, dir_fd=directory)) as descriptor,
    ):
        try:
            fcntl.ioctl(descriptor, _CLONE, origin)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            return False
    return True


def hard_link(source: Path, name: bytes, directory: int) -> None:
    """Make a second name of a file, and make the file read-only.

    Raises:
        Unsupported: the new name is on another file system, or the file system has no hard links.
    """
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
    try:
        os.link(source, name, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _CANNOT | {errno.EMLINK}:
            raise
        raise unsupported("hard links", source) from error
    with closing(os.open(name, _OPEN, dir_fd=directory)) as descriptor:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_mode & _WRITABLE:
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_WRITABLE)


def unsupported(what: str, source: Path) -> Unsupported:
    """Return the error for a file system that cannot link."""
    hint = "copy the files: `config set local.link copy`"
    return Unsupported(f"no {what} from {source.parent} to the working directory", hint=hint)


def digest_at(name: bytes, directory: int) -> str:
    """Return the BLAKE3 of a file in an opened directory, 64 hex digits."""
    with closing(os.open(name, _OPEN, dir_fd=directory)) as descriptor:
        return hash_rest(descriptor)


PERMISSIONS: Final = "::lakefs::posix-permissions"
"""Metadata key for JSON with UID, GID and Mode; lakecli uses only the owner's executable bit."""

_MAX_SIZE: Final = 256


def permissions_of(status: os.stat_result) -> Mapping[str, str]:
    """Return the metadata to record with a file: empty, unless its owner may execute it."""
    if not status.st_mode & stat.S_IXUSR:
        return {}
    fields = {"UID": status.st_uid, "GID": status.st_gid, "Mode": stat.S_IMODE(status.st_mode)}
    return {PERMISSIONS: json.dumps(fields, separators=(",", ":"))}


def is_executable(entry: Entry) -> bool:
    """Return whether an object was uploaded from a file that its owner could execute."""
    text = entry.metadata.get(PERMISSIONS, "")
    if not text or len(text) > _MAX_SIZE:
        return False
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return False
    mode = fields.get("Mode") if isinstance(fields, dict) else None
    return type(mode) is int and bool(mode & stat.S_IXUSR)


def make_executable(name: bytes, directory: int) -> None:
    """Let everyone who may read a file in an opened directory execute the file."""
    # `chmod` would follow a link that another process has put there.
    with closing(os.open(name, _OPEN, dir_fd=directory)) as descriptor:
        mode = os.fstat(descriptor).st_mode
        os.fchmod(descriptor, stat.S_IMODE(mode) | (mode & 0o444) >> 2)


class _HardLink(NamedTuple):
    """A changed hard link; the change has overwritten its object, too.

    Attributes:
        digest: the BLAKE3 of the object's original bytes.
        size: the original size of the object in bytes.
    """

    path: bytes
    digest: DataDigest
    size: int


def problems_of(worktree: Worktree, changes: Mapping[bytes, LocalChange]) -> list[ScanProblem]:
    """Return a problem for each changed file that is a hard link to an object."""
    reason = "a hard link; the object in the namespace was overwritten with it"
    return [ScanProblem(each.path, reason) for each in _overwritten(worktree, changes)]


def restore_objects(worktree: Worktree, changes: Mapping[bytes, LocalChange]) -> list[bytes]:
    """Give overwritten objects their original bytes again; return the paths of the files.

    The files keep the new bytes. They are no longer hard links, which changes their states.

    Raises:
        IntegrityError: the original bytes of an object are nowhere on this machine.
    """
    found = list(_overwritten(worktree, changes))
    lost = [each.path for each in found if not _restore(worktree, each)]
    if lost:
        name = os.fsdecode(lost[0])
        raise IntegrityError(
            f"{name} is a hard link, and the object in the namespace was overwritten with it",
            hint="restore the object from a directory that has the old file: "
            f"`fsck {worktree.repository.uri} --repair --from DIRECTORY`",
            paths=lost,
        )
    return [each.path for each in found]


def scan_restored(worktree: Worktree) -> Scan:
    """Restore overwritten objects, and return a scan of the directory; see `restore_objects`."""
    found = worktree.scan_all()
    return worktree.scan_all() if restore_objects(worktree, found.changes) else found


def _overwritten(worktree: Worktree, changes: Mapping[bytes, LocalChange]) -> Iterator[_HardLink]:
    store = worktree.repository.store
    for path, change in changes.items():
        tracked = None if change.state is None else worktree.index.find(path)
        if tracked is None or tracked.digest == NO_DIGEST:
            continue
        digest = cast("DataDigest", tracked.digest.hex())
        place = store.local_path(data_key(digest))
        if place is None:
            continue
        with suppress(OSError):
            here = os.lstat(worktree.path_of(path))
            if stat.S_ISREG(here.st_mode) and os.path.samestat(here, os.lstat(place)):
                yield _HardLink(path, digest, tracked.state.size)


def _restore(worktree: Worktree, each: _HardLink) -> bool:
    """Write the original bytes of an object again; return whether the object has them now."""
    from lakecli.repository.stored_objects import DamagedObject, check_object, repair_data

    repository = worktree.repository
    key = data_key(each.digest)
    with suppress(OSError, IntegrityError):
        body = PieceReader(_beginning(worktree.path_of(each.path), each))
        repository.store.put(key, cast("BinaryIO", body), ANY)
        if check_object(repository.store, key).what is None:
            return True
    damage = DamagedObject("data", key, "overwritten", each.size)
    return any(repair_data(repository, [damage], (), dry_run=False))


def _beginning(file: bytes, each: _HardLink) -> Iterator[bytes]:
    """Yield the first bytes of a file, as many as the object had, and verify them at the end.

    Raises:
        IntegrityError: after the last piece, if the bytes are not those of the object.
    """
    hasher, left = blake3(), each.size
    with open(file, "rb") as opened:  # noqa: PTH123 - the path is bytes
        while left and (piece := opened.read(min(left, PIECE))):
            hasher.update(piece)
            left -= len(piece)
            yield piece
    if hasher.hexdigest() != each.digest:
        raise IntegrityError("other bytes than those of the object")

"""Objects of the namespace that were overwritten through a hard link in a working directory.

A hard link is read-only, which does not stop root. Whoever writes to it writes to the object, so
the commits that have the object change. The file keeps the new bytes; the object gets its own back
from the beginning of the file, if something was only appended, or from a file that was uploaded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import BinaryIO, NamedTuple, cast

from blake3 import blake3

from lakecli.base.ids import DataDigest
from lakecli.base.layout import data_key
from lakecli.errors import IntegrityError
from lakecli.repository.data_index import check_object
from lakecli.repository.intact_copies import DamagedObject, repair_data
from lakecli.repository.transfer.readers import PIECE, PieceReader
from lakecli.stores.contract import ANY
from lakecli.worktree.index import NO_DIGEST
from lakecli.worktree.scan import LocalChange, Problem
from lakecli.worktree.worktree import Worktree


class _Overwritten(NamedTuple):
    """A changed file that is an object of the namespace, and what the object has to be."""

    path: bytes
    digest: DataDigest
    size: int


def problems_of(worktree: Worktree, changes: Mapping[bytes, LocalChange]) -> list[Problem]:
    """Return the changed files that are objects of the namespace, as problems."""
    reason = "a hard link; the object in the namespace was overwritten with it"
    return [Problem(each.path, reason) for each in _overwritten(worktree, changes)]


def restore_objects(worktree: Worktree, changes: Mapping[bytes, LocalChange]) -> list[bytes]:
    """Give overwritten objects their own bytes again; return the paths of the files.

    The files keep the new bytes. They are no links any more, which changes their states.

    Raises:
        IntegrityError: the bytes of an object are nowhere on this machine.
    """
    found = list(_overwritten(worktree, changes))
    lost = [each.path for each in found if not _restore(worktree, each)]
    if lost:
        name = os.fsdecode(lost[0])
        raise IntegrityError(
            f"{name} is a hard link, and the object in the namespace was overwritten with it",
            hint="restore the object: lakecli fsck --repair --from DIRECTORY "
            f"{worktree.repository.uri}, with a directory that has the old file",
            paths=lost,
        )
    return [each.path for each in found]


def _overwritten(
    worktree: Worktree, changes: Mapping[bytes, LocalChange]
) -> Iterator[_Overwritten]:
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
                yield _Overwritten(path, digest, tracked.state.size)


def _restore(worktree: Worktree, each: _Overwritten) -> bool:
    """Write an object again; return whether it has its bytes."""
    repository = worktree.repository
    key = data_key(each.digest)
    with suppress(OSError, IntegrityError):
        body = PieceReader(_beginning(worktree.path_of(each.path), each))
        repository.store.put(key, cast("BinaryIO", body), ANY)
        if check_object(repository.store, key).what is None:
            return True
    damage = DamagedObject("data", key, "overwritten", each.size)
    return any(repair_data(repository, [damage], (), dry_run=False))


def _beginning(file: bytes, each: _Overwritten) -> Iterator[bytes]:
    """Yield as many bytes of a file as an object has.

    Raises:
        IntegrityError: behind the last piece, if they are not the bytes of the object.
    """
    hasher, left = blake3(), each.size
    with open(file, "rb") as opened:  # noqa: PTH123 - the path is bytes
        while left and (piece := opened.read(min(left, PIECE))):
            hasher.update(piece)
            left -= len(piece)
            yield piece
    if hasher.hexdigest() != each.digest:
        raise IntegrityError("other bytes than those of the object")

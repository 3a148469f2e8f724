"""How many reads of trees each tier answered: memory, the disk of this machine, or the bucket.

Counts are kept beside the cached tables, so that `lakecli doctor` shows those of all processes. A
process adds one record when it closes its repository; nothing waits for the disk, and records may
be lost.
"""

from __future__ import annotations

import os
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Final, Literal

from lakecli.directories import make_private

if TYPE_CHECKING:
    from lakecli.directories import StrPath

    Tier = Literal["memory", "disk", "bucket"]
    Reads = dict[Tier, int]

MEMORY: Final = "memory"
DISK: Final = "disk"
"""Files of the cache, or of a namespace that is a directory."""
BUCKET: Final = "bucket"

FILE: Final = ".reads"
"""The name of the file of counts in the directory of a cache."""

_RECORD: Final = Struct("<3Q")
_MAX_SIZE: Final = _RECORD.size << 10
_MOST: Final = (1 << 64) - 1


def no_reads() -> Reads:
    """Return counts that begin at zero."""
    return {MEMORY: 0, DISK: 0, BUCKET: 0}


def add_reads(directory: StrPath, reads: Reads) -> None:
    """Add counts to those kept in a directory; if that fails, they are lost.

    Args:
        directory: of the cache of one repository; created if it is missing.
        reads: the counts to add.
    """
    if not any(reads.values()):
        return
    file = os.path.join(directory, FILE)
    record = _RECORD.pack(reads[MEMORY], reads[DISK], reads[BUCKET])
    with suppress(OSError):
        make_private(directory)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, record)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if size >= _MAX_SIZE:
            total = kept_reads(directory)
            beside = f"{file}-{os.getpid()}"
            with open(beside, "wb") as written:
                written.write(_RECORD.pack(total[MEMORY], total[DISK], total[BUCKET]))
            os.replace(beside, file)


def kept_reads(directory: StrPath) -> Reads:
    """Return the counts kept in a directory; a file that cannot be read counts as empty."""
    total = no_reads()
    data = b""
    with suppress(OSError), open(os.path.join(directory, FILE), "rb") as file:
        data = file.read(2 * _MAX_SIZE)
    whole = len(data) - len(data) % _RECORD.size
    for memory, disk, bucket in _RECORD.iter_unpack(data[:whole]):
        total[MEMORY] += memory
        total[DISK] += disk
        total[BUCKET] += bucket
    return {tier: min(count, _MOST) for tier, count in total.items()}


def reads_text(reads: Reads) -> str:
    """Return counts as text: ``5 (3 from memory, 1 from disk, 1 from the bucket)``."""
    total = sum(reads.values())
    if not total:
        return "0"
    return (
        f"{total:,} ({reads[MEMORY]:,} from memory, {reads[DISK]:,} from disk, "
        f"{reads[BUCKET]:,} from the bucket)"
    )

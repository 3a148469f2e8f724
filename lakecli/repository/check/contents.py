"""Comparing the contents of lakeFS's objects with the checksums of their entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakecli.base.model import Entry
from lakecli.base.validation import EARLIEST
from lakecli.errors import IntegrityError, LakeError
from lakecli.repository.core.read import Named, read_located

if TYPE_CHECKING:
    from lakecli.stores.base import ObjectStore


class Contents(NamedTuple):
    """What an entry says of the contents of an object that lakeFS wrote.

    Attributes:
        key: of the object.
        size: in bytes.
        checksum: an MD5; another one cannot be compared.
    """

    key: str
    size: int
    checksum: str


class Compared(NamedTuple):
    """The result of a comparison.

    Attributes:
        size: bytes that were read.
        what: the defect, or ``None``.
    """

    size: int
    what: str | None


def compare_contents(named: Named, store: ObjectStore, recorded: Contents) -> Compared:
    """Read an object of lakeFS, and compare it with what an entry says.

    Args:
        named: named in errors.
        store: the namespace.
        recorded: what the entry says.
    """
    key, size, checksum = recorded
    read = 0
    try:
        for piece in read_located(named, store, key, Entry(key, size, checksum, EARLIEST)):
            read += len(piece)
    except IntegrityError:
        return Compared(read, f"its bytes have another MD5 than {checksum}")
    except LakeError as error:
        return Compared(read, f"cannot be read: {error.message}")
    return Compared(read, None)

"""``--verify``: ask where the objects of a manifest are whether they are there.

A listing has just seen its objects, and ``--copy`` reads them. A manifest may be old, so by default
a sample of its objects is asked for by HEAD requests, where the parts run.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple
from zlib import crc32

from lakecli.base.model import NO_ACCOUNT, Account
from lakecli.engine.store_location import open_by_uri
from lakecli.errors import LakeError
from lakecli.imports.manifest_file import ManifestFile
from lakecli.imports.rows import Failures, Rows
from lakecli.repository.reading.addresses import split_address, split_pin
from lakecli.stores.base import ObjectNotFound
from lakecli.stores.versions import at_version

AT_ONCE: Final = 32
"""Requests that one part makes at a time."""

SAMPLE: Final = 1_000
"""Objects in a sample, about; all objects of a manifest that has fewer."""

ROW_SIZE: Final = 100
"""Bytes of a row of a manifest, about: 30 in Parquet, 150 in text."""


class Verify(StrEnum):
    """Which objects of a manifest are verified."""

    NONE = "none"
    SAMPLE = "sample"
    ALL = "all"


class Choice(NamedTuple):
    """The objects that are verified: one of `one_in`; none if it is 0.

    Attributes:
        one_in: the ratio.
        seed: chooses which.
    """

    one_in: int = 0
    seed: bytes = b""

    def positions(self, rows: Rows) -> range:
        """Return the positions of the rows that are chosen."""
        if not self.one_in:
            return range(0)
        return range(crc32(rows.keys[0], crc32(self.seed)) % self.one_in, len(rows), self.one_in)


def choose(verify: Verify, files: Iterable[ManifestFile], seed: bytes) -> Choice:
    """Return the choice of the objects of a manifest, of whose rows only the size is known."""
    if verify is Verify.NONE:
        return Choice()
    rows = sum(file.size for file in files) // ROW_SIZE
    return Choice(1 if verify is Verify.ALL else max(1, rows // SAMPLE), seed)


class Verifier:
    """Verifies the chosen objects of one part.

    Attributes:
        count: number of objects that were asked for.
    """

    def __init__(
        self, choice: Choice, prefix: bytes, failures: Failures, account: Account = NO_ACCOUNT
    ) -> None:
        self._account = account
        self._choice = choice
        self._prefix = prefix
        self._failures = failures
        self.count = 0

    def checked(self, rows: Rows) -> Rows:
        """Return the rows without objects that are missing or have another size."""
        positions = self._choice.positions(rows) if rows.keys else range(0)
        if not positions:
            return rows
        with ThreadPoolExecutor(min(AT_ONCE, len(positions))) as pool:
            found = list(pool.map(lambda at: _problem(rows, at, self._account), positions))
        self.count += len(positions)
        bad = {at: why for at, why in zip(positions, found, strict=True) if why}
        if not bad:
            return rows
        for at, why in bad.items():
            self._failures.add(self._prefix + rows.keys[at], why)
        return rows.take([at for at in range(len(rows)) if at not in bad])


def _problem(rows: Rows, at: int, account: Account) -> str:
    """Return why an object cannot be imported, or ``""``."""
    address = rows.addresses[at].decode("utf-8", "surrogateescape")
    plain, version_id = split_pin(address)
    uri, key = split_address(plain)
    try:
        size = at_version(_store_of(uri, account=account), version_id).head(key).size
    except ObjectNotFound:
        return f"the object is missing: {address}"
    except LakeError as error:
        return f"the object cannot be verified: {error.message}"
    if size != rows.sizes[at]:
        return f"the object has {size} bytes instead of {rows.sizes[at]}: {address}"
    return ""


_store_of = lru_cache(maxsize=16)(open_by_uri)

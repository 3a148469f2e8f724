"""Identifiers as types: an instance exists only if its text has the identifier's grammar.

Identifiers come out of records that anybody with write access to a bucket can forge, and they
become file names, object keys and keys of the local store. So they are checked once, where they
are made, and whatever joins one to a path or a key demands the type or checks again.
"""

from __future__ import annotations

import re
from typing import ClassVar, Self

from lakecli.errors import IntegrityError

_DIGEST = re.compile(r"[0-9a-f]{64}")
_DIGEST_OR_EMPTY = re.compile(r"(?:[0-9a-f]{64})?")
_RANDOM = re.compile(r"[0-9a-f]{32}")
_SHOWN = 80


class MalformedId(IntegrityError):
    """A text in the place of an identifier that is none; it must not become part of a name."""

    def __init__(self, what: str, value: object) -> None:
        shown = repr(value[:_SHOWN]) if isinstance(value, str | bytes) else type(value).__name__
        super().__init__(
            f"not {what}: {shown}",
            hint="the record that holds it is damaged or forged; find what it affects: "
            "lakecli fsck lakefs://REPOSITORY",
        )


class HexId(str):
    """Base of all identifiers; each subclass says what it is and which grammar it has."""

    __slots__ = ()

    _what: ClassVar[str] = "an identifier"
    _grammar: ClassVar[re.Pattern[str]] = _DIGEST

    def __new__(cls, text: str) -> Self:
        """Return the identifier that a text is.

        Raises:
            MalformedId: it is none.
        """
        if type(text) is cls:
            return text
        if not cls.is_valid(text):
            raise MalformedId(cls._what, text)
        return super().__new__(cls, text)

    @classmethod
    def is_valid(cls, text: object) -> bool:
        """Tell whether `text` has the grammar of this identifier."""
        return isinstance(text, str) and cls._grammar.fullmatch(text) is not None

    @classmethod
    def of_bytes(cls, data: bytes) -> Self:
        """Return the identifier whose hex digits these bytes are.

        Raises:
            MalformedId: there are too few or too many.
        """
        return cls(data.hex())


class CommitId(HexId):
    """64 lowercase hex digits: lakeFS's SHA-256 over the commit's fields."""

    __slots__ = ()
    _what = "a commit ID"


class RangeId(HexId):
    """64 lowercase hex digits: BLAKE3 over the range's record IDs."""

    __slots__ = ()
    _what = "a range ID"


class MetarangeId(HexId):
    """64 lowercase hex digits, or ``""`` for the empty tree."""

    __slots__ = ()
    _what = "a metarange ID"
    _grammar = _DIGEST_OR_EMPTY


class PackId(HexId):
    """64 lowercase hex digits: BLAKE3 of a commit pack's bytes."""

    __slots__ = ()
    _what = "the ID of a commit pack"


class DataDigest(HexId):
    """64 lowercase hex digits: BLAKE3 of a data object's bytes."""

    __slots__ = ()
    _what = "the digest of a data object"


class WriteId(HexId):
    """32 lowercase hex digits: random, of one move of a ref or of the state of collection."""

    __slots__ = ()
    _what = "a write ID"
    _grammar = _RANDOM


class IncomingId(HexId):
    """32 lowercase hex digits: random, of one link that accepts an object."""

    __slots__ = ()
    _what = "the ID of a link"
    _grammar = _RANDOM


class RepositoryUuid(HexId):
    """32 lowercase hex digits: random, the same in every clone of a repository."""

    __slots__ = ()
    _what = "the UUID of a repository"
    _grammar = _RANDOM

    @property
    def key(self) -> bytes:
        """The 16 bytes that the repository's rows in the local store begin with."""
        return bytes.fromhex(self)

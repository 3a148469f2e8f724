"""Identifiers as types: an instance exists only if its text has the identifier's grammar.

Identifiers come from records that anyone with write access to a bucket can forge, and they are used
in file names, object keys and keys of the local store. So their constructors check the text. Code
that builds a path or a key from an identifier requires the type, or checks the text again.
"""

from typing import ClassVar, Self

from lakecli.errors import IntegrityError

_DIGITS = "0123456789abcdef"
_DIGEST = (64,)
_DIGEST_OR_EMPTY = (64, 0)
_RANDOM = (32,)
_SHOWN = 80


class MalformedId(IntegrityError):
    """A text is not a valid identifier, so it must not become part of a path or a key."""

    def __init__(self, what: str, value: object) -> None:
        shown = repr(value[:_SHOWN]) if isinstance(value, str | bytes) else type(value).__name__
        super().__init__(
            f"not {what}: {shown}",
            hint="the record that holds it is damaged or forged; find what it affects: "
            "`fsck REPOSITORY`",
        )


class HexId(str):
    """Base of all identifiers; a subclass defines the name for errors and the legal lengths."""

    __slots__ = ()

    _what: ClassVar[str] = "an identifier"
    _sizes: ClassVar[tuple[int, ...]] = _DIGEST

    def __init_subclass__(cls, *, what: str, sizes: tuple[int, ...] = _DIGEST) -> None:
        super().__init_subclass__()
        cls._what, cls._sizes = what, sizes

    def __new__(cls, text: str) -> Self:
        """Check a text and return it as an identifier.

        Raises:
            MalformedId: the text does not have the grammar of this identifier.
        """
        if type(text) is cls:
            return text
        if not cls.is_valid(text):
            raise MalformedId(cls._what, text)
        return super().__new__(cls, text)

    @classmethod
    def is_valid(cls, text: object) -> bool:
        """Return whether `text` has the grammar of this identifier."""
        return isinstance(text, str) and len(text) in cls._sizes and not text.strip(_DIGITS)

    @classmethod
    def of_bytes(cls, data: bytes) -> Self:
        """Return the identifier whose hex digits encode these bytes.

        Raises:
            MalformedId: the number of bytes is wrong.
        """
        text = data.hex()
        if len(text) not in cls._sizes:
            raise MalformedId(cls._what, text)
        return super().__new__(cls, text)


class CommitId(HexId, what="a commit ID"):
    """64 lowercase hex digits: lakeFS's SHA-256 over the commit's fields."""

    __slots__ = ()


class RangeId(HexId, what="a range ID"):
    """64 lowercase hex digits: BLAKE3 over the range's record IDs."""

    __slots__ = ()


class MetarangeId(HexId, what="a metarange ID", sizes=_DIGEST_OR_EMPTY):
    """64 lowercase hex digits, or ``""`` for the empty tree."""

    __slots__ = ()


class PackId(HexId, what="the ID of a commit pack"):
    """64 lowercase hex digits: BLAKE3 of a commit pack's bytes."""

    __slots__ = ()


class DataDigest(HexId, what="the digest of a data object"):
    """64 lowercase hex digits: BLAKE3 of a data object's bytes."""

    __slots__ = ()


class WriteId(HexId, what="a write ID", sizes=_RANDOM):
    """32 random lowercase hex digits that identify a move of a ref or a change of the GC state."""

    __slots__ = ()


class IncomingId(HexId, what="the ID of a link", sizes=_RANDOM):
    """32 random lowercase hex digits that identify one PUT link for uploading an object."""

    __slots__ = ()


class RepositoryUuid(HexId, what="the UUID of a repository", sizes=_RANDOM):
    """32 random lowercase hex digits, the same in every clone of a repository."""

    __slots__ = ()

    @property
    def key(self) -> bytes:
        """The first 16 bytes of the keys of the repository's rows in the local store."""
        return bytes.fromhex(self)

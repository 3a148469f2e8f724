"""The messages inside lakeFS's ranges, metaranges and refs dumps, by a table of their fields.

The messages are lakeFS's ``catalog.Entry``, ``committed.RangeData`` and ``graveler.CommitData``.
Each table lists the fields in the order of their numbers, from 1.

Encoding writes the fields by ascending number and omits fields with their default value, as
protobuf does. Decoding accepts exactly what protobuf accepts. Fields may come in any order. If a
field is repeated, the last value wins, but nested messages are merged. Varints may be padded.
Unknown fields, and fields with an unexpected wire type, are skipped. Texts must be UTF-8.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from lakecli.proto.varint import Malformed, decode_varint, encode_varint

_MAX_DEPTH: Final = 100
"""Deepest nesting of groups and messages inside a message: protobuf's own limit."""

_MAX_SHORT_SIZE: Final = 5
"""Largest size of a tag or a length, in bytes."""

_MIN_TAG: Final = 1 << 3
_MAX_TAG: Final = 2**32 - 1
_MAX_LENGTH: Final = 2**31 - 1

_VARINT, _FIXED64, _LENGTH_DELIMITED, _START_GROUP, _END_GROUP, _FIXED32 = range(6)
"""The wire types."""

_FIXED_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}


class Scalar(NamedTuple):
    """The type of a field whose value is a number, a text or bytes.

    Attributes:
        default: value of an absent field.
        encode: a function that returns the bytes after the tag; for a text or bytes, the bytes
            after the length.
        decode: the inverse of `encode`; for a number, its argument is the decoded varint.
    """

    wire_type: int
    default: object
    encode: Callable[[Any], bytes]
    decode: Callable[[Any], object]


def _number(size: int, *, signed: bool) -> Scalar:
    def encode(value: int) -> bytes:
        value.to_bytes(size, signed=signed)  # raises OverflowError for what does not fit
        return encode_varint(value % (1 << 64))

    def decode(value: int) -> int:
        return int.from_bytes((value % (1 << 8 * size)).to_bytes(size), signed=signed)

    return Scalar(_VARINT, 0, encode, decode)


INT32: Final = _number(4, signed=True)
INT64: Final = _number(8, signed=True)
UINT64: Final = _number(8, signed=False)
TEXT: Final = Scalar(_LENGTH_DELIMITED, "", str.encode, bytes.decode)
BYTES: Final = Scalar(_LENGTH_DELIMITED, b"", bytes, bytes)


class Message:
    """A message type, which is also the type of a field that contains such a message.

    A message is passed as a mapping from field names to values. A repeated field is a list. A
    nested message is a mapping, or ``None`` if it is absent.

    Args:
        fields: the types of the fields by name, in the order of the field numbers, from 1. A list
            of one type stands for a repeated field.
    """

    wire_type: Final = _LENGTH_DELIMITED
    default: Final = None

    def __init__(self, **fields: "Scalar | Message | list[Scalar] | list[Message]") -> None:
        self._repeated = [name for name, type_ in fields.items() if isinstance(type_, list)]
        self._fields: dict[int, tuple[str, Scalar | Message]] = {}
        self._defaults: dict[str, Any] = {}
        for number, (name, type_) in enumerate(fields.items(), 1):
            one = type_[0] if isinstance(type_, list) else type_
            self._fields[number << 3 | one.wire_type] = name, one
            self._defaults[name] = one.default

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """Return the bytes of a message.

        Raises:
            UnicodeEncodeError: a text cannot be encoded as UTF-8.
            OverflowError: a number does not fit its type.
        """
        parts = []
        for tag, (name, type_) in self._fields.items():
            value = values.get(name, type_.default)
            if name not in self._repeated:
                value = () if value == type_.default else (value,)
            for item in value or ():
                data = type_.encode(item)
                parts.append(encode_varint(tag))
                if type_.wire_type == _LENGTH_DELIMITED:
                    parts.append(encode_varint(len(data)))
                parts.append(data)
        return b"".join(parts)

    def decode(self, data: bytes) -> dict[str, Any]:
        """Return the values of an encoded message."""
        try:
            return self._decode(data, None, _MAX_DEPTH)
        except UnicodeDecodeError:
            raise Malformed("a text that is not UTF-8") from None

    def _decode(self, data: bytes, earlier: dict[str, Any] | None, depth: int) -> dict[str, Any]:
        """Decode a message, and merge it with `earlier`, an earlier message of the same field."""
        values = earlier or self._defaults | {name: [] for name in self._repeated}
        at = 0
        while at < len(data):
            tag, at = _decode_short(data, at, _MAX_TAG)
            if tag < _MIN_TAG:
                raise Malformed("a field without a number")
            if tag not in self._fields:
                at = _skip(data, at, tag, depth)
                continue
            name, type_ = self._fields[tag]
            is_repeated = name in self._repeated
            value: Any
            if type_.wire_type == _VARINT:
                value, at = decode_varint(data, at)
            else:
                value, at = _decode_chunk(data, at)
            if isinstance(type_, Scalar):
                value = type_.decode(value)
            else:
                earlier = None if is_repeated else values[name]
                value = type_._decode(value, earlier, depth - 1)  # noqa: SLF001 - of this class
            if is_repeated:
                values[name].append(value)
            else:
                values[name] = value
        return values


def _decode_short(data: bytes, at: int, maximum: int) -> tuple[int, int]:
    """Decode a tag or a length; return its value and the position after it."""
    number, at = decode_varint(data, at, max_size=_MAX_SHORT_SIZE)
    if number > maximum:
        raise Malformed("a tag or a length that is too large")
    return number, at


def _decode_chunk(data: bytes, at: int) -> tuple[bytes, int]:
    size, start = _decode_short(data, at, _MAX_LENGTH)
    if start + size > len(data):
        raise Malformed("a field that runs past the end of its message")
    return data[start : start + size], start + size


def _skip(data: bytes, at: int, tag: int, depth: int) -> int:
    """Return the position after an unknown field; `at` is the position after its tag."""
    wire_type = tag & 7
    if wire_type == _VARINT:
        return decode_varint(data, at)[1]
    if wire_type == _LENGTH_DELIMITED:
        return _decode_chunk(data, at)[1]
    if wire_type in _FIXED_SIZES:
        end = at + _FIXED_SIZES[wire_type]
        if end > len(data):
            raise Malformed("a field that runs past the end of its message")
        return end
    if wire_type == _START_GROUP and depth:
        while True:
            inner, at = _decode_short(data, at, _MAX_TAG)
            if inner == tag - _START_GROUP + _END_GROUP:
                return at
            at = _skip(data, at, inner, depth - 1)
    raise Malformed("groups nested too deeply, or a field of no known wire type")


TIMESTAMP: Final = Message(seconds=INT64, nanos=INT32)

PAIR: Final = Message(key=TEXT, value=TEXT)
"""The type of an item of a ``map<string, string>``, which is encoded as a repeated message."""

ENTRY: Final = Message(
    address=TEXT,  # relative to the storage namespace, or a full URI
    last_modified=TIMESTAMP,
    size=INT64,
    e_tag=TEXT,  # the checksum
    metadata=[PAIR],  # sorted by key when we write
    address_type=INT32,  # 0 deprecated, 1 relative, 2 full
    content_type=TEXT,
)

RANGE_DATA: Final = Message(
    min_key=BYTES,
    max_key=BYTES,
    estimated_size=UINT64,  # in bytes; we write the exact size of the file
    count=INT64,
)

COMMIT_DATA: Final = Message(
    id=TEXT,
    committer=TEXT,
    message=TEXT,
    creation_date=TIMESTAMP,
    meta_range_id=TEXT,
    metadata=[PAIR],
    parents=[TEXT],
    version=INT32,  # 1: the main parent is the first; 0: the last
    generation=INT32,
)

BRANCH_DATA: Final = Message(id=TEXT, commit_id=TEXT)  # lakeFS has more; dumps set only these
TAG_DATA: Final = Message(id=TEXT, commit_id=TEXT)


def pairs_of(items: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the pairs of a map, sorted by the bytes of their keys, for encoding.

    Raises:
        UnicodeEncodeError: a key cannot be encoded as UTF-8.
    """
    return [{"key": key, "value": items[key]} for key in sorted(items, key=str.encode)]


def map_of(pairs: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return pairs as a map; if a key is repeated, its last pair wins."""
    return {pair["key"]: pair["value"] for pair in pairs}


def seconds_of(timestamp: Mapping[str, Any] | None) -> int:
    """Return the unix seconds of a timestamp, 0 if it is absent."""
    return timestamp["seconds"] if timestamp else 0

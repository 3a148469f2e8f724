"""The values of records: an identity and the data that it identifies, framed as in lakeFS.

For the framing see `lakecli.sstable.format`. In a range the identity is 32 raw bytes and the data
a `lakecli.proto.messages.Entry`. lakecli does not interpret the identity of an entry that it has
read: entries that lakeFS wrote keep their identities.

Reading and writing ranges spend most of their time here. So the compiled core, if present, decodes
entries in the usual form and encodes columns of entries. The codec of `lakecli.proto` decodes every
other form, and decides which values are damaged. Without the core, Python code concatenates fields
that are encoded already. Tests compare every byte with protobuf's output.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import repeat
from struct import Struct
from typing import Final, NamedTuple

from blake3 import blake3

from lakecli import native
from lakecli.base.identity import DIGEST_SIZE, entry_identity, frame_map, frame_str, hashes
from lakecli.base.layout import data_digest, is_content_address
from lakecli.base.model import CLIENT_METADATA_PREFIX, CLIENT_MTIME, Entry
from lakecli.errors import IntegrityError, UsageError
from lakecli.proto.varint import Malformed, encode_varint
from lakecli.sstable.format import MalformedValue, decode_value, encode_value, read_component

__all__ = ["MalformedValue", "decode_value", "encode_value"]  # the framing of every value

_DIGEST_FRAME: Final = 2 * DIGEST_SIZE
"""The encoded length of an identity of 32 bytes: the one byte 0x40."""

_DATA_START: Final = 1 + DIGEST_SIZE
_CACHED: Final = 1 << 12
"""Size of each cache of encoded fields: of times, of content types, and of metadata keys."""


def identity_of(value: bytes) -> bytes:
    """Return the identity of a value."""
    if value[:1] == b"\x40" and len(value) > _DATA_START:
        return value[1:_DATA_START]
    return read_component(value, 0)[0]


def is_same(left: bytes | None, right: bytes | None) -> bool:
    """Return whether two values are both absent or have the same identity."""
    if left == right:
        return True
    return left is not None and right is not None and identity_of(left) == identity_of(right)


def identities_of(values: Sequence[bytes]) -> list[bytes]:
    """Return the identities of many values; the usual identities, of 32 bytes, are only cut out."""
    try:
        return [
            each[1:_DATA_START] if each[0] == _DIGEST_FRAME else identity_of(each)
            for each in values
        ]
    except IndexError:
        raise MalformedValue("an empty value") from None


def digests(keys: Sequence[bytes], values: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return each key's ``blake3_of`` and each record's ``record_id``, both concatenated."""
    of_keys = list(hashes(keys))
    pairs = zip(of_keys, hashes(identities_of(values)), strict=True)
    return b"".join(of_keys), b"".join(hashes(map(b"".join, pairs)))


def decode_entry(value: bytes) -> Entry:
    """Return the entry that a value records."""
    core = native.core()
    fields = None if core is None else core.decode_entry(value)
    if fields is None:
        return _decode_any(value)
    address, size, checksum, seconds, content_type, metadata = fields
    # Like `Entry(…)`, but without its constructor: in half of the time.
    return tuple.__new__(Entry, (address, size, checksum, _time(seconds), content_type, metadata))


def find_owned(values: Sequence[bytes]) -> Sequence[int]:
    """Return the positions of the values whose objects may be in the storage namespace.

    The objects of all other values are external. Some objects at the returned positions may be
    external, too.
    """
    core = native.core()
    found = None if core is None else core.find_owned(values)
    return range(len(values)) if found is None else found


ContentObject = tuple[str, int, str, int]
"""The content address of an object, its size in bytes, its BLAKE3, and the time of its file."""


def content_objects(values: list[bytes], *, special: str) -> list[ContentObject | None]:
    """Return what a copy of each object needs, without decoding its entry as a whole.

    The time is `Entry.file_mtime`. The result is ``None`` for an entry that must be decoded: it is
    damaged, its time is out of range, its object is at another address, or its metadata has the
    key `special`.
    """
    core = native.core()
    found = None if core is None else core.content_objects(values, special.encode())
    pairs = zip(found or repeat(None), values, strict=False)
    return [each or _content_object(value, special) for each, value in pairs]


def _content_object(value: bytes, special: str) -> ContentObject | None:
    try:
        entry = decode_entry(value)
        digest, seconds = data_digest(entry.physical_address), entry.file_mtime
    except IntegrityError:
        return None
    if digest is None or special in entry.metadata:
        return None
    return entry.physical_address, entry.size, digest, seconds


def _decode_any(value: bytes) -> Entry:
    from lakecli.proto import messages  # only for unusual entries

    data = decode_value(value)[1]
    try:
        message = messages.ENTRY.decode(data)
    except Malformed:
        raise MalformedValue("no entry") from None
    address, size, checksum = message["address"], message["size"], message["e_tag"]
    modified_at = _time(messages.seconds_of(message["last_modified"]))
    metadata = messages.map_of(message["metadata"])
    return Entry(address, size, checksum, modified_at, message["content_type"], metadata)


@lru_cache(_CACHED)
def _time(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise MalformedValue(f"no entry, of no year: {seconds} s") from None


_IDENTITY_START: Final = frame_str("lakecli:entry:1")
_NO_METADATA: Final = frame_map({}), b""
_frame_number = Struct(">2sq").pack
_frame_length = Struct(">3sq").pack


class Columns(NamedTuple):
    """External objects or uploaded files, column by column, without user metadata.

    Attributes:
        addresses: full URIs, in UTF-8; or the content addresses of the checksums.
        sizes: the size of each object in bytes.
        checksums: the checksums, in UTF-8.
        seconds: the modification time of each object, in unix seconds.
        content_types: the content types, in UTF-8; ``None`` if no object has a content type.
        file_times: the modification time of each file, as digits; ``None``: the objects are
            external.
    """

    addresses: Sequence[bytes]
    sizes: Sequence[int]
    checksums: Sequence[bytes]
    seconds: Sequence[int]
    content_types: Sequence[bytes] | None = None
    file_times: Sequence[bytes] | None = None


def identify(entry: Entry) -> bytes:
    """Return the identity of an entry as lakecli computes it."""
    address, texts = entry.physical_address, entry.metadata.items()
    return entry_identity(
        size=entry.size,
        checksum=entry.checksum,
        metadata={key: text for key, text in texts if not key.startswith(CLIENT_METADATA_PREFIX)},
        content_type=entry.content_type,
        address="" if is_content_address(address, entry.checksum) else address,
    )


def encode_entry(entry: Entry) -> bytes:
    """Return the value that records an entry: its identity and its message.

    Raises:
        UsageError: a text of the entry is not UTF-8, which a message cannot contain.
    """
    is_named = is_content_address(entry.physical_address, entry.checksum)
    try:
        address = entry.physical_address.encode()
        metadata = _encode_metadata(entry.metadata) if entry.metadata else _NO_METADATA
        checksum, at = entry.checksum.encode(), _encode_moment(entry.modified_at)
        content_type = _encode_type(entry.content_type.encode())
        named = b"" if is_named else address
        texts = address, entry.size, checksum, at, content_type, metadata, named
        return _encode_parts(*texts, is_full=b"://" in address)
    except UnicodeEncodeError as error:
        raise _not_text(entry, error.object) from None


def _encode_parts(  # noqa: PLR0917 - names cost 10 % of the time
    address: bytes,
    size: int,
    checksum: bytes,
    time_field: bytes,
    content_type: tuple[bytes, bytes],
    metadata: tuple[bytes, bytes],
    identifying_address: bytes,
    *,
    is_full: bool,
) -> bytes:
    """Return the value of an entry, given its fields, some of which are encoded already.

    The identity in the value is that of `identity.entry_identity`.

    Args:
        address: the physical address, in UTF-8.
        checksum: the checksum, in UTF-8.
        content_type: the content type, framed for the identity and encoded as a field.
        metadata: the metadata, framed for the identity and encoded as fields.
        identifying_address: the address for the identity.
        is_full: whether the address is a full URI.
    """
    identity = blake3(
        b"%b%b%b%b%b%b%b%b"
        % (
            _IDENTITY_START,
            _frame_number(b"\x02\x08", size),
            _frame_length(b"\x01\x02\x08", len(checksum)),
            checksum,
            metadata[0],
            content_type[0],
            _frame_length(b"\x01\x02\x08", len(identifying_address)),
            identifying_address,
        )
    ).digest()
    message = b"%b%b%b%b%b%b%b" % (
        b"\x0a%b%b" % (encode_varint(len(address)), address) if address else b"",
        time_field,
        b"\x18" + encode_varint(size % (1 << 64)) if size else b"",
        b"\x22%b%b" % (encode_varint(len(checksum)), checksum) if checksum else b"",
        metadata[1],
        b"\x30\x02" if is_full else b"\x30\x01",
        content_type[1],
    )
    return b"\x40%b%b%b" % (identity, encode_varint(len(message) << 1), message)


@lru_cache(_CACHED)
def _encode_time(seconds: int) -> bytes:
    """Return the encoded field ``last_modified`` for a time in unix seconds."""
    data = b"\x08" + encode_varint(seconds % (1 << 64)) if seconds else b""
    return b"\x12%c%b" % (len(data), data)


@lru_cache(_CACHED)
def _encode_moment(moment: datetime) -> bytes:
    return _encode_time(int(moment.timestamp()))


@lru_cache(_CACHED)
def _encode_type(content_type: bytes) -> tuple[bytes, bytes]:
    """Return a content type framed for the identity, and as the field ``content_type``."""
    size = len(content_type)
    framed = _frame_length(b"\x01\x02\x08", size) + content_type
    return framed, b"\x3a%b%b" % (encode_varint(size), content_type) if content_type else b""


def _encode_metadata(metadata: Mapping[str, str]) -> tuple[bytes, bytes]:
    """Return metadata framed for the identity, and as fields of the message."""
    count = 0
    framed = fields = b""
    for key in sorted(metadata, key=str.encode) if len(metadata) > 1 else metadata:
        framed_key, pair = _encode_key(key)
        text = metadata[key].encode()
        size = len(text)
        if size:
            pair = b"%b\x12%b%b" % (pair, encode_varint(size), text)
        fields = b"%b\x2a%b%b" % (fields, encode_varint(len(pair)), pair)
        if framed_key:
            count += 1
            framed = b"%b%b%b%b" % (framed, framed_key, _frame_length(b"\x01\x02\x08", size), text)
    return _frame_length(b"\x04\x02\x08", count) + framed, fields


@lru_cache(_CACHED)
def _encode_key(key: str) -> tuple[bytes, bytes]:
    """Return a metadata key, framed for the identity and encoded as a field of its pair.

    The framed form is empty if the identity does not cover the key.
    """
    data = key.encode()
    framed = b"" if key.startswith(CLIENT_METADATA_PREFIX) else frame_str(key)
    return framed, b"\x0a%b%b" % (encode_varint(len(data)), data) if data else b""


def encode_external(columns: Columns) -> list[bytes]:
    """Encode external objects or uploaded files; return the value of each row, in row order."""
    core = native.core()
    values = None if core is None else core.encode_external(blake3(), columns)
    if values is None:
        return _encode_external(columns)
    if not all(values):
        places = [at for at, value in enumerate(values) if not value]
        for at, value in zip(places, _encode_external(_rows(columns, places)), strict=True):
            values[at] = value
    return values


def _rows(columns: Columns, places: Sequence[int]) -> Columns:
    return Columns._make(column and [column[at] for at in places] for column in columns)


def _encode_external(columns: Columns) -> list[bytes]:
    """Encode every row in Python, with the same result as the compiled core."""
    addresses, sizes, checksums, seconds, content_types, file_times = columns
    types = map(_encode_type, content_types or repeat(b""))
    is_full = file_times is None
    metadata: Iterable[tuple[bytes, bytes]] = repeat(_NO_METADATA)
    if file_times is not None:
        metadata = (_encode_metadata({CLIENT_MTIME: time.decode()}) for time in file_times)
    named = addresses if is_full else repeat(b"")
    times = map(_encode_time, seconds)
    rows = zip(addresses, sizes, checksums, times, types, metadata, named, strict=False)
    return [_encode_parts(*row, is_full=is_full) for row in rows]


def _not_text(entry: Entry, text: str) -> UsageError:
    fields = {
        "physical address": entry.physical_address,
        "checksum": entry.checksum,
        "content type": entry.content_type,
    }
    what = next((name for name, value in fields.items() if value == text), "metadata")
    hint = "only paths may hold bytes that are not UTF-8"
    return UsageError(f"the {what} is not valid text: {text!r}", hint=hint)

"""Rules for names of blobs and their order, for keys of metadata, and for versions.

Azure, clients and proxies treat the name of a blob as a path: a backslash becomes a slash, ``.``
and ``..`` are resolved, and dots at the end of a segment are removed. Such a name would refer to
another blob, so lakecli neither writes nor deletes it. If a listing has such a name, the blob can
be read if only dots at the end of a segment are the problem; the SDK cannot request other names. A
slash at the end of a name is kept, because directory markers have one.

Azure orders names by UTF-16 code units: characters beyond U+FFFF come before those from U+E000 on.
Apart from that, the order is byte order. Accounts with directories (a hierarchical namespace) list
the contents of a directory right after its name, before longer names that begin with it. Sorting
such a listing would require the whole directory in memory, so lakecli refuses it.

For conditions, the version of a blob is its ETag; version IDs name the old versions that Azure
keeps.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from lakecli.errors import UsageError
from lakecli.stores.contract import Version
from lakecli.stores.responses import UnusableAnswerError, etag_of
from lakecli.stores.responses import version_id_of as id_of_version

LONGEST_NAME = 1_024
"""Longest name of a blob, in UTF-16 code units."""

_NOT_IN_XML = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")
_DOTS_AT_AN_END = re.compile(r"\.(/|\Z)")
_OTHER_PATH = re.compile(r"(\A|/)\.{1,2}(/|\Z)|\\")

# Keys of metadata must be C# identifiers; other keys are encoded as .NET encodes XML names.
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ESCAPE = re.compile(r"_x([0-9a-f]{4}|10[0-9a-f]{4}|[0-9a-f]{5})_")
_LIKE_AN_ESCAPE = re.compile(r"_(?=x[0-9a-f]{4})")
_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?", re.ASCII)


Entry = TypeVar("Entry")

_LAST_OF_PLANE_0 = "\uffff"


def check_name(name: str, key: str, *, reads: bool) -> None:
    """Reject a blob name that Azure would change.

    Args:
        reads: whether the blob is only read, which permits more names.
    """
    try:
        size = len(name.encode("utf-16-le")) // 2
    except UnicodeEncodeError:
        reason = "it is not UTF-8"
    else:
        if found := _OTHER_PATH.search(name):
            reason = "it has a backslash" if "\\" in found[0] else "a part of it is . or .."
        elif not reads and _DOTS_AT_AN_END.search(name):
            reason = "a part of it ends with a dot"
        elif _NOT_IN_XML.search(name):
            reason = "it has control characters"
        elif size > LONGEST_NAME:
            reason = f"it is longer than {LONGEST_NAME} characters"
        else:
            return
    raise UsageError(f"Azure cannot hold an object of this key, {reason}: {key!r}")


def encode_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return metadata in the form that Azure accepts.

    A character that a key cannot contain becomes ``_xHHHH_``, with its code in hex.

    Raises:
        UsageError: a key is empty, or an HTTP header cannot contain a value.
    """
    for key, value in metadata.items():
        if not key or (value and not _VALUE.fullmatch(value)):
            hint = "values are printable ASCII without blanks around them"
            raise UsageError(f"Azure cannot hold this metadata: {key!r}: {value!r}", hint=hint)
    return {_encode_key(key): value for key, value in metadata.items()}


def decode_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata that `encode_metadata` encoded."""
    return {
        _ESCAPE.sub(lambda found: chr(int(found[1], 16)), key): value
        for key, value in metadata.items()
    }


def _encode_key(key: str) -> str:
    key = _LIKE_AN_ESCAPE.sub("_x005f_", key)
    if _PLAIN_KEY.fullmatch(key):
        return key
    return "".join(
        character
        if _PLAIN_KEY.fullmatch(f"_{character}" if position else character)
        else f"_x{ord(character):04x}_"
        for position, character in enumerate(key)
    )


def in_byte_order(entries: Iterable[Entry], name_of: Callable[[Entry], str]) -> Iterator[Entry]:
    """Yield entries, which are in Azure's order, ordered by the bytes of their names.

    Names that are equal up to a character beyond U+FFFF are collected and sorted; such names are
    rare.
    """
    held: list[Entry] = []
    stem = ""
    for entry in entries:
        name = name_of(entry)
        if held and not name.startswith(stem):
            yield from sorted(held, key=lambda one: name_of(one).encode())
            held = []
        if not held:
            if name.isascii() or max(name) <= _LAST_OF_PLANE_0:
                yield entry
                continue
            first = next(at for at, character in enumerate(name) if character > _LAST_OF_PLANE_0)
            stem = name[:first]
        held.append(entry)
    yield from sorted(held, key=lambda one: name_of(one).encode())


def version_of(etag: object) -> Version:
    """Return an ETag without quotes; raise an error if it is empty, and so not a condition."""
    version = Version(etag_of(str(etag or "")))
    if not version:
        raise UnusableAnswerError("it has no ETag")
    return version


def version_id_of(time: str) -> str:
    """Return the ID of the version that Azure names by a time: the time with ``_`` for colons."""
    return id_of_version(time.replace(":", "_"))


def version_time(version_id: str) -> str:
    """Return the time by which Azure names the version with this ID."""
    return version_id.replace("_", ":")

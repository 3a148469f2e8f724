"""The object keys that lakecli writes, relative to the storage namespace.

::

    _lakefs/<id>                     ranges and metaranges, flat, never overwritten
    _lakefs/dummy                    lakeFS's marker of a namespace in use
    _lakecli/repository.json         created first, create-only
    _lakecli/sharing.json            results of tests whether several machines may write here
    _lakecli/doctor-<id>/…           temporary objects of `lakecli doctor`
    _lakecli/scratch/<id>/<digest>   large results of executors, while a job runs
    _lakecli/incoming/<id>           objects uploaded by a PUT link, until they are staged
    _lakecli/incoming/<set>.links    the PUT links of a set, which a page or a script uses
    _lakecli/incoming/<set>.sent     what was sent to them, as the sender says
    _lakecli/refs/branches/<name>    one small object per ref, changed by compare-and-set
    _lakecli/refs/tags/<name>        the same for tags
    _lakecli/commits/<pack id>       commit packs
    _lakecli/reflog/branches/<name>/<sequence>   moves that no longer fit into the ref object
    _lakecli/reflog/tags/<name>/<sequence>       the same for tags
    _lakecli/attest/<subject>/<id>   statements about trees: passed checks, approvals
    _lakecli/gc/…                    state, rules, keeps, kept dumps and reports of collection
    data/<2 hex>/<62 hex>            objects, named by the BLAKE3 of their bytes

lakecli writes only SSTables below ``_lakefs/``, because lakeFS's jobs list it.

In the name of a ref ``[a-z0-9._-]`` stand for themselves, every other byte is written as ``%XX``
(capitals too, because some file systems ignore case). So listings are ordered by key, not by name.

The functions that make a key raise `MalformedId` for what is no ID, and `IntegrityError` for a name
or a number that no key can have.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from lakecli.base.ids import DataDigest, HexId, IncomingId, MetarangeId, PackId, WriteId
from lakecli.base.model import RefKind
from lakecli.errors import IntegrityError

SSTABLES = "_lakefs/"
DATA = "data/"
LAKEFS_MARKER = "_lakefs/dummy"
LEGACY_LAKEFS_MARKER = "dummy"
REPOSITORY = "_lakecli/repository.json"
SHARING = "_lakecli/sharing.json"
INCOMING = "_lakecli/incoming/"
DOCTOR = "_lakecli/doctor-"
SCRATCH = "_lakecli/scratch/"
REFS = "_lakecli/refs/"
COMMITS = "_lakecli/commits/"
REFLOG = "_lakecli/reflog/"
ATTESTATIONS = "_lakecli/attest/"
GC = "_lakecli/gc/"
GC_STATE = "_lakecli/gc/state"

LAKEFS_MARKER_BODY = b"this is dummy data - created by lakeFS to check accessibility"

MAX_REF_SIZE: Final = 1 << 20
"""Bytes of a ref object, or of an object of the reflog, at most; 32 moves take some 12 KiB."""

MAX_REPOSITORY_SIZE: Final = 64 << 10
"""Bytes of ``repository.json``, at most."""

MAX_SHARING_SIZE: Final = 1 << 20
"""Bytes of ``sharing.json``, at most."""

MAX_ATTESTATION_SIZE: Final = 16 << 10
"""Bytes of one statement about a tree, at most."""

MAX_STATE_SIZE: Final = 64 << 10
"""Bytes of the state of garbage collection, at most."""

SHORTEST_GRACE: Final = timedelta(hours=24)
LONGEST_GRACE: Final = timedelta(days=3_650)
"""What a grace period of garbage collection may be; a state with another one is refused."""

MAX_STATE_AGE: Final = 3600
"""Seconds for which a reading of the state is valid; a sweep begins this much later."""

MAX_KEEP_SIZE: Final = 64 << 20
"""Bytes of one list of keys that garbage collection must spare, at most."""

MAX_RULES_SIZE: Final = 1 << 20
"""Bytes of the retention rules, at most."""

LARGEST_PACK: Final = 64 << 20
"""Bytes of a commit pack beyond which it is not merged again, so that it fits into memory."""

MAX_PACK_SIZE: Final = 4 * LARGEST_PACK
"""Bytes of a commit pack that is read, at most: twice the size of the largest merged pack."""

MAX_PACK_GROWTH: Final = 16
"""The largest ratio of a pack's records to its size, beyond `PACK_ALLOWANCE`.

Random IDs do not compress, so the records of ordinary packs take about three times their size. A
forged pack could otherwise fill the memory and the disk of its readers.
"""

PACK_ALLOWANCE: Final = 16 << 20
"""Bytes that the records of a pack may always take."""

MAX_MESSAGE_SIZE: Final = 64 << 10
"""Bytes of the message of a commit in the bucket, at most."""

MAX_METADATA_SIZE: Final = 512 << 10
"""Bytes of the committer and the metadata of a new commit, at most."""

MAX_COMMIT_SIZE: Final = 1 << 20
"""Bytes of the record of a commit in the bucket, at most."""

MAX_TABLE_SIZE: Final = 1 << 30
"""Bytes of a range or metarange, at most; lakeFS's ranges have at most 20 MiB."""

MIN_RANGE_ENTRIES: Final = 16
MAX_RANGE_ENTRIES: Final = 1 << 20
"""The tree parameter of a repository, see `lakecli.committed.splitter`: a power of two."""

MAX_SEQUENCE: Final = 10**15
"""The highest sequence number of a move; keys have 16 digits for it."""

_FOLDERS = {RefKind.BRANCH: "branches", RefKind.TAG: "tags"}
_KINDS = {folder: kind for kind, folder in _FOLDERS.items()}
_SEQUENCE_DIGITS = 16
# Compiled on first use: most commands need none of them.
_ESCAPED = rb"[^a-z0-9._-]"
_UNESCAPED = rb"%([0-9A-F]{2})"
_LONGEST_NAME = 255
"""Bytes of an escaped name of a ref in a key, at most: the limit of file names."""


def sstable_key(table_id: str) -> str:
    """Return the key of a range or metarange."""
    return SSTABLES + HexId(table_id)


def incoming_key(incoming_id: str) -> str:
    """Return the key that a PUT link points to."""
    return INCOMING + IncomingId(incoming_id)


LINKS: Final = ".links"
SENT: Final = ".sent"


def is_of_link_set(key: str) -> bool:
    """Return whether a key is that of a record of a set of PUT links."""
    return key.startswith(INCOMING) and key.endswith((LINKS, SENT))


def scratch_prefix(run: bytes) -> str:
    """Return the prefix of the results of one runner on Spark."""
    return f"{SCRATCH}{run.hex()}/"


def scratch_key(run: bytes, digest: bytes) -> str:
    """Return the key of an executor's result with a digest."""
    return scratch_prefix(run) + digest.hex()


def data_key(digest: str) -> str:
    """Return the content address of bytes whose BLAKE3 is `digest` (64 hex digits)."""
    if type(digest) is not DataDigest:
        digest = DataDigest(digest)
    return f"data/{digest[:2]}/{digest[2:]}"


def is_content_address(address: str, checksum: str) -> bool:
    """Return whether an entry is at the content address of its checksum.

    The checksum of an external entry may be any text.
    """
    return address == f"data/{checksum[:2]}/{checksum[2:]}"


def data_digest(key: str) -> str | None:
    """Return the digest in a content address, or ``None`` if `key` is not one."""
    digest = key[5:7] + key[8:]
    return digest if key[:5] == DATA and key[7:8] == "/" and DataDigest.is_valid(digest) else None


def lakefs_object(key: str) -> str | None:
    """Return the name of an object that lakeFS wrote, or ``None`` if lakeFS makes no such keys.

    Keys are ``data/<partition>/<id>``; old servers wrote ``<id>`` directly into the namespace. A
    signature may follow a comma, which is no part of the name: addresses omit it where they escape
    the comma.
    """
    found = re.fullmatch(
        r"(data/[0-9a-v]{20}/[0-9a-v]{20}|[0-9a-v]{20}|[0-9a-f]{32})(,[A-Za-z0-9_-]{1,100})?",
        key,
    )
    return None if found is None else found[1]


def escape_name(name: str) -> str:
    """Return the name of a ref as it is written in keys."""
    data = name.encode("utf-8", "surrogateescape")
    return re.sub(_ESCAPED, lambda found: b"%%%02X" % found[0][0], data).decode("ascii")


def unescape_name(escaped: str) -> str:
    """Return the name of a ref that is written as `escaped` in keys."""
    data = escaped.encode("utf-8", "surrogateescape")
    plain = re.sub(_UNESCAPED, lambda found: bytes([int(found[1], 16)]), data)
    return plain.decode("utf-8", "surrogateescape")


def ref_key(kind: RefKind, name: str) -> str:
    """Return the key of a ref's object; `kind` is that of a branch or a tag."""
    return f"{REFS}{_FOLDERS[kind]}/{_checked(escape_name(name))}"


def ref_of_key(key: str) -> tuple[RefKind, str] | None:
    """Return the kind and the name of the ref at a key, or ``None`` if it is not a ref's key."""
    folder, slash, escaped = key.removeprefix(REFS).partition("/")
    if not key.startswith(REFS) or folder not in _KINDS or not slash or not escaped:
        return None
    if not _can_be_in_key(escaped):
        return None
    name = unescape_name(escaped)
    return (_KINDS[folder], name) if escape_name(name) == escaped else None


def reflog_prefix(kind: RefKind, name: str) -> str:
    """Return the key prefix of a ref's older moves."""
    return f"{REFLOG}{_FOLDERS[kind]}/{_checked(escape_name(name))}/"


def reflog_key(kind: RefKind, name: str, sequence: int) -> str:
    """Return the key of a chunk of a ref's older moves; `sequence` is that of its newest move."""
    if not 1 <= sequence <= MAX_SEQUENCE:
        raise IntegrityError(
            f"a move of {kind} {name!r} has the number {sequence}",
            hint="another program writes into this namespace: restore the ref from a backup",
        )
    return f"{reflog_prefix(kind, name)}{sequence:0{_SEQUENCE_DIGITS}d}"


def pack_key(pack_id: str) -> str:
    """Return the key of a commit pack."""
    return COMMITS + PackId(pack_id)


_EMPTY_SUBJECT: Final = "empty"


def attestation_prefix(subject: str) -> str:
    """Return the prefix of the statements about a tree, or about the entries below a prefix.

    Args:
        subject: a metarange ID, ``""`` for the empty tree; or a digest of entries.
    """
    return f"{ATTESTATIONS}{MetarangeId(subject) or _EMPTY_SUBJECT}/"


def attestation_key(subject: str, attestation_id: str) -> str:
    """Return the key of one statement; its ID has 32 hex digits."""
    return attestation_prefix(subject) + WriteId(attestation_id)


def _can_be_in_key(escaped: str) -> bool:
    """Return whether an escaped name is usable on every store and file system."""
    return escaped not in ("", ".", "..") and len(escaped) <= _LONGEST_NAME


def _checked(escaped: str) -> str:
    if not _can_be_in_key(escaped):
        raise IntegrityError(
            f"not a name that a ref can have: {escaped[:80]!r}",
            hint="find what is damaged: `fsck REPOSITORY`",
        )
    return escaped

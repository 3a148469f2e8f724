"""The object keys that lakecli writes, relative to the storage namespace.

::

    _lakefs/<id>                     ranges and metaranges, flat, never overwritten
    _lakefs/dummy                    lakeFS's marker of a namespace in use
    _lakecli/repository.json         created first, create-only
    _lakecli/sharing.json            results of tests that show whether several machines may write
    _lakecli/doctor-<id>/…           temporary objects of `lakecli doctor`
    _lakecli/scratch/<id>/<digest>   large results of executors, while a job runs
    _lakecli/incoming/<id>           objects uploaded through a PUT link, until they are staged
    _lakecli/incoming/<set>.links    the PUT links of a set, which a page or a script uses
    _lakecli/incoming/<set>.sent     the sender's report of the objects uploaded through the links
    _lakecli/refs/branches/<name>    one small object per ref, changed by compare-and-set
    _lakecli/refs/tags/<name>        the same for tags
    _lakecli/commits/<pack id>       commit packs
    _lakecli/reflog/branches/<name>/<sequence>   moves that no longer fit into the ref object
    _lakecli/reflog/tags/<name>/<sequence>       the same for tags
    _lakecli/attest/<subject>/<id>   statements about trees: passed checks, approvals
    _lakecli/policy                  the rules about refs, changed by compare-and-set
    _lakecli/policies/<number>       former rules, never changed
    _lakecli/gc/…                    state, rules, keeps, refs dumps, reports of garbage collection
    data/<2 hex>/<62 hex>            objects, named by the BLAKE3 of their bytes

Below ``_lakefs/`` lakecli writes only SSTables, because lakeFS's jobs list that prefix.

In the key of a ref, the characters ``[a-z0-9._-]`` of its name are kept, and every other byte is
written as ``%XX`` (capitals too, because some file systems ignore case). So listings are ordered by
key, not by name.

The functions that make a key raise `MalformedId` for a text that is not an ID, and `IntegrityError`
for a name or a number that no key can have.
"""

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
POLICY = "_lakecli/policy"
POLICIES = "_lakecli/policies/"
GC = "_lakecli/gc/"
GC_STATE = "_lakecli/gc/state"

LAKEFS_MARKER_BODY = b"this is dummy data - created by lakeFS to check accessibility"

MAX_REF_SIZE: Final = 1 << 20
"""Largest size of a ref or reflog object, in bytes; 32 moves take about 12 KiB."""

MAX_REPOSITORY_SIZE: Final = 64 << 10
"""Largest size of ``repository.json``, in bytes."""

MAX_SHARING_SIZE: Final = 1 << 20
"""Largest size of ``sharing.json``, in bytes."""

MAX_POLICY_SIZE: Final = 1 << 20
"""Largest size of the rules about refs, in bytes."""

MAX_ATTESTATION_SIZE: Final = 16 << 10
"""Largest size of one statement about a tree, in bytes."""

MAX_STATE_SIZE: Final = 64 << 10
"""Largest size of the state of garbage collection, in bytes."""

SHORTEST_GRACE: Final = timedelta(hours=24)
LONGEST_GRACE: Final = timedelta(days=3_650)
"""Limits of the grace period of garbage collection; a state with any other period is refused."""

MAX_STATE_AGE: Final = 3600
"""Seconds for which a client trusts a state of garbage collection that it has read.

The collector waits for the grace period plus this time before it sweeps.
"""

MAX_KEEP_SIZE: Final = 64 << 20
"""Largest size of one list of keys that garbage collection must spare, in bytes."""

MAX_RULES_SIZE: Final = 1 << 20
"""Largest size of the retention rules, in bytes."""

LARGEST_PACK: Final = 64 << 20
"""Size in bytes at which a commit pack is no longer merged, so that packs fit into memory."""

MAX_PACK_SIZE: Final = 4 * LARGEST_PACK
"""Largest commit pack that is read, in bytes: twice the size of the largest merged pack."""

MAX_PACK_GROWTH: Final = 16
"""Largest ratio of the size of a pack's records to the pack's size; `PACK_ALLOWANCE` comes on top.

Random IDs do not compress, so the records of ordinary packs take about three times their size. A
forged pack could otherwise fill the memory and the disk of its readers.
"""

PACK_ALLOWANCE: Final = 16 << 20
"""Bytes that the records of a pack may always take, no matter how small the pack is."""

MAX_MESSAGE_SIZE: Final = 64 << 10
"""Largest size of the message of a commit in the bucket, in bytes."""

MAX_METADATA_SIZE: Final = 512 << 10
"""Largest size of the committer and the metadata of a new commit together, in bytes."""

MAX_COMMIT_SIZE: Final = 1 << 20
"""Largest size of the record of a commit in the bucket, in bytes."""

MAX_TABLE_SIZE: Final = 1 << 30
"""Largest size of a range or metarange, in bytes; lakeFS's ranges have at most 20 MiB."""

MIN_RANGE_ENTRIES: Final = 16
MAX_RANGE_ENTRIES: Final = 1 << 20
"""Limits of the average number of paths in a range, a power of two.

This is the tree parameter of a repository; see `lakecli.committed.splitter`.
"""

MAX_SEQUENCE: Final = 10**15
"""The highest sequence number of a move; a key has 16 digits for the number."""

_FOLDERS = {RefKind.BRANCH: "branches", RefKind.TAG: "tags"}
_KINDS = {folder: kind for kind, folder in _FOLDERS.items()}
_SEQUENCE_DIGITS = 16
# Compiled on first use: most commands need none of them.
_ESCAPED = rb"[^a-z0-9._-]"
_UNESCAPED = rb"%([0-9A-F]{2})"
_LONGEST_NAME = 255
"""Longest escaped ref name in a key, in bytes: the limit of file names."""


def sstable_key(table_id: str) -> str:
    """Return the key of a range or metarange."""
    return SSTABLES + HexId(table_id)


def incoming_key(incoming_id: str) -> str:
    """Return the key that a PUT link points to."""
    return INCOMING + IncomingId(incoming_id)


LINKS: Final = ".links"
SENT: Final = ".sent"


def is_of_link_set(key: str) -> bool:
    """Return whether a key names a set of PUT links, or the sender's report on such a set."""
    return key.startswith(INCOMING) and key.endswith((LINKS, SENT))


def scratch_prefix(run: bytes) -> str:
    """Return the key prefix of the results of one Spark runner."""
    return f"{SCRATCH}{run.hex()}/"


def scratch_key(run: bytes, digest: bytes) -> str:
    """Return the key of an executor's result, which is named by the BLAKE3 of its bytes."""
    return scratch_prefix(run) + digest.hex()


def data_key(digest: str) -> str:
    """Return the content address of bytes whose BLAKE3 is `digest` (64 hex digits)."""
    if type(digest) is not DataDigest:
        digest = DataDigest(digest)
    return f"data/{digest[:2]}/{digest[2:]}"


def is_content_address(address: str, checksum: str) -> bool:
    """Return whether an entry's address is the content address of its checksum.

    The checksum may be any text, since entries of external objects may have any checksum.
    """
    return address == f"data/{checksum[:2]}/{checksum[2:]}"


def data_digest(key: str) -> str | None:
    """Return the digest in a content address, or ``None`` if `key` is not one."""
    digest = key[5:7] + key[8:]
    return digest if key[:5] == DATA and key[7:8] == "/" and DataDigest.is_valid(digest) else None


def lakefs_object(key: str) -> str | None:
    """Return the name of an object that lakeFS wrote, or ``None`` if lakeFS writes no such key.

    Keys are ``data/<partition>/<id>``; old servers wrote ``<id>`` directly into the namespace. A
    comma and a signature may follow. They are not part of the name, because some addresses omit
    them.
    """
    found = re.fullmatch(
        r"(data/[0-9a-v]{20}/[0-9a-v]{20}|[0-9a-v]{20}|[0-9a-f]{32})(,[A-Za-z0-9_-]{1,100})?", key
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
    """Return the key of a ref's object; `kind` is ``BRANCH`` or ``TAG``."""
    return f"{REFS}{_FOLDERS[kind]}/{_checked(escape_name(name))}"


def ref_of_key(key: str) -> tuple[RefKind, str] | None:
    """Return the kind and the name of the ref at a key, or ``None`` if it is not a ref's key."""
    folder, _, escaped = key.removeprefix(REFS).partition("/")
    if not (key.startswith(REFS) and folder in _KINDS and _can_be_in_key(escaped)):
        return None
    name = unescape_name(escaped)
    return (_KINDS[folder], name) if escape_name(name) == escaped else None


def reflog_prefix(kind: RefKind, name: str) -> str:
    """Return the key prefix of a ref's older moves."""
    return f"{REFLOG}{_FOLDERS[kind]}/{_checked(escape_name(name))}/"


def reflog_key(kind: RefKind, name: str, sequence: int) -> str:
    """Return the key of an object with older moves of a ref.

    Args:
        sequence: the number of the newest move in the object.
    """
    if not 1 <= sequence <= MAX_SEQUENCE:
        hint = "another program writes into this namespace: restore the ref from a backup"
        raise IntegrityError(f"a move of {kind} {name!r} has the number {sequence}", hint=hint)
    return f"{reflog_prefix(kind, name)}{sequence:0{_SEQUENCE_DIGITS}d}"


def policy_key(number: int) -> str:
    """Return the key of a former version of the rules about refs."""
    return f"{POLICIES}{number:0{_SEQUENCE_DIGITS}d}"


def pack_key(pack_id: str) -> str:
    """Return the key of a commit pack."""
    return COMMITS + PackId(pack_id)


_EMPTY_SUBJECT: Final = "empty"


def attestation_prefix(subject: str) -> str:
    """Return the key prefix of the statements about a tree, or about entries below a path prefix.

    Args:
        subject: the metarange ID of the tree, ``""`` for the empty tree; or the digest of the
            entries below a path prefix.
    """
    return f"{ATTESTATIONS}{MetarangeId(subject) or _EMPTY_SUBJECT}/"


def attestation_key(subject: str, attestation_id: str) -> str:
    """Return the key of one statement; its ID has 32 hex digits."""
    return attestation_prefix(subject) + WriteId(attestation_id)


def _can_be_in_key(escaped: str) -> bool:
    """Return whether every store and file system accepts an escaped name in a key."""
    return escaped not in ("", ".", "..") and len(escaped) <= _LONGEST_NAME


def _checked(escaped: str) -> str:
    if not _can_be_in_key(escaped):
        hint = "find what is damaged: `fsck REPOSITORY`"
        raise IntegrityError(f"not a name that a ref can have: {escaped[:80]!r}", hint=hint)
    return escaped

"""What may be done with objects, and whether what was done is seen: one function a check.

Each works on keys of its own and raises what goes wrong; `run` calls them in an order in which each
relies only on what was shown before.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from lakecli.errors import IntegrityError, PermissionDenied, Refused, Unsupported
from lakecli.objectstore.base import ANY, ObjectNotFound
from lakecli.objectstore.capabilities import WritesGarbled
from lakecli.objectstore.probe.check import Check, ok, skipped, warning
from lakecli.objectstore.uploads import uploads_of

if TYPE_CHECKING:
    from lakecli.objectstore.probe.scratch import Scratch

OBJECT: Final = "object"
"""Name of the one object that several checks look at."""

BODY: Final = bytes(range(64))
"""What it holds."""

CONSISTENCY_FIX: Final = "use a store where a write is seen by every read after it"

_ROUNDS: Final = 2
_MAX_UPLOADS: Final = 1_000


def check_write(scratch: Scratch) -> Check:
    """Write an object."""
    scratch.store.put(scratch.key(OBJECT), BODY, ANY)
    return ok("write", "allowed")


def check_read(scratch: Scratch, *, is_written: bool) -> Check:
    """Read the object that `check_write` wrote, or ask for it in vain.

    Raises:
        IntegrityError: other bytes came back.
        Unsupported: it is not found.
    """
    key = scratch.prefix + OBJECT
    try:
        if is_written:
            must_equal(scratch.store.get(key), BODY, "an object")
        else:
            scratch.store.head(key)  # who may not read is told so, or that there is none
    except ObjectNotFound as error:
        if is_written:
            raise _not_seen() from error
    return ok("read", "allowed")


def check_overwrite(scratch: Scratch) -> Check:
    """Write over an object."""
    key = scratch.key("overwritten")
    scratch.store.put(key, b"first", ANY)
    scratch.store.put(key, b"the second", ANY)
    return ok("overwrite", "allowed")


def check_read_after_write(scratch: Scratch) -> Check:
    """Read what was just created, and what was just replaced.

    Raises:
        Unsupported: it is not found, or read as it was before.
    """
    for number in range(_ROUNDS):
        key = scratch.key(f"fresh-{number}")
        for body in (b"new", b"replaced"):
            scratch.store.put(key, body, ANY)
            try:
                found = scratch.store.get(key)
            except ObjectNotFound as error:
                raise _not_seen() from error
            if found != body:
                raise Unsupported(
                    "what was just replaced is read as it was before", hint=CONSISTENCY_FIX
                )
    return ok("read-after-write", "new and replaced objects are read at once")


def check_list_after_write(scratch: Scratch) -> Check:
    """List what was just written."""
    name = "list-after-write"
    key = scratch.key("listed")
    scratch.store.put(key, BODY, ANY)
    for info in scratch.store.list(scratch.prefix):
        if info.key == key and info.size == len(BODY):
            return ok(name, "new objects are listed at once")
    return warning(
        name,
        "a new object is not listed yet",
        fix="wait a while before relying on what others have just written here",
    )


def check_ranges(scratch: Scratch) -> Check:
    """Read parts of the object that `check_write` wrote.

    Raises:
        Unsupported: the server answers with the whole object.
        IntegrityError: it answers with another part.
    """
    get, key, size = scratch.store.get, scratch.prefix + OBJECT, len(BODY)
    must_equal(get(key, start=5, length=7), BODY[5:12], "a part of an object")
    must_equal(get(key, start=-6), BODY[-6:], "the end of an object")
    must_equal(get(key, start=size - 2, length=9), BODY[-2:], "the end of an object")
    must_equal(get(key, start=size + 1), b"", "what is behind the end of an object")
    return ok("ranges", "from the start, from the end and past it")


def check_multipart(scratch: Scratch) -> Check:
    """Send an object in parts, see them listed, and join them.

    Raises:
        IntegrityError: the object holds other bytes.
    """
    from google_crc32c import value as crc32c

    name = "multipart"
    uploads = uploads_of(scratch.store)
    if uploads is None:
        return skipped(name, "this kind of store has no uploads in parts")
    key = scratch.key("parts")
    upload = scratch.start_upload(uploads, key)
    part = uploads.put_part(key, upload, 1, BODY, crc32c=crc32c(BODY))
    arrived = [each.number for each in uploads.parts(key, upload)]
    uploads.complete(key, upload, [part], ANY)
    must_equal(scratch.store.get(key), BODY, "an object sent in parts")
    if arrived != [1]:
        return warning(
            name,
            "allowed, but parts that have arrived are not listed",
            fix="an upload that is interrupted begins anew here",
        )
    try:
        for _ in islice(uploads.iter_unfinished(scratch.prefix), _MAX_UPLOADS):
            pass
    except (PermissionDenied, Unsupported) as error:
        return warning(
            name,
            f"allowed, but unfinished uploads cannot be listed: {error.message}",
            fix=error.hint or "let a rule of the bucket drop unfinished uploads",
        )
    return ok(name, "allowed")


def check_checksums(scratch: Scratch) -> Check:
    """Send bytes with the checksum of other bytes, as a whole object or as a part."""
    name = "checksums"
    try:
        is_sent = _send_garbled(scratch)
    except Unsupported:
        raise
    except (IntegrityError, Refused):
        return ok(name, "bytes that do not match their checksum are refused")
    if not is_sent:
        return skipped(name, "nothing tells this store what it should receive")
    return warning(
        name,
        "bytes that do not match their checksum are taken",
        fix="every download is verified all the same; after uploads over a bad line run "
        "`lakecli fsck --data`",
    )


def _send_garbled(scratch: Scratch) -> bool:
    """Return whether the store can be sent a wrong checksum."""
    from google_crc32c import value as crc32c

    key = scratch.key("garbled")
    if isinstance(scratch.store, WritesGarbled):
        scratch.store.put_garbled(key, BODY)
        return True
    uploads = uploads_of(scratch.store)
    if uploads is None:
        return False
    upload = scratch.start_upload(uploads, key)
    uploads.put_part(key, upload, 1, BODY, crc32c=crc32c(BODY) ^ 1)
    return True


def must_equal(found: bytes, expected: bytes, what: str) -> None:
    """Compare what was read with what it should be.

    Raises:
        IntegrityError: they differ.
    """
    if found != expected:
        raise IntegrityError(
            f"{what} was read with other bytes than were written",
            hint="use another store, and suspect every proxy on the way",
        )


def _not_seen() -> Unsupported:
    return Unsupported("what was just written is not found", hint=CONSISTENCY_FIX)

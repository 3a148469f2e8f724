"""Checks permissions on objects and the consistency of reads: one function for each check.

Each uses its own keys and raises errors; `run` orders them so that each depends only on earlier
checks.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from lakecli.doctor.check import Check, ScratchObjects, ok, skipped, warning
from lakecli.errors import IntegrityError, PermissionDenied, Refused, Unsupported
from lakecli.stores.capabilities import WritesGarbled, uploads_of
from lakecli.stores.contract import ANY, ObjectNotFound

OBJECT: Final = "object"
"""Name of the object that several checks read."""

BODY: Final = bytes(range(64))
"""Its contents."""

CONSISTENCY_FIX: Final = "use a store in which every read sees the writes before it"

_ROUNDS: Final = 2
_MAX_UPLOADS: Final = 1_000


def check_write(scratch: ScratchObjects) -> Check:
    """Write an object."""
    scratch.store.put(scratch.key(OBJECT), BODY, ANY)
    return ok("write", "allowed")


def check_read(scratch: ScratchObjects, *, is_written: bool) -> Check:
    """Read the object of `check_write`, or request it although it was not written.

    Raises:
        IntegrityError: other bytes came back.
        Unsupported: it is not found.
    """
    key = scratch.prefix + OBJECT
    try:
        if is_written:
            must_equal(scratch.store.get(key), BODY, "an object")
        else:
            scratch.store.head(key)  # raises PermissionDenied or ObjectNotFound
    except ObjectNotFound as error:
        if is_written:
            raise _not_seen() from error
    return ok("read", "allowed")


def check_overwrite(scratch: ScratchObjects) -> Check:
    """Write over an object."""
    key = scratch.key("overwritten")
    scratch.store.put(key, b"first", ANY)
    scratch.store.put(key, b"the second", ANY)
    return ok("overwrite", "allowed")


def check_read_after_write(scratch: ScratchObjects) -> Check:
    """Read new and replaced objects at once.

    Raises:
        Unsupported: an object is not found, or has its old contents.
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
                    "a replaced object is read as it was before", hint=CONSISTENCY_FIX
                )
    return ok("read-after-write", "new and replaced objects are read at once")


def check_list_after_write(scratch: ScratchObjects) -> Check:
    """List a new object at once."""
    name = "list-after-write"
    key = scratch.key("listed")
    scratch.store.put(key, BODY, ANY)
    for info in scratch.store.list(scratch.prefix):
        if info.key == key and info.size == len(BODY):
            return ok(name, "new objects are listed at once")
    return warning(
        name,
        "a new object is not listed yet",
        fix="wait a while before relying on new objects of other writers here",
    )


def check_ranges(scratch: ScratchObjects) -> Check:
    """Read parts of the object of `check_write`.

    Raises:
        Unsupported: the server sends the whole object.
        IntegrityError: it sends another part.
    """
    get, key, size = scratch.store.get, scratch.prefix + OBJECT, len(BODY)
    must_equal(get(key, start=5, length=7), BODY[5:12], "a part of an object")
    must_equal(get(key, start=-6), BODY[-6:], "the end of an object")
    must_equal(get(key, start=size - 2, length=9), BODY[-2:], "the end of an object")
    must_equal(get(key, start=size + 1), b"", "what is behind the end of an object")
    return ok("ranges", "from the start, from the end and past it")


def check_multipart(scratch: ScratchObjects) -> Check:
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
            fix="interrupted uploads start again from the beginning here",
        )
    try:
        for _ in islice(uploads.iter_unfinished(scratch.prefix), _MAX_UPLOADS):
            pass
    except (PermissionDenied, Unsupported) as error:
        return warning(
            name,
            f"allowed, but unfinished uploads cannot be listed: {error.message}",
            fix=error.hint or "add a lifecycle rule that deletes unfinished uploads",
        )
    return ok(name, "allowed")


def check_checksums(scratch: ScratchObjects) -> Check:
    """Send bytes with the checksum of other bytes, as a whole object or as a part."""
    name = "checksums"
    try:
        is_sent = _send_garbled(scratch)
    except Unsupported:
        raise
    except (IntegrityError, Refused):
        return ok(name, "bytes that do not match their checksum are refused")
    if not is_sent:
        return skipped(name, "this store verifies no checksums of requests")
    return warning(
        name,
        "bytes that do not match their checksum are accepted",
        fix="lakecli verifies every download; after uploads over an unreliable network run "
        "`lakecli fsck --data`",
    )


def _send_garbled(scratch: ScratchObjects) -> bool:
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
    """Compare the bytes read with those expected.

    Raises:
        IntegrityError: they differ.
    """
    if found != expected:
        raise IntegrityError(
            f"{what} was read with other bytes than were written",
            hint="check the proxies in between, or use another store",
        )


def _not_seen() -> Unsupported:
    return Unsupported("a new object is not found", hint=CONSISTENCY_FIX)

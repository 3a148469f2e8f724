"""The checks of a store, the result of a check, and the objects that checks write.

Each check is a function that writes its own keys and raises an error if something is wrong.
`lakecli.doctor.probe` orders the checks: a check depends only on earlier checks. This module
checks permissions, the consistency of reads, and the store's treatment of names, parts, checksums
and deletions. `lakecli.doctor.conditions` checks conditional writes, which sharing a repository
requires.
"""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from enum import StrEnum
from io import BytesIO
from itertools import islice
from typing import Final, NamedTuple

from lakecli import errors
from lakecli.base.model import NO_METADATA
from lakecli.stores import capabilities, contract
from lakecli.stores.capabilities import DeletesMatching, PartUploads, Prunes, UploadId
from lakecli.stores.contract import ANY, ConditionFailed, ObjectNotFound, ObjectStore, exists

CONDITIONS_FIX: Final = (
    "let one machine at a time write here, or use a store with conditional writes: Amazon S3, "
    "Google Cloud Storage, Azure Blob, a directory"
)

CONSISTENCY_FIX: Final = "use a store in which every read sees the writes before it"

BROKEN: Final = "broken"
"""The key in `Check.details` of the message of a `BrokenPromise`."""


class BrokenPromise(errors.Unsupported):
    """Raised if the store violates a guarantee that concurrent writers need.

    A store that lacks a feature raises `Unsupported` itself. A broken promise is a fault of the
    store; another run of the same check may not show the fault.
    """

    def __init__(self, message: str, hint: str = CONDITIONS_FIX) -> None:
        super().__init__(message, hint=hint)


class CheckVerdict(StrEnum):
    """The verdict of a check, from good to bad; ``skipped`` means that the check did not run."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    FAILED = "failed"


class Check(NamedTuple):
    """One check and its result.

    Attributes:
        name: name of the check, such as create-only; names never change, but checks may be added.
        verdict: ok, warning, failed or skipped.
        seen: result in one line; for a skipped check, the reason for skipping.
        fix: the fix: a command, a permission or a variable; empty if nothing is wrong.
        kind: kind of the error if the check failed, as in errors.
        details: further details, such as the difference of the clocks in seconds.
    """

    name: str
    verdict: CheckVerdict
    seen: str
    fix: str = ""
    kind: errors.ErrorKind | None = None
    details: Mapping[str, str] = NO_METADATA

    @property
    def known_fix(self) -> str | None:
        """The fix: a command, a permission or a variable; null if nothing is wrong."""
        return self.fix or None


def ok(name: str, seen: str, **details: str) -> Check:
    """Return the result of a check that passed."""
    return Check(name, CheckVerdict.OK, seen, details=details)


def skipped(name: str, why: str) -> Check:
    """Return the result of a check that was skipped; `why` is the reason."""
    return Check(name, CheckVerdict.SKIPPED, why)


def warning(name: str, seen: str, *, fix: str, **details: str) -> Check:
    """Return the result of a check that passed with a warning."""
    return Check(name, CheckVerdict.WARNING, seen, fix, details=details)


def failed(name: str, error: errors.LakeError, **details: str) -> Check:
    """Return the result of a check that failed; the hint of the error is the fix."""
    if isinstance(error, BrokenPromise):
        details = {BROKEN: error.message, **details}
    return Check(name, CheckVerdict.FAILED, error.message, error.hint or "", error.kind, details)


class ScratchObjects:
    """The objects that one run of checks writes below its own prefix, and deletes at the end.

    Args:
        prefix: the prefix, which only this run uses; it ends with a slash.
    """

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self.store = store
        self.prefix = prefix
        self.keys: set[str] = set()
        self._uploads: list[tuple[PartUploads, str, UploadId]] = []

    def key(self, name: str) -> str:
        """Return the full key of a new object; `remove` deletes the object."""
        key = self.prefix + name
        self.keys.add(key)
        return key

    def start_upload(self, uploads: PartUploads, key: str) -> UploadId:
        """Begin a multipart upload; `remove` aborts the upload if it is not completed."""
        upload = uploads.start(key)
        self._uploads.append((uploads, key, upload))
        return upload

    def remove(self) -> None:
        """Delete all objects and abort all uploads; a second call does nothing."""
        try:
            with ExitStack() as stack:  # if one fails, the others are still done
                stack.callback(self._delete)
                for uploads, key, upload in self._uploads:
                    stack.callback(uploads.abort, key, upload)
        except errors.LakeError:
            self._forget()
            raise
        self._forget()

    def remove_after_failure(self) -> None:
        """Delete all objects and abort all uploads after an error; ignore further errors."""
        with suppress(errors.LakeError):  # the first error is the one to report
            try:
                self.remove()
            except KeyboardInterrupt:
                self.remove()  # a second interrupt; finish the deletion
                raise

    def _delete(self) -> None:
        if self.keys:
            self.store.delete(sorted(self.keys))
            if isinstance(self.store, Prunes):
                parents = {key[: key.rindex("/") + 1] for key in self.keys} | {self.prefix}
                for parent in sorted(parents, reverse=True):  # the inner ones first
                    self.store.prune(parent)

    def _forget(self) -> None:
        self.keys.clear()
        self._uploads.clear()


OBJECT: Final = "object"
"""The name of the object that several checks read."""

BODY: Final = bytes(range(64))
"""The contents of the object that several checks read."""

_MAX_UPLOADS: Final = 1_000


def check_write(scratch: ScratchObjects) -> Check:
    """Write the object that later checks read."""
    scratch.store.put(scratch.key(OBJECT), BODY, ANY)
    return ok("write", "allowed")


def check_read(scratch: ScratchObjects, *, is_written: bool) -> Check:
    """Read the object of `check_write`; if it was not written, check only the permission.

    Raises:
        IntegrityError: the bytes differ from the bytes that were written.
        BrokenPromise: the object was written, but is not found.
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
    """Replace an object."""
    key = scratch.key("overwritten")
    scratch.store.put(key, b"first", ANY)
    scratch.store.put(key, b"the second", ANY)
    return ok("overwrite", "allowed")


def check_read_after_write(scratch: ScratchObjects) -> Check:
    """Read new and replaced objects immediately after writing them.

    Raises:
        BrokenPromise: the object is not found or has its old contents.
    """
    for number in range(2):
        key = scratch.key(f"fresh-{number}")
        for body in (b"new", b"replaced"):
            scratch.store.put(key, body, ANY)
            try:
                found = scratch.store.get(key)
            except ObjectNotFound as error:
                raise _not_seen() from error
            if found != body:
                hint = CONSISTENCY_FIX
                raise BrokenPromise("a replaced object is read as it was before", hint=hint)
    return ok("read-after-write", "new and replaced objects are read at once")


def check_list_after_write(scratch: ScratchObjects) -> Check:
    """List a new object immediately after writing it."""
    name = "list-after-write"
    key = scratch.key("listed")
    scratch.store.put(key, BODY, ANY)
    for info in scratch.store.list(scratch.prefix):
        if info.key == key and info.size == len(BODY):
            return ok(name, "new objects are listed at once")
    fix = "wait a while before relying on new objects of other writers here"
    return warning(name, "a new object is not listed yet", fix=fix)


def check_ranges(scratch: ScratchObjects) -> Check:
    """Read ranges of the object of `check_write`, also at and past its end."""
    get, key, size = scratch.store.get, scratch.prefix + OBJECT, len(BODY)
    must_equal(get(key, start=5, length=7), BODY[5:12], "a part of an object")
    must_equal(get(key, start=-6), BODY[-6:], "the end of an object")
    must_equal(get(key, start=size - 2, length=9), BODY[-2:], "the end of an object")
    must_equal(get(key, start=size + 1), b"", "what is behind the end of an object")
    return ok("ranges", "from the start, from the end and past it")


_APART: Final = ("x/y", "x//y", "x/./y", "x/z/../y", "o", "o/inner")
"""Names that some stores treat as the same name, or omit from listings."""


def check_names(scratch: ScratchObjects) -> Check:
    """Write, read and list objects with names that a file system would treat as the same path.

    lakecli's own keys never have such names. But paths in a repository may, and `export` uses
    these paths as keys.
    """
    name, store = "names", scratch.store
    kept: list[str] = []
    folded: list[str] = []
    refused: list[str] = []
    for part in _APART:
        key = scratch.key(part)
        try:
            _put_once(store, key, part.encode())
            kept.append(part)
        except ConditionFailed:  # the store has the name already, or a name that conflicts with it
            (folded if exists(store, key) else refused).append(part)
        except errors.LakeError as error:
            refused.append(part)
            if not isinstance(error, errors.Unreachable):  # else the object may exist
                scratch.keys.discard(key)
    folded += [part for part in kept if body_of(store, scratch.prefix + part) != part.encode()]
    listed = {info.key.removeprefix(scratch.prefix) for info in store.list(scratch.prefix)}
    hidden = [part for part in kept if part not in listed and part not in folded]
    if _APART[0] in hidden:
        hidden = []  # the listing lags behind, which another check reports
    problems = {"taken for another": folded, "not listed": hidden, "refused": refused}
    seen = "; ".join(f"{what}: {', '.join(parts)}" for what, parts in problems.items() if parts)
    if not folded and not hidden:
        return ok(name, seen or "objects are kept apart and listed, whatever their names are")
    return warning(
        name,
        f"some objects would be lost without an error, by their names: {seen}",
        fix="export nothing to this store whose paths have an empty component, . or .., or where "
        "one path is the directory of another",
    )


def _put_once(store: ObjectStore, key: str, body: bytes) -> None:
    """Write a new object without retries, because some servers return 500 for some names."""
    try:
        store.put(key, body, contract.ABSENT)
    except errors.Unsupported:
        store.put(key, body, ANY)


def body_of(store: ObjectStore, key: str) -> bytes | None:
    """Return an object; ``None`` if it does not exist."""
    try:
        return store.get(key)
    except ObjectNotFound:
        return None


def check_delete_matching(scratch: ScratchObjects) -> Check:
    """Delete an object only if it has a given version.

    With a stale version the deletion must be refused; with the current version it must succeed.
    """
    name, store = "delete-matching", scratch.store
    if not isinstance(store, DeletesMatching):
        return ok(name, "this kind of store has none; gc run relies on its lease alone")
    key = scratch.key(name)
    store.put(key, BODY, ANY)
    stale = store.head(key).version
    store.put(key, BODY, ANY)
    version = store.head(key).version
    kept = store.delete_matching([(key, stale)])
    if key not in kept or not exists(store, key):
        return warning(
            name,
            "an object was deleted although it no longer had the version that was named",
            fix="gc run relies on its lease alone here, as on Amazon S3: keep gc.grace long, and "
            "let it run where neither clock nor network stops",
        )
    if store.delete_matching([(key, version)]) or exists(store, key):
        raise errors.Unsupported("an object of the version that was named is not deleted")
    return ok(name, "an object that was written again is kept")


def check_multipart(scratch: ScratchObjects) -> Check:
    """Upload an object in parts, list the parts and the unfinished upload, and complete it."""
    from google_crc32c import value as crc32c

    name = "multipart"
    uploads = capabilities.uploads_of(scratch.store)
    if uploads is None:
        return skipped(name, "this kind of store has no uploads in parts")
    key = scratch.key("parts")
    try:
        upload = scratch.start_upload(uploads, key)
    except errors.Unsupported as error:
        return _send_large(scratch, key, error)
    part = uploads.put_part(key, upload, 1, BODY, crc32c=crc32c(BODY))
    arrived = [each.number for each in uploads.parts(key, upload)]
    unlisted = _why_unlisted(uploads, scratch.prefix, upload)
    uploads.complete(key, upload, [part])
    must_equal(scratch.store.get(key), BODY, "an object sent in parts")
    if arrived != [1]:
        fix = "interrupted uploads start again from the beginning here"
        return warning(name, "allowed, but parts that have arrived are not listed", fix=fix)
    if unlisted is not None:
        why, hint = unlisted
        fix = hint or "add a lifecycle rule that deletes unfinished uploads"
        return warning(name, f"allowed, but unfinished uploads {why}", fix=fix)
    return ok(name, "allowed")


def _send_large(scratch: ScratchObjects, key: str, why: errors.Unsupported) -> Check:
    """Upload a large object as one stream, because the store has no multipart uploads.

    Args:
        why: the error that beginning a multipart upload raised.
    """
    size = capabilities.PART_SIZE + 1
    scratch.store.put(key, BytesIO(bytes(size)), ANY)
    if scratch.store.head(key).size != size:
        raise errors.IntegrityError("an object that was sent as one stream has another size")
    fix = "large files are sent as one stream: a killed upload starts over"
    return warning("multipart", why.message, fix=fix)


def _why_unlisted(
    uploads: PartUploads, prefix: str, upload: UploadId
) -> tuple[str, str | None] | None:
    """Return why an unfinished upload is not listed, and a hint; ``None`` if it is listed."""
    try:
        found = islice(uploads.iter_unfinished(prefix), _MAX_UPLOADS)
        if any(each.id == upload for each in found):
            return None
    except (errors.PermissionDenied, errors.Unsupported) as error:
        return f"cannot be listed: {error.message}", error.hint
    return "are not listed by a prefix of their keys, and so never deleted", None


def check_checksums(scratch: ScratchObjects) -> Check:
    """Send an object or a part with a wrong checksum, which the store must refuse."""
    name = "checksums"
    try:
        is_sent = _send_garbled(scratch)
    except errors.Unsupported:
        raise
    except (errors.IntegrityError, errors.Refused):
        return ok(name, "bytes that do not match their checksum are refused")
    if not is_sent:
        return skipped(name, "this store verifies no checksums of requests")
    return warning(
        name,
        "bytes that do not match their checksum are accepted",
        fix="lakecli verifies every download; after uploads over an unreliable network run "
        "`fsck REPOSITORY --data`",
    )


def _send_garbled(scratch: ScratchObjects) -> bool:
    """Send bytes with a wrong checksum; return false if the store's API takes no checksums."""
    from google_crc32c import value as crc32c

    key = scratch.key("garbled")
    if isinstance(scratch.store, capabilities.WritesGarbled):
        scratch.store.put_garbled(key, BODY)
        return True
    uploads = capabilities.uploads_of(scratch.store)
    if uploads is None:
        return False
    upload = scratch.start_upload(uploads, key)
    uploads.put_part(key, upload, 1, BODY, crc32c=crc32c(BODY) ^ 1)
    return True


def distance(shown: datetime, before: datetime, after: datetime) -> timedelta:
    """Return how far another clock is ahead of this machine's clock; negative if it is behind.

    The result is 0 if the times do not prove a difference.

    Args:
        shown: the time of the other clock, in whole seconds.
        before: this machine's time before the other clock was read.
        after: this machine's time after the other clock was read.
    """
    if shown > after:
        return shown - after
    return min(shown + timedelta(seconds=1) - before, timedelta(0))


def must_equal(found: bytes, expected: bytes, what: str) -> None:
    """Raise `IntegrityError` if the bytes that were read differ from the expected bytes."""
    if found != expected:
        raise errors.IntegrityError(
            f"{what} was read with other bytes than were written",
            hint="check the proxies in between, or use another store",
        )


def _not_seen() -> BrokenPromise:
    return BrokenPromise("a new object is not found", hint=CONSISTENCY_FIX)

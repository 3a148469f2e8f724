"""What can be checked of a store, the result of a check, and the objects that checks write.

One function for each check, which writes keys of its own and raises what is wrong as an error;
`lakecli.doctor.probe` orders them so that each depends only on earlier checks. First come
permissions and the consistency of reads, then conditional writes, which all sharing depends on.

With one writer, a store that ignores conditions looks like one that honours them. So the last
checks send writes that must be refused, one after the other and many at once, and read the object
back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from threading import Barrier
from time import sleep
from typing import Final, NamedTuple, TypeVar

from lakecli.base.model import NO_METADATA
from lakecli.errors import (
    ErrorKind,
    IntegrityError,
    LakeError,
    PermissionDenied,
    Refused,
    Unreachable,
    Unsupported,
)
from lakecli.stores.capabilities import PartUploads, Prunes, UploadId, WritesGarbled, uploads_of
from lakecli.stores.contract import (
    ABSENT,
    ANY,
    Condition,
    ConditionFailed,
    Match,
    ObjectNotFound,
    ObjectStore,
    Version,
)

T = TypeVar("T")


class CheckVerdict(StrEnum):
    """The result of a check, from good to bad; ``skipped`` is no result."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    FAILED = "failed"


class Check(NamedTuple):
    """One check and its result.

    Attributes:
        name: stable, such as ``create-only``.
        verdict: the result.
        seen: the observation in one line; for a skipped check, the reason.
        fix: a command, a permission or a variable; empty if nothing is wrong.
        kind: of the error that a failed check causes; ``None`` otherwise.
        details: the same facts for programs.
    """

    name: str
    verdict: CheckVerdict
    seen: str
    fix: str = ""
    kind: ErrorKind | None = None
    details: Mapping[str, str] = NO_METADATA


def ok(name: str, seen: str, **details: str) -> Check:
    """Return a passed check."""
    return Check(name, CheckVerdict.OK, seen, details=details)


def skipped(name: str, why: str) -> Check:
    """Return a check that was not made."""
    return Check(name, CheckVerdict.SKIPPED, why)


def warning(name: str, seen: str, *, fix: str, **details: str) -> Check:
    """Return a check that passed with a warning."""
    return Check(name, CheckVerdict.WARNING, seen, fix, details=details)


def failed(name: str, error: LakeError, *, fix: str = "", **details: str) -> Check:
    """Return a failed check.

    Args:
        name: the name of the check.
        error: what happened; its hint takes precedence over `fix`.
        fix: used if the error has no hint.
        details: the same facts for programs.
    """
    return Check(name, CheckVerdict.FAILED, error.message, error.hint or fix, error.kind, details)


class ScratchObjects:
    """The objects of one run under its own prefix, which are deleted at its end in any case.

    Args:
        store: the store to write to.
        prefix: the prefix of this run only; it ends with a slash.
    """

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self.store = store
        self.prefix = prefix
        self.keys: set[str] = set()
        self._uploads: list[tuple[PartUploads, str, UploadId]] = []

    def key(self, name: str) -> str:
        """Return a key to write; `remove` deletes it."""
        key = self.prefix + name
        self.keys.add(key)
        return key

    def start_upload(self, uploads: PartUploads, key: str) -> UploadId:
        """Begin an upload in parts; `remove` aborts it unless it is completed."""
        upload = uploads.start(key)
        self._uploads.append((uploads, key, upload))
        return upload

    def remove(self) -> None:
        """Delete everything; a second call does nothing.

        Raises:
            LakeError: the store refused, or does not answer. There is no second attempt.
        """
        try:
            self._remove()
        except LakeError:
            self._forget()
            raise
        self._forget()

    def remove_after_failure(self) -> None:
        """Delete everything after an error or an interruption, without hiding it."""
        with suppress(LakeError):  # the first error is the one to report
            try:
                self.remove()
            except KeyboardInterrupt:
                self.remove()  # a second interrupt; finish the deletion
                raise

    def _remove(self) -> None:
        try:
            for uploads, key, upload in self._uploads:
                uploads.abort(key, upload)
        finally:
            if self.keys:
                self.store.delete(sorted(self.keys))
                if isinstance(self.store, Prunes):
                    self.store.prune(self.prefix)

    def _forget(self) -> None:
        self.keys.clear()
        self._uploads.clear()


OBJECT: Final = "object"
"""Name of the object that several checks read."""

BODY: Final = bytes(range(64))
"""Its contents."""

CONSISTENCY_FIX: Final = "use a store in which every read sees the writes before it"

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
    for number in range(2):
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
    try:
        upload = scratch.start_upload(uploads, key)
    except Unsupported as error:
        return warning(
            name,
            error.message,
            fix="large files are sent as one stream: a killed upload starts over",
        )
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


def distance(shown: datetime, before: datetime, after: datetime) -> timedelta:
    """Return how far a clock is ahead that showed whole seconds between two moments here."""
    if shown > after:
        return shown - after
    return min(shown + timedelta(seconds=1) - before, timedelta(0))


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


WRITERS: Final = 8
ROUNDS: Final = 4
"""Races of each kind; a store without locks fails nearly every one."""

PAUSE: Final = 1.5
"""Seconds before the second attempt on a store that did not answer."""

_START_TIMEOUT: Final = 30.0
"""Seconds for all writers of a race to get ready."""

CONDITIONS_FIX: Final = (
    "let one machine at a time write here, or use a store with conditional writes: Amazon S3, "
    "Google Cloud Storage, Azure Blob, a directory"
)


class BrokenPromise(Unsupported):
    """The store did what a condition forbids, or refused what it allows."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint=CONDITIONS_FIX)


def check_create_only(scratch: ScratchObjects) -> Check:
    """Create the same key twice.

    Raises:
        BrokenPromise: the second write was not refused, or the first was.
    """
    _patiently(scratch, "create-only", _try_create_only)
    return ok("create-only", "a second create-only write is refused")


def check_match(scratch: ScratchObjects) -> Check:
    """Write with the current version, with a stale one, and with one of a missing object.

    Raises:
        BrokenPromise: a version is wrong, or the store ignores it.
    """
    _patiently(scratch, "compare-and-set", _try_match)
    return ok("compare-and-set", "stale versions are refused, the current one is accepted")


def check_races(scratch: ScratchObjects) -> Check:
    """Let many writers race for one key several times; exactly one must win.

    Raises:
        BrokenPromise: two won, or the winner's bytes are not there.
        Unreachable: the store answered none of them.
    """
    winnerless = 0
    for number in range(ROUNDS):
        winnerless += not _patiently(scratch, f"race-create-{number}", _race_to_create)
        winnerless += not _patiently(scratch, f"race-match-{number}", _race_to_replace)
    races = 2 * ROUNDS
    if winnerless:
        return warning(
            "race",
            f"{winnerless} of {races} races of {WRITERS} writers had no winner; none had two",
            fix="no data is at risk, but writes to busy branches may need several attempts",
        )
    return ok("race", f"{races} races of {WRITERS} writers, one winner each")


def _patiently(scratch: ScratchObjects, name: str, look: Callable[[ScratchObjects, str], T]) -> T:
    """Repeat a check once, on another key, if the store did not answer.

    The adapters send conditional writes only once, and some stores need a second between two writes
    of a key.
    """
    try:
        return look(scratch, name)
    except Unreachable:
        sleep(PAUSE)
        return look(scratch, f"{name}-again")


def _try_create_only(scratch: ScratchObjects, name: str) -> None:
    store, key = scratch.store, scratch.key(name)
    try:
        store.put(key, b"first", ABSENT)
    except ConditionFailed as error:
        raise BrokenPromise("a create-only write of a new key was refused") from error
    _must_fail(store, key, b"second", ABSENT, "a second create-only write replaced the first")
    if store.get(key) != b"first":
        raise BrokenPromise("a create-only write was refused, and replaced the object")


def _try_match(scratch: ScratchObjects, name: str) -> None:
    store, key = scratch.store, scratch.key(name)
    first = store.put(key, b"first", ANY)
    if store.head(key).version != first:
        raise BrokenPromise("a write returns another version than the object then has")
    try:
        second = store.put(key, b"second", Match(first))
    except ConditionFailed as error:
        raise BrokenPromise("a write that names the current version is refused") from error
    if second == first:
        raise BrokenPromise("an object kept its version when its contents changed")
    _must_fail(store, key, b"third", Match(first), "a write that names a stale version succeeded")
    missing = scratch.key(f"{name}-missing")
    _must_fail(
        store, missing, b"x", Match(second), "a write that names a version created an object"
    )
    if store.get(key) != b"second":
        raise BrokenPromise("a write with a stale version was refused, and replaced the object")


def _race_to_create(scratch: ScratchObjects, name: str) -> bool:
    return _has_winner(scratch.store, scratch.key(name), ABSENT)


def _race_to_replace(scratch: ScratchObjects, name: str) -> bool:
    key = scratch.key(name)
    version = scratch.store.put(key, b"start", ANY)
    return _has_winner(scratch.store, key, Match(version))


def _has_winner(store: ObjectStore, key: str, condition: Condition) -> bool:
    """Start all writers at once, each with its own bytes, and read back which bytes are stored.

    Raises:
        BrokenPromise: more than one won, or the stored bytes are not the winner's.
        Unreachable: no writer got a response.
    """
    bodies = [b"writer %d" % number for number in range(WRITERS)]
    answers = _write_at_once(store, key, bodies, condition)
    winners = [
        body for body, answer in zip(bodies, answers, strict=True) if isinstance(answer, str)
    ]
    what = "create-only" if condition == ABSENT else "compare-and-set"
    if len(winners) > 1:
        raise BrokenPromise(f"{len(winners)} of {WRITERS} writers won one {what} race")
    unknown = [answer for answer in answers if isinstance(answer, Unreachable)]
    if len(unknown) == WRITERS:
        raise unknown[0]
    try:
        found = store.get(key)
    except ObjectNotFound:
        found = None
    if winners and found != winners[0]:
        raise BrokenPromise(f"the one winner of a {what} race was overwritten by a loser")
    losers = {body for body, answer in zip(bodies, answers, strict=True) if answer is None}
    if found in losers:
        raise BrokenPromise(f"a writer of a {what} race was refused, and its bytes are there")
    return found in bodies


def _write_at_once(
    store: ObjectStore, key: str, bodies: Sequence[bytes], condition: Condition
) -> list[Version | Unreachable | None]:
    """Return each writer's result: a version, ``None`` if it lost, or an error if unknown.

    The writers start when this thread has handed all of them to the pool. Until then the pool may
    not know a thread that it has just started, and an interruption would not wait for that thread.
    """
    barrier = Barrier(len(bodies) + 1)

    def write(body: bytes) -> Version | Unreachable | None:
        barrier.wait(_START_TIMEOUT)
        try:
            return store.put(key, body, condition)
        except ConditionFailed:
            return None
        except Unreachable as error:
            return error

    with ThreadPoolExecutor(len(bodies), "race") as pool:
        try:
            answers = pool.map(write, bodies)
            barrier.wait(_START_TIMEOUT)
            return list(answers)
        except BaseException:
            barrier.abort()  # or the waiting writers would wait for the others
            raise


def _must_fail(
    store: ObjectStore, key: str, body: bytes, condition: Condition, otherwise: str
) -> None:
    try:
        store.put(key, body, condition)
    except ConditionFailed:
        return
    raise BrokenPromise(f"{otherwise}: the store ignores conditions")

"""Trying a store out: what may be done there, what it promises, and whether it keeps its word.

Everything is tried on small objects under a prefix of the run's own, which are removed in the end,
also after a failure or an interruption; nothing else is touched. A run sends at most `REQUESTS`
requests and writes less than 10 kB. Once the store has stopped answering, or after `TIME_LIMIT`,
what is left is skipped.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from lakecli.errors import LakeError, PermissionDenied, Unreachable, Unsupported
from lakecli.objectstore.access import access_of
from lakecli.objectstore.base import ObjectNotFound, PresignRequest
from lakecli.objectstore.probe import conditions, objects
from lakecli.objectstore.probe.check import Check, Verdict, failed, ok, skipped, warning
from lakecli.objectstore.probe.scratch import Scratch
from lakecli.objectstore.probe.url import fetch
from lakecli.objectstore.uri import is_local

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from datetime import datetime

    from lakecli.objectstore.base import ObjectInfo, ObjectStore
    from lakecli.objectstore.probe.url import Fetched

REQUESTS: Final = 130
"""That a run sends, at most, on a store that answers."""

TIME_LIMIT: Final = timedelta(minutes=2)
"""After which no further check begins; those of one request are the SDK's own."""

CLOCK_WARNING: Final = timedelta(seconds=5)
CLOCK_LIMIT: Final = timedelta(minutes=15)
"""Clouds refuse signatures that are further from their own time."""

LEFT_AFTER: Final = timedelta(hours=1)
"""No run takes as long; what is older was left by one that was killed."""

NAMES: Final = (
    "credentials",
    "reachable",
    "list",
    "write",
    "read",
    "overwrite",
    "read-after-write",
    "list-after-write",
    "ranges",
    "create-only",
    "compare-and-set",
    "race",
    "multipart",
    "checksums",
    "presign",
    "clock",
    "delete",
)
"""Every check, in the order in which they are made."""

_NEEDS: Final = {
    "overwrite": ("write",),
    "read-after-write": ("write", "read"),
    "list-after-write": ("write", "list"),
    "ranges": ("write", "read"),
    "create-only": ("write", "read"),
    "compare-and-set": ("write", "read"),
    "race": ("write", "read", "create-only", "compare-and-set"),
    "multipart": ("write", "read"),
    "checksums": ("write", "multipart"),
    "presign": ("write", "read"),
}
"""What must not have failed for a check to tell anything."""

_MAX_LISTED: Final = 1_000
_URL_LIFETIME: Final = timedelta(days=7)
_RESOLUTION: Final = timedelta(seconds=1)
_CLOCK_FIX: Final = "set the clock of this machine, for example with `timedatectl set-ntp true`"


@dataclass(frozen=True, slots=True)
class Instruments:
    """What a probe is given of the world.

    Attributes:
        clock: the present, as an aware UTC datetime.
        new_id: 16 random bytes at each call.
        fetch: gets a URL.
    """

    clock: Callable[[], datetime]
    new_id: Callable[[], bytes]
    fetch: Callable[[str], Fetched] = fetch


class Probe:
    """One run.

    Args:
        store: to try out.
        instruments: clock, IDs and a way to the web.
        root: the keys of all runs begin with this; the run's ID and a slash follow.
        greet: makes the first contact and returns the store to go on with, where that takes more
            than asking `store`.
    """

    def __init__(
        self,
        store: ObjectStore,
        instruments: Instruments,
        *,
        root: str,
        greet: Callable[[], ObjectStore] | None = None,
    ) -> None:
        self._now = instruments.clock
        self._fetch = instruments.fetch
        self._root = root
        self._greet = greet
        self._scratch = Scratch(store, f"{root}{instruments.new_id().hex()}/")
        self._begun = instruments.clock()
        self._obstacle = ""
        self._verdicts: dict[str, Verdict] = {}
        self._listed: list[ObjectInfo] | LakeError = []
        self._sent: tuple[datetime, datetime] | None = None

    def run(self) -> Generator[Check]:
        """Yield what each check of `NAMES` finds; close the iterator to end early.

        A `LakeError` becomes a check that failed. Any other error ends the run, cleaned up.
        """
        scratch = self._scratch
        looks: dict[str, Callable[[], Check]] = {
            "credentials": self._look_at_credentials,
            "reachable": self._reach,
            "list": self._look_at_listing,
            "write": self._write,
            "read": lambda: objects.check_read(scratch, is_written=self._is_written),
            "overwrite": partial(objects.check_overwrite, scratch),
            "read-after-write": partial(objects.check_read_after_write, scratch),
            "list-after-write": partial(objects.check_list_after_write, scratch),
            "ranges": partial(objects.check_ranges, scratch),
            "create-only": partial(conditions.check_create_only, scratch),
            "compare-and-set": partial(conditions.check_match, scratch),
            "race": partial(conditions.check_races, scratch),
            "multipart": partial(objects.check_multipart, scratch),
            "checksums": partial(objects.check_checksums, scratch),
            "presign": self._presign,
            "clock": self._compare_clocks,
            "delete": self._delete,
        }
        try:
            for name in NAMES:
                check = self._look(name, looks[name])
                self._verdicts[name] = check.verdict
                yield check
        finally:
            scratch.remove_after_failure()

    @property
    def store(self) -> ObjectStore:
        """The store that is asked; since the first contact, the one that it returned."""
        return self._scratch.store

    @property
    def _is_written(self) -> bool:
        return self._sent is not None

    def _look(self, name: str, look: Callable[[], Check]) -> Check:
        obstacle = self._obstacle_to(name)
        if obstacle:
            return skipped(name, obstacle)
        try:
            return look()
        except Unreachable as error:
            self._obstacle = self._obstacle or "the store gave up before"
            return failed(name, error)
        except LakeError as error:
            return failed(name, error)

    def _obstacle_to(self, name: str) -> str:
        """Return why a check is not made, or ``""``."""
        if name == "delete" and self._scratch.keys:
            return ""  # whatever happened
        if not self._obstacle and self._now() - self._begun > TIME_LIMIT:
            self._obstacle = "the store took too long for what came before"
        if self._obstacle:
            return self._obstacle
        needs = _NEEDS.get(name, ())
        lacking = [need for need in needs if self._verdicts[need] is Verdict.FAILED]
        return f"it needs what failed: {', '.join(lacking)}" if lacking else ""

    # -- reaching it -------------------------------------------------------------------------

    def _look_at_credentials(self) -> Check:
        try:
            access = access_of(self.store)
        except LakeError:
            self._obstacle = "there are no credentials to ask with"
            raise
        if access is None:
            return skipped("credentials", "this kind of store does not tell")
        details = {"kind": access.kind, "identity": access.identity, "source": access.source}
        seen = f"{access.kind} {access.identity}".rstrip() + f", from {access.source}"
        if access.expires_at is not None:
            details["expires_at"] = _shown_time(access.expires_at)
            seen += f", until {details['expires_at']}"
        return ok("credentials", seen, **details)

    def _reach(self) -> Check:
        before = self._now()
        try:
            if self._greet is not None:
                with suppress(PermissionDenied):  # an answer, too
                    self._scratch.store = self._greet()
            try:
                self._listed = list(islice(self.store.list(self._root), _MAX_LISTED))
            except (PermissionDenied, Unsupported) as error:
                self._listed = error  # the next check's business
        except LakeError:
            self._obstacle = "the store cannot be asked"
            raise
        milliseconds = f"{(self._now() - before) / timedelta(milliseconds=1):.0f}"
        access = access_of(self.store)
        details = {"milliseconds": milliseconds}
        place = self.store.uri
        if access is not None and access.endpoint:
            details["endpoint"] = place = access.endpoint
            if access.region:
                details["region"] = access.region
                place += f", region {access.region}"
        return ok("reachable", f"{place}, in {milliseconds} ms", **details)

    def _look_at_listing(self) -> Check:
        if isinstance(self._listed, LakeError):
            raise self._listed
        now = self._now()
        old = [info.key for info in self._listed if now - info.modified_at > LEFT_AFTER]
        if not old:
            return ok("list", "allowed")
        return warning(
            "list",
            f"allowed; {len(old)} objects were left by a run that was killed",
            fix=f"delete what lies under {self._place_of(old[0])}",
            left=str(len(old)),
        )

    # -- writing and deleting ----------------------------------------------------------------

    def _write(self) -> Check:
        before = self._now()
        check = objects.check_write(self._scratch)
        self._sent = (before, self._now())
        return check

    def _delete(self) -> Check:
        keys = sorted(self._scratch.keys)
        try:
            self._scratch.remove()
        except LakeError as error:
            fixes = [error.hint] if error.hint else []
            if self._is_written:
                place = self._place_of(self._scratch.prefix)
                fixes.append(f"delete what was left under {place}")
            return Check("delete", Verdict.FAILED, error.message, "; ".join(fixes), error.kind)
        if self._obstacle or self._verdicts["read"] is not Verdict.OK or not self._is_written:
            return ok("delete", "allowed")
        # Where lists are late, only asking for each one tells.
        if self._verdicts["list"] is not Verdict.FAILED:
            keys = [info.key for info in self.store.list(self._scratch.prefix)]
        for key in keys:
            with suppress(ObjectNotFound):
                self.store.head(key)
                raise Unsupported("a deleted object is still there", hint=objects.CONSISTENCY_FIX)
        return ok("delete", "allowed; nothing was left behind")

    def _place_of(self, key: str) -> str:
        return f"{self.store.uri}/{key[: len(self._scratch.prefix)]}"

    # -- its URLs and its clock --------------------------------------------------------------

    def _presign(self) -> Check:
        key = self._scratch.prefix + objects.OBJECT
        if is_local(self.store.uri):
            return skipped("presign", "a directory has no URLs")
        signed = self.store.presign(key, PresignRequest("GET", _URL_LIFETIME), now=self._now())
        answer = self._fetch(signed.url)
        problem = answer.problem()
        if problem is not None:
            raise problem
        objects.must_equal(answer.body, objects.BODY, "a signed URL")
        end = _shown_time(signed.expires_at)
        return ok("presign", f"a URL works; the longest signed now ends at {end}", expires_at=end)

    def _compare_clocks(self) -> Check:
        ahead = self._measure()
        if ahead is None:
            return skipped("clock", "the store told no time")
        seconds = round(ahead / timedelta(seconds=1))
        if not seconds:
            return ok("clock", "no difference to this machine's", seconds="0")
        side = "ahead of" if seconds > 0 else "behind"
        seen = f"the store's is {abs(seconds)} s {side} this machine's"
        if abs(ahead) <= CLOCK_WARNING:
            return ok("clock", seen, seconds=str(seconds))
        if abs(ahead) <= CLOCK_LIMIT or is_local(self.store.uri):
            return warning("clock", seen, fix=_CLOCK_FIX, seconds=str(seconds))
        error = PermissionDenied(f"{seen}: signatures are refused", hint=_CLOCK_FIX)
        return failed("clock", error, seconds=str(seconds))

    def _measure(self) -> timedelta | None:
        """Return how far the store's clock is ahead, 0 where it may be right, if it tells."""
        key = self._scratch.prefix + objects.OBJECT
        if self._sent is not None and self._verdicts["read"] is Verdict.OK:
            return distance(self.store.head(key).modified_at, *self._sent)
        # Nothing of ours is there to have a time. Every answer has one, a refusal too.
        before = self._now()
        try:
            signed = self.store.presign(key, PresignRequest("GET", _URL_LIFETIME), now=before)
        except (Unsupported, PermissionDenied):
            return None
        told = self._fetch(signed.url).date()
        return None if told is None else distance(told, before, self._now())


def distance(told: datetime, before: datetime, after: datetime) -> timedelta:
    """Return how far a clock is ahead that told whole seconds between two moments of ours."""
    if told > after:
        return told - after
    return min(told + _RESOLUTION - before, timedelta(0))


def _shown_time(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""One run of the checks of a store: permissions, conditional writes, consistency, URLs, the clock.

The checks write small objects below a prefix that only this run uses. The objects are deleted at
the end, also after a failure or an interrupt. No other objects are changed. A run sends at most
`requests` requests. If the store stops answering, or after `TIME_LIMIT`, the remaining checks are
skipped. If only a single check gets no response, that check fails, and the run continues.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import BufferedReader
from itertools import islice
from typing import ClassVar, Final, NamedTuple

from lakecli import errors
from lakecli.base.layout import DOCTOR
from lakecli.base.model import NO_ACCOUNT, NO_METADATA, Account
from lakecli.doctor import checks, conditions
from lakecli.doctor.checks import Check, CheckVerdict, ScratchObjects, failed, ok, skipped, warning
from lakecli.doctor.demands import Remedies
from lakecli.stores.capabilities import access_of
from lakecli.stores.contract import ObjectInfo, ObjectStore, exists
from lakecli.stores.presigned_urls import PresignedUrl, PresignRequest
from lakecli.stores.responses import date_of
from lakecli.stores.uri import is_local


def requests(races: int) -> int:
    """Return the maximum number of requests of a run, without retries.

    Args:
        races: the number of races of each kind.
    """
    return 90 + races * (2 * conditions.WRITERS + 3)


TIME_LIMIT: Final = timedelta(minutes=2)
"""The duration of a run after which no further check begins."""

CLOCK_WARNING: Final = timedelta(seconds=5)
CLOCK_LIMIT: Final = timedelta(minutes=15)
"""The largest difference between the clocks at which clouds still accept signatures."""

LEFT_AFTER: Final = timedelta(hours=1)
"""The age from which an object must be a leftover of a killed run: every run is shorter."""

_MAX_LISTED: Final = 1_000
_MAX_ASKED: Final = 16
_URL_LIFETIME: Final = timedelta(days=7)
_CLOCK_FIX: Final = "set the clock of this machine, for example with `timedatectl set-ntp true`"

MAX_BODY: Final = 1 << 16
"""The maximum number of bytes to read of a response."""

_CODE: Final = re.compile(rb"<Code>([A-Za-z]{1,64})</Code>")
_CHECK_PROXIES: Final = "check proxies and certificates, which users of such URLs need too"
_HEADERS: Final = {"User-Agent": "lakecli"}
_PREFLIGHT: Final = {"Origin": "null", "Access-Control-Request-Method": "PUT"}
"""The headers of a browser's CORS preflight request, before a page on disk sends a PUT."""

_OK: Final = 200
_DENIED: Final = frozenset({400, 401, 403})
_SERVER_FAULT: Final = 500


class FetchedUrl(NamedTuple):
    """The response to an HTTP request; names of headers are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = NO_METADATA

    def date(self) -> datetime | None:
        """Return the time in the ``Date`` header, or ``None`` without a valid one."""
        return date_of(self.headers.get("date", ""))

    def problem(self) -> errors.LakeError | None:
        """Return the error for the response's status; ``None`` if the request succeeded."""
        if self.status == _OK:
            return None
        code = _CODE.search(self.body)
        answer = f"{self.status} {code[1].decode()}" if code else str(self.status)
        if self.status in _DENIED:
            return errors.PermissionDenied(f"a signed URL was refused: {answer}")
        kind = errors.Unreachable if self.status >= _SERVER_FAULT else errors.Refused
        return kind(f"a signed URL was answered by {answer}")


def fetch(url: str, access: Account = NO_ACCOUNT, *, preflight: bool = False) -> FetchedUrl:
    """Get a URL without credentials, and without following redirects or retrying.

    Proxies come from the environment.

    Args:
        preflight: send a CORS preflight request instead, as a browser does before a page uploads
            to the URL.

    Raises:
        Unreachable: there was no response. The message does not contain the URL, which is a
            secret.
        UsageError: the URL is not an HTTP URL.
    """
    from urllib3.exceptions import HTTPError, LocationParseError
    from urllib3.util import parse_url

    from lakecli.stores.answer_limits import limits_of
    from lakecli.stores.proxies import open_connections, proxy_of

    if not url.startswith(("http://", "https://")):
        raise errors.UsageError("a signed URL is not an HTTP URL")
    try:
        parse_url(url)
        proxy = proxy_of(url)
    except ValueError:  # its message may contain the URL
        raise errors.UsageError("a signed URL is not an HTTP URL") from None
    try:
        with (
            open_connections(proxy, limits_of(access), headers=_HEADERS) as connections,
            connections.request(
                "OPTIONS" if preflight else "GET",
                url,
                headers=_HEADERS | (_PREFLIGHT if preflight else {}),
                retries=False,
                preload_content=False,
                decode_content=False,
            ) as answer,
        ):
            # Without retries, urllib3 follows no redirects either. `BufferedReader` reads until the
            # end of the body, so that urllib3 notices a truncated response.
            body = BufferedReader(answer).read(MAX_BODY)
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return FetchedUrl(answer.status, body, headers)
    except LocationParseError:  # its message has the URL of the proxy, and so its password
        raise errors.Unreachable(
            "a signed URL cannot be fetched: its server, or the proxy, has no valid name",
            hint=_CHECK_PROXIES,
        ) from None
    except HTTPError as error:
        raise errors.Unreachable(
            f"a signed URL cannot be fetched: {error.__cause__ or error}", hint=_CHECK_PROXIES
        ) from error


def _simple(check: Callable[[ScratchObjects], Check]) -> Callable[[Probe], Check]:
    """Adapt a check that takes `ScratchObjects` to the signature of the checks in `CHECKS`."""
    return lambda probe: check(probe.scratch)


class Probe:
    """One run of the checks.

    Args:
        clock: a function that returns the current time as an aware UTC datetime.
        new_id: a function that returns 16 random bytes.
        greet: a function that sends the first request and returns the store to check; ``None``:
            check `store`.
        remedies: the settings to try if the bucket refuses a request; ``None``: try none.
        races: a function that takes the store and returns how many races of each kind to run.
    """

    def __init__(
        self,
        store: ObjectStore,
        clock: Callable[[], datetime],
        new_id: Callable[[], bytes],
        *,
        fetch: Callable[..., FetchedUrl] = fetch,
        greet: Callable[[], ObjectStore] | None = None,
        remedies: Remedies | None = None,
        races: Callable[[ObjectStore], int] = lambda _store: conditions.RACES,
    ) -> None:
        self._now = clock
        self._fetch = fetch
        self._greet = greet
        self._remedies = remedies
        self._races = races
        self.scratch = ScratchObjects(store, f"{DOCTOR}{new_id().hex()}/")
        self._begun = clock()
        self._obstacle = ""
        self._verdicts: dict[str, CheckVerdict] = {}
        self._listed: list[ObjectInfo] | errors.LakeError = []
        self._sent: tuple[datetime, datetime] | None = None

    def run(self) -> Generator[Check]:
        """Yield the result of each check in `NAMES`; close the iterator to end early.

        If a check raises a `LakeError`, its result is a failed check. Any other error ends the run;
        the objects of the run are deleted first.
        """
        try:
            for name in NAMES:
                check = self._look(name)
                self._verdicts[name] = check.verdict
                yield check
        finally:
            self.scratch.remove_after_failure()

    @property
    def store(self) -> ObjectStore:
        """The store that is checked; after the first request, the store that `greet` returned."""
        return self.scratch.store

    @property
    def _is_written(self) -> bool:
        return self._sent is not None

    def _look(self, name: str) -> Check:
        look, needs = self.CHECKS[name]
        obstacle = self._obstacle_to(name, needs)
        if obstacle:
            return skipped(name, obstacle)
        try:
            return look(self)
        except errors.PermissionDenied as error:
            return self._remedied(name, error)
        except errors.LakeError as error:
            if isinstance(error, errors.Unreachable) and not self._obstacle and not self._answers():
                self._obstacle = "the store stopped answering"
            return failed(name, error)

    def _remedied(self, name: str, error: errors.PermissionDenied) -> Check:
        """Return a failed check for a request that was refused.

        If the request succeeds with another setting, the fix is the command that sets it.
        """

        def attempt(store: ObjectStore) -> object:
            if name == "write":
                return checks.check_write(ScratchObjects(store, self.scratch.prefix))
            return list(islice(store.list(DOCTOR), 1))

        remedy = None if self._remedies is None else self._remedies.find(name, attempt)
        if remedy is not None:
            demand, error.hint = remedy
            if name != "write":
                self._obstacle = f"set {demand} first"
        return failed(name, error)

    def _answers(self) -> bool:
        """Return whether the store still responds to a request for a listing."""
        try:
            next(iter(self.store.list(DOCTOR)), None)
        except errors.Unreachable:
            return False
        except errors.LakeError:
            pass  # any other error is a response, too
        return True

    def _obstacle_to(self, name: str, needs: Sequence[str]) -> str:
        """Return the reason to skip a check, or ``""`` to run it.

        Args:
            needs: the names of earlier checks that must not have failed.
        """
        if name == "delete" and self.scratch.keys:
            return ""  # always run it, so that the objects of this run are deleted
        if not self._obstacle and self._now() - self._begun > TIME_LIMIT:
            self._obstacle = "the earlier checks took too long"
        if self._obstacle:
            return self._obstacle
        lacking = [need for need in needs if self._verdicts[need] is CheckVerdict.FAILED]
        return f"it needs a check that failed: {', '.join(lacking)}" if lacking else ""

    # -- reaching it -------------------------------------------------------------------------

    def _look_at_credentials(self) -> Check:
        try:
            access = access_of(self.store)
        except errors.LakeError:
            self._obstacle = "there are no credentials"
            raise
        if access is None:
            return skipped("credentials", "this kind of store has no credentials")
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
                with suppress(errors.PermissionDenied):  # a refusal shows that it is reachable
                    self.scratch.store = self._greet()
            try:
                self._listed = list(islice(self.store.list(DOCTOR), _MAX_LISTED))
            except (errors.PermissionDenied, errors.Unsupported) as error:
                self._listed = error  # reported by the next check
        except errors.LakeError:
            self._obstacle = "the store is not reachable"
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
        if isinstance(self._listed, errors.LakeError):
            raise self._listed
        now = self._now()
        old = [info.key for info in self._listed if now - info.modified_at > LEFT_AFTER]
        if not old:
            return ok("list", "allowed")
        return warning(
            "list",
            f"allowed; a killed run left {len(old)} objects",
            fix=f"delete the objects under {self._place_of(old[0])}",
            left=str(len(old)),
        )

    # -- writing and deleting ----------------------------------------------------------------

    def _write(self) -> Check:
        before = self._now()
        check = checks.check_write(self.scratch)
        self._sent = (before, self._now())
        return check

    def _read(self) -> Check:
        return checks.check_read(self.scratch, is_written=self._is_written)

    def _delete(self) -> Check:
        keys = sorted(self.scratch.keys)
        try:
            self.scratch.remove()
        except errors.LakeError as error:
            fixes = [error.hint] if error.hint else []
            if self._is_written:
                place = self._place_of(self.scratch.prefix)
                fixes.append(f"delete the remaining objects under {place}")
            return Check("delete", CheckVerdict.FAILED, error.message, "; ".join(fixes), error.kind)
        if self._obstacle or self._verdicts["read"] is not CheckVerdict.OK or not self._is_written:
            return ok("delete", "allowed")
        # Listings may be late, so each object is requested.
        if self._verdicts["list"] is not CheckVerdict.FAILED:
            keys = [info.key for info in self.store.list(self.scratch.prefix)]
        for key in keys[:_MAX_ASKED]:
            if exists(self.store, key):
                hint = checks.CONSISTENCY_FIX
                raise errors.Unsupported("a deleted object is still there", hint=hint)
        return ok("delete", "allowed; nothing was left behind")

    def _place_of(self, key: str) -> str:
        return f"{self.store.uri}/{key[: len(self.scratch.prefix)]}"

    def _race(self) -> Check:
        return conditions.run_races(self.scratch, self._races(self.store)).check

    # -- its URLs and its clock --------------------------------------------------------------

    def _sign(self, method: str, now: datetime) -> PresignedUrl:
        key = self.scratch.prefix + checks.OBJECT
        return self.store.presign(key, PresignRequest(method, _URL_LIFETIME), now=now)

    def _presign(self) -> Check:
        if is_local(self.store.uri):
            return skipped("presign", "a directory has no URLs")
        signed = self._sign("GET", self._now())
        answer = self._fetch(signed.url)
        if (problem := answer.problem()) is not None:
            raise problem
        checks.must_equal(answer.body, checks.BODY, "a signed URL")
        end = _shown_time(signed.expires_at)
        return ok("presign", f"a URL works; the longest signed now ends at {end}", expires_at=end)

    def _ask_as_page(self) -> Check:
        if is_local(self.store.uri):
            return skipped("cors", "a directory has no URLs")
        signed = self._sign("PUT", self._now())
        said: Mapping[str, str] = {}
        with suppress(errors.Unreachable):  # some servers do not answer preflight requests
            said = self._fetch(signed.url, preflight=True).headers
        origin = said.get("access-control-allow-origin", "")
        methods = said.get("access-control-allow-methods", "")
        if origin in {"*", "null"} and "PUT" in methods.upper():
            return ok("cors", "web pages of `fs presign` can send objects", pages="yes")
        return ok(
            "cors",
            "web pages of `fs presign` cannot send objects or download all; scripts can: "
            "`help clouds` has the rule of CORS that allows it",
            pages="no",
        )

    def _compare_clocks(self) -> Check:
        ahead = self._measure()
        if ahead is None:
            return skipped("clock", "the store did not send its time")
        seconds = round(ahead / timedelta(seconds=1))
        if not seconds:
            return ok("clock", "no difference to this machine's", seconds="0")
        side = "ahead of" if seconds > 0 else "behind"
        seen = f"the store's is {abs(seconds)} s {side} this machine's"
        if abs(ahead) <= CLOCK_WARNING:
            return ok("clock", seen, seconds=str(seconds))
        if abs(ahead) <= CLOCK_LIMIT or is_local(self.store.uri):
            return warning("clock", seen, fix=_CLOCK_FIX, seconds=str(seconds))
        error = errors.PermissionDenied(f"{seen}: signatures are refused", hint=_CLOCK_FIX)
        return failed("clock", error, seconds=str(seconds))

    def _measure(self) -> timedelta | None:
        """Return how far the store's clock is ahead of this machine's; ``None`` if unknown."""
        if self._sent is not None and self._verdicts["read"] is CheckVerdict.OK:
            info = self.store.head(self.scratch.prefix + checks.OBJECT)
            return checks.distance(info.modified_at, *self._sent)
        # No object was written, but every response, even a refusal, has the time in a header.
        before = self._now()
        try:
            signed = self._sign("GET", before)
        except (errors.Unsupported, errors.PermissionDenied):
            return None
        date = self._fetch(signed.url).date()
        return None if date is None else checks.distance(date, before, self._now())

    CHECKS: ClassVar[Mapping[str, tuple[Callable[[Probe], Check], tuple[str, ...]]]] = {
        "credentials": (_look_at_credentials, ()),
        "reachable": (_reach, ()),
        "list": (_look_at_listing, ()),
        "write": (_write, ()),
        "read": (_read, ()),
        "overwrite": (_simple(checks.check_overwrite), ("write",)),
        "read-after-write": (_simple(checks.check_read_after_write), ("write", "read")),
        "list-after-write": (_simple(checks.check_list_after_write), ("write", "list")),
        "ranges": (_simple(checks.check_ranges), ("write", "read")),
        "names": (_simple(checks.check_names), ("write", "read", "list")),
        "create-only": (_simple(conditions.check_create_only), ("write", "read")),
        "compare-and-set": (_simple(conditions.check_match), ("write", "read")),
        "race": (_race, ("write", "read", "create-only", "compare-and-set")),
        "multipart": (_simple(checks.check_multipart), ("write", "read")),
        "checksums": (_simple(checks.check_checksums), ("write", "multipart")),
        "presign": (_presign, ("write", "read")),
        "cors": (_ask_as_page, ("write", "presign")),
        "clock": (_compare_clocks, ()),
        "delete-matching": (_simple(checks.check_delete_matching), ("write", "read", "overwrite")),
        "delete": (_delete, ()),
    }
    """All checks by name, in order, each with the names of the earlier checks that it depends on.

    If one of these earlier checks has failed, the check is skipped.
    """


NAMES: Final = tuple(Probe.CHECKS)


def _shown_time(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

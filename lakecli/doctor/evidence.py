"""Recorded test results of a namespace, which decide whether several machines may write to it.

The results are stored as one object in the namespace, ``_lakecli/sharing.json``. So only the first
clone runs the races of conditional writes, and other clones read its results::

    {"format": 1, "results": [
      {"place": "s3.example.org s3://lake/sales", "reason": "", "races": 66,
       "at": "2026-11-28T12:00:00Z", "by": "Ada Lovelace <ada@example.org>", "again": false}]}

The results are in the order in which they were written:

- A failed test has a ``reason``. The namespace then cannot be shared, even if other tests passed,
  until a test that a user requested (``again``) passes later.
- ``place`` is a server and a namespace. For each place, the races of all tests since the last
  failure are added up. A copy of a namespace also contains the object, but its place differs, so
  the copy counts as untested.

A failure is written unconditionally, because the store may be unable to write conditionally. The
machine that saw the failure also keeps the result until the object contains it. A pass is written
by compare-and-set. Older versions of lakecli ignore the object.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from shlex import quote
from typing import Final, NamedTuple

from lakecli.base import validation
from lakecli.base.layout import MAX_SHARING_SIZE, SHARING
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.retry import CLAIMS, Retries
from lakecli.errors import IntegrityError, Refused, Unreachable
from lakecli.stores import contract
from lakecli.stores.capabilities import access_of
from lakecli.stores.contract import Condition, ConditionFailed, Match, ObjectNotFound, ObjectStore

FORMAT: Final = 1

MOST_RESULTS: Final = 32
"""The maximum number of results that are kept; older results are dropped."""

_LONGEST_PLACE: Final = 4096
_LONGEST_TEXT: Final = 1000
_MOST_RACES: Final = 1_000_000


_RETRIES: Final = Retries(CLAIMS)


class Result(NamedTuple):
    """The result of one test.

    Attributes:
        place: the server and namespace that were tested; see `place_of`.
        reason: why the namespace cannot be shared; ``""`` if the test passed.
        races: the number of races of each kind that had one winner.
        at: the time of the test, by the clock of the machine that ran it.
        by: the person who ran the test, or ``""``.
        again: whether a user requested this test after an earlier failure.
    """

    place: str
    reason: str
    races: int
    at: datetime
    by: str = ""
    again: bool = False

    @property
    def described(self) -> str:
        """The time of the test and the person who ran it, for a message."""
        return f"{self.at:%Y-%m-%d %H:%M} UTC" + (f" by {self.by}" if self.by else "")


_RESULT: Final = validation.Record(
    {
        "place": validation.text(_LONGEST_PLACE, min_size=1),
        "reason": validation.text(_LONGEST_TEXT),
        "races": validation.whole(0, _MOST_RACES),
        "at": validation.moment,
        "by": validation.text(_LONGEST_TEXT),
        "again": validation.boolean,
    }
)


def _result(found: object) -> Result:
    return Result(**_RESULT.read(found))


_FORMAT: Final = validation.Record({"format": validation.whole(1, validation.MAX_COUNT)})
_EVIDENCE: Final = validation.Record({"results": validation.list_of(_result, MOST_RESULTS)})


class SharingEvidence(NamedTuple):
    """The test results that are recorded in a namespace, oldest first."""

    results: Sequence[Result] = ()

    @property
    def failure(self) -> Result | None:
        """The last failure, or ``None`` without a failure or if a user's later test passed."""
        found = None
        for result in self.results:
            if result.reason:
                found = result
            elif result.again:
                found = None
        return found

    def races(self, place: str) -> int:
        """Return how many races of each kind have been passed at a place since the last failure.

        Args:
            place: the server and namespace; see `place_of`.
        """
        total = 0
        for result in self.results:
            if result.reason:
                total = 0
            elif result.place == place:
                total += result.races
        return total

    def adding(self, result: Result) -> "SharingEvidence":
        """Return the results with a new one appended; return `self` if the new one adds nothing."""
        says_something = result.races > 0 and self.failure is None
        if not (result.reason or result.again or says_something):
            return self
        return SharingEvidence((*self.results, result)[-MOST_RESULTS:])


def place_of(store: ObjectStore) -> str:
    """Return the server and the URI of a namespace, as this machine addresses them."""
    access = access_of(store)
    return store.uri if access is None else f"{access.endpoint} {store.uri}".strip()


def read_evidence(store: ObjectStore) -> SharingEvidence:
    """Return the results that are recorded in a namespace, with one GET request.

    Raises:
        IntegrityError: the object is not valid.
        Refused: a newer lakecli wrote the object.
    """
    try:
        return _parse(store, store.get(SHARING, start=0, length=MAX_SHARING_SIZE + 1))
    except ObjectNotFound:
        return SharingEvidence()


def record(store: ObjectStore, result: Result, retries: Retries = _RETRIES) -> SharingEvidence:
    """Add a result to the results recorded in a namespace, and return all of them.

    A result with ``again`` also replaces an object that is not valid.

    Raises:
        IntegrityError: the object is not valid.
        Refused: a newer lakecli wrote the object.
        Unreachable: other machines changed the object at every attempt.
    """
    for _ in retries.attempts():
        known, condition = _read_to_change(store, replaces=result.again)
        wanted = known.adding(result)
        if wanted is known:
            return known
        condition = contract.ANY if result.reason else condition
        with suppress(ConditionFailed):
            store.put(SHARING, _dump(wanted), condition, contract.JSON)
            return wanted
    raise Unreachable(f"{store.uri}/{SHARING} is written all the time", hint="repeat the command")


def _read_to_change(store: ObjectStore, *, replaces: bool) -> tuple[SharingEvidence, Condition]:
    try:
        data, version = store.get_versioned(SHARING, length=MAX_SHARING_SIZE + 1)
    except ObjectNotFound:
        return SharingEvidence(), contract.ABSENT
    # The version of an empty object may be unknown.
    condition = Match(version) if version else contract.ANY
    try:
        return _parse(store, data), condition
    except IntegrityError:
        if not replaces:
            raise
        return SharingEvidence(), condition


def _dump(evidence: SharingEvidence) -> bytes:
    results = [
        {
            **result._asdict(),
            "place": _cut(result.place, _LONGEST_PLACE),
            "reason": _cut(result.reason, _LONGEST_TEXT),
            "at": result.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "by": _cut(result.by, _LONGEST_TEXT),
        }
        for result in evidence.results
    ]
    return json.dumps({"format": FORMAT, "results": results}, indent=2).encode() + b"\n"


def _cut(value: str, max_size: int) -> str:
    data = value.replace("\0", "").encode("utf-8", "surrogateescape")[:max_size]
    return data.decode("utf-8", "surrogateescape")


def _parse(store: ObjectStore, data: bytes) -> SharingEvidence:
    try:
        found = parse_json_object(data, max_size=MAX_SHARING_SIZE)
        known = _FORMAT.read(found)["format"]
        if known > FORMAT:
            raise Refused(
                f"{store.uri}/{SHARING} is of format {known}, this lakecli knows {FORMAT}",
                hint="upgrade lakecli",
            )
        return SharingEvidence(tuple(_EVIDENCE.read(found)["results"]))
    except (Unparsable, validation.Invalid) as error:
        raise IntegrityError(
            f"{store.uri}/{SHARING} does not hold results of tests: {error}",
            hint=f"test the store again, which replaces it: `doctor {quote(store.uri)} --again`",
        ) from error

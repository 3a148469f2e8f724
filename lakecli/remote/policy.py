r"""The rules about refs in the bucket: one object, changed by compare-and-set; versions are kept.

::

    _lakecli/policy             {"format": 1, "number": 7, "write_id": "0f…", "who": "Name <email>",
                                 "at": "2026-11-20T15:00:00Z", "document": "[[rules]]\n…"}
    _lakecli/policies/<number>  the former versions, unchanged

Before version N is replaced, it is copied to its own key by a create-only write. Concurrent writers
write the same copy, and only one of them replaces the object. The document is TOML, which
`lakecli.repository.policy.document` parses; this module treats it as text.
"""

import json
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from lakecli.base.ids import WriteId
from lakecli.base.layout import MAX_POLICY_SIZE, MAX_SEQUENCE, POLICIES, POLICY, policy_key
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.validation import Invalid, Record, identifier, moment, text, whole
from lakecli.errors import LostRace, OutcomeUnknown, Unreachable
from lakecli.remote.ref_records import MAX_WHO_SIZE, NewerRecord, NotOurs, Unwritable, check_format
from lakecli.stores import contract
from lakecli.stores.capabilities import settle
from lakecli.stores.contract import ConditionFailed, Match, ObjectNotFound, ObjectStore, Version

FORMAT: Final = 1

MOST_KEPT: Final = 1000
"""Largest number of former versions that `iter_policies` yields."""

_RECORD: Final = Record(
    {
        "format": whole(1, FORMAT),
        "number": whole(1, MAX_SEQUENCE),
        "write_id": identifier(WriteId),
        "who": text(MAX_WHO_SIZE),
        "at": moment,
        "document": text(MAX_POLICY_SIZE),
    }
)


class PolicyMoved(LostRace):
    """Another client replaced the rules first."""


class PolicyRecord(NamedTuple):
    """One version of the rules.

    Attributes:
        number: the number of this version, counted from 1.
        write_id: random ID of the change, 32 hex digits.
        who: the committer who set these rules, ``Name <email>``.
        at: the time of the change by the clock of the committer's machine, in whole seconds.
        document: the rules, as TOML.
    """

    number: int
    write_id: WriteId
    who: str
    at: datetime
    document: str


class SeenPolicy(NamedTuple):
    """The rules that were read in order to replace them.

    Attributes:
        record: the rules; ``None`` if there are none, or if their object is damaged.
        data: the bytes of the object; before it is replaced, they are copied to `policy_key`.
        version: the version of the object; ``None`` if there is no object.
    """

    record: PolicyRecord | None
    data: bytes = b""
    version: Version | None = None


def read_policy(store: ObjectStore) -> PolicyRecord | None:
    """Return the current rules with one GET; ``None`` if none were ever set.

    Raises:
        NotOurs: the object is not valid, or a newer lakecli wrote it.
    """
    return look_at_policy(store).record


def look_at_policy(store: ObjectStore, *, accepts_damage: bool = False) -> SeenPolicy:
    """Return the current rules and the version of their object, for `put_policy`.

    Args:
        accepts_damage: whether to return a result without a record, instead of raising `NotOurs`,
            if the object is not valid.

    Raises:
        NewerRecord: a newer lakecli wrote the object.
        NotOurs: the object is not valid.
    """
    try:
        data, version = store.get_versioned(POLICY, length=MAX_POLICY_SIZE + 1)
    except ObjectNotFound:
        return SeenPolicy(None)
    try:
        return SeenPolicy(_parse(POLICY, data), data, version)
    except NotOurs as error:
        if isinstance(error, NewerRecord) or not accepts_damage:
            raise
        return SeenPolicy(None, b"", version or store.head(POLICY).version)


def put_policy(store: ObjectStore, seen: SeenPolicy, after: PolicyRecord) -> None:
    """Copy the current rules to their own key, then replace them by compare-and-set.

    Raises:
        Unwritable: no lakecli could read the new rules; nothing was changed.
        NotOurs: the key of the copy has an object with other contents; nothing was changed.
        PolicyMoved: the rules have changed since `seen` was read.
        OutcomeUnknown: the response was lost, and the outcome cannot be determined.
        Unreachable: the store does not answer, or refused although nobody else changed the rules.
    """
    at = after.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    fields = after._asdict() | {"format": FORMAT, "at": at}
    try:
        _RECORD.read(fields)
    except Invalid as error:
        hint = "somebody wrote a false number into the bucket: delete what has it"
        what = f"the policy cannot be set, because no lakecli could read it: {error}"
        raise Unwritable(what, hint=hint) from error
    if seen.record is not None:
        key = policy_key(seen.record.number)
        if not store.put_new(key, seen.data) and _get(store, key) != seen.data:
            hint = "another program writes into this namespace: move that object away"
            raise NotOurs(f"{key} holds other rules than were in force", hint=hint)
    body = json.dumps(fields, indent=1).encode("ascii") + b"\n"
    condition = contract.ABSENT if seen.version is None else Match(seen.version)
    try:
        store.put(POLICY, body, condition, contract.JSON)
    except (ConditionFailed, Unreachable, ObjectNotFound) as error:
        try:
            now = look_at_policy(store, accepts_damage=True)
        except Unreachable:
            raise OutcomeUnknown(
                f"it is unknown whether policy {after.number} was set in {store.uri}",
                hint="see the present one: `policy show REPOSITORY`",
            ) from error
        if now.record is not None and now.record.write_id == after.write_id:
            settle(store, POLICY)
            return
        if now.version == seen.version:
            if not isinstance(error, ConditionFailed):
                raise
            # S3 answers 409 to concurrent conditional writes.
            what = f"{store.uri} refused to set the policy, although nobody else changed it"
            raise Unreachable(what, hint="wait and repeat the command") from error
        hint = "see it, then try again: `policy show REPOSITORY`"
        what = f"somebody else set the policy of {store.uri} first"
        raise PolicyMoved(what, hint=hint) from error


def iter_policies(store: ObjectStore) -> Iterator[PolicyRecord]:
    """Yield the current rules, then up to `MOST_KEPT` former versions, newest first.

    Versions that are not valid are skipped.
    """
    present = look_at_policy(store, accepts_damage=True).record
    if present is not None:
        yield present
    keys = deque((info.key for info in store.list(POLICIES)), maxlen=MOST_KEPT)
    for former in (_find(store, key) for key in reversed(keys)):
        if former is not None and (present is None or former.number < present.number):
            yield former


def find_policy(store: ObjectStore, number: int) -> PolicyRecord | None:
    """Return a former version of the rules; ``None`` if its object is missing or not valid."""
    return _find(store, policy_key(number))


def _find(store: ObjectStore, key: str) -> PolicyRecord | None:
    try:
        return _parse(key, _get(store, key))
    except (NotOurs, contract.TooLarge):
        return None


def _get(store: ObjectStore, key: str) -> bytes:
    return contract.find_bounded(store, key, MAX_POLICY_SIZE) or b""


def _parse(key: str, data: bytes) -> PolicyRecord:
    try:
        found = parse_json_object(data, max_size=MAX_POLICY_SIZE)
        check_format(found.get("format"), FORMAT, key, NewerRecord)
        fields = _RECORD.read(found)
        del fields["format"]
        record = PolicyRecord(**fields)
        if key not in (POLICY, policy_key(record.number)):
            raise Invalid(f"number: {record.number}")  # noqa: TRY301 - as the checks of fields do
    except (Invalid, Unparsable) as error:
        hint = "an owner can replace it: `policy set REPOSITORY FILE`"
        raise NotOurs(f"{key} is not a policy that lakecli wrote: {error}", hint=hint) from error
    return record

r"""The rules about refs in the bucket: one object, moved by compare-and-set, each version kept.

::

    _lakecli/policy             {"format": 1, "number": 7, "write_id": "0f…", "who": "Name <email>",
                                 "at": "2026-11-20T15:00:00Z", "document": "[[rules]]\n…"}
    _lakecli/policies/<number>  the former versions, as they were

Before version N is replaced, it is copied to its own key, create-only. Writers who race write the
same copy, and only one of them replaces the object. The document is TOML, which
`lakecli.repository.policy.document` reads; here it is a text.
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
from lakecli.remote.ref_records import MAX_WHO_SIZE, NewerRecord, NotOurs, Unwritable
from lakecli.stores import contract
from lakecli.stores.capabilities import settle
from lakecli.stores.contract import ConditionFailed, Match, ObjectNotFound, ObjectStore, Version

FORMAT: Final = 1

MOST_KEPT: Final = 1000
"""Number of former versions that `iter_policies` yields, at most."""

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
    """Somebody else set the policy first."""


class PolicyRecord(NamedTuple):
    """One version of the rules.

    Attributes:
        number: how many versions there were, with this one.
        write_id: random ID of the change, 32 hex digits.
        who: who set it, ``Name <email>``.
        at: when, by the clock of that machine; whole seconds.
        document: TOML.
    """

    number: int
    write_id: WriteId
    who: str
    at: datetime
    document: str


class SeenPolicy(NamedTuple):
    """The object of the rules as it was read, in order to replace it.

    Attributes:
        record: ``None``: there are no rules, or what is there is damaged.
        data: its bytes, as they are kept under its number.
        version: ``None``: there is no object.
    """

    record: PolicyRecord | None
    data: bytes = b""
    version: Version | None = None


def read_policy(store: ObjectStore) -> PolicyRecord | None:
    """Return the present rules by one GET; ``None``: there never were any.

    Raises:
        NotOurs: it is not valid, or a newer lakecli wrote it.
    """
    return look_at_policy(store).record


def look_at_policy(store: ObjectStore, *, accepts_damage: bool = False) -> SeenPolicy:
    """Return the present rules and their version, for `put_policy`.

    Args:
        accepts_damage: return no record, rather than raise, if it is not valid.

    Raises:
        NewerRecord: a newer lakecli wrote it.
        NotOurs: it is not valid.
    """
    try:
        data, version = store.get_versioned(POLICY, length=MAX_POLICY_SIZE + 1)
    except ObjectNotFound:
        return SeenPolicy(None)
    try:
        return SeenPolicy(_parse(POLICY, data), data, version)
    except NewerRecord:
        raise
    except NotOurs:
        if not accepts_damage:
            raise
        return SeenPolicy(None, b"", version or store.head(POLICY).version)


def put_policy(store: ObjectStore, seen: SeenPolicy, after: PolicyRecord) -> None:
    """Replace the rules by compare-and-set, after keeping the former ones.

    Raises:
        Unwritable: no lakecli could read them; nothing was changed.
        PolicyMoved: they have changed since they were seen.
        OutcomeUnknown: the answer was lost, and the outcome cannot be determined.
        Unreachable: the store does not answer, or refused although nobody else changed them.
    """
    fields = after._asdict() | {
        "format": FORMAT,
        "at": after.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    try:
        _RECORD.read(fields)
    except Invalid as error:
        raise Unwritable(
            f"the policy cannot be set, because no lakecli could read it: {error}",
            hint="somebody wrote a false number into the bucket: delete what has it",
        ) from error
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
        if now.version == seen.version and not isinstance(error, ConditionFailed):
            raise
        raise PolicyMoved(
            f"somebody else set the policy of {store.uri} first",
            hint="see it, then try again: `policy show REPOSITORY`",
        ) from error


def iter_policies(store: ObjectStore) -> Iterator[PolicyRecord]:
    """Yield the newest `MOST_KEPT` versions of the rules, newest first, without invalid ones."""
    present = look_at_policy(store, accepts_damage=True).record
    if present is not None:
        yield present
    keys = deque((info.key for info in store.list(POLICIES)), maxlen=MOST_KEPT)
    for key in reversed(keys):
        try:
            found = _parse(key, _get(store, key))
        except NotOurs:
            continue
        if present is None or found.number < present.number:
            yield found


def find_policy(store: ObjectStore, number: int) -> PolicyRecord | None:
    """Return a former version of the rules; ``None`` if it is not kept, or not valid."""
    try:
        return _parse(key := policy_key(number), _get(store, key))
    except NotOurs:
        return None


def _get(store: ObjectStore, key: str) -> bytes:
    try:
        return contract.get_bounded(store, key, MAX_POLICY_SIZE)
    except ObjectNotFound:
        return b""


def _parse(key: str, data: bytes) -> PolicyRecord:
    try:
        found = parse_json_object(data, max_size=MAX_POLICY_SIZE)
        known = found.get("format")
        if type(known) is int and known > FORMAT:
            hint = "a newer lakecli wrote it: upgrade this one"
            raise NewerRecord(f"{key} is of format {known}, this lakecli knows {FORMAT}", hint=hint)
        fields = _RECORD.read(found)
        del fields["format"]
        record = PolicyRecord(**fields)
        if key not in (POLICY, policy_key(record.number)):
            raise Invalid(f"number: {record.number}")  # noqa: TRY301 - as the checks of fields do
    except (Invalid, Unparsable) as error:
        hint = "an owner can replace it: `policy set REPOSITORY FILE`"
        raise NotOurs(f"{key} is not a policy that lakecli wrote: {error}", hint=hint) from error
    return record

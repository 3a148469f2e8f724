"""Return the rules in force: as the bucket has them now, or as this clone saw them last."""

import json
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

from lakecli.errors import IntegrityError, UsageError
from lakecli.kv.bucket import SEEN_POLICY
from lakecli.kv.local_store import ReadTransaction, Table
from lakecli.remote.policy import PolicyRecord, read_policy
from lakecli.repository.contract import Repository
from lakecli.repository.policy.document import Policy, parse_policy


class RulesInForce(NamedTuple):
    """One version of the rules of a repository.

    Attributes:
        number: the version of the rules, counted from 1; 0 if no rules were ever set.
        who: who set the rules, as ``Name <email>``.
        policy: the rules themselves.
    """

    number: int
    who: str
    policy: Policy


NO_RULES: Final = RulesInForce(0, "", Policy())


def read_rules(repository: Repository) -> RulesInForce:
    """Return the rules in the bucket, read with one GET; record them in the local store.

    Raises:
        IntegrityError: the rules are damaged, or this version cannot parse them.
        Unreachable: the store does not answer.
    """
    record = read_policy(repository.store)
    seen = (0, "", "") if record is None else (record.number, record.who, record.document)
    key = SEEN_POLICY + repository.key
    data = json.dumps(seen).encode("ascii")
    with repository.lake.kv.read() as txn:
        known = txn.get(Table.META, key)
    if known != data and (known is not None or record is not None):
        with repository.lake.kv.write() as txn:
            txn.put(Table.META, key, data)
    return rules_of(record)


def rules_of(record: PolicyRecord | None) -> RulesInForce:
    """Return the rules that a record in the bucket contains; no record forbids nothing.

    Raises:
        IntegrityError: this version of lakecli cannot parse the rules.
    """
    return NO_RULES if record is None else _rules(record.number, record.who, record.document)


def seen_rules(txn: ReadTransaction, repository: Repository) -> RulesInForce:
    """Return the rules that this clone saw last; rules that it cannot parse forbid nothing."""
    data = txn.get(Table.META, SEEN_POLICY + repository.key)
    try:
        return NO_RULES if data is None else _rules(*json.loads(data))
    except IntegrityError:
        return NO_RULES


def see_rules(repository: Repository, number: int) -> None:
    """Read and record the rules in the bucket if they are newer than the rules recorded here.

    Args:
        number: the highest `RulesInForce.number` that a ref in the bucket records.
    """
    with repository.lake.kv.read() as txn:
        is_newer = number > seen_rules(txn, repository).number
    if is_newer:
        with suppress(IntegrityError):
            read_rules(repository)


@lru_cache(maxsize=8)
def _rules(number: int, who: str, document: str) -> RulesInForce:
    try:
        return RulesInForce(number, who, parse_policy(document))
    except UsageError as error:
        what = f"policy {number}, which {who} set: {error.message}"
        hint = "a newer lakecli may have set it: upgrade this one"
        raise IntegrityError(what, hint=hint) from error

"""Set the policy of a bucket, the rules about refs for all clones; undo such a change.

The rules and the refs are separate objects. So after the rules were replaced, the number of the new
rules is written into each ref that the old or the new rules match. This changes the version of the
ref: a move that was checked against the old rules expects the old version, and fails. If a crash
interrupts this step, setting the same rules again completes it.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from heapq import nlargest
from itertools import islice
from typing import Final, NamedTuple

from lakecli.base.ids import WriteId
from lakecli.base.model import RefKind
from lakecli.errors import Forbidden, LakeError, NothingToDo, Refused
from lakecli.kv.operations import POLICY, Operation
from lakecli.remote import policy as policies
from lakecli.remote.policy import PolicyMoved, PolicyRecord, find_policy, look_at_policy
from lakecli.remote.ref_records import NotOurs, RecordedMove, RemoteRef
from lakecli.remote.refs import (
    PARALLEL_READS,
    Intent,
    ListedRef,
    iter_moves,
    iter_refs,
    read_refs,
    stamp,
)
from lakecli.repository.contract import Repository
from lakecli.repository.handle.namespace import check_writable, need_policy
from lakecli.repository.journal import operation_log
from lakecli.repository.policy.document import Policy, parse_policy
from lakecli.repository.policy.judge import judge
from lakecli.repository.policy.rules import RulesInForce, read_rules, rules_of
from lakecli.repository.sharing.fetch import fetch

SET: Final = "policy set"
MOST_MOVES: Final = 100
"""Maximum number of former moves on which new rules are tried."""


class RefusedMove(NamedTuple):
    """A former move of a ref that new rules would have refused.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
        move: the move as it is recorded.
        why: the reason, and the rule.
    """

    kind: RefKind
    name: str
    move: RecordedMove
    why: str


def set_policy(
    repository: Repository, document: str, *, who: str, expected: int | None = None
) -> PolicyRecord:
    """Replace the rules about refs in the bucket; every clone then honours the new rules.

    Args:
        document: the rules in TOML; see `lakecli.repository.policy.document`.
        who: the person who sets the rules, as ``Name <email>``.
        expected: set the rules only if the present rules have this number; 0: only if there are no
            rules; ``None``: in any case.

    Raises:
        UsageError: the document is not valid; nothing was changed.
        Forbidden: somebody else owns the policy.
        NothingToDo: the bucket has these rules already.
        PolicyMoved: somebody else set other rules meanwhile.
        CannotShare, NewerRepository, OutcomeUnknown, Unreachable, …: as raised by a push.
    """
    new, store = parse_policy(document), repository.store
    check_writable(repository)
    seen = look_at_policy(store, accepts_damage=True)
    old = rules_of(seen.record)
    if not old.policy.has(old.policy.owners, who):
        owners = ", ".join(old.policy.owners)
        what = f"policy {old.number} belongs to {owners}, and {who} is not among them"
        hint = f"let one of them set it; see it: `policy show {repository.uri}`"
        raise Forbidden(what, hint=hint)
    if expected not in (None, old.number):
        what = f"somebody else set policy {old.number} of {repository.uri} meanwhile"
        raise PolicyMoved(what, hint=f"see it, then try again: `policy show {repository.uri}`")
    if seen.record is not None and seen.record.document == document:
        _stamp_all(repository, old.number, old.policy)  # in case an earlier command was killed
        hint = f"see who set it: `policy log {repository.uri}`"
        raise NothingToDo(f"policy {old.number} has these rules already", hint=hint)
    latest = old.number
    if seen.record is None:  # former rules may have been deleted: use no number twice
        kept = (each.number for each in policies.iter_policies(store))
        refs = read_refs(store, iter_refs(store))
        written = (each.policy for each in refs if isinstance(each, RemoteRef))
        latest = max((next(kept, 0), *written))
    runtime = repository.lake.runtime
    write_id = WriteId.of_bytes(runtime.new_id())
    record = PolicyRecord(latest + 1, write_id, who, runtime.now(), document)
    need_policy(store)
    runtime.on_step("policy")
    policies.put_policy(store, seen, record)
    _stamp_all(repository, record.number, old.policy, new)
    read_rules(repository)
    return record


def _stamp_all(repository: Repository, number: int, *policies: Policy) -> None:
    """Write the version of the rules into each ref that one of the policies matches.

    Malformed refs are left out: no move of them can be under way.
    """
    store = repository.store
    refs = iter_refs(store)
    matched = [ref for ref in refs if any(each.matching(ref.name) for each in policies)]

    def stamp_valid(ref: ListedRef) -> None:
        with suppress(NotOurs):
            stamp(store, ref.kind, ref.name, number)

    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        list(pool.map(stamp_valid, matched))


def set_by_command(
    repository: Repository, document: str, *, who: str, expected: int | None = None
) -> PolicyRecord:
    """Set the rules as `set_policy` does, and log the operation, so that it can be undone."""
    record = set_policy(repository, document, who=who, expected=expected)
    with repository.lake.kv.write() as txn:
        metadata = {POLICY: str(record.number)}
        operation_log.append(txn, repository, kind=SET, metadata=metadata)
    return record


def take_policy_back(
    repository: Repository, taken: Sequence[Operation], *, who: str, remote: bool = True
) -> dict[str, str]:
    """Restore the rules that were in force before some operations; return metadata for the log.

    Args:
        taken: the operations that are undone; if none of them set rules, nothing is done.
        remote: whether the bucket may be changed.

    Raises:
        Refused: `remote` is not set; or others have set the rules since.
        Forbidden: somebody else owns the rules.
    """
    numbers = sorted(int(each.metadata[POLICY]) for each in taken if POLICY in each.metadata)
    if not numbers:
        return {}
    if not remote:
        hint = "undo it for everybody: `remote=True`"
        raise Refused(f"policy {numbers[-1]} holds for everybody", hint=hint)
    now = look_at_policy(repository.store, accepts_damage=True).record
    present, document = (0, "") if now is None else (now.number, now.document)

    def document_of(number: int) -> str | None:
        if number in (0, present):
            return document if number else ""
        former = find_policy(repository.store, number)
        return None if former is None else former.document

    wanted, left = document_of(numbers[0] - 1), document_of(numbers[-1])
    if wanted is not None and document == wanted:
        return {POLICY: str(present)}  # an interrupted command has restored the rules
    is_ours = numbers == list(range(numbers[0], numbers[-1] + 1))
    if wanted is None or document != left or not is_ours:
        hint = f"see the versions: `policy log {repository.uri}`"
        raise Refused("others have set the policy since", hint=hint)
    return {POLICY: str(set_policy(repository, wanted, who=who, expected=present).number)}


def iter_refused(repository: Repository, document: str) -> Iterator[RefusedMove]:
    """Fetch, and yield the moves among the last 100 that new rules would have refused.

    Only refs that the rules match are considered. Moves whose commits or trees are gone are left
    out.

    Raises:
        UsageError: the document is not valid.
    """
    rules = RulesInForce(0, "you", parse_policy(document))
    fetch(repository)
    wanted = [each for each in iter_refs(repository.store) if rules.policy.matching(each.name)]
    store = repository.store
    refs = [each for each in read_refs(store, wanted) if isinstance(each, RemoteRef)]
    found = [(ref, move) for ref in refs for move in islice(iter_moves(store, ref), MOST_MOVES)]
    for ref, move in nlargest(MOST_MOVES, found, key=lambda each: each[1].at):
        older = tuple(each for each in ref.moves if each.sequence < move.sequence)
        before = ref._replace(moves=older) if older else None
        _, write_id, start, end, who, at, why, *_ = move
        intent = Intent(ref.kind, ref.name, write_id, start, end, who, at, why)
        try:
            refusal = judge(repository, rules, intent, before)
        except LakeError:
            continue
        if refusal is not None:
            yield RefusedMove(ref.kind, ref.name, move, refusal.message.partition(": ")[2])

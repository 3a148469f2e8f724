"""Decide whether the rules allow a move of a ref in the bucket.

`check_move` reads the rules from the bucket and decides, right before each request that moves a
ref. The version of the ref was read before the rules. A command that sets new rules writes their
number into each ref that they match, which changes the ref's version (`lakecli.remote.refs.stamp`).
So if a move was checked against older rules, its request fails, and the move is checked again. A
new ref has no version; so `check_created` reads the rules again after the ref was created.

`refuse_early` checks a commit before it is built, against the rules that this clone saw last. This
takes no request. Before it refuses a commit, it reads the rules from the bucket again.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from shlex import quote
from typing import Final

from lakecli.base.model import EMPTY_TREE, ChangeType, Commit, CommitId, MetarangeId
from lakecli.committed.diff import diff
from lakecli.errors import Forbidden, IntegrityError, PermissionDenied, Unreachable
from lakecli.refs.graph import iter_unreached
from lakecli.remote.attestations import Attestation, iter_attestations
from lakecli.remote.ref_records import RemoteRef
from lakecli.remote.refs import Intent
from lakecli.repository.contract import Repository
from lakecli.repository.policy.document import Ban, RequiredApproval, RequiredCheck, Rule, email_of
from lakecli.repository.policy.rules import RulesInForce, read_rules, seen_rules

WITHDRAWN: Final = "withdrawn"
"""The recorded reason for deleting a ref that was created before its rules were known."""

Reason = tuple[str, str]
"""Why a rule forbids a move, and what to do instead."""


def check_move(repository: Repository, move: Intent, ref: RemoteRef | None) -> RulesInForce:
    """Return the rules in the bucket if they allow a move.

    This takes one GET, or more if the rules require checks or approvals, or limit data changes.

    Args:
        ref: the ref in the bucket, which was read before this call.

    Raises:
        Forbidden: a rule forbids the move; the message names the rule, and who set it.
        IntegrityError: the rules are damaged, or older than the rules that the ref records.
        Unreachable: the rules cannot be read.
    """
    rules = read_rules(repository)
    if ref is not None and rules.number < ref.policy:
        raise IntegrityError(
            f"{move.kind} {move.name} was written under policy {ref.policy}, and the bucket has "
            f"{f'policy {rules.number}' if rules.number else 'none'} now",
            hint="somebody deleted it, or restored an old one; set it again: "
            f"`policy set {repository.uri} FILE`",
        )
    if (refusal := judge(repository, rules, move, ref)) is not None:
        raise refusal
    return rules


def check_created(
    repository: Repository, move: Intent, ref: RemoteRef | None, judged: int
) -> Forbidden | None:
    """Return why a ref that was just created must be withdrawn, or ``None``. This takes one GET.

    Args:
        ref: the ref as it was created.
        judged: the version number of the rules that allowed the creation.
    """
    rules = read_rules(repository)
    if rules.number == judged or (ref is not None and ref.policy >= rules.number > judged):
        return None
    return judge(repository, rules, move, None)


def judge(
    repository: Repository, rules: RulesInForce, move: Intent, ref: RemoteRef | None
) -> Forbidden | None:
    """Return why rules forbid a move, or ``None`` if they allow the move.

    Args:
        ref: the ref before the move; for a deleted ref, its tombstone, which has the past moves.
    """
    matching = rules.policy.matching(move.name)
    if not matching or move.before == move.after:
        return None
    case = _Case(repository, rules, move, ref)
    for rule in matching:
        for reason, hint in case.reasons(rule):
            return _forbidden(rules, rule, f"this move of {move.kind} {move.name}", reason, hint)
    return None


def refuse_early(repository: Repository, name: str, who: str, *, merges: bool) -> None:
    """Refuse a commit on a branch; see `lakecli.repository.policy.early.check_early`."""
    with repository.lake.kv.read() as txn:
        rules = seen_rules(txn, repository)
    if _early(repository, rules, name, who, merges=merges) is None:
        return
    with suppress(Unreachable, PermissionDenied):
        rules = read_rules(repository)
    if (refusal := _early(repository, rules, name, who, merges=merges)) is not None:
        raise refusal


def _early(
    repository: Repository, rules: RulesInForce, name: str, who: str, *, merges: bool
) -> Forbidden | None:
    for rule in rules.policy.matching(name):
        if Ban.DIRECT in rule.forbid and not merges:
            reason = _only_merges(repository, name)
        elif who and not rules.policy.has(rule.who, who):
            reason = _only_these(rule, who)
        else:
            continue
        return _forbidden(rules, rule, f"changes of branch {name}", *reason)
    return None


def _forbidden(rules: RulesInForce, rule: Rule, what: str, reason: str, hint: str) -> Forbidden:
    policy = f"policy {rules.number}, which {rules.who} set"
    return Forbidden(f"{policy}, forbids {what}: {reason}; its rule is: {rule}", hint=hint)


def _only_merges(repository: Repository, name: str) -> Reason:
    start = quote(f"{repository.uri}/{name}")
    hint = f"make a branch, and merge that: `branch create {repository.uri}/NAME -s {start}`"
    return "it takes merges only", hint


def _only_these(rule: Rule, who: str) -> Reason:
    reason = f"only {', '.join(rule.who)} may move it, and {email_of(who) or 'an unknown person'} "
    return reason + "is not among them", "push a branch of your own, and let one of them merge it"


@dataclass
class _Case:
    """A move that is checked against several rules; data that several rules need is read once."""

    _repository: Repository
    _rules: RulesInForce
    _move: Intent
    _ref: RemoteRef | None

    def reasons(self, rule: Rule) -> Iterator[Reason]:
        """Yield the reasons for which a rule forbids the move."""
        move, uri = self._move, quote(f"{self._repository.uri}/{self._move.name}")
        if not self._rules.policy.has(rule.who, move.who):
            yield _only_these(rule, move.who)
        if move.after is None:
            if Ban.DELETE in rule.forbid:
                yield "it is never deleted", f"see the rules: `policy show {self._repository.uri}`"
            return
        if move.before is None and self._stood is not None and Ban.RECREATE in rule.forbid:
            yield "it was deleted, and does not come back", "choose another name"
        if Ban.REWIND in rule.forbid and not self._descends:
            reason = f"{move.after} does not build on {self._stood}"
            yield reason, f"undo commits by another one: `branch revert {uri} REF`"
        if Ban.DIRECT in rule.forbid and (direct := self._direct) is not None:
            reason, hint = _only_merges(self._repository, move.name)
            yield f"{reason}, and {direct.id} is none", hint
        if rule.has_data and self._stood is not None:
            yield from self._data_reasons(rule)
        for required in rule.require:
            yield from self._lacks(required, uri)

    @cached_property
    def _stood(self) -> CommitId | None:
        """The ref's commit before the move; for a deleted ref, its last commit, if known here."""
        if self._move.before is not None or self._ref is None:
            return self._move.before
        moves = self._ref.moves
        if moves and moves[0].why == WITHDRAWN:
            moves = moves[2:]
        stood = next((each.before for each in moves if each.before is not None), None)
        with self._repository.lake.kv.read() as txn:
            is_here = stood and self._repository.refs(txn).find_commit(stood)
        return stood if is_here else None

    @cached_property
    def _added(self) -> dict[CommitId, Commit]:
        """The commits that the move adds; for a new ref, commits that no ref in the bucket has."""
        assert self._move.after is not None
        with self._repository.lake.kv.read() as txn:
            refs, tracked = self._repository.refs(txn), self._repository.tracking(txn)
            known = {self._stood} if self._stood else tracked.positions()
            return {each.id: each for each in iter_unreached(refs, self._move.after, known)}

    @cached_property
    def _descends(self) -> bool:
        stood, after = self._stood, self._move.after
        if stood is None or stood == after:
            return True
        return any(stood in commit.parents for commit in self._added.values())

    @property
    def _direct(self) -> Commit | None:
        """The newest added commit, along first parents, that is neither a merge nor initial."""
        commit = self._added.get(self._move.after) if self._move.after else None
        while commit is not None and len(commit.parents) > 1:
            commit = self._added.get(commit.parents[0])
        return commit if commit is not None and commit.parents else None

    def _tree(self, commit_id: CommitId | None) -> MetarangeId:
        if commit_id is None:
            return EMPTY_TREE
        with self._repository.lake.kv.read() as txn:
            return self._repository.refs(txn).get_commit(commit_id).metarange_id

    def _data_reasons(self, rule: Rule) -> Iterator[Reason]:
        """Yield the reasons for which a rule's data limits forbid the move; compare trees once."""
        trees, uri = self._repository.trees, self._repository.uri
        old, new = self._tree(self._stood), self._tree(self._move.after)
        hint = f"see what changes: `diff {uri}/{self._stood} {uri}/{self._move.after}`"
        most = None
        if rule.max_delete:
            most = rule.most_deleted(sum(each.count for each in trees.metarange(old).records()))
        kept = tuple(each.encode("utf-8", "surrogateescape") for each in rule.append_only)
        open_to = tuple(each.encode("utf-8", "surrogateescape") for each in rule.only_below)
        gone = 0
        for each in diff(trees, old, new):
            path = each.path.decode("utf-8", "replace")
            if kept and each.type is not ChangeType.ADDED and each.path.startswith(kept):
                yield f"{path!r} would change, which is append-only", hint
            if open_to and not each.path.startswith(open_to):
                yield f"{path!r} would change, outside of what may", hint
            gone += each.type is ChangeType.REMOVED
            if most is not None and gone > most:
                yield f"more than {most:,} paths would go", hint

    @cached_property
    def _statements(self) -> list[Attestation]:
        return list(iter_attestations(self._repository.store, self._tree(self._move.after)))

    def _lacks(self, required: RequiredCheck | RequiredApproval, uri: str) -> Iterator[Reason]:
        """Yield the reason if the new tree lacks a check or approvals that a rule requires."""
        after, tree = f"{self._repository.uri}/{self._move.after}", self._tree(self._move.after)
        found = [each for each in self._statements if each.tree == tree and not each.prefix]
        if isinstance(required, RequiredCheck):
            if not any((each.kind, each.name) == ("check", required.name) for each in found):
                hint = f"run it, then repeat the command: `check run {required.name} {after}`"
                yield f"check {required.name} has not passed on its tree", hint
            return
        authors = {
            email_of(each.committer)
            for each in self._added.values()
            if len(each.parents) < 2  # noqa: PLR2004
        } or {email_of(self._move.who)}
        people, wanted = self._rules.policy.members(required.role), ("approve", self._move.name)
        approved = {email_of(each.who) for each in found if (each.kind, each.name) == wanted}
        approved &= people - authors
        if len(approved) < required.least:
            reason = f"{len(approved)} of {required.role} have approved its tree, other than its "
            reason += f"authors; {required.least} must"
            yield reason, f"let one of them approve it: `approve {after} --for {uri}`"

"""Protect branches as lakeFS does: with policy rules under which a branch accepts only merges."""

import re
from collections.abc import Sequence
from typing import Final

from lakecli.errors import AlreadyExists, NotFound, Refused, UsageError
from lakecli.remote.policy import PolicyRecord, read_policy
from lakecli.repository.contract import Repository
from lakecli.repository.policy.document import Ban, Rule, parse_policy
from lakecli.repository.policy.rules import rules_of
from lakecli.repository.sharing.set_policy import set_by_command

_BLOCK: Final = '[[rules]]\nrefs = ["{}"]\nforbid = ["direct"]\n'


def patterns(repository: Repository) -> list[str]:
    """Return the patterns of the branches that accept only merges, in ascending order.

    Raises:
        IntegrityError: the policy is damaged.
        Unreachable: the store does not answer.
    """
    return patterns_of(read_policy(repository.store))


def patterns_of(present: PolicyRecord | None) -> list[str]:
    """Return the result of `patterns` for a policy that was read before."""
    rules = rules_of(present).policy.rules
    return sorted({each for rule in rules if Ban.DIRECT in rule.forbid for each in rule.refs})


def set_patterns(
    repository: Repository, wanted: set[str], *, who: str, present: PolicyRecord | None
) -> None:
    """Add and remove rules in one change, so that the branches of certain patterns are protected.

    Args:
        wanted: the patterns of all branches that accept only merges.
        present: the policy in the bucket, as it was read before.

    Raises:
        PolicyMoved: the bucket has another policy by now.
        Refused, UsageError, …: as raised by `add` and `delete`; nothing was changed.
    """
    document = before = _document_of(present)
    protected = set(patterns_of(present))
    for pattern in sorted(protected - wanted):
        document = _without(repository, document, pattern)
    if added := sorted(wanted - protected):
        document = _with(repository, document, added)
    if document != before:
        _set(repository, present, document, who)


def add(repository: Repository, pattern: str, *, who: str) -> PolicyRecord:
    """Add a policy rule: the branches that match a pattern accept only merges.

    Raises:
        AlreadyExists: the policy has this rule already.
        UsageError: the pattern is not valid, or the rule cannot be appended to the policy document,
            so the user has to edit the document.
        Forbidden, PolicyMoved, …: as raised by `set_policy`.
    """
    present = read_policy(repository.store)
    return _set(repository, present, _with(repository, _document_of(present), [pattern]), who)


def _with(repository: Repository, text: str, wanted: Sequence[str]) -> str:
    """Return a policy document with a rule for each pattern; raise the errors of `add`."""
    rules = parse_policy(text).rules
    for pattern in wanted:
        if any(_is_of(each, pattern) for each in rules):
            hint = f"list them: `branch-protect list {repository.uri}`"
            raise AlreadyExists(f"a rule for {pattern!r} exists already", hint=hint)
    blocks = "\n".join(map(_block, wanted))
    if text:
        text = text.rstrip("\n") + "\n\n"
    try:
        document = text + blocks
        parse_policy(document)
    except UsageError as error:
        error.hint = f"edit the document by hand: `policy edit {repository.uri}`"
        parse_policy(blocks)
        raise
    return document


def delete(repository: Repository, pattern: str, *, who: str) -> PolicyRecord:
    """Remove the rule that `add` made for a pattern.

    Raises:
        NotFound: no rule has that pattern.
        Refused: the rule differs from the rule that `add` writes, in meaning or in form.
        Forbidden, PolicyMoved, …: as raised by `set_policy`.
    """
    present = read_policy(repository.store)
    return _set(repository, present, _without(repository, _document_of(present), pattern), who)


def _without(repository: Repository, text: str, pattern: str) -> str:
    """Return a policy document without the rule for a pattern; raise the errors of `delete`."""
    rules = parse_policy(text).rules
    if not any(pattern in each.refs for each in rules):
        hint = f"list them: `branch-protect list {repository.uri}`"
        raise NotFound(f"no rule for {pattern!r} in {repository.uri}", hint=hint)
    document = re.sub(rf"(?m)^{re.escape(_block(pattern))}\n?", "", text, count=1)
    left = [each for each in rules if not _is_of(each, pattern)]
    if document == text or list(parse_policy(document).rules) != left:
        what = f"the rule for {pattern!r} is not one that `branch-protect add` writes"
        raise Refused(what, hint=f"edit the document by hand: `policy edit {repository.uri}`")
    return document.rstrip("\n") + "\n" if document else ""


def _document_of(present: PolicyRecord | None) -> str:
    """Return the document of a policy; raise `IntegrityError` if it cannot be parsed."""
    rules_of(present)
    return "" if present is None else present.document


def _set(
    repository: Repository, present: PolicyRecord | None, document: str, who: str
) -> PolicyRecord:
    number = 0 if present is None else present.number
    return set_by_command(repository, document, who=who, expected=number)


def _block(pattern: str) -> str:
    return _BLOCK.format(pattern.replace("\\", "\\\\").replace('"', '\\"'))


def _is_of(rule: Rule, pattern: str) -> bool:
    return rule == Rule((pattern,), forbid=frozenset([Ban.DIRECT]))

"""Protect branches as lakeFS does: with policy rules under which a branch accepts only merges."""

import re
from typing import Final

from lakecli.errors import AlreadyExists, NotFound, Refused, UsageError
from lakecli.remote.policy import PolicyRecord, read_policy
from lakecli.repository.contract import Repository
from lakecli.repository.policy.document import Ban, Rule, parse_policy
from lakecli.repository.sharing.set_policy import policy_of, set_by_command

_BLOCK: Final = '[[rules]]\nrefs = ["{}"]\nforbid = ["direct"]\n'


def patterns(repository: Repository) -> list[str]:
    """Return the patterns of the branches that accept only merges, in ascending order.

    Raises:
        IntegrityError: the policy is damaged.
        Unreachable: the store does not answer.
    """
    rules = policy_of(read_policy(repository.store)).rules
    return sorted({each for rule in rules if Ban.DIRECT in rule.forbid for each in rule.refs})


def add(repository: Repository, pattern: str, *, who: str) -> PolicyRecord:
    """Add a policy rule: the branches that match a pattern accept only merges.

    Raises:
        AlreadyExists: the policy has this rule already.
        UsageError: the pattern is not valid, or the rule cannot be appended to the policy document,
            so the user has to edit the document.
        Forbidden, PolicyMoved, …: as raised by `set_policy`.
    """
    present = read_policy(repository.store)
    if any(_is_of(each, pattern) for each in policy_of(present).rules):
        hint = f"list them: `branch-protect list {repository.uri}`"
        raise AlreadyExists(f"a rule for {pattern!r} exists already", hint=hint)
    text = "" if present is None else present.document
    if text:
        text = text.rstrip("\n") + "\n\n"
    try:
        document = text + _block(pattern)
        parse_policy(document)
    except UsageError as error:
        error.hint = f"edit the document by hand: `policy edit {repository.uri}`"
        parse_policy(_block(pattern))
        raise
    return _set(repository, present, document, who)


def delete(repository: Repository, pattern: str, *, who: str) -> PolicyRecord:
    """Remove the rule that `add` made for a pattern.

    Raises:
        NotFound: no rule has that pattern.
        Refused: the rule differs from the rule that `add` writes, in meaning or in form.
        Forbidden, PolicyMoved, …: as raised by `set_policy`.
    """
    present = read_policy(repository.store)
    rules = policy_of(present).rules
    if present is None or not any(pattern in each.refs for each in rules):
        hint = f"list them: `branch-protect list {repository.uri}`"
        raise NotFound(f"no rule for {pattern!r} in {repository.uri}", hint=hint)
    document = re.sub(rf"(?m)^{re.escape(_block(pattern))}\n?", "", present.document, count=1)
    left = [each for each in rules if not _is_of(each, pattern)]
    if document == present.document or list(parse_policy(document).rules) != left:
        what = f"the rule for {pattern!r} is not one that `branch-protect add` writes"
        raise Refused(what, hint=f"edit the document by hand: `policy edit {repository.uri}`")
    return _set(repository, present, document.rstrip("\n") + "\n" if document else "", who)


def _set(
    repository: Repository, present: PolicyRecord | None, document: str, who: str
) -> PolicyRecord:
    number = 0 if present is None else present.number
    return set_by_command(repository, document, who=who, expected=number)


def _block(pattern: str) -> str:
    return _BLOCK.format(pattern.replace("\\", "\\\\").replace('"', '\\"'))


def _is_of(rule: Rule, pattern: str) -> bool:
    return rule == Rule((pattern,), forbid=frozenset([Ban.DIRECT]))

"""Retention rules: how long commits keep their objects, per branch, as in lakeFS.

Retention rules: how long commits keep their objects, per branch; in lakeFS's JSON.

::

    {"default_retention_days": 21, "branches": [{"branch_id": "main", "retention_days": 28}]}

Which commits keep their objects, by lakeFS's rule: heads, and commits that recently were heads.

From each start the walk follows first parents. The start is kept; as long as a commit is younger
than the retention of its branch, its parent is kept too. So the first commit beyond the limit is
kept: it was the head when the retention period began. Without rules all reachable commits are kept,
along all parents.

The tree of a merge commit refers to the objects of the merged branch; only the commits of that
branch may lose objects that no kept tree has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.base.layout import MAX_RULES_SIZE
from lakecli.base.model import CommitId, MetarangeId
from lakecli.base.parsing import parse_json
from lakecli.errors import IntegrityError, NotFound, UsageError
from lakecli.remote.collection import RULES_KEY
from lakecli.stores.contract import ANY, ObjectNotFound

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

MAX_DAYS: Final = 36_500
EXAMPLE: Final = (
    '{"default_retention_days": 21, "branches": [{"branch_id": "main", "retention_days": 28}]}'
)


class NoRules(NotFound):
    """There are no retention rules."""


class Rules(NamedTuple):
    """How many days a commit keeps its objects after another replaced it as a branch's head.

    Attributes:
        default_days: days for branches without a rule.
        branches: days by branch name.
    """

    default_days: int
    branches: Mapping[str, int]

    def days_of(self, branch: str) -> int:
        """Return the days of a branch."""
        return self.branches.get(branch, self.default_days)


def parse_rules(text: str) -> Rules:
    """Return the rules of a JSON document.

    Raises:
        UsageError: the document is not valid.
    """
    try:
        fields = parse_json(text, max_size=MAX_RULES_SIZE)
        default = _days(fields["default_retention_days"])
        branches: dict[str, int] = {}
        for each in fields.get("branches") or []:
            name = each["branch_id"]
            if not isinstance(name, str) or not name:
                raise ValueError(f"no name of a branch: {name!r}")  # noqa: TRY301
            if name in branches:
                raise ValueError(f"two rules for branch {name!r}")  # noqa: TRY301
            branches[name] = _days(each["retention_days"])
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"no retention rules: {what}", hint=f"such as {EXAMPLE}") from error
    return Rules(default, branches)


def rules_fields(rules: Rules) -> dict[str, Any]:
    """Return the JSON document of rules, with branches ordered by name."""
    return {
        "default_retention_days": rules.default_days,
        "branches": [
            {"branch_id": name, "retention_days": days}
            for name, days in sorted(rules.branches.items())
        ],
    }


def find_rules(store: ObjectStore) -> Rules | None:
    """Return the rules of a namespace; ``None`` without any: everything that refs reach is kept.

    Raises:
        UsageError: the rules are not valid.
    """
    try:
        data = store.get(RULES_KEY, start=0, length=MAX_RULES_SIZE + 1)
    except ObjectNotFound:
        return None
    return parse_rules(data.decode("utf-8", "surrogateescape"))


def get_rules(store: ObjectStore) -> Rules:
    """Return the rules of a namespace.

    Raises:
        NotFound: there are none.
    """
    rules = find_rules(store)
    if rules is None:
        raise NoRules(
            "there are no retention rules: everything that branches and tags reach is kept",
            hint="set some: lakecli gc set-config lakefs://REPOSITORY -f FILE",
        )
    return rules


def put_rules(store: ObjectStore, rules: Rules) -> None:
    """Write the rules of a namespace."""
    store.put(RULES_KEY, json.dumps(rules_fields(rules), indent=2).encode() + b"\n", ANY)


def delete_rules(store: ObjectStore) -> None:
    """Delete the rules of a namespace.

    Raises:
        NotFound: there are none.
    """
    get_rules(store)
    store.delete([RULES_KEY])


def _days(value: object) -> int:
    if type(value) is not int or not 1 <= value <= MAX_DAYS:
        raise ValueError(f"no number of days from 1 to {MAX_DAYS}: {value!r}")
    return value


class Known(NamedTuple):
    """The fields of a commit that the walk needs; `created_at` in unix seconds."""

    parents: tuple[CommitId, ...]
    tree: MetarangeId
    created_at: int


class Start(NamedTuple):
    """Where a walk begins, and the unix second at which it ends; ``None``: it has no end."""

    commit_id: CommitId
    since: int | None


class LostHistory(IntegrityError):
    """A commit that refs reach is missing, so its objects are unknown."""


def retained(commits: Mapping[CommitId, Known], starts: Iterable[Start]) -> set[CommitId]:
    """Return the commits that keep their objects.

    Raises:
        LostHistory: a commit on the way is missing.
    """
    found: set[CommitId] = set()
    limited = []
    waiting = []
    for start in starts:
        if start.since is None:
            waiting.append(start.commit_id)
        else:
            limited.append(start)
    while waiting:
        commit_id = waiting.pop()
        if commit_id not in found:
            found.add(commit_id)
            waiting += _get(commits, commit_id).parents
    # The walk that goes back furthest comes first: others may end where it has passed.
    for start in sorted(limited, key=attrgetter("since")):
        _walk(commits, start, found)
    return found


def _walk(commits: Mapping[CommitId, Known], start: Start, found: set[CommitId]) -> None:
    assert start.since is not None
    commit_id = start.commit_id
    while commit_id not in found:
        found.add(commit_id)
        commit = _get(commits, commit_id)
        if commit.created_at <= start.since or not commit.parents:
            return
        commit_id = commit.parents[0]


def _get(commits: Mapping[CommitId, Known], commit_id: CommitId) -> Known:
    commit = commits.get(commit_id)
    if commit is None:
        raise LostHistory(
            f"commit {commit_id} is in no commit pack, so the objects that it needs are unknown",
            hint="push from a clone that has it, or check: lakecli fsck lakefs://REPOSITORY",
        )
    return commit

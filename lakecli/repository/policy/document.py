"""Parse and validate a policy: a TOML document that the owners of the policy write.

::

    owners = ["alice@example.com"]           # who may set the policy; absent: everybody
    [roles]
    reviewers = ["bob@example.com", "leads"] # e-mail addresses, or other roles
    leads = ["carol@example.com"]
    [[rules]]
    refs = ["main", "release-*"]             # patterns of branches and tags
    who = ["leads"]                          # only these may move the refs; absent: everybody
    forbid = ["direct", "rewind", "delete", "recreate"]
    require = ["check:schema", "approve:1:reviewers"]
    data = { append-only = ["raw/**"], max-delete = "1%", only-below = ["ingest/**"] }

A move is allowed unless a rule forbids it. All rules that match the ref apply.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from fnmatch import translate
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from lakecli.base import validation
from lakecli.base.parsing import Unparsable, parse_toml
from lakecli.errors import UsageError

VERSION: Final = 1
_MOST_CHARACTERS: Final = 64 << 10

_MOST: Final = 1000
_MOST_PATTERNS: Final = 100
_PATTERN_SIZE: Final = 300
_PERCENT: Final = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
_RESTRICTIONS: Final = ("who", "forbid", "require", "append-only", "max-delete", "only-below")
_CLASS: Final = re.compile(r"\[!?[^][!]+\]")


class Ban(StrEnum):
    """A kind of move that a rule may forbid.

    Attributes:
        DIRECT: adding commits that are not merges.
        REWIND: moving the ref to a commit that does not descend from its present commit.
        DELETE: deleting the ref.
        RECREATE: creating the ref again after it was deleted.
    """

    DIRECT = "direct"
    REWIND = "rewind"
    DELETE = "delete"
    RECREATE = "recreate"


class RequiredCheck(NamedTuple):
    """A requirement that a check has passed, ``check:NAME``."""

    name: str

    def __str__(self) -> str:
        """Return the requirement as it is written in the document."""
        return f"check:{self.name}"


class RequiredApproval(NamedTuple):
    """A requirement that people of a role have approved, ``approve:COUNT:ROLE``."""

    least: int
    role: str

    def __str__(self) -> str:
        """Return the requirement as it is written in the document."""
        return f"approve:{self.least}:{self.role}"


class Rule(NamedTuple):
    """A rule of a policy: which refs it protects, and how they may move.

    Attributes:
        refs: patterns; the rule applies to branches and tags whose names match one of them.
        who: roles and e-mail addresses that may move these refs; empty: everybody.
        forbid: the kinds of moves that are refused.
        require: the checks and approvals that the new tree must have.
        append_only: prefixes below which paths may be added, but not changed or removed.
        max_delete: how many paths a move may remove: a number, or a share of the present paths such
            as ``1%``; ``""``: any number.
        only_below: prefixes outside of which no path may change; empty: all paths may change.
    """

    refs: tuple[str, ...]
    who: tuple[str, ...] = ()
    forbid: frozenset[Ban] = frozenset()
    require: tuple[RequiredCheck | RequiredApproval, ...] = ()
    append_only: tuple[str, ...] = ()
    max_delete: str = ""
    only_below: tuple[str, ...] = ()

    def matches(self, name: str) -> bool:
        """Return whether the rule applies to the branch or tag of this name."""
        return any(re.match(translate(each), name) for each in self.refs)

    @property
    def has_data(self) -> bool:
        """Whether the rule compares trees."""
        return bool(self.append_only or self.max_delete or self.only_below)

    def most_deleted(self, total: int) -> int:
        """Return how many paths, at most, a move may remove from a tree of `total` paths."""
        if self.max_delete.endswith("%"):
            return int(total * float(self.max_delete[:-1]) / 100)
        return int(self.max_delete)

    def __str__(self) -> str:
        """Return the patterns and restrictions of the rule on one line."""
        require, share = map(str, self.require), (self.max_delete,) if self.max_delete else ()
        lists = self.who, sorted(self.forbid), require, self.append_only, share, self.only_below
        named = zip(_RESTRICTIONS, map(", ".join, lists), strict=True)
        shown = "; ".join(f"{name} {text}" for name, text in named if text)
        return f"{', '.join(self.refs)}: {shown}"


class Policy(NamedTuple):
    """The contents of a policy document.

    Attributes:
        owners: roles and e-mail addresses that may set the policy; empty: everybody.
        roles: the members of each role: e-mail addresses and other roles.
        rules: the rules, in the order of the document.
    """

    owners: tuple[str, ...] = ()
    roles: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    rules: tuple[Rule, ...] = ()

    def members(self, role: str) -> frozenset[str]:
        """Return the e-mail addresses of a role, in lower case; for an address, only itself."""
        found: set[str] = set()
        seen, waiting = set[str](), [role]
        while waiting:
            each = waiting.pop()
            if each in self.roles and each not in seen:
                seen.add(each)
                waiting += self.roles[each]
            elif each not in self.roles:
                found.add(each.lower())
        return frozenset(found)

    def has(self, wanted: Sequence[str], who: str) -> bool:
        """Return whether `wanted` is empty or includes a person.

        Args:
            wanted: roles and e-mail addresses.
            who: ``Name <email>``, or an e-mail address.
        """
        return not wanted or any(email_of(who) in self.members(each) for each in wanted)

    def matching(self, name: str) -> list[Rule]:
        """Return the rules that apply to the branch or tag of this name."""
        return [each for each in self.rules if each.matches(name)]


def email_of(who: str) -> str:
    """Return the e-mail address of ``Name <email>`` in lower case."""
    return who.rpartition("<")[2].removesuffix(">").strip().lower()


def parse_policy(document: str) -> Policy:
    """Return the policy that a TOML document describes.

    Raises:
        UsageError: the document is not TOML, or has an unknown key or value, a malformed pattern,
            an undefined role, a role that contains itself, or a version that only a newer lakecli
            supports. The message says which.
    """
    try:
        found = parse_toml(document, max_size=_MOST_CHARACTERS)
        policy = Policy(**_read(_POLICY, found))
        _check_people(policy)
    except (Unparsable, validation.Invalid) as error:
        hint = "read about its form: `help policy`"
        raise UsageError(f"the policy cannot be used: {error}", hint=hint) from error
    return policy


def _read(record: validation.Record, found: object) -> dict[str, Any]:
    """Return the values of a TOML table by attribute name; refuse unknown keys."""
    values = record.read(found)
    assert isinstance(found, dict)
    if unknown := record.unknown(found):
        known = ", ".join(record.names)
        raise validation.Invalid(f"unknown key {min(unknown)!r}; known are {known}")
    values.pop("version", None)
    return {name.replace("-", "_"): value for name, value in values.items()}


def _many(check: Callable[[object], Any]) -> validation.Field:
    as_list = validation.list_of(check, _MOST_PATTERNS)

    def some(value: object) -> tuple[Any, ...]:
        if not (found := as_list(value)):
            raise validation.Invalid("an empty list; leave the key out, which restricts nothing")
        return tuple(found)

    return validation.optional(some, ())


def _pattern(value: object) -> str:
    """Check a pattern of names: lakeFS's `*`, `?` and `[…]`; braces and backslashes are refused."""
    found: str = validation.text(_PATTERN_SIZE, min_size=1)(value)
    if set(_CLASS.sub("", found)) & set("[]{}\\/"):
        raise validation.Invalid(f"not a pattern of names, which has *, ? and [a-z]: {found!r}")
    return found


def _prefix(value: object) -> str:
    """Check a prefix of paths, ``raw/**`` or ``raw/``, and return it without the wildcard."""
    found: str = validation.text(1024, min_size=1)(value)
    prefix = found.removesuffix("**")
    if set(prefix) & set("*?[]{}\\") or prefix.startswith("/") or (prefix and prefix[-1] != "/"):
        raise validation.Invalid(f"not a prefix such as 'raw/**': {found!r}")
    return prefix


def _share(value: object) -> str:
    if type(value) is int and value >= 0:
        return str(value)
    found = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if found is None or float(found[1]) > 100:  # noqa: PLR2004 - a percentage
        raise validation.Invalid("neither a number of paths nor a share such as '1%'")
    return found[0]


def _requirement(value: object) -> RequiredCheck | RequiredApproval:
    found: str = validation.text(_PATTERN_SIZE)(value)
    match found.split(":"):
        case ["check", name] if re.fullmatch(validation.CHECK_NAME, name):
            return RequiredCheck(name)
        case ["approve", count, role] if re.fullmatch("[1-9][0-9]{0,2}", count):
            return RequiredApproval(int(count), role)
    raise validation.Invalid(f"neither check:NAME nor approve:COUNT:ROLE: {found!r}")


def _forbidden(value: object) -> frozenset[Ban]:
    return frozenset(validation.list_of(validation.choice(*Ban), len(Ban))(value))


_DATA: Final = validation.Record(
    {
        "append-only": _many(_prefix),
        "max-delete": validation.optional(_share, ""),
        "only-below": _many(_prefix),
    }
)

_PERSON: Final = validation.text_that(
    lambda value: "@" in value or bool(_NAME.fullmatch(value)), "an e-mail address or a role"
)

_RULE: Final = validation.Record(
    {
        "refs": validation.Field(_many(_pattern).check),
        "who": _many(_PERSON),
        "forbid": validation.optional(_forbidden, frozenset()),
        "require": _many(_requirement),
        "data": validation.optional(lambda value: _read(_DATA, value), {}),
    }
)


def _rules(value: object) -> tuple[Rule, ...]:
    def rule(found: object) -> Rule:
        values = _read(_RULE, found)
        return Rule(**values.pop("data"), **values)

    return tuple(validation.list_of(rule, _MOST)(value))


def _roles(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict) or len(value) > _MOST:
        raise validation.Invalid("not a table of roles")
    for name in value:
        if not _NAME.fullmatch(name):
            raise validation.Invalid(f"not a name of letters, digits, '_', '.' and '-': {name!r}")
    return {
        name: tuple(validation.list_of(_PERSON, _MOST)(people)) for name, people in value.items()
    }


def _version(value: object) -> int:
    if (version := validation.whole(1, 1 << 31)(value)) > VERSION:
        raise validation.Invalid(f"{version} is of a newer lakecli; this one knows {VERSION}")
    return version


_POLICY: Final = validation.Record(
    {
        "version": validation.optional(_version, VERSION),
        "owners": _many(_PERSON),
        "roles": validation.optional(_roles, {}),
        "rules": validation.optional(_rules, ()),
    }
)


def _check_people(policy: Policy) -> None:
    """Refuse undefined roles, owners without a single member, and roles that contain themselves."""
    named = [*policy.owners, *(each for people in policy.roles.values() for each in people)]
    for rule in policy.rules:
        named += rule.who
        named += (each.role for each in rule.require if isinstance(each, RequiredApproval))
    for name in named:
        if "@" not in name and name not in policy.roles:
            raise validation.Invalid(f"no role {name!r}, and it is not an e-mail address")
    if policy.owners and not any(map(policy.members, policy.owners)):
        what = "owners: nobody is one of them, so nobody could set another policy"
        raise validation.Invalid(what)
    done: set[str] = set()
    while len(done) < len(policy.roles):  # each pass adds the roles whose members are all known
        ready = {
            role
            for role, people in policy.roles.items()
            if role not in done and all("@" in each or each in done for each in people)
        }
        if not ready:
            cycle = ", ".join(sorted(set(policy.roles) - done))
            raise validation.Invalid(f"roles contain each other in a cycle: {cycle}")
        done |= ready

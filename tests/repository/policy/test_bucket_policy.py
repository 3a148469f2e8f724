"""Documents for buckets: they forbid at least what the rules forbid, and are well-formed.

Google's conditions are read as the part of CEL's grammar that they use, Azure's as the grammar of
role assignment conditions, version 2.0. Neither was tried on its cloud.
"""

from __future__ import annotations

import fnmatch
import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.layout import ref_key
from lakecli.base.model import RefKind
from lakecli.errors import UsageError
from lakecli.repository.policy.bucket_policy import Cloud, bucket_policy, limits_of
from lakecli.repository.policy.document import Policy, Rule, parse_policy
from lakecli.stores.uri import NamespaceUri, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

POLICY = parse_policy(
    """
owners = ["ada@x"]
[roles]
leads = ["lea@x", "ada@x"]
reviewers = ["rea@x"]
ci = ["bot@x"]
collectors = ["gc@x"]
[[rules]]
refs = ["main", "release-*"]
who = ["leads", "ci"]
require = ["check:schema", "approve:1:reviewers"]
[[rules]]
refs = ["Ünï-[ab]?x"]
forbid = ["delete"]
"""
)
PLACES: Final = {
    Cloud.AWS: parse("s3://bkt/team/demo"),
    Cloud.GCS: parse("gs://bkt/team/demo"),
    Cloud.AZURE: parse("az://acc/cont/team/demo"),
}
BLOBS: Final = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
EACH_CLOUD = pytest.mark.parametrize("cloud", Cloud)


def like(pattern: str, text: str) -> bool:
    """Match as IAM and StringLike do, without a class of characters."""
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), text, re.DOTALL) is not None


# CEL: what `!`, `&&` and `||` join are tests of the name.
_CEL: Final = re.compile(
    r"\s*(?:(&&)|(\|\|)|(!)|([()])|resource\.name(?:\.startsWith\('([^'\\]*)'\)| == '([^'\\]*)'))"
)


class Grammar:
    """Evaluates an expression of tokens by recursive descent; what does not parse is an error."""

    def __init__(self, tokens: list[Any]) -> None:
        self.tokens = tokens

    def whole(self) -> bool:
        value = self.either()
        assert not self.tokens, self.tokens
        return value

    def take(self, *wanted: str) -> bool:
        if self.tokens and self.tokens[0] in wanted:
            del self.tokens[0]
            return True
        return False

    def either(self) -> bool:
        value = self.both()
        while self.take("||", "OR"):
            value = self.both() or value
        return value

    def both(self) -> bool:
        value = self.unary()
        while self.take("&&", "AND"):
            value = self.unary() and value
        return value

    def unary(self) -> bool:
        if self.take("!"):
            return not self.unary()
        if self.take("("):
            value = self.either()
            assert self.take(")")
            return value
        value = self.tokens.pop(0)
        assert isinstance(value, bool)
        return value


def cel(expression: str, name: str) -> bool:
    """Return what an expression of CEL says of the name of an object."""
    tokens: list[Any] = []
    at = 0
    while at < len(expression):
        found = _CEL.match(expression, at)
        assert found is not None, expression[at:]
        at = found.end()
        if found[5] is not None:
            tokens.append(name.startswith(found[5]))
        elif found[6] is not None:
            tokens.append(name == found[6])
        else:
            tokens.append(found[0].strip())
    operators = sum(each in ("!", "&&", "||") for each in tokens)
    assert operators <= 12  # as Google's documents say
    return Grammar(tokens).whole()


_ABAC: Final = re.compile(
    r"\s*(?:(AND|OR|!|[()])|ActionMatches\{'([^']+)'\}"
    rf"|@Resource\[{BLOBS}:path\] "
    r"(StringLike '[^']*'|ForAllOfAllValues:StringNotLike \{[^}]+\}))"
)


def abac(condition: str, action: str, path: str) -> bool:
    """Return what a condition of Azure says of an action on a path."""
    tokens: list[Any] = []
    at = 0
    while at < len(condition):
        found = _ABAC.match(condition, at)
        assert found is not None, condition[at:]
        at = found.end()
        if found[2] is not None:
            tokens.append(found[2] == f"{BLOBS}/{action}")
        elif found[3] is not None:
            patterns = re.findall("'([^']*)'", found[3])
            matched = any(like(each, path) for each in patterns)
            tokens.append(matched if found[3].startswith("StringLike") else not matched)
        else:
            tokens.append(found[0].strip())
    return Grammar(tokens).whole()


def allows(policy: Policy, cloud: Cloud, who: str, action: str, key: str) -> bool:
    """Return whether a document lets somebody ``write``, ``replace`` or ``delete`` a key."""
    document = json.loads(json.dumps(bucket_policy(policy, PLACES[cloud], cloud, who)))
    path = f"team/demo/{key}"
    if cloud is Cloud.AWS:
        wanted = "s3:DeleteObject" if action == "delete" else "s3:PutObject"
        return not any(
            like(resource, f"arn:aws:s3:::bkt/{path}")
            for each in document["Statement"]
            if wanted in each["Action"] and "Condition" not in each
            for resource in each["Resource"]
        )
    if cloud is Cloud.AZURE:
        return abac(document["condition"], "delete" if action == "delete" else "write", path)
    roles = ["objectUser"] if action != "write" else ["objectUser", "objectCreator"]
    return any(
        cel(each["condition"]["expression"], f"projects/_/buckets/bkt/objects/{path}")
        for each in document["bindings"]
        if each["role"].removeprefix("roles/storage.") in roles
    )


def keys_of(name: str) -> Iterable[str]:
    return [ref_key(kind, name) for kind in (RefKind.BRANCH, RefKind.TAG)]


@EACH_CLOUD
@pytest.mark.parametrize(
    ("who", "moves", "states", "sets", "collects"),
    [
        ("", False, False, False, False),
        ("bob@x", False, False, False, False),
        ("LEA@x", True, True, False, False),
        ("leads", True, True, False, False),
        ("ada@x", True, True, True, False),
        ("rea@x", False, True, False, False),
        ("ci", True, True, False, False),
        ("collectors", False, False, False, True),
    ],
)
def test_a_document_allows_what_the_rules_say(
    cloud: Cloud, who: str, *, moves: bool, states: bool, sets: bool, collects: bool
) -> None:
    def may(action: str, key: str) -> bool:
        return allows(POLICY, cloud, who, action, key)

    for name in ("main", "release-1"):
        assert [may("write", key) for key in keys_of(name)] == [moves, moves]
        assert [may("replace", key) for key in keys_of(name)] == [moves, moves]
        assert may("write", f"_lakecli/reflog/branches/{name}/{1:016d}") == moves
    for key in keys_of("feature"):
        assert may("write", key)
        assert may("replace", key)
    assert may("write", "_lakecli/attest/empty/" + "0" * 32) == states
    assert may("replace", "_lakecli/policy") == sets
    assert may("write", "_lakecli/policies/" + "0" * 16) == sets
    assert may("replace", "_lakecli/repository.json") == sets
    assert may("replace", "_lakecli/gc/state") == collects
    for key in ("data/aa/bb", "_lakefs/aa", "_lakecli/commits/aa"):
        assert may("write", key)
        assert may("delete", key) == collects
    for key in ("_lakecli/incoming/aa", "_lakecli/gc/refresh/aa", "_lakecli/sharing.json"):
        assert may("write", key)
        assert may("replace", key)
        assert may("delete", key)


def test_without_owners_everybody_sets_the_rules_and_nobody_deletes() -> None:
    limits = limits_of(parse_policy(""), "bob@x")

    assert limits.write == ("_lakecli/gc/state", "_lakecli/gc/marks/*")
    assert "data/*" in limits.delete


@EACH_CLOUD
@given(
    pattern=st.text(st.sampled_from("aZé-.%_*?"), min_size=1, max_size=8)
    | st.sampled_from(("[ab]-*", "[!x]y", "*-[0-9]", "**")),
    name=st.text(st.sampled_from("aZé-.%_xyb0"), min_size=1, max_size=8),
)
def test_a_document_is_never_narrower_than_a_rule(cloud: Cloud, pattern: str, name: str) -> None:
    if name in (".", ".."):
        return  # no name of a ref
    policy = Policy(rules=(Rule((pattern,), who=("lea@x",)),))

    if fnmatch.fnmatchcase(name, pattern):
        assert not any(allows(policy, cloud, "bob@x", "write", key) for key in keys_of(name))
        assert not any(allows(policy, cloud, "bob@x", "replace", key) for key in keys_of(name))
    if not set(pattern) & set("*?["):
        assert all(allows(policy, cloud, "bob@x", "write", key) for key in keys_of(name + "2"))


def test_conditions_demand_that_nothing_is_replaced_and_spare_parts_of_uploads() -> None:
    def conditions(who: str) -> dict[str, Any]:
        document = bucket_policy(POLICY, PLACES[Cloud.AWS], Cloud.AWS, who)
        return {
            each["Sid"]: (each["Resource"], each["Condition"])
            for each in document["Statement"]
            if "Condition" in each
        }

    creates = {"Bool": {"s3:ObjectCreationOperation": "true"}}
    over, new = conditions("bob@x")["OnlyOver"], conditions("bob@x")["OnlyNew"]
    assert over[1] == {"Null": {"s3:if-match": "true", "s3:if-none-match": "true"}, **creates}
    assert "arn:aws:s3:::bkt/team/demo/_lakecli/refs/*" in over[0]
    assert new[1] == {"Null": {"s3:if-none-match": "true"}, **creates}
    assert "arn:aws:s3:::bkt/team/demo/data/*" in new[0]
    assert conditions("gc@x").keys() == {"OnlyOver"}  # fsck --repair replaces what is damaged


def test_a_document_fits_into_a_managed_policy() -> None:
    document = bucket_policy(POLICY, PLACES[Cloud.AWS], Cloud.AWS)

    assert len(json.dumps(document, separators=(",", ":"))) < 6144 / 2


@pytest.mark.parametrize(
    ("cloud", "place", "who", "said"),
    [
        (Cloud.AWS, PLACES[Cloud.GCS], "", "not a namespace of aws"),
        (Cloud.AWS, NamespaceUri("local", "", "/x"), "", "not a namespace of aws"),
        (Cloud.GCS, parse("gs://bkt/it's"), "", "cannot name this prefix"),
        (Cloud.AZURE, parse("az://acc/cont/a*"), "", "cannot name this prefix"),
        (Cloud.AWS, PLACES[Cloud.AWS], "leds", "no role 'leds'"),
    ],
)
def test_what_cannot_be_expressed_is_refused(
    cloud: Cloud, place: NamespaceUri, who: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        bucket_policy(POLICY, place, cloud, who)


def test_a_prefix_with_wildcards_stands_for_itself() -> None:
    document = bucket_policy(POLICY, parse("s3://bkt/a*b$c?"), Cloud.AWS)

    assert document["Statement"][0]["Resource"][0].startswith("arn:aws:s3:::bkt/a${*}b${$}c${?}/")


def test_google_takes_few_patterns_of_refs_only() -> None:
    many = Policy(rules=(Rule(tuple(f"r{n}" for n in range(12)), who=("lea@x",)),))

    with pytest.raises(UsageError, match="12 operators at most"):
        bucket_policy(many, PLACES[Cloud.GCS], Cloud.GCS)

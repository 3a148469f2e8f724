"""The policy document: what it says, and that anything else is refused by name."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.errors import UsageError
from lakecli.repository.policy.document import (
    Ban,
    Policy,
    RequiredApproval,
    RequiredCheck,
    Rule,
    parse_policy,
)

WHOLE = """
version = 1
owners = ["alice@example.com"]
[roles]
reviewers = ["Bob@example.com", "leads"]
leads = ["carol@example.com"]
[[rules]]
refs = ["main", "release-*"]
who = ["leads"]
forbid = ["direct", "rewind", "delete", "recreate"]
require = ["check:schema", "approve:1:reviewers"]
data = { append-only = ["raw/**"], max-delete = "1%", only-below = ["ingest/", "raw/**"] }
"""


def test_a_whole_document_is_read() -> None:
    policy = parse_policy(WHOLE)
    assert policy.rules == (
        Rule(
            refs=("main", "release-*"),
            who=("leads",),
            forbid=frozenset(Ban),
            require=(RequiredCheck("schema"), RequiredApproval(1, "reviewers")),
            append_only=("raw/",),
            max_delete="1%",
            only_below=("ingest/", "raw/"),
        ),
    )
    assert policy.members("reviewers") == {"bob@example.com", "carol@example.com"}
    assert policy.has(policy.owners, "Alice <Alice@example.com>")
    assert not policy.has(["leads"], "Carol <carol@example.com.evil>")
    assert policy.has([], "anybody")
    assert str(policy.rules[0]) == (
        "main, release-*: who leads; forbid delete, direct, recreate, rewind; require "
        "check:schema, approve:1:reviewers; append-only raw/; max-delete 1%; "
        "only-below ingest/, raw/"
    )


def test_nothing_is_a_policy_that_allows_everything() -> None:
    assert parse_policy("") == Policy()


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("main", "main", True),
        ("main", "main2", False),
        ("release-*", "release-1.2", True),
        ("v?", "v1", True),
        ("v[0-9]", "vx", False),
        ("v[!0-9]", "vx", True),
        ("*", "anything", True),
        ("main", "main\n", False),
    ],
)
def test_patterns(pattern: str, name: str, *, matches: bool) -> None:
    assert Rule((pattern,)).matches(name) == matches


def test_a_pattern_with_many_wildcards_is_matched_at_once() -> None:
    begun = time.monotonic()
    Rule(("*a" * 150,)).matches("a" * 200 + "b")
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize(
    ("limit", "total", "most"), [("1%", 1000, 10), ("0.5%", 199, 0), ("7", 3, 7), ("0", 9, 0)]
)
def test_how_many_paths_may_go(limit: str, total: int, most: int) -> None:
    assert Rule(("main",), max_delete=limit).most_deleted(total) == most


RULE = '[[rules]]\nrefs = ["main"]\n'


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("owners = [", "Invalid"),
        ("version = 2", "version: 2 is of a newer lakecli"),
        ("version = 0", "not a whole number"),
        ("owner = []", "unknown key 'owner'"),
        (RULE + 'froid = ["direct"]', "rules: unknown key 'froid'"),
        (RULE + 'forbid = ["push"]', "none of direct, rewind, delete, recreate: 'push'"),
        (RULE + "data = {max-deletes = 1}", "data: unknown key 'max-deletes'"),
        (RULE + "data = {max-delete = -1}", "neither a number of paths nor a share"),
        (RULE + "data = {max-delete = '101%'}", "neither a number of paths nor a share"),
        (RULE + "data = {max-delete = true}", "neither a number of paths nor a share"),
        (RULE + "data = {append-only = ['raw/*.csv']}", "not a prefix"),
        (RULE + "data = {append-only = ['raw']}", "not a prefix"),
        (RULE + "data = {only-below = ['/raw/']}", "not a prefix"),
        (RULE + "require = ['check:']", "neither check:NAME nor approve:COUNT:ROLE"),
        (RULE + "require = ['approve:0:a@b']", "neither check:NAME nor approve:COUNT:ROLE"),
        (RULE + "require = ['approve:1:nobody']", "no role 'nobody'"),
        (RULE + "who = ['nobody']", "no role 'nobody'"),
        (RULE + "who = ['']", "not an e-mail address or a role"),
        (RULE + "who = 'a@b'", "not a list"),
        ("[[rules]]\nforbid = ['direct']", "no field 'refs'"),
        ("[[rules]]\nrefs = ['']", "a text of 0 bytes"),
        ("[[rules]]\nrefs = ['[a']", "not a pattern of names"),
        ("[[rules]]\nrefs = ['{a,b}']", "not a pattern of names"),
        ("[[rules]]\nrefs = ['a/b']", "not a pattern of names"),
        (RULE + "who = []", "an empty list"),
        ("rules = 1", "not a list"),
        ("roles = 1", "not a table of roles"),
        ("[roles]\n'a b' = []", "not a name of letters"),
        ("[roles]\na = ['a']", "cycle: a"),
        ("[roles]\na = ['b']\nb = ['c']\nc = ['a']\nd = ['a']", "cycle: a, b, c, d"),
        ("owners = ['leads']", "no role 'leads'"),
        ("owners = ['leads']\n[roles]\nleads = []", "owners: nobody is one of them"),
        ("#" * 300_000, "at most"),
    ],
)
def test_what_is_wrong_is_named(document: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_policy(document)
    assert reason in caught.value.message


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_policy(text)
    except UsageError:
        found = Policy()
    assert isinstance(found, Policy)

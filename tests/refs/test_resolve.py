from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import CommitId, RefKind
from lakecli.errors import NotFound, UsageError
from lakecli.refs.expression import parse_expression
from lakecli.refs.ref_store import DamagedHistory
from lakecli.refs.resolve import (
    MAX_CANDIDATES,
    AmbiguousRef,
    Resolved,
    ResolvedModifier,
    commit_of,
    resolve,
)
from tests.refs.git import GitHistory
from tests.support.graphs import FakeRefs, build, graph, id_of, name_of

if TYPE_CHECKING:
    from pathlib import Path

# The example of gitrevisions(7), "specifying revisions": B has three parents.
#
#     G   H   I   J
#      \ /     \ /
#       D   E   F
#        \  |  / \
#         \ | /   |
#          \|/    |
#           B     C
#            \   /
#             \ /
#              A
MANUAL = "G+H-D, I+J-F, D+E+F-B, F-C, B+C-A"
MANUAL_ANSWERS = {
    "A": ["A^0", "A~0", "A"],
    "B": ["A^", "A^1", "A~1", "A~"],
    "C": ["A^2"],
    "D": ["A^^", "A^1^1", "A~2", "B^1"],
    "E": ["B^2", "A^^2"],
    "F": ["B^3", "A^^3", "C^", "A^2~"],
    "G": ["A^^^", "A^1^1^1", "A~3"],
    "H": ["D^2", "B^^2", "A^^^2", "A~2^2"],
    "I": ["F^", "B^3^", "A^^3^"],
    "J": ["F^2", "B^3^2", "A^^3^2"],
    "": ["A^3", "B^4", "A~4", "G^", "E~", "A^2^2"],
}
MANUAL_CASES = [(text, name) for name, texts in MANUAL_ANSWERS.items() for text in texts]


def _resolve(text: str, refs: FakeRefs) -> Resolved:
    return resolve(parse_expression(text), refs)


def _with_branches(refs: FakeRefs) -> FakeRefs:
    for commit_id in refs.commits:
        refs.add_branch(name_of(commit_id), commit_id)
    return refs


@pytest.mark.parametrize(("text", "name"), MANUAL_CASES)
def test_the_examples_of_gitrevisions(text: str, name: str) -> None:
    refs = _with_branches(graph(MANUAL))
    if name:
        assert name_of(_resolve(text, refs).commit.id) == name
    else:
        with pytest.raises(NotFound):
            _resolve(text, refs)


def test_the_examples_of_gitrevisions_by_git(tmp_path: Path) -> None:
    names = "GHIJEDFBCA"
    numbers = {name: number for number, name in enumerate(names)}
    shape = {"D": "GH", "F": "IJ", "B": "DEF", "C": "F", "A": "BC"}
    parents = [[numbers[parent] for parent in shape.get(name, "")] for name in names]
    history = GitHistory(tmp_path / "manual", parents, range(len(names)))
    for number, commit_id in enumerate(history.ids):
        history.refs.add_branch(f"c{number}", commit_id)  # Git has them already
    texts = [f"c{numbers[text[0]]}{text[1:]}" for text, _ in MANUAL_CASES]
    answers = history.rev_parse(texts)
    assert answers == [history.ids[numbers[name]] if name else None for _, name in MANUAL_CASES]
    for text, answer in zip(texts, answers, strict=True):
        if answer is not None:
            assert _resolve(text, history.refs).commit.id == answer


@pytest.fixture
def refs() -> FakeRefs:
    """A branch, a tag and a merge: main is at f, v1.0 at b."""
    refs = graph("a-b-c, b-d-e, c+e-f")
    refs.add_branch("main", id_of("f"))
    refs.add_tag("v1.0", id_of("b"))
    return refs


def test_a_plain_branch_reads_with_staging(refs: FakeRefs) -> None:
    assert _resolve("main", refs) == Resolved(
        commit=refs.commits[id_of("f")],
        kind=RefKind.BRANCH,
        name="main",
        base_id=id_of("f"),
        branch=refs.branches["main"],
        staging=True,
        steps=(),
    )


@pytest.mark.parametrize(
    ("text", "kind", "name", "staging"),
    [
        ("main", "branch", "main", True),
        ("main$", "branch", "main", True),
        ("main@", "branch", "main", False),
        ("main~", "branch", "main", False),
        ("main~0", "branch", "main", False),
        ("main^0", "branch", "main", False),
        ("v1.0", "tag", "v1.0", False),
        ("v1.0^", "tag", "v1.0", False),
        (id_of("c"), "commit", id_of("c"), False),
        ("63", "commit", id_of("c"), False),
        ("63^", "commit", id_of("c"), False),
    ],
)
def test_kind_and_staging(
    refs: FakeRefs, text: str, kind: str, name: str, *, staging: bool
) -> None:
    found = _resolve(text, refs)
    assert (found.kind.value, found.name, found.staging) == (kind, name, staging)
    assert found.branch == (refs.branches["main"] if kind == "branch" else None)


def test_each_modifier_is_a_step(refs: FakeRefs) -> None:
    found = _resolve("main^2~^0", refs)
    assert found.steps == (
        ResolvedModifier("^2", id_of("e")),
        ResolvedModifier("~", id_of("d")),
        ResolvedModifier("^0", id_of("d")),
    )
    assert found.commit.id == id_of("d")
    assert found.base_id == id_of("f")
    assert _resolve("main@", refs).steps == (ResolvedModifier("@", id_of("f")),)


@pytest.mark.parametrize("text", ["main~4", "main~2147483647", "v1.0~2", "main~3^", "61^^"])
def test_past_the_first_commit(refs: FakeRefs, text: str) -> None:
    with pytest.raises(NotFound) as caught:
        _resolve(text, refs)
    assert f"{text!r}" in caught.value.message


def test_how_far_one_could_go_is_said(refs: FakeRefs) -> None:
    with pytest.raises(NotFound, match="'~9' is applied to a commit with 3 ancestors"):
        _resolve("main~9", refs)
    with pytest.raises(NotFound, match=r"'\^3' is applied to a commit with 2 parents$"):
        _resolve("main^3", refs)
    with pytest.raises(NotFound, match=r"'\^2' is applied to a commit with 1 parent$"):
        _resolve("v1.0^2", refs)


@pytest.mark.parametrize("mark", ["@", "$"])
@pytest.mark.parametrize(
    ("base", "kind"), [("v1.0", "tag"), (id_of("c"), "commit"), ("63", "commit")]
)
def test_marks_of_branches_on_something_else(
    refs: FakeRefs, mark: str, base: str, kind: str
) -> None:
    with pytest.raises(UsageError, match=f"is for branches, and '{base}' is a {kind}") as caught:
        _resolve(base + mark, refs)
    assert caught.value.hint == f"leave it out: {base}"
    with pytest.raises(NotFound):
        _resolve("nothing" + mark, refs)


@pytest.mark.parametrize(
    "text", ["nothing", "mai", "Main", "v1", "7777", "f" * 64, "f" * 65, "no/name", "a*", "\udcff"]
)
def test_unknown(refs: FakeRefs, text: str) -> None:
    with pytest.raises(NotFound) as caught:
        _resolve(text, refs)
    assert type(caught.value) is NotFound
    assert repr(text)[1:-1] in caught.value.message
    assert caught.value.hint is None  # left to who knows which repository to list


def test_where_a_commit_is_needed(refs: FakeRefs) -> None:
    assert commit_of(resolve(parse_expression("main"), refs), "main").id == id_of("f")
    assert commit_of(resolve(parse_expression("main@"), refs), "main@").id == id_of("f")
    assert commit_of(resolve(parse_expression("v1.0~"), refs), "v1.0~").id == id_of("a")
    with pytest.raises(UsageError, match=r"'main\$' is a branch with its staging") as caught:
        commit_of(resolve(parse_expression("main$"), refs), "main$")
    assert caught.value.hint is not None
    assert caught.value.hint.endswith(" main")


def test_a_missing_commit_is_damage_not_a_wrong_name(refs: FakeRefs) -> None:
    del refs.commits[id_of("c")]
    assert _resolve("main", refs).commit.id == id_of("f")
    with pytest.raises(DamagedHistory, match=f"missing commit {id_of('c')}, a parent of"):
        _resolve("main~", refs)
    del refs.commits[id_of("f")]
    with pytest.raises(DamagedHistory, match=f"missing commit {id_of('f')}$"):
        _resolve("main", refs)


def _hex(*beginnings: str) -> FakeRefs:
    """Return unrelated commits whose IDs begin as given, with messages in that order."""
    ids = [CommitId(beginning.ljust(64, "0")) for beginning in beginnings]
    some = graph("a").commits[id_of("a")]
    return build(
        {commit_id: [] for commit_id in ids},
        dict.fromkeys(ids, some.created_at),
        {commit_id: f"message {number}" for number, commit_id in enumerate(ids)},
    )


def test_prefix() -> None:
    refs = _hex("abc1", "abd2", "e5")
    assert _resolve("abc", refs).name.startswith("abc1")
    assert _resolve("e", refs).name.startswith("e5")
    assert _resolve("e5" + "0" * 61, refs).name.startswith("e5")


def test_hex_digits_of_either_case() -> None:
    refs = _hex("abc1", "abd2")
    assert _resolve("ABC", refs) == _resolve("abc", refs)
    full = "abc1".ljust(64, "0")
    assert _resolve(full.upper(), refs) == _resolve(full, refs)
    with pytest.raises(AmbiguousRef):
        _resolve("AB", refs)


def test_the_order_in_which_a_base_is_looked_for() -> None:
    refs = _hex("abc1", "abd2", "e5")
    ids = sorted(refs.commits)
    assert _resolve("abc", refs).commit.id == ids[0]
    refs.add_tag("abc", ids[1])
    assert _resolve("abc", refs).commit.id == ids[1]
    refs.add_branch("abc", ids[2])
    assert _resolve("abc", refs).commit.id == ids[2]
    assert _resolve("ABC", refs).commit.id == ids[0]
    # Such names cannot be made any more; if a store holds one, it still means the commit.
    refs.add_branch(ids[0], ids[2])
    assert _resolve(ids[0], refs).commit.id == ids[0]


def test_ambiguous_prefix_lists_its_candidates() -> None:
    refs = _hex("ab1", "ab2", "ab3", "c")
    with pytest.raises(AmbiguousRef) as caught:
        _resolve("ab~3", refs)
    assert caught.value.message == "ambiguous commit ID 'ab': 3 commits begin with it"
    assert [commit.id[:3] for commit in caught.value.candidates] == ["ab1", "ab2", "ab3"]
    assert caught.value.hint is not None
    assert caught.value.hint.splitlines() == [
        "type more of one of them:",
        *(f"  {f'ab{n + 1}'.ljust(64, '0')}  message {n}" for n in range(3)),
    ]


def test_many_candidates_are_cut() -> None:
    for count in (MAX_CANDIDATES, MAX_CANDIDATES + 1, 40):
        refs = _hex(*(f"a{number:02}" for number in range(count)))
        with pytest.raises(AmbiguousRef) as caught:
            _resolve("a", refs)
        assert len(caught.value.candidates) == MAX_CANDIDATES
        assert len(refs.reads) == MAX_CANDIDATES
        said = f"{count} commits" if count == MAX_CANDIDATES else f"more than {MAX_CANDIDATES}"
        assert said in caught.value.message


def test_messages_of_candidates_are_one_safe_line() -> None:
    refs = _hex("a1", "a2")
    first, second = sorted(refs.commits)
    refs.commits[first] = refs.commits[first]._replace(message="red \x1b[31m\r\nmore")
    refs.commits[second] = refs.commits[second]._replace(message="x" * 200)
    with pytest.raises(AmbiguousRef) as caught:
        _resolve("a", refs)
    assert caught.value.hint is not None
    _, one, two = caught.value.hint.splitlines()
    assert one == f"  {first}  red ?[31m?"
    assert two == f"  {second}  {'x' * 49}…"

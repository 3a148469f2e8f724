"""Every rule, and every way to break it: the table of all movers, rules and modes of sync.

`BREAKS` says of each mover which rules it breaks, so a new mover is not forgotten. CI tries one
mover for each rule and mode, the nightly run all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest

from lakecli.filesystem import LakeFileSystem
from tests.cli.test_movers import DEV, MAIN, MOVERS, URI, Mover, Team, check_meeting, team
from tests.meetings.arguments import BLOCK_WRITE, SPARK_WRITE
from tests.support.tools import require_package

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["team"]  # the fixture

RULES: Final = {
    "direct": ('forbid = ["direct"]', "takes merges only"),
    "rewind": ('forbid = ["rewind"]', "does not build on"),
    "delete": ('forbid = ["delete"]', "it is never deleted"),
    "recreate": ('forbid = ["recreate"]', "it was deleted, and does not come back"),
    "check": ('require = ["check:schema"]', "check schema has not passed on its tree"),
    "approve": ('require = ["approve:1:reviewers"]', "0 of reviewers have approved its tree"),
    "append-only": ('data = { append-only = ["**"] }', "would change, which is append-only"),
    "max-delete": ("data = { max-delete = 0 }", "more than 0 paths would go"),
    "only-below": ('data = { only-below = ["in/**"] }', "would change, outside of what may"),
}
"""What each rule demands, and why a move is refused."""

_NEW: Final = frozenset(("check", "approve"))
_MERGE: Final = _NEW | {"only-below"}
_ADD: Final = _MERGE | {"direct"}
_REMOVE: Final = _ADD | {"append-only", "max-delete"}
_BACK: Final = _REMOVE - {"direct"} | {"rewind"}
_DELETE: Final = frozenset(("delete",))

BREAKS: Final[dict[str, list[frozenset[str]]]] = {
    "branch create": [_NEW],
    "branch delete": [_DELETE],
    "branch rename": [_NEW],
    "branch reset": [_BACK],
    "branch revert": [_REMOVE],
    "cherry-pick": [_ADD],
    "commit": [_ADD],
    "import": [_ADD],
    "local commit": [_ADD],
    "merge": [_MERGE, _ADD],
    "op redo": [_ADD],
    "op restore": [_BACK],
    "op undo": [_BACK],
    "publish": [_MERGE],
    "pull": [frozenset()],  # it moves main here; what is pushed then is a line of `push`
    "push": [_ADD, _BACK, _DELETE, _DELETE, _ADD],
    "redo": [_ADD],
    "refs-restore": [_NEW],
    "run": [_MERGE],
    "run resume": [_MERGE],
    "tag create": [_NEW, _ADD],
    "tag delete": [_DELETE],
    "undo": [_BACK],
    BLOCK_WRITE[0]: [_ADD],
    SPARK_WRITE[0]: [_ADD],
}
"""The rules that each mover breaks, besides `who`."""

_GONE: Final = (("push", "--delete", DEV), ("branch", "delete", DEV, "-y"))
_V1: Final = f"{URI}/v1"

RECREATORS: Final = {
    "branch create": Mover(("branch", "create", DEV, "-s", MAIN), ("push", DEV), _GONE),
    "branch rename": Mover(
        ("branch", "rename", f"{URI}/other", "dev"),
        ("push", DEV),
        (*_GONE, ("branch", "create", f"{URI}/other", "-s", MAIN), ("push", f"{URI}/other")),
    ),
    "push": Mover(("push", DEV), (), _GONE[:1], is_manual=True),  # else the branch goes here, too
    "tag create": Mover(
        ("tag", "create", _V1, MAIN),
        ("push", _V1),
        (("push", "--delete", _V1), ("tag", "delete", _V1, "-y")),
    ),
}
"""What brings a deleted ref back."""

SAMPLE: Final = {
    *("direct commit 0", "rewind push 1", "delete branch delete 0", "recreate tag create 0"),
    *("check publish 0", "approve merge 0", "append-only undo 0", "max-delete branch reset 0"),
    "only-below import 0",
}
"""What CI tries."""


def _cases() -> Iterator[tuple[str, str, Mover]]:
    for words, movers in MOVERS.items():
        for number, (mover, broken) in enumerate(zip(movers, BREAKS[words], strict=True)):
            for rule in sorted(broken):
                yield f"{rule} {words} {number}", rule, mover
    for words, mover in RECREATORS.items():
        yield f"recreate {words} 0", "recreate", mover


CASES: Final = [*_cases()]


def test_every_mover_has_rules_that_it_breaks() -> None:
    assert BREAKS.keys() == MOVERS.keys()
    assert {rule for _, rule, _ in CASES} == RULES.keys()
    assert {name for name, _, _ in CASES} >= SAMPLE


@pytest.mark.parametrize(
    ("rule", "mover"),
    [
        pytest.param(rule, mover, id=name, marks=() if name in SAMPLE else pytest.mark.nightly)
        for name, rule, mover in CASES
    ],
)
@pytest.mark.parametrize("mode", ["manual", "auto"])
def test_a_mover_meets_a_rule_of_a_moment_ago(
    team: Team, rule: str, mover: Mover, mode: str
) -> None:
    demand, reason = RULES[rule]
    refs = "refs = ['main', 'dev', 'v[12]', 'new', 'other']"  # not those of runs
    document = f"[roles]\nreviewers = ['eve@x']\n[[rules]]\n{refs}\n{demand}\n"
    check_meeting(team, mover, mode, document, reason)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("mode", ["manual", "auto"])
@pytest.mark.parametrize("rule", ["who", *sorted(_ADD)])
def test_a_table_of_pyiceberg_meets_a_rule_of_a_moment_ago(
    team: Team, monkeypatch: pytest.MonkeyPatch, rule: str, mode: str
) -> None:
    require_package("pyiceberg")
    from pyiceberg.catalog import load_catalog

    demand, reason = RULES.get(rule, ("who = ['ada@x']", "only ada@x may move it"))
    rules = team.directory / "rules.toml"
    roles = "[roles]\nreviewers = ['eve@x']\n"
    rules.write_text(f"{roles}[[rules]]\nrefs = ['main']\n{demand}\n")
    team.ok("bob", ("fs", "upload", "{new}", f"{MAIN}/mine"))
    team.ok("ada", ("policy", "set", URI, str(rules), "-y"))
    refs, seen = team.refs(), team.seen_by_bob()
    for name, value in team.environ("bob", mode).items():
        monkeypatch.setenv(name, value)
    catalog = load_catalog(
        "main",
        type="sql",
        uri=f"sqlite:///{team.directory / 'catalog.db'}",
        warehouse=f"{MAIN}/tables",
        **{"py-io-impl": "lakecli.filesystem.iceberg.LakeFileIO"},
    )
    catalog.create_namespace("shop")
    rows = pa.table({"id": [1]})
    try:
        with LakeFileSystem().committing(MAIN, "rows"):
            catalog.create_table("shop.orders", rows.schema).append(rows)
    except OSError as refused:
        assert mode == "auto"
        error = str(refused)
    else:
        assert mode == "manual"
        seen = team.seen_by_bob()
        pushed = team.run("bob", ("push", MAIN))
        assert pushed.exit_code == 7, pushed
        error = pushed.stderr
    finally:
        catalog.close()
    assert "policy 1, which Ada <ada@x> set, forbids" in error
    assert reason in error
    assert team.refs() == refs
    assert team.seen_by_bob() == seen

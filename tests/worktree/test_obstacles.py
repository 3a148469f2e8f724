"""Files of the user in the way of the branch's, and the other way round: what is missing is named.

A table of all cases: what the directory has at a path, what the branch does with it, and the
command that meets both.
"""

from __future__ import annotations

import os
from shutil import rmtree
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lakecli.base.identity import blake3_of
from lakecli.errors import ConflictError, NothingToDo, Refused
from lakecli.repository.transfer.ignore_patterns import EVERYTHING
from lakecli.repository.undo.log import redo_target
from lakecli.repository.undo.undo import redo, undo
from lakecli.worktree.checkout import OwnChanges, bring, restore
from lakecli.worktree.kept_for_undo import overwrite_again, restore_kept
from lakecli.worktree.status import status
from tests.support.lakes import read
from tests.support.worktrees import (
    DOWNLOADS,
    clone,
    commit_contents,
    commit_worktree,
    files,
    items,
    pull,
    reopen,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.contract import Repository

TEXTS = ("o", "1", "mine", "mine too", "theirs", "u", "later", "l")
BASE = {"other": "o", "d/other": "o"}
THERE = {"d/f": "1"}


def _directory_at(root: Path) -> None:
    (root / "d/f").unlink(missing_ok=True)
    write(root, {"d/f/mine": "mine", "d/f/deep/mine": "mine too"})


def _empty_directory_at(root: Path) -> None:
    (root / "d/f").unlink(missing_ok=True)
    (root / "d/f/deep").mkdir(parents=True)


def _file_above(root: Path) -> None:
    rmtree(root / "d")
    write(root, {"d": "mine"})


def _link_above(root: Path) -> None:
    rmtree(root / "d")
    (root.parent / "outside").mkdir()
    (root / "d").symlink_to(root.parent / "outside")


LOCAL: dict[str, Callable[[Path], None]] = {
    "same": lambda _root: None,
    "changed": lambda root: write(root, {"d/f": "mine"}),
    "missing": lambda root: (root / "d/f").unlink(missing_ok=True),
    "directory": _directory_at,
    "empty directory": _empty_directory_at,
    "file above": _file_above,
    "link above": _link_above,
}

BRANCH: dict[str, dict[str, str | None]] = {
    "none": {"unrelated": "u"},
    "changed": {"d/f": "theirs"},
    "deleted": {"d/f": None},
    "directory": {"d/f": None, "d/f/g": "theirs"},
    "file": {"d/f": None, "d/other": None, "d": "theirs"},
}


def _checkout(policy: OwnChanges) -> Callable[[Repository, Path], list[bytes]]:
    def run(repository: Repository, root: Path) -> list[bytes]:
        worktree = reopen(repository, root)
        with worktree.locked():
            worktree.follow_back()
            head = worktree.head()
            done = bring(worktree, head, operation="checkout", policy=policy, options=DOWNLOADS)
        assert (done.failures, done.impossible) == ([], [])
        return done.conflicts

    return run


def _pull(policy: OwnChanges) -> Callable[[Repository, Path], list[bytes]]:
    def run(repository: Repository, root: Path) -> list[bytes]:
        done = pull(reopen(repository, root), policy)
        assert (done.failures, done.impossible) == ([], [])
        return done.conflicts

    return run


def _restore(repository: Repository, root: Path) -> list[bytes]:
    return restore(reopen(repository, root), [b""], source=None, options=DOWNLOADS).conflicts


def _commit(repository: Repository, root: Path) -> list[bytes]:
    try:
        return commit_worktree(reopen(repository, root)).brought.conflicts
    except NothingToDo:
        return []


def _status(repository: Repository, root: Path) -> list[bytes]:
    return [os.fsencode(name) for name in items(reopen(repository, root))]


VERBS: dict[str, Callable[[Repository, Path], list[bytes]]] = {
    "pull": _pull(OwnChanges.KEEP),
    "pull --force": _pull(OwnChanges.FORCE),
    "checkout": _checkout(OwnChanges.REFUSE),
    "checkout --force": _checkout(OwnChanges.FORCE),
    "local checkout": _checkout(OwnChanges.DISCARD),
    "restore": _restore,
    "status": _status,
    "commit": _commit,
}
OVERWRITES = {"pull --force", "checkout --force", "local checkout", "restore"}
BRINGS = {"pull", "pull --force", "checkout", "checkout --force", "local checkout"}


class Case(NamedTuple):
    repository: Repository
    root: Path

    def tree(self) -> dict[str, str]:
        """Return what the branch has."""
        texts = {blake3_of(text.encode()).hex(): text for text in TEXTS}
        return {
            os.fsdecode(path): texts[each] for path, each in read(self.repository, "main").items()
        }

    def mine(self) -> dict[str, str]:
        """Return the files that only the user has."""
        return {path: text for path, text in files(self.root).items() if text.startswith("mine")}

    def check_nothing_is_missing_in_silence(self) -> None:
        """Whatever the branch has is here, or is named by status; and so is whatever it lacks."""
        here, there = files(self.root), self.tree()
        found = status(reopen(self.repository, self.root), local=False, selection=EVERYTHING)
        named = {
            os.fsdecode(path)
            for path in [each.path for each in found.items] + [each.path for each in found.problems]
        }
        differ = {path for path in here.keys() | there if here.get(path) != there.get(path)}
        if (self.root / "d").is_symlink():  # what is behind a link is neither here nor gone
            differ = {path for path in differ if not path.startswith("d/")}
        assert differ <= named

    def clear(self) -> None:
        """Remove all that the user has made."""
        for path in self.mine():
            (self.root / path).unlink()
        if (self.root / "d").is_symlink():
            (self.root / "d").unlink()
        for place in sorted(self.root.rglob("*"), reverse=True):
            if place.is_dir() and not any(place.iterdir()):
                place.rmdir()


def _prepare(repository: Repository, root: Path, *, has: bool, local: str) -> Case:
    commit_contents(repository, {**BASE, **(THERE if has else {})})
    clone(repository, root)
    LOCAL[local](root)
    return Case(repository, root)


def _run(case: Case, verb: str) -> list[bytes] | None:
    """Run a command; return its conflicts, or ``None`` if it refused."""
    try:
        return VERBS[verb](case.repository, case.root)
    except (ConflictError, Refused):
        return None


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("change", BRANCH)
@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize("has", [True, False])
def test_what_is_missing_is_named(
    repository: Repository, tmp_path: Path, *, has: bool, local: str, change: str, verb: str
) -> None:
    case = _prepare(repository, tmp_path / "wd", has=has, local=local)
    there = {path: text for path, text in BRANCH[change].items() if has or path != "d/f" or text}
    there = there or BRANCH["none"]
    commit_contents(repository, there)
    before, mine, tree = files(case.root), case.mine(), case.tree()
    conflicts = _run(case, verb)
    case.check_nothing_is_missing_in_silence()
    if conflicts is None or verb == "status":
        assert files(case.root) == before
    if verb not in OVERWRITES:
        assert case.mine() == mine
    if verb in BRINGS and conflicts == []:
        here = files(case.root)
        assert {path: here.get(path) for path in there} == there
    if verb == "commit":
        # What the user never had is not deleted; what others have changed stays as they have it.
        assert case.tree().keys() >= {path for path, text in there.items() if text}
        assert all(case.tree()[path] == text for path, text in there.items() if text)
    else:
        assert case.tree() == tree
    gone = {path: text for path, text in mine.items() if case.mine().get(path) != text}
    if gone:
        operation = undo(repository).operation
        restore_kept(repository, operation, DOWNLOADS)
        assert case.mine() == mine
        case.check_nothing_is_missing_in_silence()
        target = redo_target(repository)
        assert target is not None
        overwrite_again(repository, target, DOWNLOADS)
        redo(repository)
        case.check_nothing_is_missing_in_silence()
    # A later change of the branch comes, once nothing of the user's is in its way.
    final = {path: text and "later" for path, text in case.tree().items() if text == "theirs"}
    commit_contents(repository, {**final, "last": "l"})
    _run(case, "pull")
    case.check_nothing_is_missing_in_silence()
    case.clear()
    assert _pull(OwnChanges.KEEP)(repository, case.root) is not None
    case.check_nothing_is_missing_in_silence()
    _restore(repository, case.root)
    assert _pull(OwnChanges.FORCE)(repository, case.root) == []
    assert files(case.root) == case.tree()
    assert items(reopen(repository, case.root)) == {}


def test_what_was_in_the_way_and_is_gone_comes_with_the_next_pull(
    repository: Repository, tmp_path: Path
) -> None:
    case = _prepare(repository, tmp_path / "wd", has=False, local="directory")
    commit_contents(repository, {"d/f": "theirs"})
    assert pull(reopen(repository, case.root)).blocked == [b"d/f"]
    assert pull(reopen(repository, case.root)).conflicts == [b"d/f"]
    case.clear()
    assert items(reopen(repository, case.root)).keys() == {"d/f"}
    assert pull(reopen(repository, case.root)).downloaded == 1
    assert files(case.root) == case.tree()


def test_a_checkout_is_refused_for_what_is_newly_in_the_way_only(
    repository: Repository, tmp_path: Path
) -> None:
    case = _prepare(repository, tmp_path / "wd", has=False, local="directory")
    commit_contents(repository, {"d/f": "theirs"})
    with pytest.raises(ConflictError):
        _checkout(OwnChanges.REFUSE)(repository, case.root)
    assert pull(reopen(repository, case.root)).blocked == [b"d/f"]
    commit_contents(repository, {"other": "later"})
    assert _checkout(OwnChanges.REFUSE)(repository, case.root) == [b"d/f"]
    assert files(case.root)["other"] == "later"
    assert _restore(repository, case.root) == [b"d/f"]
    assert case.mine()


def test_ours_takes_the_directory_for_the_file(repository: Repository, tmp_path: Path) -> None:
    case = _prepare(repository, tmp_path / "wd", has=False, local="directory")
    commit_contents(repository, {"d/f": "theirs"})
    pull(reopen(repository, case.root))
    with pytest.raises(ConflictError, match="unresolved"):
        commit_worktree(reopen(repository, case.root))
    commit_worktree(reopen(repository, case.root), ours=True)
    assert case.tree() == files(case.root)
    assert reopen(repository, case.root).link.left_out == ()
    assert items(reopen(repository, case.root)) == {}


def test_a_directory_that_was_linked_before_is_healed(
    repository: Repository, tmp_path: Path
) -> None:
    """Earlier versions noted such a path as one that cannot be a file, and never came back."""
    case = _prepare(repository, tmp_path / "wd", has=False, local="directory")
    worktree = reopen(repository, case.root)
    commit_contents(repository, {"d/f": "theirs"})
    worktree.relink(at_head=worktree.head().id, left_out=(b"d/f",))
    assert items(reopen(repository, case.root))["d/f"].is_conflict
    with pytest.raises(ConflictError, match="unresolved"):
        commit_worktree(reopen(repository, case.root))
    assert pull(reopen(repository, case.root), OwnChanges.FORCE).kept == 2
    assert files(case.root) == case.tree()

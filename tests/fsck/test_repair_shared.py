"""What clones share is lost from the bucket; one of them heals it, and the others go on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.base.layout import COMMITS, REFS, pack_key, ref_key
from lakecli.base.model import RefKind
from lakecli.fsck.check import fsck
from lakecli.fsck.findings import Unrecoverable
from lakecli.fsck.repair import repair
from lakecli.repository.clone import clone
from lakecli.repository.log import LogOptions, log
from lakecli.repository.push import PushOptions, push
from lakecli.repository.sharing.fetch import fetch
from tests.support.clones import Clones, machine, make_commit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.repository.contract import Repository


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[Clones]:
    """Ada and Bob, who pushed two commits each in turn."""
    with Clones.make(tmp_path, "ada", "bob") as made:
        ada, bob = made.repositories
        for number in range(2):
            store_data(ada, b"ada %d" % number)
            share(ada)
            fetch(bob)
        yield made


def store_data(repository: Repository, path: bytes) -> None:
    from tests.support.lakes import entry_of

    repository.store.put_new(entry_of(path).physical_address, path)
    make_commit(repository, path)


def share(repository: Repository) -> None:
    push(repository, "main", options=PushOptions(who="somebody"))


def heal(repository: Repository) -> list[Unrecoverable]:
    told = list(repair(repository, lambda counts: fsck(repository, counts=counts)))
    return [each for each in told if isinstance(each, Unrecoverable)]


def messages(repository: Repository) -> list[str]:
    with log(repository, "main", options=LogOptions()) as commits:
        return [each.message for each in commits]


def test_a_sound_shared_repository_has_no_findings(clones: Clones) -> None:
    for repository in clones.repositories:
        assert list(fsck(repository)) == []


def test_lost_packs_and_refs_are_rewritten(clones: Clones, tmp_path: Path) -> None:
    ada, bob = clones.repositories
    expected = messages(ada)
    store = ada.store
    store.delete([info.key for prefix in (COMMITS, REFS) for info in store.list(prefix)])
    assert {each.kind for each in fsck(ada)} == {"pack", "ref"}
    assert heal(ada) == []
    assert list(fsck(ada)) == []
    with machine(tmp_path, "carol") as lake:
        assert messages(clone(lake, str(tmp_path / "namespace"), "demo")) == expected
    store_data(ada, b"later")
    share(ada)
    fetch(bob)
    assert list(fsck(bob)) == []


def test_a_damaged_pack_is_rewritten(clones: Clones, tmp_path: Path) -> None:
    ada, bob = clones.repositories
    for info in list(ada.store.list(COMMITS)):
        path = ada.store.local_path(info.key)
        assert path is not None
        Path(path).write_bytes(Path(path).read_bytes()[:-1])
    assert heal(bob) == []
    assert list(fsck(ada)) == []
    with machine(tmp_path, "carol") as lake:
        assert messages(clone(lake, str(tmp_path / "namespace"), "demo")) == messages(ada)


def test_objects_of_another_clone_are_left_to_it(clones: Clones) -> None:
    ada, bob = clones.repositories
    before = {info.key for info in ada.store.list(COMMITS)}
    store_data(ada, b"unseen")
    share(ada)
    (new,) = {info.key for info in ada.store.list(COMMITS)} - before
    ada.store.delete([new])
    lost = heal(bob)
    assert [each.name for each in lost] == [ref_key(RefKind.BRANCH, "main")]
    assert heal(ada) == []
    assert list(fsck(bob)) == []
    assert pack_key(new.removeprefix(COMMITS)) == new

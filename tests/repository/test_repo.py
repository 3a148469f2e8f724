"""Creating repositories while other processes of the machine do so too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.errors import AlreadyExists, NotFound
from lakecli.repository import branch, repo
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.handle.namespace import describe
from tests.support.lakes import checksums, open_lake, read, stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.handle.lake import Lake

STEPS = ["claim", "register"]


def create_with(
    lake: Lake, name: str, namespace: Path, step: str, act: Callable[[], object]
) -> None:
    """Create a repository; before a step, do something else in another process."""
    pending = [step]

    def on_step(reached: str) -> None:
        if reached in pending:
            pending.clear()
            act()

    calm = lake.runtime
    lake.runtime = calm._replace(on_step=on_step)
    try:
        repo.create(lake, name, str(namespace))
    finally:
        lake.runtime = calm
        assert not pending


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", ["demo", "other"])
def test_the_slower_of_two_changes_nothing(tmp_path: Path, step: str, name: str) -> None:
    """The faster one has the same namespace, under the same name or another."""
    with open_lake(tmp_path) as lake:

        def create_and_commit() -> None:
            faster = repo.create(lake, name, str(tmp_path / "namespace"))
            stage(faster, "main", {b"a": b"1"})
            commit(faster, "main", message="first", committer="me")

        with pytest.raises(AlreadyExists):
            create_with(lake, "demo", tmp_path / "namespace", step, create_and_commit)
        assert [record.name for record in lake.repositories()] == [name]
        assert read(lake.repository(name), "main@") == checksums({b"a": b"1"})


@pytest.mark.parametrize("step", STEPS)
def test_a_deleted_repository_does_not_come_back(tmp_path: Path, step: str) -> None:
    with open_lake(tmp_path) as lake:

        def create_commit_and_delete() -> None:
            faster = repo.create(lake, "demo", str(tmp_path / "namespace"))
            stage(faster, "main", {b"a": b"1"})
            commit(faster, "main", message="first", committer="me")
            repo.delete(lake, "demo")

        with pytest.raises(AlreadyExists, match="has created or cloned the repository in"):
            create_with(lake, "demo", tmp_path / "namespace", step, create_commit_and_delete)
        assert not list(lake.repositories())


@pytest.mark.parametrize("step", STEPS)
def test_one_of_two_creations_of_a_name_wins(tmp_path: Path, step: str) -> None:
    with open_lake(tmp_path) as lake:

        def create_elsewhere() -> None:
            faster = repo.create(lake, "demo", str(tmp_path / "faster"))
            stage(faster, "main", {b"a": b"1"})

        with pytest.raises(AlreadyExists, match="exists already on this machine"):
            create_with(lake, "demo", tmp_path / "slower", step, create_elsewhere)
        assert lake.repository("demo").record.storage_namespace.endswith("faster")
        assert read(lake.repository("demo"), "main") == checksums({b"a": b"1"})
        # What the slower one has claimed is not lost: another name takes it over.
        second = repo.create(lake, "second", str(tmp_path / "slower"))
        assert branch.show(second, "main").name == "main"
        assert second.key != lake.repository("demo").key


def test_a_repository_cloned_meanwhile_is_left_alone(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:

        def clone_and_commit() -> None:
            cloned = clone(lake, str(tmp_path / "namespace"), "cloned")
            stage(cloned, "main", {b"a": b"1"})
            commit(cloned, "main", message="first", committer="me")

        with pytest.raises(AlreadyExists, match="has created or cloned the repository in"):
            create_with(lake, "demo", tmp_path / "namespace", "register", clone_and_commit)
        assert [record.name for record in lake.repositories()] == ["cloned"]
        assert read(lake.repository("cloned"), "main@") == checksums({b"a": b"1"})


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_creation_succeeds_when_repeated(tmp_path: Path, step: str) -> None:
    class KilledError(Exception):
        pass

    def killed() -> None:
        raise KilledError

    with open_lake(tmp_path) as lake:
        with pytest.raises(KilledError):
            create_with(lake, "demo", tmp_path / "namespace", step, killed)
        assert not list(lake.repositories())
        repo.create(lake, "demo", str(tmp_path / "namespace"))
        assert [record.name for record in lake.repositories()] == ["demo"]


def test_a_creation_that_failed_leaves_no_options_for_the_next_one(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:
        (tmp_path / "disk").write_text("no directory")
        with pytest.raises(NotFound):
            repo.create(lake, "demo", f"{tmp_path}/disk/ns", default_branch="x", range_entries=16)
        (tmp_path / "disk").unlink()
        made = repo.create(lake, "demo", f"{tmp_path}/disk/ns").record
        assert (made.default_branch, made.range_entries) == ("main", repo.DEFAULT_RANGE_ENTRIES)


def test_a_claimed_namespace_keeps_the_options_of_its_claim(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:

        def killed() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            create_with(lake, "demo", tmp_path / "namespace", "register", killed)
        made = repo.create(
            lake, "demo", f"{tmp_path}/namespace", default_branch="x", range_entries=16
        )
        described = describe(made.store)
        assert described is not None
        for name in ("default_branch", "range_entries", "created_at"):
            assert getattr(made.record, name) == getattr(described, name), name
        assert [each.name for each in branch.iter_branches(made)] == ["main"]

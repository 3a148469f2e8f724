"""Unpacking commit packs, in any order and number."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.ids import PackId
from lakecli.base.model import EMPTY_TREE, RepositoryUuid
from lakecli.kv.bucket import PackedStore
from lakecli.remote.packs import DamagedPack, Pack
from lakecli.repository.commit_attempts import describe_commit, initial_commit
from lakecli.repository.contract import Repository
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.sharing.fetch import is_whole, unpack
from tests.support.lakes import make_repository, open_lake
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.base.model import Commit, CommitId

WHEN = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    directory: Path = tmp_path_factory.mktemp("unpacked")
    with open_lake(directory) as lake:
        yield make_repository(lake, directory)


def another(repository: Repository) -> Repository:
    """A repository of the same lake that has nothing yet."""
    uuid = RepositoryUuid.of_bytes(repository.lake.runtime.new_id())
    return LocalRepository(repository.lake, repository.record._replace(uuid=uuid))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Commit], list[Pack], list[list[Pack]]]:
    """Commits, their packs, and the packs that each of several fetches finds."""
    commits: list[Commit] = []
    for number in range(draw(st.integers(1, 12))):
        parents = draw(st.lists(st.sampled_from(commits), max_size=2)) if commits else []
        commits.append(
            describe_commit(
                parents=list({parent.id: parent for parent in parents}.values()),
                metarange_id=EMPTY_TREE,
                message=str(number),
                committer="",
                created_at=WHEN,
                metadata={},
            )
        )
    places = [draw(st.integers(0, 4)) for _ in commits]
    packs = [
        Pack(
            id=PackId(f"{place:064x}"),
            replaces=(),
            commits=[each for each, at in zip(commits, places, strict=True) if at == place],
        )
        for place in set(places)
    ]
    rounds = [draw(st.lists(st.sampled_from(packs), unique_by=lambda pack: pack.id))]
    rounds += [draw(st.lists(st.sampled_from(packs), unique_by=lambda pack: pack.id))]
    return commits, packs, [*rounds, packs]


def whole(commits: list[Commit], available: set[CommitId]) -> set[CommitId]:
    """Return the commits whose whole history is available."""
    found: set[CommitId] = set()
    for commit in commits:  # parents come first
        if commit.id in available and found.issuperset(commit.parents):
            found.add(commit.id)
    return found


@given(histories())
def test_a_known_commit_has_its_whole_history(
    one: Repository, history: tuple[list[Commit], list[Pack], list[list[Pack]]]
) -> None:
    commits, _, rounds = history
    repository = another(one)
    available: set[CommitId] = set()
    for found in rounds:
        with repository.lake.kv.read() as txn:
            known = set(PackedStore(txn, repository.key).known_packs())
        # A listing shows at least what it showed before.
        shown = {pack.id: pack for pack in found}
        shown |= {pack.id: pack for pack in rounds[-1] if _ids(pack) <= available}
        available |= {commit.id for pack in found for commit in pack.commits}
        new = [pack for pack in shown.values() if pack.id not in known]
        unpack(repository, new)
        complete = whole(commits, available)
        with repository.lake.kv.read() as txn:
            packed = PackedStore(txn, repository.key)
            noted = {each.id for each in commits if packed.find_pack(each.id) is not None}
            here = {each.id for each in commits if is_whole(txn, repository, each.id)}
        # No commit counts as known without its ancestors.
        assert here <= complete
        assert noted <= complete
        assert all(noted.issuperset(each.parents) for each in commits if each.id in noted)
    assert here == noted == {commit.id for commit in commits}


def test_a_commit_is_unknown_while_that_of_its_parent_is(one: Repository) -> None:
    """The parent is here, without its own parent."""
    repository = another(one)
    commits: list[Commit] = []
    for number in range(3):
        commits.append(
            describe_commit(
                parents=commits[-1:],
                metarange_id=EMPTY_TREE,
                message=str(number),
                committer="",
                created_at=WHEN,
                metadata={},
            )
        )
    packs = [Pack(PackId(f"{n:064x}"), (), [each]) for n, each in enumerate(commits)]
    for found, known in (([1], 0), ([2], 0), ([0, 1, 2], 3)):
        progress = RecordedProgress()
        brought = [packs[number] for number in found]
        unpack(repository, brought, progress=progress)
        assert progress.items == len(found)
        with repository.lake.kv.read() as txn:
            packed = PackedStore(txn, repository.key)
            assert sum(packed.find_pack(each.id) is not None for each in commits) == known


def test_what_two_readings_found_is_added_up(one: Repository) -> None:
    repository = another(one)
    commits = [initial_commit(WHEN + timedelta(days=number)) for number in range(2)]
    bad = DamagedPack(PackId("2" * 64), "it is damaged")
    unpacked = unpack(repository, [bad, Pack(PackId("0" * 64), (), commits[:1])])
    unpack(repository, [bad, Pack(PackId("1" * 64), (), commits)], unpacked)
    assert (unpacked.packs, unpacked.commits, tuple(unpacked.damaged)) == (2, 2, bad.bad)


def _ids(pack: Pack) -> set[CommitId]:
    return {commit.id for commit in pack.commits}

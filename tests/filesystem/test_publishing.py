"""`lakecli.publishing`: what fsspec and the verbs write within is published, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lakecli
from lakecli.errors import CheckFailed
from lakecli.repository.check import CheckedCommit, TreeCheck, iter_statements
from lakecli.repository.run import iter_runs
from tests.support.clones import here, make_commit, there

if TYPE_CHECKING:
    from lakecli.filesystem import LakeFileSystem

MAIN = "lakefs://demo/main"


@pytest.mark.parametrize("sync", ["manual", "auto"])
def test_a_block_is_published(
    fs: LakeFileSystem, sync: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKECLI_SYNC", sync)
    seen: list[bytes | None] = []

    def check(candidate: CheckedCommit) -> None:
        assert not fs.exists(f"{MAIN}/raw/a")
        seen.append(fs.cat(f"{candidate.uri}/raw/a"))

    with lakecli.open("lakefs://demo") as demo:
        schema = TreeCheck(lambda _: None, "schema")
        with lakecli.publishing(demo, "main", checks=[check, schema], message="Load") as branch:
            fs.pipe(f"{branch}/raw/a", b"1")
            with fs.committing(str(branch), "own commit"):
                fs.pipe(f"{branch}/raw/b", b"2")
            make_commit(demo, b"by a verb", branch.name)
        assert seen == [b"1"]
        assert branch.commit is not None
        assert here(demo) == there(demo) == branch.commit.id
        assert branch.commit.message == "Load"
        assert [each.name for each in iter_statements(demo, "main")] == ["schema"]
        assert not list(iter_runs(demo))
    assert fs.cat(f"{MAIN}/raw/b") == b"2"
    assert fs.exists(f"{MAIN}/by a verb")
    with lakecli.open("lakefs://demo") as demo:
        assert there(demo, branch.name) is None


def test_nothing_is_published_after_an_error(fs: LakeFileSystem) -> None:
    with lakecli.open("lakefs://demo") as demo:
        before = here(demo)
        with (
            pytest.raises(CheckFailed),
            lakecli.publishing(demo, "main", checks=[lambda _: False], branch="load") as branch,
        ):
            fs.pipe(f"{branch}/a", b"1")
        assert here(demo) == before
        assert [each.branch for each in iter_runs(demo)] == ["load"]
        with lakecli.publishing(demo, "main", branch="load") as again:
            assert not fs.exists(f"{again}/a")
        assert again.commit is None
        assert here(demo) == before

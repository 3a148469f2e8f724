"""A clone of a lakeFS namespace that is killed at any step: the same command again finishes it."""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import Refused
from lakecli.fsck.check import fsck
from lakecli.repository.handle.lake import iter_repositories
from lakecli.repository.lakefs.dump import parse_manifest
from lakecli.repository.lakefs.restore import clone_from_lakefs
from lakecli.repository.push import PushOptions, push
from tests.repository.lakefs.test_restore import files, refs_of
from tests.support import crashes
from tests.support.crashes import watched
from tests.support.lakefs_files import live_expected
from tests.support.lakes import Numbered, open_lake, read

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.handle.lake import Lake
    from lakecli.repository.lakefs.dump import RefsManifest
    from tests.support.crashes import Killer, Outcome


def do(lake: Lake, killer: Killer, directory: Path, *, take_over: bool) -> None:
    opened = lake.runtime.open_store
    lake.runtime = lake.runtime._replace(
        open_store=lambda uri, region: watched(opened(uri, region), killer)
    )
    clone_from_lakefs(lake, str(directory), "x", dump(), take_over=take_over, range_entries=16)


def dump() -> RefsManifest:
    return parse_manifest(json.dumps(live_expected()["refs_dump"]).encode())


def run(home: Path, foreign: Path, step: str, seed: str, *, take_over: bool) -> Outcome:
    return crashes.run(partial(do, take_over=take_over), home, foreign, step=step, seed=seed)


@pytest.mark.parametrize("take_over", [False, True], ids=["borrowed", "taken over"])
def test_a_clone_that_is_killed_is_finished_by_the_same_command(
    tmp_path: Path, template: Path, *, take_over: bool
) -> None:
    whole = copy(template, tmp_path / "0")
    steps = run(tmp_path / "whole", whole, "never", "whole", take_over=take_over).steps
    assert {step.rpartition(" ")[0] for step in steps} >= (
        {"register", "claim", "before put", "after put"} if take_over else {"register"}
    )
    with open_lake(tmp_path / "whole") as lake:
        expected = refs_of(lake.repository("x")), read(lake.repository("x"), "main")
    before = files(template)
    for number, step in enumerate(steps, 1):
        foreign, home = copy(template, tmp_path / str(number)), tmp_path / f"home {number}"
        assert run(home, foreign, step, "killed", take_over=take_over).killed, step
        written = files(foreign).keys() - before.keys()
        assert written <= ({"_lakecli/repository.json"} if take_over else set())
        with open_lake(home) as lake, lake.kv.read() as txn:
            assert list(iter_repositories(txn)) == []
        if written:
            refused(tmp_path / f"other {number}", foreign)
        assert run(home, foreign, "never", "again", take_over=take_over).answer == "", step
        with open_lake(home, new_id=Numbered("after")) as lake:
            repository = lake.repository("x")
            assert (refs_of(repository), read(repository, "main")) == expected
            assert list(fsck(repository)) == []
            if take_over:
                claim = json.loads((foreign / "_lakecli/repository.json").read_bytes())
                assert claim["uuid"] == repository.record.uuid
                push(repository, "main", options=PushOptions("me"))
            else:
                assert files(foreign) == before


def copy(template: Path, target: Path) -> Path:
    shutil.copytree(template, target)
    return target


def refused(home: Path, foreign: Path) -> None:
    """Check that another machine does not take what was claimed."""
    with (
        open_lake(home, new_id=Numbered("other")) as lake,
        pytest.raises(Refused, match="is a repository of lakecli already"),
    ):
        clone_from_lakefs(lake, str(foreign), "x", dump(), take_over=True, range_entries=16)

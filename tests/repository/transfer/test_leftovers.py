"""Commands that remove files of killed uploads from a local namespace."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import pytest

from lakecli.engine.runner import LocalRunner
from lakecli.fsck.check import fsck
from lakecli.gc.policy import GcOptions
from lakecli.repository.upload import UploadOptions, deposit, upload_file, upload_stream
from lakecli.repository.upload_tree import upload_tree
from tests.gc.shared import advance
from tests.stores.local.test_leftovers import kill, make_old, start, temporaries

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.contract import Repository

OPTIONS = UploadOptions()
COMMANDS: dict[str, Callable[[Repository, Path], object]] = {
    "file": lambda repository, source: upload_file(
        repository, "main", b"f", source=source / "f", options=OPTIONS
    ),
    "stream": lambda repository, _: upload_stream(
        repository, "main", b"f", source=BytesIO(b"1"), options=OPTIONS
    ),
    "tree": lambda repository, source: upload_tree(
        repository, "main", b"", source=source, options=OPTIONS
    ),
    "deposit": lambda repository, source: deposit(
        repository, "main", b"f", source=source / "f", options=OPTIONS
    ),
    "fsck": lambda repository, _: list(fsck(repository)),
    "gc": lambda repository, _: advance(repository, LocalRunner(), GcOptions()),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_abandoned_files_are_removed_and_running_uploads_stay(
    repository: Repository, tmp_path: Path, name: str
) -> None:
    root, source = tmp_path / "namespace", tmp_path / "source"
    source.mkdir()
    (source / "f").write_bytes(b"1")
    kill(start(root))
    left = set(temporaries(root))
    with start(root) as running:
        make_old(root)
        COMMANDS[name](repository, source)
        now = set(temporaries(root))
        assert now
        assert not now & left
        out, _ = running.communicate("\n")
        assert out == "done\n"
    assert temporaries(root) == []


def test_a_plan_and_a_dry_run_remove_nothing(repository: Repository, tmp_path: Path) -> None:
    root = tmp_path / "namespace"
    kill(start(root))
    make_old(root)
    advance(repository, LocalRunner(), GcOptions(dry_run=True))
    assert temporaries(root)

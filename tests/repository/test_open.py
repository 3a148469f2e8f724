from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lakecli
from lakecli.errors import NotFound, UsageError
from lakecli.home import home_paths
from lakecli.repository import repo
from lakecli.repository.commit import commit
from lakecli.repository.core.lake import Home, Lake
from lakecli.repository.core.read import read_object
from lakecli.repository.stat import stat
from lakecli.repository.upload import UploadOptions, upload_file
from tests.support.lakes import Numbered, Ticking

if TYPE_CHECKING:
    from pathlib import Path


def test_a_program_opens_a_repository_by_its_uri(tmp_path: Path) -> None:
    from lakecli.repository.core.lake import Runtime

    paths = home_paths(tmp_path / "home")
    with Lake.open(Home(paths.store, paths.cache), Runtime(Ticking(), Numbered())) as lake:
        repo.create(lake, "sales", str(tmp_path / "namespace"))
    source = tmp_path / "a.csv"
    source.write_text("a,b\n")

    with lakecli.open("lakefs://sales", home=tmp_path / "home") as sales:
        upload_file(sales, "main", b"in/a.csv", source=source, options=UploadOptions())
        made = commit(sales, "main", message="Orders", committer="etl")
        entry = stat(sales, "main@", b"in/a.csv")
        assert b"".join(read_object(sales, entry)) == b"a,b\n"
    with lakecli.open("lakefs://sales", home=tmp_path / "home") as sales:
        assert stat(sales, made.id, b"in/a.csv") == entry


def test_the_home_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakecli.repository.core.lake import Runtime

    paths = home_paths(tmp_path / "elsewhere")
    with Lake.open(Home(paths.store, paths.cache), Runtime(Ticking(), Numbered())) as lake:
        repo.create(lake, "sales", str(tmp_path / "namespace"))
    monkeypatch.setenv("LAKECLI_HOME", str(tmp_path / "elsewhere"))
    with lakecli.open("lakefs://sales") as sales:
        assert sales.name == "sales"
    with pytest.raises(NotFound):
        lakecli.open("lakefs://sales", home=tmp_path / "other")


def test_what_cannot_be_opened_leaves_nothing_open(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(NotFound):
            lakecli.open("lakefs://nowhere", home=tmp_path)
    with pytest.raises(UsageError):
        lakecli.open("lakefs://sales/main", home=tmp_path)


def test_the_platform_says_where_things_lie_by_default(home: Path) -> None:
    paths = home_paths()
    assert paths.config == home / ".config/lakecli/config.toml"
    assert paths.store == home / ".local/share/lakecli/store"
    assert paths.cache == home / ".cache/lakecli"

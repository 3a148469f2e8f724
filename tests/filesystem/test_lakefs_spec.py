"""Programs that were written for the package lakefs-spec."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import fsspec
import pytest

from lakecli.errors import LakeWarning
from lakecli.filesystem import LakeFileSystem, system

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    system._warn_of_lakefs_spec.cache_clear()
    yield
    system._warn_of_lakefs_spec.cache_clear()


@pytest.mark.parametrize(
    "option",
    [
        "host",
        "username",
        "password",
        "api_key",
        "api_token",
        "access_token",
        "verify_ssl",
        "configfile",
        "create_branch_ok",
        "source_branch",
    ],
)
def test_options_of_a_server_are_refused(demo: Path, option: str) -> None:
    with pytest.raises(ValueError, match=rf"lakefs-spec.*: {option} \(lakecli") as refused:
        fsspec.filesystem("lakefs", **{option: "a secret"})
    assert "secret" not in str(refused.value)
    with pytest.raises(ValueError, match="lakefs-spec"):
        fsspec.open("lakefs://demo/main/x", **{option: "a secret"}).open()


def test_lakefs_spec_beside_lakecli_is_a_warning_once(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LakeFileSystem(skip_instance_cache=True)
    system._warn_of_lakefs_spec.cache_clear()
    (tmp_path / "lakefs_spec.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(LakeWarning, match="lakefs-spec is installed") as found:
        _ = [LakeFileSystem(skip_instance_cache=True) for _ in range(2)]
    assert len(found) == 1


def test_what_the_page_says_of_lakefs_spec(demo: Path) -> None:
    fs = fsspec.filesystem("lakefs", committer="etl <etl@example.com>")
    assert not hasattr(fs, "client")
    with pytest.raises(TypeError):
        fs.transaction("demo", "main")
    with pytest.raises(io.UnsupportedOperation, match="ab"):
        fs.open("lakefs://demo/main/x", "ab")
    with fs.committing("lakefs://demo/main", "one commit"):
        fs.pipe("lakefs://demo/main/orders/monday.csv", b"id\n")
    assert fs.cat("lakefs://demo/main@/orders/monday.csv") == b"id\n"

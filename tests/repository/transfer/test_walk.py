"""Walking a directory: order, links, special files, depth, names of any bytes."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli import native
from lakecli.repository.transfer.walk import FileOpener, LinkPolicy, named, walk

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.native import Core

ALL = list(LinkPolicy)


def relatives(root: Path, policy: LinkPolicy = LinkPolicy.FAIL) -> list[bytes]:
    return [found.relative for found in walk(os.fsencode(root), policy) if found.problem is None]


def problems(root: Path, policy: LinkPolicy) -> dict[bytes, str | None]:
    found = walk(os.fsencode(root), policy)
    return {each.relative: each.problem for each in found if each.problem is not None}


def fill(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_files_are_in_path_order(tmp_path: Path) -> None:
    fill(tmp_path, "a/x", "a-b", "a.c", "a/b/c", "b", "a0")
    assert relatives(tmp_path) == sorted([b"a-b", b"a.c", b"a/b/c", b"a/x", b"a0", b"b"])


@given(st.sets(st.binary(min_size=1, max_size=6), max_size=12))
def test_names_of_any_bytes(tmp_path_factory: pytest.TempPathFactory, names: set[bytes]) -> None:
    root = os.fsencode(tmp_path_factory.mktemp("walk"))
    usable = {name for name in names if not {b"\0", b"/"} & {bytes([b]) for b in name}}
    usable -= {b".", b".."}
    for name in usable:
        os.mkdir(root + b"/" + name + b"-dir")
        for path in (root + b"/" + name, root + b"/" + name + b"-dir/" + name):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    expected = sorted([*usable, *(name + b"-dir/" + name for name in usable)])
    assert [found.relative for found in walk(root, LinkPolicy.FAIL)] == expected


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A file, a pipe, a socket, and links to a file, a directory, nothing and themselves."""
    root = tmp_path / "root"
    fill(root, "file", "dir/inside")
    fill(tmp_path, "outside/there")
    (root / "to-file").symlink_to("file")
    (root / "to-dir").symlink_to(tmp_path / "outside")
    (root / "to-nothing").symlink_to("nowhere")
    (root / "to-itself").symlink_to("to-itself")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(root / "socket"))  # an absolute one may be too long
    return root


def test_links_and_special_files_are_problems(mixed: Path) -> None:
    assert relatives(mixed) == [b"dir/inside", b"file"]
    assert problems(mixed, LinkPolicy.FAIL) == {
        b"pipe": "a special file (pipe, socket or device)",
        b"socket": "a special file (pipe, socket or device)",
        b"to-dir": "a symbolic link",
        b"to-file": "a symbolic link",
        b"to-itself": "a symbolic link",
        b"to-nothing": "a symbolic link",
    }


def test_links_and_special_files_can_be_skipped(mixed: Path) -> None:
    assert relatives(mixed, LinkPolicy.SKIP) == [b"dir/inside", b"file"]
    assert problems(mixed, LinkPolicy.SKIP) == {}


def test_links_can_be_followed(mixed: Path) -> None:
    assert relatives(mixed, LinkPolicy.FOLLOW) == [
        b"dir/inside",
        b"file",
        b"to-dir/there",
        b"to-file",
    ]
    found = problems(mixed, LinkPolicy.FOLLOW)
    assert found[b"to-nothing"] == "a broken symbolic link"
    assert "cannot be followed" in (found[b"to-itself"] or "")
    assert set(found) == {b"pipe", b"socket", b"to-nothing", b"to-itself"}


def test_a_link_to_its_own_directory_ends(tmp_path: Path) -> None:
    fill(tmp_path, "a/file")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    assert relatives(tmp_path, LinkPolicy.FOLLOW) == [b"a/file"]
    assert problems(tmp_path, LinkPolicy.FOLLOW) == {
        b"a/up": "a symbolic link that leads back into itself"
    }


def test_directories_deeper_than_the_recursion_limit_are_walked(tmp_path: Path) -> None:
    depth = 400
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT, dir_fd=here))
    os.close(here)
    file = b"d/" * depth + b"file"
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth)
    try:
        assert relatives(tmp_path) == [file]
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("policy", ALL)
def test_an_unreadable_directory_is_a_problem(tmp_path: Path, policy: LinkPolicy) -> None:
    assert problems(tmp_path / "gone", policy) == {b"": "no such file or directory"}


def test_of_what_was_walked_only_small_regular_files_are_read_together(
    tmp_path: Path, core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that takes their places meanwhile is followed, or waited for."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    fill(root, "above", "a/file", "a/large", "a/link", "a/pipe", "a/gone", "b/file", "c/d/file")
    fill(outside, "file", "d/file")
    (root / "a/large").write_text("x" * 101)
    os.utime(root / "a/file", (7, 7))
    found = [*walk(os.fsencode(root), LinkPolicy.FAIL)]
    for name in ("a/link", "a/pipe", "a/gone"):
        (root / name).unlink()
    (root / "a/link").symlink_to(outside / "file")
    os.mkfifo(root / "a/pipe")
    for name in ("b", "c"):
        (root / name).rename(tmp_path / name)
        (root / name).symlink_to(outside)
    monkeypatch.setattr(native, "core", lambda: core)
    opener = FileOpener(os.fsencode(root), LinkPolicy.FAIL)
    read = dict(zip([each.relative for each in found], opener.read_small(found, 100), strict=True))
    assert {name for name, content in read.items() if content is not None} == {b"above", b"a/file"}
    assert read[b"a/file"] == ((root / "a/file").read_bytes(), 7)
    follows = FileOpener(os.fsencode(root), LinkPolicy.FOLLOW)
    assert follows.read_small(found, 100) == [None] * len(found)
    names = [each.relative for each in found]
    assert opener.read_small([*named(os.fsencode(root), names, LinkPolicy.FAIL)], 100) == [
        *read.values()
    ]


def test_a_name_that_no_file_can_have_is_a_problem_of_this_name_only(tmp_path: Path) -> None:
    fill(tmp_path, "a", "c")
    found = named(os.fsencode(tmp_path), [b"a", b"b\0", b"c"], LinkPolicy.FAIL)
    illegal = "not a relative name without '.', '..' and NUL"
    assert [each.problem for each in found] == [None, illegal, None]

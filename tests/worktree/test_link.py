"""`.lakefs_ref.yaml`."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import MAX_PATH_SIZE, CommitId
from lakecli.base.uri import parse_path
from lakecli.errors import IntegrityError, Refused, UsageError
from lakecli.worktree.link import Link, find_root, read_link, write_link
from tests.support.disk import open_below

if TYPE_CHECKING:
    from pathlib import Path

HEAD = CommitId("ab" * 32)
UNICODE = st.text(st.characters(exclude_categories=["Cs"]))


def link_of(path: str = "lakefs://demo/main/data/", **fields: object) -> Link:
    return Link(parse_path(path, allow_empty=True), HEAD, **fields)  # type: ignore[arg-type]


def test_what_lakectl_writes_is_read(tmp_path: Path) -> None:
    # As yaml.v3 writes lakectl's struct.
    (tmp_path / ".lakefs_ref.yaml").write_text(
        f'src: lakefs://demo/main/my data/\nat_head: {HEAD}\nactive_operation: ""\n'
    )
    assert read_link(tmp_path) == link_of("lakefs://demo/main/my data/")


def test_a_list_without_items_is_empty(tmp_path: Path) -> None:
    (tmp_path / ".lakefs_ref.yaml").write_text(
        f"src: lakefs://demo/main/data/\nat_head: {HEAD}\ninclude:\nexclude:\nunresolved:\n"
    )
    assert read_link(tmp_path) == link_of()


def test_a_path_without_a_slash_at_its_end_is_a_directory(tmp_path: Path) -> None:
    (tmp_path / ".lakefs_ref.yaml").write_text(f"src: lakefs://demo/main/data\nat_head: {HEAD}\n")
    assert read_link(tmp_path) == link_of("lakefs://demo/main/data/")


def test_what_is_written_has_lakectls_entries_first(tmp_path: Path) -> None:
    write_link(tmp_path, link_of(active="pull", target=HEAD, include=("*.csv",)))
    assert (tmp_path / ".lakefs_ref.yaml").read_text() == (
        f"src: lakefs://demo/main/data/\nat_head: {HEAD}\nactive_operation: pull\n"
        f'target: {HEAD}\ninclude:\n  - "*.csv"\n'
    )
    assert [each.name for each in tmp_path.iterdir()] == [".lakefs_ref.yaml"]


@given(
    src=UNICODE.filter(lambda text: len(text.encode()) < 300 and "\0" not in text),
    unresolved=st.lists(st.binary(min_size=1, max_size=20), max_size=3),
    include=st.lists(UNICODE.filter(lambda text: text and "\0" not in text), max_size=3),
)
def test_every_link_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, src: str, unresolved: list[bytes], include: list[str]
) -> None:
    root = tmp_path_factory.mktemp("link")
    path = parse_path(
        "lakefs://demo/main/" + (src.rstrip("/") + "/" if src else ""), allow_empty=True
    )
    link = Link(path, HEAD, include=tuple(include), unresolved=tuple(unresolved))
    write_link(root, link)
    assert read_link(root) == link


@pytest.mark.parametrize(
    "text",
    [
        "",
        "src: [a, b]\n",
        "src: &x lakefs://demo/main/\nat_head: *x\n",
        "src: !!python/object/apply:os.system [id]\n",
        f"src: lakefs://demo/main/\nsrc: lakefs://demo/dev/\nat_head: {HEAD}\n",
        "src: lakefs://demo/main/\nat_head: 12\n",
        f"src: s3://demo/main/\nat_head: {HEAD}\n",
        f"src: lakefs://../main/\nat_head: {HEAD}\n",
        f"src: lakefs://demo/main/\nat_head: {HEAD}\ninclude: text\n",
        f'src: "lakefs://demo/main/\\ud800"\nat_head: {HEAD}\n',
        f"- src: lakefs://demo/main/\n- at_head: {HEAD}\n",
        "\xff\xfe",
        f'src: lakefs://demo/main/\nat_head: {HEAD}\nunresolved:\n  - ""\n',
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / ".lakefs_ref.yaml").write_bytes(text.encode("latin-1", "replace"))
    with pytest.raises(IntegrityError, match=r"malformed .*\.lakefs_ref\.yaml"):
        read_link(tmp_path)


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecli.worktree.link.MAX_SIZE", 100)
    (tmp_path / ".lakefs_ref.yaml").write_text("x" * 101)
    with pytest.raises(IntegrityError, match="more than 100 bytes"):
        read_link(tmp_path)


def test_as_many_bytes_and_paths_are_written_as_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = link_of(unresolved=(b"a", b"b"), left_out=(b"c", b"d"))
    write_link(tmp_path, link)
    size = (tmp_path / ".lakefs_ref.yaml").stat().st_size
    monkeypatch.setattr("lakecli.worktree.link.MAX_SIZE", size)
    monkeypatch.setattr("lakecli.worktree.link._MAX_PATHS", 2)
    write_link(tmp_path, link)
    assert read_link(tmp_path) == link
    for more in (link_of(unresolved=(b"a", b"b", b"c")), link_of(left_out=(b"a", b"b", b"c"))):
        with pytest.raises(Refused, match="too many paths"):
            write_link(tmp_path, more)
    monkeypatch.setattr("lakecli.worktree.link.MAX_SIZE", size - 1)
    with pytest.raises(Refused, match="too many paths"):
        write_link(tmp_path, link)
    with pytest.raises(IntegrityError, match="more than"):
        read_link(tmp_path)


@pytest.mark.parametrize("name", ["include", "exclude"])
def test_patterns_that_cannot_be_read_again_are_not_written(tmp_path: Path, name: str) -> None:
    for patterns in (["x" * 4096], ["x"] * 10_000):
        link = link_of()._replace(**{name: tuple(patterns)})  # type: ignore[arg-type]
        write_link(tmp_path, link)
        assert read_link(tmp_path) == link
    for patterns in (["x" * 4097], [""], ["x"] * 10_001):
        with pytest.raises(UsageError, match=name):
            write_link(tmp_path, link._replace(**{name: tuple(patterns)}))  # type: ignore[arg-type]
    assert read_link(tmp_path) == link


def test_the_longest_path_and_operation_are_read(tmp_path: Path) -> None:
    longest = link_of(active="x" * 64, unresolved=(b"a", b"\xff" * MAX_PATH_SIZE))
    write_link(tmp_path, longest)
    assert read_link(tmp_path) == longest
    text = (tmp_path / ".lakefs_ref.yaml").read_text()
    for old, new in (("x" * 64, "x" * 65), ("%FF" * MAX_PATH_SIZE, "%FF" * MAX_PATH_SIZE + "x")):
        (tmp_path / ".lakefs_ref.yaml").write_text(text.replace(old, new))
        with pytest.raises(IntegrityError, match="allowed are"):
            read_link(tmp_path)


def test_a_link_is_durable_before_it_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[object] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        status = os.fstat(descriptor)
        is_named = (tmp_path / ".lakefs_ref.yaml").exists()
        synced.append("names" if stat.S_ISDIR(status.st_mode) else status.st_size)
        assert is_named == (synced[-1] == "names")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    umask = os.umask(0o022)
    try:
        write_link(tmp_path, link_of())
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / ".lakefs_ref.yaml").stat().st_mode) == 0o644
    assert open_below(tmp_path) == []
    assert synced == [(tmp_path / ".lakefs_ref.yaml").stat().st_size, "names"]


def test_an_error_names_the_line(tmp_path: Path) -> None:
    (tmp_path / ".lakefs_ref.yaml").write_text("src: x\nat_head: 'y\n")
    with pytest.raises(IntegrityError, match="line 2"):
        read_link(tmp_path)


def test_a_uri_that_is_not_unicode_cannot_be_linked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not Unicode"):
        write_link(tmp_path, link_of("lakefs://demo/main/\udcff/"))
    assert list(tmp_path.iterdir()) == []


def test_a_directory_below_a_linked_one_belongs_to_it(tmp_path: Path) -> None:
    write_link(tmp_path, link_of())
    (tmp_path / "a/b").mkdir(parents=True)
    assert find_root(tmp_path / "a/b") == tmp_path
    assert find_root(tmp_path.parent) is None


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("plain text", "plain text"),
        ("plain # comment", "plain"),
        ("'it''s'", "it's"),
        ('"tab\\tA\\x41\\u0041"  # comment', "tab\tAAA"),
        ("x\n# comment\n", "x"),
        ("|-\n    x y", "x y"),
        ('"\\uD7FF\\uE000\\U0010FFFF"', "\ud7ff\ue000\U0010ffff"),
    ],
)
def test_what_others_write_is_read_as_yaml(tmp_path: Path, text: str, pattern: str) -> None:
    (tmp_path / ".lakefs_ref.yaml").write_text(
        f"---\nsrc: lakefs://demo/main/data/\nat_head: {HEAD}\ninclude:\n- {text}\n"
    )
    assert read_link(tmp_path) == link_of(include=(pattern,))


def test_what_lakecli_writes_is_read_without_pyyaml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    link = link_of(
        "lakefs://demo/main/my \u2028 data/",
        include=("*", "~", "no", "a: b", "tab\t\x7f\ufeff", "12"),
        unresolved=(b"x",),
    )
    write_link(tmp_path, link)
    assert read_link(tmp_path) == link


@pytest.mark.parametrize("value", ["{a", "*a", "'a", '"a', '"\\q"', "[[a]]", "[" * 5000, "a: b"])
def test_whatever_is_no_text_is_refused(tmp_path: Path, value: str) -> None:
    (tmp_path / ".lakefs_ref.yaml").write_text(f"src: {value}\nat_head: {HEAD}\n")
    with pytest.raises(IntegrityError, match="malformed"):
        read_link(tmp_path)

"""`.lakefs_ref.yaml`, and the part of YAML that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.errors import IntegrityError, UsageError
from lakecli.model import CommitId
from lakecli.uri import parse_path
from lakecli.worktree import flat_yaml
from lakecli.worktree.link import Link, find_root, read_link, write_link

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
        f"src: |\n  lakefs://demo/main/\nat_head: {HEAD}\n",
        f"src: lakefs://demo/main/\nat_head: {HEAD}\ninclude: text\n",
        f'src: "lakefs://demo/main/\\ud800"\nat_head: {HEAD}\n',
        f"- src: lakefs://demo/main/\n- at_head: {HEAD}\n",
        "\xff\xfe",
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


def test_a_uri_that_is_not_unicode_cannot_be_linked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not Unicode"):
        write_link(tmp_path, link_of("lakefs://demo/main/\udcff/"))
    assert list(tmp_path.iterdir()) == []


def test_a_directory_below_a_linked_one_belongs_to_it(tmp_path: Path) -> None:
    write_link(tmp_path, link_of())
    (tmp_path / "a/b").mkdir(parents=True)
    assert find_root(tmp_path / "a/b") == tmp_path
    assert find_root(tmp_path.parent) is None


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), UNICODE | st.lists(UNICODE)))
def test_flat_yaml_reads_what_it_writes(entries: dict[str, str | list[str]]) -> None:
    assert flat_yaml.load(flat_yaml.dump(entries)) == entries


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain text", "plain text"),
        ("plain # comment", "plain"),
        ("'it''s'", "it's"),
        ('"tab\\tA\\x41\\u0041"  # comment', "tab\tAAA"),
        ("~", ""),
        ("", ""),
    ],
)
def test_scalars_are_read_as_yaml_has_them(text: str, value: str) -> None:
    assert flat_yaml.load(f"key: {text}\n") == {"key": value}

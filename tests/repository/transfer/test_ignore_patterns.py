"""Patterns as in .gitignore, in time that grows with the path times the pattern."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from lakecli.base.git_patterns import MAX_SIZE, Pattern
from lakecli.errors import UsageError
from lakecli.repository.transfer.ignore_patterns import IGNORE_FILE, MAX_PATTERNS, Ignore, Patterns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.mark.parametrize(
    ("lines", "taken", "left"),
    [
        # No wildcard and no class matches a slash.
        ([b"tmp[!0-9]*"], [b"tmpx", b"tmpx/y"], [b"tmp/a.csv", b"tmp1"]),
        ([b"part[+-:]*"], [b"part1"], [b"part/x.csv"]),
        ([b"a[/x]b"], [b"axb"], [b"a/b", b"c/axb"]),
        # Named classes, of ASCII; an unknown one spoils the pattern.
        ([b"core.[[:digit:]]*"], [b"core.1"], [b"core.x"]),
        ([b"[[:alpha:]_]"], [b"a", b"_"], [b"1", b"\xe9"]),
        ([b"[[:nothing:]a]"], [], [b"a"]),
        ([b"[[:]"], [b"[", b":"], [b"a"]),
        # Brackets, ranges and backslashes.
        ([b"[a\\]b]"], [b"]", b"a"], [b"\\", b"a]b]"]),
        ([b"[]a]"], [b"]", b"a"], [b"b"]),
        ([b"[z-a]b"], [b"zb"], [b"ab", b"-b"]),
        ([b"[--0]"], [b"-", b".", b"0"], [b"1"]),
        ([b"[a-"], [], [b"[a-", b"a"]),
        ([b"x\\"], [], [b"x", b"x\\"]),
        ([b"\\\\\\"], [], [b"\\", b"\\\\"]),
        ([b"a\\*"], [b"a*"], [b"ab"]),
        # Bytes, not characters.
        ([b"caf?"], [b"cafe"], ["café".encode()]),
        ([b"caf??"], ["café".encode()], [b"cafe"]),
        ([b"[\x80-\xff]*"], [b"\xff.csv"], [b"a.csv"]),
        # Spaces at the end, comments, carriage returns of one's own, and NUL, which ends a line.
        ([b"a  "], [b"a"], [b"a  "]),
        ([b"a\\  "], [b"a "], [b"a", b"a  "]),
        ([b"a\\\\ "], [b"a\\"], [b"a\\ "]),
        ([b"a\t"], [b"a\t"], [b"a"]),
        ([b"#a", b"\\#b", b"\\!c"], [b"#b", b"!c"], [b"#a"]),
        ([b"a\0b"], [b"a"], [b"a\0b"]),
        # Any directories, in every position.
        ([b"a/**/"], [b"a/b/c"], [b"a/b", b"a"]),
        ([b"a/**"], [b"a/b", b"a/b/c"], [b"a"]),
        ([b"a/**/b"], [b"a/b", b"a/x/y/b"], [b"x/a/b"]),
        ([b"**/a/b"], [b"a/b", b"x/y/a/b"], [b"xa/b"]),
        ([b"**\\/a"], [b"x/a"], [b"a"]),
        ([b"/**"], [b"a", b"a/b"], []),
        ([b"x/a**b"], [b"x/acb"], [b"x/a/b"]),
        # Git matches what is behind the literal as if it were all.
        ([b"foo**/bar"], [b"foo/x/bar", b"foobar", b"foox/bar"], [b"xfoo/bar"]),
        ([b"x/foo**"], [b"x/foo", b"x/foob/c"], [b"x/fo"]),
        ([b"a//b", b"a//", b"/", b"//", b"", b"!"], [], [b"a/b", b"a"]),
        # What is below a directory that is taken does not come back; a directory that is not taken
        # says nothing about what is below it.
        ([b"secrets/", b"!*.md"], [b"secrets/key.md"], [b"a.md"]),
        ([b"*.txt", b"!a/"], [b"a/x.txt"], [b"a/x"]),
        ([b"*", b"!a/", b"!*.csv"], [b"b/x.csv", b"a/x"], [b"a/x.csv", b"x.csv"]),
        ([b"a/*", b"!a/b/", b"a/b/*", b"!a/b/c"], [b"a/x", b"a/b/x"], [b"a/b/c"]),
        ([b"dir/"], [b"dir/", b"x/dir/y"], [b"dir"]),
        ([b".*"], [b".a", b"b/.c/d"], [b"a.b"]),
        ([b"A"], [b"A"], [b"a"]),
    ],
)
def test_patterns_take_what_git_excludes(
    lines: list[bytes], taken: list[bytes], left: list[bytes]
) -> None:
    patterns = Patterns(lines)
    assert [path for path in taken if not patterns.takes(path)] == []
    assert [path for path in left if patterns.takes(path)] == []


def test_files_are_read_as_git_reads_them(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / ".lakefsignore").write_bytes(b"\xef\xbb\xbf*.log\r\n/a/b/\r\n!keep.log\r")
    (tmp_path / "a/.lakefsignore").write_bytes(b"!x.log\n")
    (tmp_path / "a/b/.lakefsignore").write_bytes(b"!*")
    ignore = Ignore(bytes(tmp_path))
    found = ignore.match(b"a/y.log")
    assert found == (IGNORE_FILE, 1, "*.log", True)
    assert ignore.match(b"a/x.log") == (b"a/" + IGNORE_FILE, 1, "!x.log", False)
    assert ignore.match(b"a/b/c/d") == (IGNORE_FILE, 2, "/a/b/", True)
    assert not ignore.ignores(b"keep.log")
    assert ignore.match(b"a/c") is None


@pytest.mark.parametrize(
    "pattern",
    [
        b"*?" * 14,
        b"*a" * 1000 + b"b",
        b"**/a/" * 400 + b"b",
        b"**/*a*a*b/" * 200,
        b"*" * 4000 + b"b",
        b"**/?/*/[!b]/" * 300 + b"c",
        b"a**/" * 900 + b"b",
        b"[!a]" * 1000,
    ],
)
def test_no_pattern_takes_more_than_linear_time(pattern: bytes) -> None:
    for path in (b"a" * 255, b"/".join([b"a" * 60] * 60), b"a/" * 2000 + b"c"):
        begin = time.process_time()
        patterns = Patterns([pattern])
        patterns.takes(path)
        patterns.includes(path)
        assert time.process_time() - begin < 0.5


def test_only_files_with_a_name_of_a_pattern_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bytes] = []
    levels = Pattern.levels

    def watched(self: Pattern, components: Sequence[bytes], wanted: int) -> int:
        looked.append(b"/".join(components))
        return levels(self, components, wanted)

    monkeypatch.setattr(Pattern, "levels", watched)
    (tmp_path / ".lakefsignore").write_bytes(b"*.tmp\nd/**/x-[0-9]\nbuild/\nd/e\n!keep*\n")
    ignore, patterns = Ignore(bytes(tmp_path)), Patterns([b"*.tmp", b"build/"])
    for number in range(100):
        assert ignore.match(b"a%d.csv" % number) is None
        assert not patterns.takes(b"a%d.csv" % number)
    for name in (b"build", b"x-a", b"a.tmp2"):
        assert not ignore.ignores(name)
    assert looked == []
    assert ignore.ignores(b"a.tmp")
    assert ignore.ignores(b"build/")
    assert ignore.ignores(b"d/f/x-1")
    assert set(looked) >= {b"a.tmp", b"build", b"d/f/x-1"}


def test_a_file_below_an_ignored_directory_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / ".lakefsignore").write_bytes(b"d/\n")
    (tmp_path / "d/.lakefsignore").write_bytes(b"a" * (MAX_SIZE + 1))
    assert Ignore(bytes(tmp_path)).ignores(b"d/file")


def test_patterns_are_bounded() -> None:
    with pytest.raises(UsageError, match="more than"):
        Patterns([b"a" * (MAX_SIZE + 1)])
    with pytest.raises(UsageError, match="more than"):
        Patterns([b"a"] * (MAX_PATTERNS + 1))

"""Patterns as in .gitignore, compared with `pathspec`, and in linear time."""

from __future__ import annotations

import time
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from lakecli.errors import UsageError
from lakecli.repository.transfer.ignore_patterns import MAX_PATTERNS, MAX_SIZE, Patterns

components = st.text("ab*?", min_size=1, max_size=4) | st.sampled_from(
    ["**", "*", "[ab]", "[!a]", "[^b]*", "\\*", "a\\?", "[a", ".a", "*.b", "[]a]"]
)
lines = st.builds(
    lambda bang, lead, parts, tail: bang + lead + "/".join(parts) + tail,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(components, min_size=1, max_size=4),
    st.sampled_from(["", "", "/"]),
)
# No walk finds a name of dots alone, and pathspec leaves out a leading ``./``.
names = st.text("ab.*", min_size=1, max_size=4).filter(lambda name: name not in {".", ".."})
paths = st.lists(names, min_size=1, max_size=4).map("/".join)


@given(st.lists(lines, min_size=1, max_size=3), paths)
@example(["**/a/**/b"], "x/a/y/a/b")
@example(["a/**", "!a/b"], "a/b")
def test_patterns_match_what_pathspec_matches(given_lines: list[str], path: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        checked = GitIgnoreSpec.from_lines(given_lines).check_file(path)
    found = Patterns(given_lines).match(path)
    expected = None if checked.index is None else (checked.index, checked.include)
    assert found == expected


@pytest.mark.parametrize(
    "pattern",
    ["*?" * 14, "*a" * 1000 + "b", "**/a/" * 400 + "b", "**/*a*a*b/" * 200, "*" * 4000 + "b"],
)
def test_no_pattern_takes_more_than_linear_time(pattern: str) -> None:
    for path in ("a" * 255, "/".join(["a" * 60] * 60), "a/" * 2000 + "c"):
        compiled = Patterns([pattern])
        begin = time.process_time()
        compiled.match(path)
        assert time.process_time() - begin < 0.5


def test_patterns_are_bounded() -> None:
    with pytest.raises(UsageError, match="more than"):
        Patterns(["a" * (MAX_SIZE + 1)])
    with pytest.raises(UsageError, match="more than"):
        Patterns(["a"] * (MAX_PATTERNS + 1))

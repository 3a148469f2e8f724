from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakecli.repository.handoff.links import one_line, problem_of, readable, shell_word, url_text
from tests.support.tools import require_tool

NAMES = st.binary(min_size=1, max_size=40)


@pytest.mark.parametrize(
    "name",
    [b"a", b"a/b.csv", b"a/", b"...", b"a..b", b"-rf", b" ", b"\n", b"\xff", b"a\\..\\b", b"~"],
)
def test_a_path_becomes_a_file_name(name: bytes) -> None:
    assert problem_of(name, 0) is None


@pytest.mark.parametrize(
    "name",
    [
        *(b"", b"/", b"/etc/passwd", b"..", b"../a", b"a/..", b"a/../b", b".", b"./a", b"a/./b"),
        *(b"a//b", b"a//", b"//", b"a\0b", b".lakecli-parts/x", b".LAKECLI-parts/x"),
    ],
)
def test_a_path_that_cannot_be_a_file_is_refused(name: bytes) -> None:
    problem = problem_of(name, 0)
    assert problem
    assert problem.isprintable()
    assert "'" not in problem


def test_a_name_with_a_slash_at_its_end_is_a_directory_only_without_bytes() -> None:
    assert problem_of(b"a/", 0) is None
    assert problem_of(b"a/", 1) == "one of its components is empty or ."


@pytest.mark.parametrize("name", [b"a", b"-rf", b"a=1/b.csv", b"=/-c_d.E", b"a..b"])
def test_a_plain_name_is_a_file_name_in_every_form(name: bytes) -> None:
    assert problem_of(name, 0) is None
    assert shell_word(name) == name.decode()


@given(NAMES)
def test_an_accepted_name_stays_below_the_directory(name: bytes) -> None:
    if problem_of(name, 0) is None:
        path = os.path.normpath(b"/root/" + name)
        assert path.startswith(b"/root/")
        assert path == b"/root/" + name.removesuffix(b"/")


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_shells_read_back_every_byte(shell: str) -> None:
    names = [bytes([byte]) + b"0" + bytes([byte]) for byte in range(1, 256)]
    names += [b"end\n\n", b"\\0101", b"%s%d", b"\\c", b"$(id)`id`", b"'", b"!!"]
    script = "".join(f"word='{shell_word(name)}'; printf '%b|' \"$word\"\n" for name in names)
    assert script.isascii()
    answer = subprocess.run([require_tool(shell), "-c", script], stdout=subprocess.PIPE, check=True)
    assert answer.stdout == b"".join(name + b"|" for name in names)


@given(NAMES)
@example(b"'; rm -rf /")
def test_quoted_words_hold_no_closing_quote(name: bytes) -> None:
    word = shell_word(name)
    assert word.isascii()
    assert word.isprintable()
    assert "'" not in word


def test_urls_are_escaped_where_they_would_end() -> None:
    plain = "https://h:9/b/k%20%2B~?a=b&c=d%2F;e=(f)*!$,@:[]"
    assert url_text(plain) == plain
    assert url_text("http://h/a'b\"c\\d e\nü\udcff") == "http://h/a%27b%22c%5Cd%20e%0A%C3%BC%FF"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"a b.csv", "a b.csv"),
        ("Übersicht 東京".encode(), "Übersicht 東京"),
        (b"a\\b", "a\\\\b"),
        (b"a\n\r\t\x1b\x7f", "a\\n\\r\\t\\x1b\\x7f"),
        ("gpj\u202egnp.exe".encode(), "gpj\\u202egnp.exe"),
        ("a\u200b\u2028\u2066\ufeffb".encode(), "a\\u200b\\u2028\\u2066\\ufeffb"),
        (b"\xff\x80", "\\xff\\x80"),
        ("\U000e0041".encode(), "\\U000e0041"),
    ],
)
def test_displayed_names_show_control_characters(name: bytes, shown: str) -> None:
    assert readable(name) == shown


@given(NAMES)
def test_displayed_names_are_one_printable_line(name: bytes) -> None:
    assert len(readable(name).splitlines()) == 1
    assert all(c.isprintable() or c.isspace() for c in readable(name))
    assert one_line(name).isascii()
    assert one_line(name).isprintable()

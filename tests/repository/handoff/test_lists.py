"""Lists for curl, read by curl, and for aria2, whose format is a line each."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.repository.handoff.links import (
    DATA,
    EVIL_NAMES,
    PREFIX,
    evil_links,
    link_to,
    links_to,
    write,
)
from tests.support.partners import FileServer
from tests.support.tools import require_tool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer(DATA) as running:
        yield running


def test_curl_downloads_from_its_config(server: FileServer, tmp_path: Path) -> None:
    curl = require_tool("curl")
    marker = link_to(b"void/", b"", server.url(b"nothing"))
    config, left_out = write("curl", [*links_to(server), *evil_links(server), marker])
    assert set(left_out) == {PREFIX + name for name in EVIL_NAMES}
    (tmp_path / "list").write_bytes(config)
    place = tmp_path / "place"
    place.mkdir()
    done = subprocess.run(
        [curl, "--silent", "--show-error", "--config", tmp_path / "list"],
        cwd=place,
        env={},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"curl:" not in done.stderr
    found = {}
    for path in place.rglob("*"):
        if path.is_file():
            found[bytes(path.relative_to(place))] = path.read_bytes()
    assert found == DATA
    assert {path.name for path in tmp_path.iterdir()} == {"list", "place"}


def test_a_list_begins_with_a_description(server: FileServer) -> None:
    for kind in ("curl", "aria2"):
        text, _ = write(kind, links_to(server)[:1])
        about = [line for line in text.decode().splitlines() if line.startswith("#")]
        assert about[0] == f"# 1 objects, {len(DATA[min(DATA)])} bytes, of lakefs://demo/main/data/"
        assert "until 2096-03-01T12:00:00Z" in about[2]


def test_aria2_reads_an_object_in_two_lines(server: FileServer) -> None:
    names = [b"a b.csv", b"d/e", "ünï".encode(), b"-x", b'q"$(id)', b"\xff"]
    text, left_out = write("aria2", [link_to(name, b"1", server.url(name)) for name in names])
    lines = [line for line in text.split(b"\n") if not line.startswith(b"#")]
    assert left_out == {}
    assert lines == [
        *(line for name in names for line in (server.url(name).encode(), b"  out=" + name)),
        b"",
    ]


def test_names_with_newlines_are_left_out_for_aria2(server: FileServer) -> None:
    names = [b"new\nline", b" lead", b"trail ", b"tab\t", b"a\rb", b"\x1b", *EVIL_NAMES]
    text, left_out = write("aria2", [link_to(name, b"1", server.url(name)) for name in names])
    assert set(left_out) == {PREFIX + name for name in names}
    assert all(not line or line.startswith(b"#") for line in text.split(b"\n"))

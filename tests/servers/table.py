"""Measure servers, and write or check their rows in the manual.

Usage::

    python -m tests.servers.table                      all servers that can be had here
    python -m tests.servers.table minio versitygw      these only
    python -m tests.servers.table --list               their names
    python -m tests.servers.table --title "AWS, 2026-11" s3://my-bucket/empty-prefix

A bucket is reached with the environment, as by lakecli. The prefix must be of nobody else; objects
are left below it. With ``--write`` the rows are written into the manual, whose other rows stay.
Without, the exit code is 1 if a row of the manual is another. It is 1, too, if lakecli said
something that was not so.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers.catalogue import SERVERS, Server
from tests.servers.job import CHECKS, Measured, Place, do_main_job

PAGE = Path(__file__).parents[2] / "lakecli/cli/manual/topics/clouds.md"
TITLE, PUSH, LACKS = 24, 4, 36
"""Widths of the columns: a manual page has 69 left on a terminal of 80."""
RACE = CHECKS["race"]
HEAD = f"    {'server':<{TITLE}}{'push':<{PUSH}}  lacks"


class Row(NamedTuple):
    """A row of the table.

    Attributes:
        pushes: whether several machines may push.
        lacks: what the server lacks; of one that lacks nothing it is empty.
    """

    pushes: bool
    lacks: tuple[str, ...]


def row_of(measured: Measured) -> Row:
    """Return the row of a server."""
    return Row(measured.pushes, tuple(each for each in measured.lacks if each != "push"))


def joined(old: Row | None, new: Row) -> Row:
    """Return the row after another run: a race that was lost once outweighs those that were not."""
    if old is None or RACE not in old.lacks or RACE in new.lacks:
        return new
    return Row(pushes=False, lacks=(RACE, *new.lacks))


def lines_of(rows: Mapping[str, Row]) -> Iterator[str]:
    """Yield the lines of a table, in the order of names."""
    yield HEAD
    for title in sorted(rows, key=str.casefold):
        row = rows[title]
        lacks = textwrap.wrap("; ".join(row.lacks) or "nothing", LACKS, break_on_hyphens=False)
        for number, line in enumerate(lacks):
            first, second = (title, "yes" if row.pushes else "no") if number == 0 else ("", "")
            yield f"    {first:<{TITLE}}{second:<{PUSH}}  {line}"


def read_page(page: str) -> tuple[str, dict[str, Row], str]:
    """Return what stands before the table, its rows, and what follows."""
    before, head, rest = page.partition(f"{HEAD}\n")
    if not head:
        raise ValueError(f"{PAGE.name} has no table that begins with {HEAD.strip()!r}")
    body, gap, after = rest.partition("\n\n")
    cells: dict[str, tuple[bool, list[str]]] = {}
    title = ""
    for line in body.splitlines():
        text = line[4:]
        named = text[:TITLE].strip()
        if named:
            title = named
            cells[title] = (text[TITLE : TITLE + PUSH].strip() == "yes", [])
        cells[title][1].append(text[TITLE + PUSH + 2 :])
    rows = {
        title: Row(pushes, () if lines == ["nothing"] else tuple(" ".join(lines).split("; ")))
        for title, (pushes, lines) in cells.items()
    }
    return before, rows, gap + after


def measure(server: Server) -> Measured:
    """Start a server and do the main job on it."""
    with tempfile.TemporaryDirectory() as name:
        home, work = Path(name, "server"), Path(name, "work")
        home.mkdir()
        work.mkdir()
        with server.start(home) as place:
            return do_main_job(place, work)


def measure_bucket(uri: str) -> Measured:
    """Do the main job on a bucket that somebody has, with the credentials of the environment."""
    with tempfile.TemporaryDirectory() as name:
        uri = uri.rstrip("/")
        return do_main_job(Place(uri, dict(os.environ), versioned=uri), Path(name))


def without_version(title: str) -> str:
    """Return the name of a server in a title."""
    return title.partition(" ")[0].casefold()


def main() -> int:
    """Measure what is asked for, print it, and write or compare the rows."""
    parser = argparse.ArgumentParser(description="Measure what servers lack.")
    parser.add_argument("what", nargs="*", help="names of servers, or one URI of a bucket")
    parser.add_argument("--list", action="store_true", help="print the names of servers")
    parser.add_argument("--title", help="how the manual names the bucket's server")
    parser.add_argument("--write", action="store_true", help="write the rows into the manual")
    asked = parser.parse_args()
    if asked.list:
        sys.stdout.write("".join(f"{each.name}\n" for each in SERVERS))
        return 0
    found: dict[str, Measured] = {}
    if asked.what and "://" in asked.what[0]:
        title = asked.title or asked.what[0].partition("://")[0]
        found[title] = _shown(title, measure_bucket(asked.what[0]))
    else:
        known = {each.name: each for each in SERVERS}
        unknown = set(asked.what) - set(known)
        if unknown:
            parser.error(f"unknown servers: {', '.join(sorted(unknown))}")
        for name in asked.what or known:
            try:
                found[known[name].title] = _shown(known[name].title, measure(known[name]))
            except (pytest.skip.Exception, pytest.fail.Exception) as missing:
                sys.stdout.write(f"{known[name].title}: not measured: {missing}\n")
    return conclude(found, write=asked.write)


def _shown(title: str, measured: Measured) -> Measured:
    said = [*measured.said, *(f"UNTRUE: {each}" for each in measured.untrue)]
    sys.stdout.write("\n".join([title, *(f"  {each}" for each in said), ""]))
    sys.stdout.flush()
    return measured


def conclude(found: Mapping[str, Measured], *, write: bool) -> int:
    """Write or compare the rows; return the exit code."""
    before, rows, after = read_page(PAGE.read_text("utf-8"))
    new = {title: joined(rows.get(title), row_of(each)) for title, each in found.items()}
    sys.stdout.write("\n".join(lines_of(new)) + "\n")
    untrue = any(measured.untrue for measured in found.values())
    if write:
        replaced = {without_version(title) for title in new}
        kept = {each: row for each, row in rows.items() if without_version(each) not in replaced}
        table = "\n".join(lines_of(kept | new))
        PAGE.write_text(f"{before}{table}{after}", "utf-8")
        return int(untrue)
    other = {title for title, row in new.items() if rows.get(title) != row}
    if other:
        sys.stdout.write(f"The manual has other rows of: {', '.join(sorted(other))}\n")
    return int(untrue or bool(other))


if __name__ == "__main__":
    sys.exit(main())

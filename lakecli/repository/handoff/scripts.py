"""Self-contained download scripts: what to download, and how to verify it.

The names in a script are data, never code: ASCII in single quotes for the shell, JSON in comments
for Python. A name that no file below a directory can have is only printed as a failure.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Final

from lakecli.base.identity import h
from lakecli.repository.handoff.links import Header, Link, Totals, is_blake3
from lakecli.repository.handoff.manifest import time_text
from lakecli.repository.handoff.names import (
    PARTS,
    one_line,
    plain_name,
    problem_of,
    shell_word,
    url_text,
)

CHUNK: Final = 1_024
"""Objects in one chunk of a shell script, which each worker keeps in memory."""

_MD5_ETAG: Final = re.compile(r"[0-9a-f]{32}(-[0-9]{1,5})?")
"""ETags of S3's form; others are not compared, since stores have several for one object."""

_PARTNER: Final = Path(__file__).with_name("partner")
_MODULES: Final = ("blake3", "files", "requests")
"""The modules of ``partner`` that a Python script begins with, in the order of their imports."""

_IMPORT: Final = re.compile(r"^from lakecli\..* import (?:\([^)]*\)|.*)\n", re.MULTILINE)
_ID_SIZE: Final = 8


def _source(name: str) -> str:
    return (_PARTNER / name).read_text(encoding="ascii")


def _is_md5_etag(etag: str) -> bool:
    return _MD5_ETAG.fullmatch(etag) is not None


def _part_id(link: Link) -> str:
    """Return the name of an incomplete object, unique for its path and checksum."""
    return h(link.path + b"\0" + link.checksum.encode())[:_ID_SIZE].hex()


def _about(header: Header, totals: Totals) -> list[str]:
    place = one_line(f"{header.repository}/{header.ref}/".encode() + header.prefix)
    end = "" if totals.expires_at is None else f" until {time_text(totals.expires_at)}"
    return [
        f"Downloads {totals.count} objects, {totals.size} bytes, of {place}",
        f"at commit {header.commit_id}, signed at {time_text(header.created_at)}.",
        f"Keep this file secret: whoever has it can read them{end}.",
    ]


class ShellScript:
    """Writes a script for a POSIX shell and curl."""

    def __init__(self) -> None:
        self.left_out: list[tuple[bytes, str]] = []
        self._count = 0
        self._in_chunk = 0

    def link(self, link: Link) -> bytes:
        """Return the call that downloads an object."""
        if not link.name:
            return b""  # the directory itself
        self._count += 1
        call = self._call(link).encode("ascii")
        self._in_chunk += 1
        if self._in_chunk == 1:
            call = b"objects() {\n" + call
        if self._in_chunk == CHUNK:
            self._in_chunk = 0
            call += b"}\nrun\n"
        return call

    def _call(self, link: Link) -> str:
        name = plain_name(link.name)
        if name is None:
            name = shell_word(link.name)
            problem = problem_of(link.name)
            if problem is not None:
                self.left_out.append((link.path, problem))
                return f"x '{name}' '{shell_word(problem.encode())}'\n"
            if name.endswith("/"):
                return f"d '{name[:-1]}'\n"
        checksum = link.checksum if is_blake3(link.checksum) else "-"
        etag = f" {link.etag}" if link.etag and _is_md5_etag(link.etag) else ""
        url = url_text(link.url)
        return f"o {_part_id(link)} {link.size} {checksum} '{name}' '{url}'{etag}\n"

    def head(self, header: Header, totals: Totals) -> bytes:
        """Return the program."""
        about = "".join(f"# {line}\n" for line in _about(header, totals))
        expires = "" if totals.expires_at is None else f"{totals.expires_at:%Y%m%d%H%M%S}"
        end = "" if totals.expires_at is None else time_text(totals.expires_at)
        settings = f"total={self._count}\nexpires={expires}\nexpires_text={end}\nparts={PARTS}\n"
        python = _source("blake3.py") + _PRINT_BLAKE3
        assert "'" not in python
        return (
            f"#!/bin/sh\n{about}{_SHELL_USAGE}{settings}"
            f"python_blake3='\n{python}'\n\n{_source('download.sh')}\n"
        ).encode("ascii")

    def tail(self, header: Header, totals: Totals) -> bytes:
        """Return the end of the program."""
        del header, totals
        return b"}\nrun\nfinish\n" if self._in_chunk else b"finish\n"


_SHELL_USAGE: Final = """\
#
# Usage: sh THIS_FILE [DIRECTORY]
#
# Files are written below DIRECTORY, by default the current one. JOBS=8 in the environment is the
# number of downloads at a time. Run the script again to resume an interrupted download; correct
# files that are there already are not downloaded again. It needs curl, and b3sum or python3 to
# verify the files; without these it compares only sizes, and says so.
#
# Exit status: 0 all complete and verified, 1 some failed and all others are complete, 2 the script
# cannot run, 3 all complete but not verified.
"""


_PRINT_BLAKE3: Final = r"""

import re
import sys


def show(name, shown):
    with open(name, "rb") as opened:
        print(blake3_of(opened) + "  " + shown)


if sys.argv[1:] == ["--names"]:
    for line in sys.stdin.buffer:
        part, written = line.rstrip(b"\n").split(b" ", 1)
        name = re.sub(rb"\\0([0-7]{3})", lambda code: bytes([int(code.group(1), 8)]), written)
        show(b"./" + name, part.decode())
elif sys.argv[1:]:
    for name in sys.argv[1:]:
        show(name, name)
else:
    print(blake3_of(sys.stdin.buffer) + "  -")
"""
"""The Python program of the shell script: prints digests as b3sum does, also for names that
`shell_word` wrote."""


class PythonScript:
    """Writes a script for Python's standard library, from version 3.6 on."""

    def __init__(self) -> None:
        self.left_out: list[tuple[bytes, str]] = []
        self._count = 0

    def link(self, link: Link) -> bytes:
        """Return the comment that lists an object."""
        if not link.name:
            return b""  # the directory itself
        self._count += 1
        problem = problem_of(link.name)
        fields: dict[str, object] = {"name": os.fsdecode(link.name)}
        if problem is not None:
            self.left_out.append((link.path, problem))
            fields = {"refused": one_line(link.name), "why": problem}
        elif not link.name.endswith(b"/"):
            fields |= {
                "id": _part_id(link),
                "size": link.size,
                "checksum": link.checksum if is_blake3(link.checksum) else None,
                "url": url_text(link.url),
            }
            if _is_md5_etag(link.etag):
                fields["etag"] = link.etag
        return f"#: {json.dumps(fields)}\n".encode("ascii")

    def head(self, header: Header, totals: Totals) -> bytes:
        """Return the program."""
        expires = "" if totals.expires_at is None else time_text(totals.expires_at)
        start, *rest = _IMPORT.split(_source("download.py"))
        modules = (_IMPORT.sub("", _source(f"{name}.py")) for name in _MODULES)
        program = "".join([start, *modules, *rest])
        about = "\n".join(_about(header, totals)).replace("\\", "\\\\").replace('"', "'")
        for place, text in (
            (
                '"""Downloads the objects that the comments at the end of this file list.',
                f'"""{about}',
            ),
            ("TOTAL = 0\n", f"TOTAL = {self._count}\n"),
            ('EXPIRES = ""\n', f'EXPIRES = "{expires}"\n'),
        ):
            assert program.count(place) == 1, place
            program = program.replace(place, text)
        return f"#!/usr/bin/env python3\n{program}\n".encode("ascii")

    def tail(self, header: Header, totals: Totals) -> bytes:
        """Return nothing: the program is at the beginning."""
        del header, totals
        return b""

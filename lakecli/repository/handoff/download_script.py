"""Write a shell script that downloads objects by their links, while the links are signed.

The script consists of ``partner_environment.sh`` and ``partner.sh``, which need a POSIX shell and
curl, and of ``partner_blake3.py``, which verifies checksums if b3sum is missing. Object names are
data in the script, never code: ASCII in single quotes. If the name of an object is not a valid
file name below the target directory, the script reports the object as a failure instead of
downloading it. No program that the script calls loads code from the directory of the downloaded
files.
"""

import re
from typing import Final

from lakecli.base.identity import blake3_of
from lakecli.repository.handoff import links, page
from lakecli.repository.handoff.manifest import Document, time_text

CHUNK: Final = 1_024
"""Number of objects in one chunk of a script; each worker keeps one chunk in memory."""

_MD5_ETAG: Final = re.compile(r"[0-9a-f]{32}(-[0-9]{1,5})?")
"""ETags in S3's form. ETags in other forms are not compared: they may differ for equal objects."""

_ID_SIZE: Final = 8


def _part_id(link: links.ObjectLink) -> str:
    """Return the name of a partial download: a digest of the object's path and checksum."""
    return blake3_of(link.path + b"\0" + link.checksum.encode())[:_ID_SIZE].hex()


class ShellScript(Document):
    """A download script for a POSIX shell and curl."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def link(self, link: links.ObjectLink) -> bytes:
        """Return the line of the script that downloads an object."""
        if not link.name and not link.size:
            return b""  # the directory itself
        call = self._call(link).encode("ascii")
        if self._count % CHUNK == 0:
            call = b"objects() {\n" + call
        self._count += 1
        if self._count % CHUNK == 0:
            call += b"}\nrun\n"
        return call

    def _call(self, link: links.ObjectLink) -> str:
        name, problem = links.shell_word(link.name), links.problem_of(link.name, link.size)
        if problem is not None:
            self.left_out.append((link.path, problem))
            return f"x '{name}' '{links.shell_word(problem.encode())}'\n"
        if name.endswith("/"):
            return f"d '{name[:-1]}'\n"
        checksum = link.checksum if links.is_blake3(link.checksum) else "-"
        etag = f" {link.etag}" if _MD5_ETAG.fullmatch(link.etag) else ""
        url = links.url_text(link.url)
        return f"o {_part_id(link)} {link.size} {checksum} '{name}' '{url}'{etag}\n"

    def head(self, header: links.Header, totals: links.Totals) -> bytes:
        """Return everything before the first object: comments, settings and the shell functions."""
        place = links.one_line(f"{header.repository}/{header.ref}/".encode() + header.prefix)
        expires = end = until = ""
        if totals.expires_at is not None:
            expires, end = f"{totals.expires_at:%Y%m%d%H%M%S}", time_text(totals.expires_at)
            until = f" until {end}"
        settings = (
            f"total={self._count}\nexpires={expires}\nexpires_text={end}\nparts={links.PARTS}\n"
        )
        names = ("download_usage.txt", "partner_environment.sh", "partner.sh")
        usage, environment, script = map(page.resource, names)
        python = page.resource("partner_blake3.py") + _PRINT_BLAKE3
        assert "'" not in python
        return (
            f"#!/bin/sh\n"
            f"# Downloads {totals.count} objects, {totals.size} bytes, of {place}\n"
            f"# at commit {header.commit_id}, signed at {time_text(header.created_at)}.\n"
            f"# Keep this file secret: whoever has it can read them{until}.\n"
            f"{usage}{environment}\n{settings}python_blake3='\n{python}'\n\n{script}\n"
        ).encode("ascii")

    def tail(self) -> bytes:
        """Return the end of the script."""
        return b"}\nrun\nfinish\n" if self._count % CHUNK else b"finish\n"


_PRINT_BLAKE3: Final = r"""

import os
import re
import sys

for line in sys.stdin.buffer:
    part, written = line.rstrip(b"\n").split(b" ", 1)
    name = re.sub(rb"\\0([0-7]{3})", lambda code: bytes([int(code.group(1), 8)]), written)
    with open(os.path.join(os.fsencode(sys.argv[1]), name), "rb") as opened:
        print(blake3_of(opened) + "  " + part.decode())
"""
"""A Python program within the shell script that prints the digests of files of a directory.

It reads the file names in the form that `shell_word` writes.
"""

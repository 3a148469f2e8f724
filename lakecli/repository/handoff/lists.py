"""Lists for two common download programs, curl and aria2."""

from __future__ import annotations

import re
from typing import Final

from lakecli.repository.handoff.links import Header, Link, Totals
from lakecli.repository.handoff.manifest import time_text
from lakecli.repository.handoff.names import one_line, problem_of, url_text

_CURL_ESCAPES: Final = {
    b"\\": b"\\\\",
    b'"': b'\\"',
    b"\t": b"\\t",
    b"\n": b"\\n",
    b"\r": b"\\r",
    b"\v": b"\\v",
}
_CURL_SPECIAL: Final = re.compile(rb'[\\"\t\n\r\v]')
_NOT_ON_A_LINE: Final = re.compile(rb"[\x00-\x1f\x7f]|^ | $")


class _List:
    """The common part of both lists: comments, and leaving out names that cannot be files."""

    def __init__(self) -> None:
        self.left_out: list[tuple[bytes, str]] = []

    def tail(self, header: Header, totals: Totals) -> bytes:
        """Return nothing."""
        del header, totals
        return b""

    def _is_file(self, link: Link) -> bool:
        if not link.name or link.name.endswith(b"/"):
            return False  # it stands for a directory, which is created with the files in it
        problem = problem_of(link.name)
        return problem is None or self._leave_out(link, problem)

    def _leave_out(self, link: Link, problem: str) -> bool:
        self.left_out.append((link.path, problem))
        return False


class CurlConfig(_List):
    """Writes a file for ``curl --config``."""

    def link(self, link: Link) -> bytes:
        """Return the two options of an object; its file is written below the current directory."""
        if not self._is_file(link):
            return b""
        name = _CURL_SPECIAL.sub(lambda match: _CURL_ESCAPES[match[0]], link.name)
        return b'url = "%b"\noutput = "./%b"\n' % (url_text(link.url).encode(), name)

    def head(self, header: Header, totals: Totals) -> bytes:
        """Return a description of the list, and the options that apply to all objects."""
        return (
            _about(header, totals)
            + b"# Download everything below the current directory: curl --config THIS_FILE\n"
            b"create-dirs\nfail\ngloboff\nparallel\nparallel-max = 8\nretry = 5\n"
        )


class Aria2Input(_List):
    """Writes a file for ``aria2c --input-file``."""

    def link(self, link: Link) -> bytes:
        """Return the URL of an object, and the option with its file name on the next line."""
        if not self._is_file(link):
            return b""
        if _NOT_ON_A_LINE.search(link.name):
            self._leave_out(link, "aria2 reads one name a line, without blanks around it")
            return b""
        return b"%b\n  out=%b\n" % (url_text(link.url).encode(), link.name)

    def head(self, header: Header, totals: Totals) -> bytes:
        """Return a description of the list."""
        return _about(header, totals) + (
            b"# Download everything below the current directory: aria2c --input-file THIS_FILE\n"
        )


def _about(header: Header, totals: Totals) -> bytes:
    end = "" if totals.expires_at is None else f" until {time_text(totals.expires_at)}"
    place = one_line(f"{header.repository}/{header.ref}/".encode() + header.prefix)
    return (
        f"# {totals.count} objects, {totals.size} bytes, of {place}\n"
        f"# at commit {header.commit_id}, signed at {time_text(header.created_at)}.\n"
        f"# Keep this file secret: whoever has it can read them{end}.\n"
    ).encode()

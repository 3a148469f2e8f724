"""Links to objects of a `FileServer`, and documents of them."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakecli.base.identity import blake3_of
from lakecli.repository.handoff.download_script import ShellScript
from lakecli.repository.handoff.links import Header, ObjectLink, Totals
from lakecli.repository.handoff.manifest import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tests.support.partners import FileServer

CREATED = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
END = datetime(2096, 3, 1, 12, 0, 0, tzinfo=UTC)
PREFIX = b"data/"
HEADER = Header(
    repository="lakefs://demo",
    uuid="0" * 32,
    ref="main",
    commit_id="c" * 64,
    uncommitted=False,
    prefix=PREFIX,
    created_at=CREATED,
)

ODD_NAMES = (
    *(b"a b", b" lead", b"trail ", b"it's", b'q"q', b"back\\slash", b"\\0041", b"\\c", b"%s%n%%"),
    *(
        b"$(touch PWNED)",
        b"`touch PWNED`",
        b"; touch PWNED",
        b"x'; touch PWNED; '",
        b"&touch PWNED",
    ),
    *(b"|touch PWNED", b">PWNED", b"-rf", b"--help", b"-K", b"-", b"*", b"?", b"~", b"!!", b"#1"),
    *(
        b"{a,b}",
        b"[1-3]",
        b"new\nline",
        b"end\n",
        b"\n",
        b"cr\r",
        b"tab\t",
        b"\x01\x1b[31m",
        b"\x7f",
    ),
    *(
        b"\xff\xfe",
        "ünï 東京".encode(),
        "gpj\u202egnp".encode(),
        b"...",
        b"..a",
        b"a..",
        b"d/e/-f/g",
    ),
    *(b"<script>alert(1)</script>", b"a&amp;b", b'"><img src=x>', b"=1+1", b"con", b"a:b", b"n\\x"),
)
"""Names that have a meaning to a shell or a file system, and are valid names of files."""

EVIL_NAMES = (
    *(
        b"../up",
        b"a/../../up",
        b"a/..",
        b"..",
        b"/etc/lakecli-test",
        b"//x",
        b"x//y",
        b"./c",
        b"a/.",
    ),
    *(b"nul\0byte", b".lakecli-parts/x"),
)
"""Names that must not become files."""

DATA = {name: name * 7 for name in ODD_NAMES}


def link_to(
    name: bytes,
    data: bytes,
    url: str,
    *,
    checksum: str | None = None,
    expires_at: datetime = END,
    etag: str = "",
) -> ObjectLink:
    digest = blake3_of(data).hex() if checksum is None else checksum
    return ObjectLink(PREFIX + name, name, len(data), digest, url, expires_at, etag)


def links_to(server: FileServer) -> list[ObjectLink]:
    """Return a link to everything that a server has, and to the names that cannot be files."""
    links = [link_to(name, data, server.url(name)) for name, data in server.objects.items()]
    return sorted(links, key=lambda link: link.path)


def evil_links(server: FileServer) -> list[ObjectLink]:
    return [link_to(name, b"a b" * 7, server.url(b"a b")) for name in EVIL_NAMES]


def write(
    kind: str, links: Iterable[ObjectLink], *, header: Header = HEADER
) -> tuple[bytes, Mapping[bytes, str]]:
    """Return a document, and what it leaves out and why."""
    totals = Totals()
    with {**FORMATS, "sh": ShellScript}[kind]() as document:
        for link in links:
            totals.add(link)
            document.add(link)
        target = io.BytesIO()
        document.write(target, header, totals)
        return target.getvalue(), dict(document.left_out)


def write_script(links: Iterable[ObjectLink], path: Path) -> Path:
    path.write_bytes(write("sh", links)[0])
    return path

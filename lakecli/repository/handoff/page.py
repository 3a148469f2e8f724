"""An HTML page with a link to each object; it loads no other resource and runs no script."""

from __future__ import annotations

import os
from datetime import datetime
from html import escape
from typing import Final

from lakecli.repository.handoff.links import Header, Link, Totals, is_blake3
from lakecli.repository.handoff.names import readable, url_text

_STYLE: Final = """
body { font: 16px/1.5 sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { padding: .3rem .6rem; text-align: left; vertical-align: top }
tr { border-bottom: 1px solid #ddd }
td:first-child { overflow-wrap: anywhere }
.n { text-align: right; white-space: nowrap }
.c { font: 12px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; max-width: 18rem }
""".strip()
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")
_STEP: Final = 1000


class Page:
    """Writes a page with a row for each object."""

    def __init__(self) -> None:
        self.left_out: list[tuple[bytes, str]] = []

    def link(self, link: Link) -> bytes:
        """Return one row."""
        name = escape(readable(link.name or link.path))
        kind = "BLAKE3" if is_blake3(link.checksum) else "ETag"
        return (
            f'<tr><td><a href="{escape(url_text(link.url))}" download="{_file_name(link.name)}">'
            f"<bdi>{name}</bdi></a></td>"
            f'<td class="n" title="{link.size} bytes">{_size(link.size)}</td>'
            f'<td class="n">{_date(link.expires_at)}</td>'
            f'<td class="c" title="{kind}">{_text(link.checksum)}</td></tr>\n'
        ).encode()

    def head(self, header: Header, totals: Totals) -> bytes:
        """Return everything before the first row."""
        place = f"{header.repository}/{header.ref}/{os.fsdecode(header.prefix)}"
        title = _text(place)
        end = ""
        if totals.expires_at is not None:
            end = f" They work until {_date(totals.expires_at)}."
        counted = "1 object" if totals.count == 1 else f"{totals.count:,} objects"
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
            '<meta name="referrer" content="no-referrer">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n"
            f"<h1><bdi>{title}</bdi></h1>\n"
            f"<p>{counted}, {_size(totals.size)}, as of commit {_text(header.commit_id)}"
            f"{' with uncommitted changes' if header.uncommitted else ''}, signed "
            f"{_date(header.created_at)}. The links are secrets: whoever has one can read its "
            f"object.{end}</p>\n"
            '<table>\n<thead><tr><th>Name</th><th class="n">Size</th><th class="n">Works until</th>'
            "<th>Checksum</th></tr></thead>\n<tbody>\n"
        ).encode()

    def tail(self, header: Header, totals: Totals) -> bytes:
        """Return everything after the last row."""
        del header, totals
        return b"</tbody>\n</table>\n</body>\n</html>\n"


def _text(text: str) -> str:
    return escape(readable(os.fsencode(text)))


def _file_name(name: bytes) -> str:
    """Return the file name to suggest: no path in it, and no invisible character."""
    shown = readable(name.removesuffix(b"/").rpartition(b"/")[2])
    return escape(shown.replace("\\", "_"))


def _size(size: int) -> str:
    amount, power = float(size), 0
    while round(amount, 1) >= _STEP and power < len(_UNITS) - 1:
        amount, power = amount / _STEP, power + 1
    return (
        f"{amount:.1f} {_UNITS[power]}" if power else f"{size} {'byte' if size == 1 else 'bytes'}"
    )


def _date(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"

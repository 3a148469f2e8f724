"""Web pages: the head, style and security policy that upload and download pages share.

A page is one self-contained file that also works when a browser opens it from disk. Its Content
Security Policy allows only one program, identified by its digest, and only requests to the servers
of the page's links.
"""

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Final

from lakecli.repository.handoff.links import readable

_STYLE: Final = """
:root { color-scheme: light dark }
body { font: 16px/1.5 sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
h1 { overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100% }
th, td { padding: .3rem .6rem; text-align: left; vertical-align: top }
tr { border-bottom: 1px solid #8886 }
td:first-child { overflow-wrap: anywhere }
.n { text-align: right; white-space: nowrap }
.c { font: 12px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; max-width: 18rem }
@media (max-width: 40rem) {
  thead { display: none }
  tr, td { display: block }
  tr { padding: .5rem 0 }
  td { padding: 0; max-width: none }
  .n { text-align: left }
}
.drop { border: 2px dashed #8888; border-radius: .5rem; padding: 1.5rem 1rem }
.drop input { max-width: 100% }
progress { width: 8rem; max-width: 100% }
@media print {
  body { font-size: 11px; margin: 0; max-width: none }
  tr { break-inside: avoid }
}
""".strip()

_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")
_STEP: Final = 1000
_ORIGIN: Final = re.compile(r"https?://[A-Za-z0-9._:\[\]-]+(?=[/?]|$)")
_NONE: Final = "'none'"
_HERE: Final = Path(__file__).parent


def program(name: str) -> str:
    """Return the source code of a program in this package."""
    return (_HERE / name).read_text(encoding="ascii")


def origin_of(url: str) -> str:
    """Return the server of a URL in the form that a Content Security Policy uses."""
    found = _ORIGIN.match(url)
    return found[0] if found else _NONE


def head(title: str, origins: Iterable[str], program_: str, *, style: str = "") -> str:
    """Return the beginning of a page, including its heading.

    Args:
        title: the title of the page, HTML-escaped.
        origins: the servers to which the program may send requests.
        program_: the source code of the program.
        style: CSS for this page only, added to the CSS that all pages share.
    """
    digest = b64encode(sha256(program_.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        f"connect-src {' '.join(sorted(origins)) or _NONE}; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE}\n{style}\n</style>\n</head>\n<body>\n"
        f"<h1><bdi>{title}</bdi></h1>\n"
    )


def tail(program_: str, data: Mapping[str, object] | None = None) -> str:
    """Return the end of a page: the program, and its data as JSON that cannot end its element."""
    block = ""
    if data is not None:
        text = json.dumps(data).replace("<", "\\u003c")
        block = f'<script type="application/json" id="links">{text}</script>\n'
    return f"{block}<script>{program_}</script>\n</body>\n</html>\n"


def escaped(text: str) -> str:
    """Escape a text for HTML, including its invisible characters."""
    return escape(readable(os.fsencode(text)))


def shown_size(size: int) -> str:
    """Return a size in bytes as text with a unit, such as ``1.5 MB``."""
    amount, power = float(size), 0
    while round(amount, 1) >= _STEP and power < len(_UNITS) - 1:
        amount, power = amount / _STEP, power + 1
    return (
        f"{amount:.1f} {_UNITS[power]}" if power else f"{size} {'byte' if size == 1 else 'bytes'}"
    )


def utc(when: datetime) -> str:
    """Format a time in UTC in the form that pages show."""
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"

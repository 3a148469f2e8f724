"""Web pages: the head, style and security policy that upload and download pages share.

`resource` reads the templates and programs of this package, which are separate files.

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

_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")
_STEP: Final = 1000
_ORIGIN: Final = re.compile(r"https?://[A-Za-z0-9._:\[\]-]+(?=[/?]|$)")
_NONE: Final = "'none'"
_HERE: Final = Path(__file__).parent


def resource(name: str) -> str:
    """Return the text of a file of this package: a program, a style sheet or a template."""
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
    css = resource("page.css").strip()
    return resource("page.html").format(policy=policy, title=title, css=css, style=style)


def tail(program_: str, data: Mapping[str, object] | None = None) -> str:
    """Return the end of a page: the program and its data.

    Args:
        program_: the source code of the program.
        data: written as JSON, escaped so that it cannot end its ``script`` element.
    """
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
    if not power:
        return "1 byte" if size == 1 else f"{size} bytes"
    return f"{amount:.1f} {_UNITS[power]}"


def utc(when: datetime) -> str:
    """Format a time in UTC in the form that pages show."""
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"

"""The documents that a partner uses to send files to a set of links: a web page, and a script.

The script consists of ``partner_environment.sh`` and ``partner_put.sh``, which need a POSIX shell
and curl. Both documents send a list of the names of the files, too; see `link_sets`.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from lakecli.repository.handoff import page
from lakecli.repository.handoff.incoming import UploadLink
from lakecli.repository.handoff.link_sets import LinkSet
from lakecli.repository.handoff.links import shell_word, url_text
from lakecli.repository.handoff.manifest import time_text
from lakecli.stores.presigned_urls import PresignedUrl


def upload_page(links: LinkSet, *, title: str, sender: str) -> bytes:
    """Return a web page that sends files to a set of links.

    Args:
        title: the title of the page; ``""``: "Send files".
        sender: the person who asks for the files; ``""``: the page names nobody.
    """
    program = page.resource("upload.js")
    shown = page.escaped(title or "Send files")
    signed = [each.signed for each in links.links] + [links.sent, links.was_sent]
    origins = {page.origin_of(each.url) for each in signed}
    count, names = len(links.links), links.names or ()
    asked = "1 file" if count == 1 else f"{count:,} files"
    by = f" by {page.escaped(sender)}" if sender else ""
    listed = "".join(f"<li><bdi>{page.escaped(os.fsdecode(name))}</bdi></li>\n" for name in names)
    data = {
        "links": [
            {
                "id": each.id,
                "name": None if links.names is None else os.fsdecode(links.names[number]),
                **_request(each.signed),
                "parts": _parts(each),
            }
            for number, each in enumerate(links.links)
        ],
        "sent": _request(links.sent),
        "was_sent": url_text(links.was_sent.url),
        "expires": time_text(links.expires_at),
        "max_size": links.max_size,
        "part_size": links.part_size,
    }
    text = page.resource("upload.html").format(
        asked=f"{asked} of these names" if names else asked,
        max_size=page.shown_size(links.max_size),
        until=page.utc(links.expires_at),
        by=by,
        signed=page.utc(links.created_at),
        names=f"<ul>\n{listed}</ul>\n" if names else "",
        resuming=_resuming(links),
    )
    return (page.head(shown, origins, program) + text + page.tail(program, data)).encode()


def _resuming(links: LinkSet) -> str:
    if not links.part_size:
        return "An interrupted file begins again, since each file is one request here"
    size = page.shown_size(links.part_size)
    return f"A file of more than {size} is sent in parts, and goes on where it was interrupted"


def _parts(link: UploadLink) -> Sequence[str]:
    """Return the prefix that the URLs of a link's parts share, then the remainder of each URL."""
    urls = [url_text(url) for url in link.parts]
    start = os.path.commonprefix(urls)  # noqa: RUF071 - of characters
    return [start, *(url.removeprefix(start) for url in urls)] if urls else ()


def _request(signed: PresignedUrl) -> Mapping[str, object]:
    given = {"headers": dict(signed.headers), "fields": dict(signed.fields)}
    return {"url": url_text(signed.url), **given}


def upload_script(links: LinkSet) -> bytes:
    """Return a shell script that sends files to a set of links with curl."""
    named = "yes" if links.names is not None else ""
    names = links.names or [b""] * len(links.links)
    calls = "".join(
        f"l {each.id} '{shell_word(name)}' '"
        + "' '".join([_configuration(each.signed), *_parts(each)])
        + "'\n"
        for each, name in zip(links.links, names, strict=True)
    )
    end = time_text(links.expires_at)
    settings = {
        "named": named,
        "form": "yes" if links.links[0].signed.fields else "",
        "max_size": str(links.max_size),
        "part_size": str(links.part_size),
        "expires": f"{links.expires_at:%Y%m%d%H%M%S}",
        "expires_text": end,
        "was_sent": url_text(links.was_sent.url),
        "sent": _configuration(links.sent),
    }
    usage = page.resource("upload_usage.txt").format(again=_resuming(links))
    assigned = "".join(f"{name}='{value}'\n" for name, value in settings.items())
    return (
        f"#!/bin/sh\n# Sends {len(links.links)} files at most, until {end}.\n"
        "# Keep this file secret: whoever has it can send files in your place.\n"
        f"{_USAGE_NAMED if named else _USAGE}{usage}"
        f"{page.resource('partner_environment.sh')}\n{assigned}\n"
        f"links() {{\n{calls}}}\n\n{page.resource('partner_put.sh')}"
    ).encode("ascii")


def _configuration(signed: PresignedUrl) -> str:
    """Return a request as a configuration file for curl, escaped for ``printf %b``."""
    values = [
        ("url", url_text(signed.url)),
        *(("header", f"{name}: {value}") for name, value in signed.headers.items()),
        *(("form-string", f"{name}={value}") for name, value in signed.fields.items()),
    ]
    lines = (f'{name} = "{_quoted(value)}"\n' for name, value in values)
    return shell_word("".join(lines).encode("utf-8", "surrogateescape"))


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


_USAGE: Final = """\
#
# Usage: sh THIS_FILE DIRECTORY
#
# All files in DIRECTORY and below are sent, under their names there, except hidden ones and
# symbolic links.
"""

_USAGE_NAMED: Final = """\
#
# Usage: sh THIS_FILE [DIRECTORY]
#
# Of DIRECTORY, by default the current one, the files that are asked for are sent.
"""

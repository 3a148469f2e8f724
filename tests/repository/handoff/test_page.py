"""The page, read by a parser of HTML: what people see, and what they click."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from lakecli.repository.handoff.links import readable
from tests.repository.handoff.links import DATA, EVIL_NAMES, HEADER, link_to, write

URL = "https://bucket.example/k?response-content-type=text%2Fcsv&X-Signature=a%2Fb"
VOID = {"meta", "img", "br", "link", "input"}
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "h1", "p", "bdi", "table", "thead"),
    *("tbody", "tr", "th", "td", "a", "span", "button", "progress", "script"),
}


@dataclass
class Row:
    cells: list[str] = field(default_factory=list)
    link: dict[str, str | None] = field(default_factory=dict)


class Reader(HTMLParser):
    """Collects rows, every tag with its attributes, and the text outside of rows."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[Row] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append(Row())
        elif tag in {"td", "th"}:
            self.rows[-1].cells.append("")
        elif tag == "a":
            self.rows[-1].link = dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "tr" in self.open:
            self.rows[-1].cells[-1] += data
        else:
            self.text += data

    def handle_comment(self, data: str) -> None:
        pytest.fail(f"a comment: {data}")

    def handle_pi(self, data: str) -> None:
        pytest.fail(f"an instruction: {data}")


def read(names: list[bytes], url: str = URL) -> Reader:
    text, left_out = write("html", [link_to(name, name * 7, url) for name in names])
    assert left_out == {}
    return Reader(text.decode("utf-8"))


def test_the_page_has_a_row_for_each_object() -> None:
    names = [*DATA, *EVIL_NAMES]
    page = read(names)
    assert len(page.rows) == 1 + len(names)
    for name, row in zip(names, page.rows[1:], strict=True):
        link = link_to(name, name * 7, URL)
        shown, size, end, checksum = row.cells
        assert shown == readable(name)
        assert size.split(" ")[0] in {str(link.size), f"{link.size / 1000:.1f}"}
        assert end == "2096-03-01 12:00:00 UTC"
        assert checksum.removeprefix("ETag ") == link.checksum
        assert row.link["href"] == URL


def test_suggested_names_are_no_paths_and_hide_nothing() -> None:
    names = [*DATA, *EVIL_NAMES]
    for name, row in zip(names, read(names).rows[1:], strict=True):
        suggested = row.link["download"]
        assert suggested is not None
        assert "/" not in suggested
        assert "\\" not in suggested
        assert all(c.isprintable() for c in suggested)
        if name == b"a b":
            assert suggested == "a b"


def test_names_add_nothing_but_rows() -> None:
    page = read([*DATA, *EVIL_NAMES])
    plain = read([b"a"])
    assert {tag for tag, _ in page.tags} <= ALLOWED
    allowed = {name for _, attributes in plain.tags for name in attributes}
    assert {name for _, attributes in page.tags for name in attributes} == allowed


def test_the_page_runs_one_program_and_asks_the_servers_of_its_links_only() -> None:
    links = [link_to(b"a", b"a", URL), link_to(b"b", b"b", "http://127.0.0.1:9/k?x=1")]
    text = write("html", links)[0].decode()
    page = Reader(text)
    policy = [attributes for _, attributes in page.tags if "http-equiv" in attributes]
    program = text.partition("<script>")[2].partition("</script>")[0]
    digest = b64encode(sha256(program.encode()).digest()).decode()
    assert policy == [
        {
            "http-equiv": "Content-Security-Policy",
            "content": "default-src 'none'; style-src 'unsafe-inline'; "
            f"script-src 'sha256-{digest}'; "
            "connect-src http://127.0.0.1:9 https://bucket.example; "
            "base-uri 'none'; form-action 'none'",
        }
    ]
    assert {"name": "referrer", "content": "no-referrer"} in [tag[1] for tag in page.tags]
    assert text.count("<script") == 1
    assert text.count("http") == 5  # http-equiv, two links, and their servers in the policy
    assert "@import" not in text
    assert "url(" not in text


def test_a_server_cannot_leave_the_policy() -> None:
    page = read([b"a"], url="https://h; script-src *; x/k")
    policy = next(tag[1]["content"] for tag in page.tags if "http-equiv" in tag[1])
    assert policy is not None
    assert policy.count("script-src") == 1
    assert "connect-src 'none'" in policy


def test_a_url_cannot_leave_its_attribute() -> None:
    page = read([b"a"], url='https://h/k"><script>alert(1)</script>?a=b&amp;c')
    assert (
        page.rows[1].link["href"] == "https://h/k%22%3E%3Cscript%3Ealert(1)%3C/script%3E?a=b&amp;c"
    )


def test_the_page_begins_with_a_summary() -> None:
    header = HEADER._replace(
        ref="main~2", prefix="<b>\u202e&/".encode() + b"\xff\n/", uncommitted=True
    )
    links = [link_to(b"a", b"1234", URL), link_to(b"b", b"", URL)]
    page = Reader(write("html", links, header=header)[0].decode())
    place = "lakefs://demo/main~2/<b>\\u202e&/\\xff\\n/"
    assert page.text.count(place) == 2
    assert "2 objects, 4 bytes, as of commit " + "c" * 12 + " " in page.text
    assert ("span", {"title": "c" * 64}) in page.tags
    assert "with uncommitted changes" in page.text
    assert "They work until 2096-03-01 12:00:00 UTC." in page.text


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1.0 kB"), (999_960, "1.0 MB")],
)
def test_sizes_are_readable(size: int, shown: str) -> None:
    link = link_to(b"a", b"", URL)._replace(size=size)
    assert Reader(write("html", [link])[0].decode()).rows[1].cells[1] == shown


def test_checksums_name_their_algorithm() -> None:
    links = [link_to(b"a", b"1", URL), link_to(b"b", b"1", URL, checksum='"<etag>"-2')]
    page = Reader(write("html", links)[0].decode())
    assert page.rows[0].cells[3] == "BLAKE3"
    assert "b3sum FILE" in page.text
    assert page.rows[1].cells[3] == links[0].checksum
    assert page.rows[2].cells[3] == 'ETag "<etag>"-2'
    assert page.rows[1].cells[0] == "a"
    assert page.rows[0].link == {}


def test_checksums_say_what_a_browser_decodes() -> None:
    link = link_to(b"a", b"1", URL)._replace(encoding="gzip")
    page = Reader(write("html", [link])[0].decode())
    assert page.rows[1].cells[3] == f"of the gzip form: {link.checksum}"


def test_a_page_has_a_title_and_a_sender() -> None:
    header = HEADER._replace(title="Prices <2026>", sender="Ada <ada@example.com>")
    page = Reader(write("html", [link_to(b"a", b"1", URL)], header=header)[0].decode())
    assert page.text.count("Prices <2026>") == 2
    assert "signed by Ada <ada@example.com> on " in page.text


def test_one_expiry_is_told_once() -> None:
    links = [link_to(b"a", b"1", URL), link_to(b"b", b"1", URL)]
    hidden = ".u { display: none }"
    assert hidden in write("html", links)[0].decode()
    links[1] = links[1]._replace(expires_at=links[1].expires_at + timedelta(hours=1))
    text = write("html", links)[0].decode()
    assert hidden not in text
    assert "The first works until" in text

"""Pages in this process: what they show, escape, refuse and bound."""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lakecli.base.model import ChangeType, Difference, Entry
from lakecli.committed.values import encode_entry
from lakecli.errors import UsageError
from lakecli.repository.commit import commit
from lakecli.repository.undo.log import iter_log
from lakecli.serving import reading
from lakecli.serving.access import COOKIE
from lakecli.serving.page import graph, preview, views
from lakecli.serving.page.asked import Asked, contents, link
from lakecli.serving.page.routes import POLICY
from lakecli.serving.reading import query_of
from tests.serving.page.site import HOSTILE, PNG, Site, fill
from tests.support import lakes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Repository]]:
    directory = tmp_path_factory.mktemp("site")
    with lakes.open_lake(directory) as lake:
        repository = fill(lake, directory)
        yield Site(lake), repository


@pytest.fixture
def site(shared: tuple[Site, Repository]) -> Site:
    return shared[0]


@pytest.fixture
def repository(shared: tuple[Site, Repository]) -> Repository:
    return shared[1]


class _Page(HTMLParser):
    """The elements of a page that matter here."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    @property
    def links(self) -> list[str]:
        return [each["href"] or "" for tag, each in self.tags if tag == "a"]


def walk(site: Site) -> dict[str, Any]:
    """Follow every link, and return the answers; of a commit's files, the page of the top only."""
    waiting, found = ["/-/"], {}
    while waiting:
        address = waiting.pop()
        is_below = re.search("ref=[0-9a-f]{64}&path=", address)
        if address in found or address.startswith("#") or is_below:
            continue
        found[address] = answer = site(address)
        assert len(found) < 1000
        if answer.headers["content-type"].startswith("text/html"):
            waiting += _Page(answer.text).links
    return found


@pytest.fixture(scope="module")
def walked(shared: tuple[Site, Repository]) -> dict[str, Any]:
    return walk(shared[0])


def test_every_link_leads_to_a_page(walked: dict[str, Any]) -> None:
    assert {each: found.status for each, found in walked.items() if found.status != 200} == {}
    verbs = {urlsplit(each).path.rpartition("/")[2] for each in walked}
    assert verbs == {*views.PAGES, "objects"}


def test_every_page_has_its_headers_and_landmarks(walked: dict[str, Any]) -> None:
    for address, found in walked.items():
        headers = found.headers
        assert headers["x-content-type-options"] == "nosniff", address
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        if address.startswith("/api/"):
            assert headers["content-security-policy"] == "default-src 'none'; sandbox"
            continue
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["content-security-policy"] == POLICY
        page = _Page(found.text)
        tags = [tag for tag, _ in page.tags]
        assert {"main", "header", "footer", "h1", "title"} <= set(tags), address
        assert tags.count("h1") == tags.count("main") == 1
        assert not {"script", "style", "iframe", "object", "embed"} & set(tags), address
        for tag, given in page.tags:
            bad = [each for each in given if each.startswith("on") or each == "style"]
            assert not bad, (address, tag, bad)
            for key in ("href", "src", "action"):
                assert (given.get(key) or "/-/").startswith(("/-/", "/api/", "#")), (address, given)
            if tag == "table":
                assert "<caption" in found.text


def test_no_page_has_what_cannot_be_seen(walked: dict[str, Any]) -> None:
    hidden = re.compile(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffd\ud800-\udfff]"
    )
    for address, found in walked.items():
        if found.headers["content-type"].startswith("text/html"):
            assert not hidden.search(found.text), address


def test_hostile_names_are_reached_by_their_links(site: Site, walked: dict[str, Any]) -> None:
    reached = set()
    for address, found in walked.items():
        parts = urlsplit(address)
        if parts.path == "/-/demo/object" and found.status == 200:
            reached.add(os.fsencode(dict(query_of(os.fsencode(parts.query)))["path"]))
    assert set(HOSTILE) <= reached
    for path in HOSTILE:
        answer = site(contents("demo", "main", path))
        assert (answer.status, answer.body) == (200, b"harmless\n")


def test_queries_keep_every_byte() -> None:
    for path in (*HOSTILE, bytes(range(1, 256))):
        query = urlsplit(link("demo", "object", path=path)).query
        assert query_of(query.encode()) == [("path", os.fsdecode(path))]
    with pytest.raises(UsageError):
        query_of(b"&".join([b"a=1"] * 50), most=16)


def test_the_token_works_once(site: Site) -> None:
    token = site.access.new_link_token()
    assert site(f"/-/?token={token}", method="HEAD", cookie="no").status == 403
    begun = site(f"/-/?token={token}", cookie="no")
    assert begun.status == 200
    assert token not in begun.text
    assert 'http-equiv="refresh" content="0; url=/-/"' in begun.text
    cookie = begun.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    session = cookie.partition(";")[0].removeprefix(f"{COOKIE}=")
    assert site("/-/", cookie=session).status == 200
    assert site(f"/-/?token={token}", cookie="no").status == 403
    assert site(f"/-/?token={token}", cookie=session).headers["location"] == "/-/"


@pytest.mark.parametrize("address", ["/-/", "/-/demo/", "/-/demo/object?path=empty", "/-/nowhere"])
@pytest.mark.parametrize("cookie", ["no", ""])
def test_strangers_see_nothing(site: Site, address: str, cookie: str) -> None:
    answer = site(address, cookie=cookie or "x")
    assert answer.status == 403
    assert "demo" not in answer.text.replace(address, "")


def test_the_style_is_for_everybody(site: Site) -> None:
    answer = site("/-/style.css", cookie="no")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert site("/?token=x").headers["location"] == "http://127.0.0.1:8000/-/?token=x"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"])
def test_nothing_is_changed(site: Site, method: str) -> None:
    answer = site("/-/demo/", method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        ("/-/nowhere/", 404, "no repository"),
        ("/-/demo/unknown", 404, "no such page"),
        ("/-/demo/tree?ref=nothing", 404, "nothing"),
        ("/-/demo/tree?ref=main&path=gone/", 404, "no object"),
        ("/-/demo/tree?ref=main&path=empty", 404, "not a directory"),
        ("/-/demo/object?ref=main&path=gone", 404, "no object"),
        ("/-/demo/tree?ref=main~~~~~~~~~~~", 404, "main"),
        ("/-/demo/tree?ref=a%20b", 400, "a b"),
        ("/-/demo/tree?ref=%ff%0a", 404, ""),
        ("/-/demo/staged?ref=v1.0", 404, "it is a tag"),
        ("/-/demo/diff?left=main&right=main$", 400, ""),
        ("/-/demo/log?after=nothing", 404, "nothing"),
        ("/-/demo/log?ref=v1.0&after=main", 404, "not in the log"),
        ("/-/demo/log?ref=main...experiment", 400, "range"),
        ("/-/demo/object?path=" + "a" * 1025, 400, "too long"),
    ],
)
def test_errors_are_pages(site: Site, address: str, status: int, says: str) -> None:
    answer = site(address)
    assert (answer.status, answer.headers["content-security-policy"]) == (status, POLICY)
    assert says in answer.text
    assert "<h1>" in answer.text


def test_previews(site: Site) -> None:
    def shown(path: str) -> str:
        return site(link("demo", "object", ref="v1.0", path=path)).text.partition("Preview")[2]

    table = shown("raw/orders.csv")
    assert '<th scope="col">city' in table
    assert "The first 200 rows." in table
    assert table.count("<tr>") == 201
    text = shown("raw/2026/notes.txt")
    assert "Grüezi\n\twith a tab\n&lt;script&gt;" in text
    assert "&#34;city&#34;: &#34;Bern&#34;" in shown("raw/2026/report.json")
    assert "hexadecimal" in shown("model.bin")
    assert "empty" in shown("empty")
    assert "&lt;b&gt;x&lt;/b&gt;" in shown("prices.parquet")
    assert "3 rows." in shown("prices.parquet")
    assert "<img" not in shown("drawing.svg")
    assert "<img" in shown("logo.png")


def test_an_object_is_saved_under_its_name(site: Site) -> None:
    def saved(path: bytes) -> str | None:
        page = _Page(site(link("demo", "object", ref="main", path=path)).text)
        (name,) = (given["download"] for _, given in page.tags if "download" in given)
        return name

    assert saved(b"model.bin") == "model.bin"
    assert saved(b"x/a\nb\tc\x1b[31m") == "a\\nb\\tc\\x1b[31m"
    assert saved(b'x/"onmouseover="alert(1)') == '"onmouseover="alert(1)'
    address = contents("demo", "v1.0", b"logo.png")
    assert site(address).body == PNG
    assert site(address, cookie="no").status == 401


def test_only_images_are_shown_by_the_browser() -> None:
    starts = (
        b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF\n\0\0\0WEBPVP8 ",
        b"\0\0\0\x1cftypavif",
    )  # fmt: skip
    assert all(map(preview._IMAGE.match, starts))
    assert not any(map(preview._IMAGE.match, (b"<svg", b" GIF89a", b"WEBPVP8", b"")))


def entry(data: bytes, kind: str = "") -> Entry:
    return lakes.entry_of(data)._replace(content_type=kind)


def shown(name: bytes, data: bytes, kind: str = "") -> preview.Preview:
    return preview._of_bytes(name, entry(data, kind), data, is_whole=True)


def test_what_only_looks_like_its_kind_is_text() -> None:
    assert shown(b"a.json", b"[" * 50_000).text == "[" * 50_000
    assert shown(b"a.json", b"not json").text == "not json"
    assert shown(b"a.json", b"9" * 10_000).text == "9" * 10_000
    deep = b"[" * 400 + b",".join([b"1"] * 20_000) + b"]" * 400
    assert shown(b"a.json", deep).text == deep.decode()  # laid out, it would be 16 MB
    assert shown(b"a.csv", b"\xff\xfe").rows == ()
    assert not shown(b"a.csv", b"\n\n").rows


def test_tables_are_bounded() -> None:
    wide = shown(b"a.csv", b",".join([b"x"] * 9_000) + b"\n" + b"y" * 9_000)
    assert {len(row) for row in wide.rows} == {preview.MOST_COLUMNS}
    assert len(wide.rows[1][0]) <= 201
    assert "50 of 9,000 columns" in wide.note
    assert [len(row) for row in shown(b"a.tsv", b"a\tb\n1\n1\t2\t3\n").rows] == [3, 3, 3]
    assert shown(b"x", b"a;b\n1;2\n", "text/csv; charset=utf-8").rows[1] == ["1", "2"]


class _Reads:
    """A store of one object that notes how much is read of it."""

    uri = "memory://x"

    def __init__(self, data: bytes) -> None:
        self.data, self.read = data, 0

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        found = self.data[start : None if length is None else start + length]
        self.read += len(found)
        return found


def previewed(monkeypatch: pytest.MonkeyPatch, name: bytes, data: bytes) -> preview.Preview:
    monkeypatch.setattr(reading, "locate", lambda *_: (_Reads(data), "key"))
    monkeypatch.setattr(reading, "read_object", lambda *_: iter([data]))
    return preview.preview(None, name, entry(data))  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [b"a,b", b"a,b\n1,"])
def test_gzip_data_may_be_cut_off_anywhere(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    packer = zlib.compressobj(wbits=31)
    cut = packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)
    found = previewed(monkeypatch, b"a.csv.gz", cut)
    assert "first" in found.note
    if b"\n" in data:
        assert found.rows == [["a", "b"]]
    else:
        assert found.text == data.decode()


def test_all_members_of_gzip_data_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    members = [gzip.compress(each) for each in (b"a,b\n1,2\n", b"", b"3,4\n")]
    found = previewed(monkeypatch, b"a.csv.gz", b"".join(members))
    assert (found.note, found.rows) == ("2 rows.", [["a", "b"], ["1", "2"], ["3", "4"]])
    padded = previewed(monkeypatch, b"a.txt.gz", members[0] + bytes(512))
    assert (padded.note, padded.text) == ("", "a,b\n1,2\n")


@pytest.mark.parametrize("rest", [b"\x1f\x8bdamaged", b"\x1f\x8b"])
def test_gzip_data_with_an_unreadable_member_is_not_all(
    monkeypatch: pytest.MonkeyPatch, rest: bytes
) -> None:
    found = previewed(monkeypatch, b"a.txt.gz", gzip.compress(b"first\n") + rest)
    assert (found.note, found.text) == ("The first 6 bytes.", "first\n")


def test_gzip_data_behind_what_is_read_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    first = gzip.compress(b"first\n", compresslevel=0)
    monkeypatch.setattr(preview, "MOST_READ", len(first))
    assert previewed(monkeypatch, b"a.txt.gz", first * 2).note == "The first 6 bytes."


def test_of_a_large_object_the_beginning_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b"line\n" * 1_000_000, gzip.compress(bytes(50_000_000)), os.urandom(3_000_000)):
        store = _Reads(data)
        monkeypatch.setattr(reading, "locate", lambda *_, store=store: (store, "key"))
        monkeypatch.setattr(reading, "read_object", lambda *_, data=data: iter([data]))
        found = preview.preview(None, b"x", entry(data))  # type: ignore[arg-type]
        assert store.read <= preview.MOST_READ
        assert len(found.text) <= preview.MOST_READ


def test_of_a_large_parquet_file_a_part_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    target = io.BytesIO()
    table = pa.table({"n": np.arange(1_000_000), "o": np.arange(1_000_000) * 2})
    parquet.write_table(table, target, compression="none", use_dictionary=False)
    data = target.getvalue()
    store = _Reads(data)
    for module in (preview, reading):
        monkeypatch.setattr(module, "locate", lambda *_: (store, "key"))
    found = preview.preview(None, b"x", entry(store.data))  # type: ignore[arg-type]
    assert found.note == "The first 200 rows of 1,000,000."
    assert list(found.rows[:3]) == [["n", "o"], ["0", "0"], ["1", "2"]]
    assert store.read < 1 << 20 < len(data) / 10
    for cut in (200, 50_000, len(data) - 9):
        start = _Reads(data[:cut] + b"PAR1")
        monkeypatch.setattr(preview, "locate", lambda *_, start=start: (start, "key"))
        monkeypatch.setattr(reading, "read_object", lambda *_, start=start: iter([start.data]))
        found = preview.preview(None, b"x", entry(start.data))  # type: ignore[arg-type]
        assert "cannot be read" in found.note


def test_values_that_python_cannot_represent_are_no_preview(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    for kind in (pa.date32(), pa.timestamp("us", tz="Nowhere/Land")):
        target = io.BytesIO()
        parquet.write_table(pa.table({"n": pa.array([1 << 30], kind)}), target)
        store = _Reads(target.getvalue())
        monkeypatch.setattr(preview, "locate", lambda *_, store=store: (store, "key"))
        monkeypatch.setattr(reading, "read_object", lambda *_, store=store: iter([store.data]))
        found = preview.preview(None, b"x", entry(store.data))  # type: ignore[arg-type]
        assert "cannot be read" in found.note


def test_changes_are_counted_by_directory(site: Site) -> None:
    page = site("/-/demo/staged?ref=main").text
    assert "+1" in page
    assert "logo.png" in page
    below = site("/-/demo/commit?ref=main~1&path=prices/").text
    assert "april.csv" in below
    assert below.count('scope="row"') == 1
    inside = site("/-/demo/staged?ref=main&path=raw/").text
    assert "may.csv" in inside
    assert "logo.png" not in inside
    assert "nothing to merge" in site("/-/demo/diff?left=experiment&right=main").text
    assert "model.txt" in site("/-/demo/diff?left=v1.0&right=experiment").text
    assert "Name two" in site("/-/demo/diff").text


def test_branches_are_compared(site: Site) -> None:
    page = site("/-/demo/").text
    assert "3&nbsp;ahead" in page
    assert "3&nbsp;behind" in page
    assert "uncommitted" in page


def test_long_lists_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each item is on one page, and no page reads much more than it shows."""
    monkeypatch.setattr(views, "PAGE", 7)
    monkeypatch.setattr(views, "MOST_BELOW", 5)
    with lakes.open_lake(tmp_path) as lake:
        repository = lakes.make_repository(lake, tmp_path)
        made = {f"{d:02}/{n:02}": f"{d:02}/" for d in range(20) for n in range(12)}
        made |= {f"f{n:02}": f"f{n:02}" for n in range(20)}
        wanted = set(made.values())
        for part in range(8):
            paths = [os.fsencode(path) for path in sorted(made)[part::8]]
            lakes.stage(repository, "main", dict.fromkeys(paths, b"x"))
            if part < 7:
                commit(repository, "main", message=str(part), committer="a")
        site = Site(lake)

        def listed(address: str) -> tuple[list[str], int]:
            paths, pages = [], 0
            while True:
                pages += 1
                page = site(address)
                assert page.status == 200
                rows = _Page(page.text)
                paths += [
                    parse_qs(urlsplit(href).query)["path"][0]
                    for href in rows.links
                    if "path=" in href and "after=" not in href
                ]
                more = [each["href"] for _, each in rows.tags if each.get("rel") == "next"]
                if not more:
                    return paths, pages
                address = more[0] or ""

        found, pages = listed("/-/demo/tree?ref=main")
        assert (sorted(set(found) - {""}), pages) == (sorted(wanted), 6)
        found, pages = listed("/-/demo/staged")
        assert set(found) == (staged := {made[path] for path in sorted(made)[7::8]})
        found, pages = listed("/-/demo/diff?direct=1&left=main~7&right=main")
        assert (set(found), pages) == (wanted - {each for each in staged if each[0] == "f"}, 6)

        def matches(address: str, pattern: str) -> list[str]:
            text = site(address).text
            more = [each["href"] or "" for _, each in _Page(text).tags if each.get("rel") == "next"]
            return re.findall(pattern, text) + [
                found for following in more for found in matches(following, pattern)
            ]

        messages = matches("/-/demo/log", r'class="subject"[^>]*><bdi>(.*?)</bdi>')
        assert messages == ["6", "5", "4", "3", "2", "1", "0", "Repository created"]
        operations = [each.operation.hex_id[:12] for each in iter_log(repository)]
        assert matches("/-/demo/operations", r'row"><span class="id">(\w+)') == operations
        assert len(operations) > 14


def test_a_page_reads_little_of_many_changes(site: Site) -> None:
    read = 0

    def changes(start: bytes) -> Iterator[Difference]:
        nonlocal read
        directory = int(start[:3] or 0) + start.endswith(b"0")  # `0000` sorts after `000/`
        for number in range(1000 * directory, 300_000):
            read += 1
            path = b"%03d/%03d" % divmod(number, 1000)
            yield Difference(ChangeType.ADDED, path, None, value)

    value = encode_entry(lakes.entry_of(b"x"))
    found = views._changes(Asked(site.context.served, "demo", {}), changes, "staged")
    assert (len(found["items"]), found["next"]) == (100, link("demo", "staged", after=b"099/"))
    assert read < 100 * (views.MOST_BELOW + 20)
    for item in found["items"][0], found["items"][-1]:
        assert (item["counts"].paths, item["is_more"]) == (views.MOST_BELOW, True)


def test_the_drawing_joins_its_lanes(site: Site, repository: Repository) -> None:
    from lakecli.repository.log import LogOptions, log_graph

    with log_graph(repository, "experiment", LogOptions()) as lines:
        rows = list(graph.rows(lines))
    assert graph.width(rows) >= 2
    drawn = site("/-/demo/log?ref=experiment").text.split("<li>\n")[-len(rows) :]
    assert any("<svg class" in each for each in drawn)
    for row, text in zip(rows, drawn, strict=True):
        x = row.lane * 16 + 8
        assert f'<circle cx="{x}"' in text
        below = text.count(f'<line x1="{x}" y1="14" x2="{x}" y2="100%"')
        assert below == bool(row.commit.parents)
        above = text.count(f'<line x1="{x}" y1="0" x2="{x}" y2="14"')
        assert above == (row is not rows[0])
        ends = re.findall(r'y2="(\d+)"', text.partition("</svg>")[0]) if row.above else []
        assert not ends or int(max(ends, key=int)) == 12 * len(row.above)


def test_an_empty_lake_says_what_to_do(tmp_path: Path) -> None:
    with lakes.open_lake(tmp_path) as lake:
        site = Site(lake)
        assert "lakecli repo create" in site("/-/").text
        lakes.make_repository(lake, tmp_path)
        assert "lakecli fs upload" in site("/-/demo/tree").text
        assert "lakecli fs upload" in site("/-/demo/staged").text
        assert "lakecli tag create" in site("/-/demo/").text
        assert "Repository created" in site("/-/demo/log").text

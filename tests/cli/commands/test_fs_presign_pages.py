"""The pages of a hand-over in Chromium, both ways, opened as files."""

from __future__ import annotations

import io
import json
import re
from itertools import product
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_STORED, ZipFile

import pytest

from lakecli.base.identity import blake3_of
from lakecli.cli.context import system_now
from tests.support.servers import new_bucket
from tests.support.tools import require_package, require_tool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.golden import Cli

pytestmark = pytest.mark.servers

MAIN = "lakefs://demo/main"
CONTENTS = {
    "a b.csv": b"a,b\n",
    "empty": b"",
    "large": bytes(range(256)) * 40_000,
    "sub/ünï": "ü".encode(),
}
WIDTHS = (390, 800, 1280)
_FLAGS = ("disable-gpu", "no-sandbox", "no-first-run", "disable-quic", "disable-sync",
          "disable-background-networking", "disable-component-update")  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser; its connections go to servers of this machine."""
    require_package("playwright")
    from playwright.sync_api import sync_playwright

    program = require_tool("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=[f"--{flag}" for flag in _FLAGS]
        )
        yield browser
        browser.close()


@pytest.fixture
def lake(cli: Cli, moto_endpoint: str, aws_environment: pytest.MonkeyPatch) -> Cli:
    """A repository in a bucket of a server that lets every page read and send."""
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    cli.now = system_now()
    for name, data in CONTENTS.items():
        file = cli.directory / "files" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    cli.ok("repo", "create", "lakefs://demo", f"s3://{new_bucket(moto_endpoint)}/lake")
    return cli


class Opened:
    """A page of a file, whose errors fail the test."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        self.problems: list[str] = []
        self.requests: list[Any] = []
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("request", lambda request: self.requests.append(request))  # noqa: PLW0108
        self.page.add_init_script("delete window.showSaveFilePicker")
        self.page.goto(f"file://{file}")

    def _note(self, message: Any) -> None:
        if message.type == "error" and "404" not in message.text:
            self.problems.append(message.text)

    def wait(self, text: str) -> None:
        """Wait until the page says something."""
        self.page.get_by_role("status").get_by_text(text).wait_for(timeout=30_000)

    def close(self) -> None:
        self.context.close()
        assert self.problems == []


def put_page(lake: Cli, *options: str) -> Path:
    file = lake.directory / "put.html"
    lake.ok("fs", "presign", "--put", f"{MAIN}/in/", *options, "--page", file)
    return file


def stage(lake: Cli) -> dict[str, str]:
    found = lake("fs", "stage", f"{MAIN}/in/", "--arrived", "--json").json_lines
    return {each["path"] or each["id"]: each["state"] for each in found}


def test_a_browser_sends_files(lake: Cli, chromium: Any) -> None:
    opened = Opened(chromium, put_page(lake, "-n", "4"))
    sent = [str(lake.directory / "files" / name) for name in ("a b.csv", "empty", "large")]
    opened.page.set_input_files("input", sent)
    opened.wait("3 of 4 files are sent.")
    opened.close()
    assert stage(lake) == dict.fromkeys(("in/a b.csv", "in/empty", "in/large"), "staged")
    entry = lake.ok("fs", "stat", f"{MAIN}/in/large", "--json").json
    assert entry["checksum"] == blake3_of(CONTENTS["large"]).hex()


def test_a_dropped_directory_keeps_its_names(lake: Cli, chromium: Any) -> None:
    opened = Opened(chromium, put_page(lake, "-n", "4"))
    opened.page.evaluate(
        """() => {
          const file = (name, text) =>
            ({isFile: true, name, file: done => done(new File([text], name))});
          const directory = (name, entries) => ({isFile: false, name, createReader: () => {
            const rest = [entries, []];
            return {readEntries: done => done(rest.shift())};
          }});
          const entry = directory("d", [file("a", "1"), directory("e", [file("b", "22")])]);
          const event = new Event("drop", {bubbles: true, cancelable: true});
          event.dataTransfer = {items: [{webkitGetAsEntry: () => entry}], files: []};
          document.querySelector(".drop").dispatchEvent(event);
        }"""
    )
    opened.wait("2 of 4 files are sent.")
    opened.close()
    assert stage(lake) == {"in/d/a": "staged", "in/d/e/b": "staged"}


def test_what_was_sent_is_not_sent_twice(lake: Cli, chromium: Any) -> None:
    page = put_page(lake, "-n", "4")
    first, large = (str(lake.directory / "files" / name) for name in ("a b.csv", "large"))
    for files, text in (([first], "1 of 4"), ([first, large], "2 of 4")):
        opened = Opened(chromium, page)
        opened.page.set_input_files("input", files)
        opened.wait(f"{text} files are sent.")
        puts = [each.url for each in opened.requests if each.method == "PUT"]
        assert len([url for url in puts if ".sent" not in url]) == 1
        opened.close()
    assert stage(lake) == {"in/a b.csv": "staged", "in/large": "staged"}


def test_a_file_that_cannot_be_read_again_keeps_its_name(lake: Cli, chromium: Any) -> None:
    page, file = put_page(lake, "-n", "4"), str(lake.directory / "files/a b.csv")
    for change in ("0", "void (digestOf = async () => { throw new Error(); })"):
        opened = Opened(chromium, page)
        opened.page.evaluate(change)
        opened.page.set_input_files("input", [file])
        opened.wait("1 of 4 files are sent.")
        opened.close()
    assert stage(lake) == {"in/a b.csv": "staged"}


def test_a_large_file_goes_on_where_it_was_interrupted(
    lake: Cli, chromium: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is lost and comes back; then the page is closed, and opened again."""
    monkeypatch.setattr("lakecli.repository.handoff.link_sets.SMALLEST_PART", 5 << 20)
    page, large = put_page(lake, "-n", "4"), lake.directory / "files" / "large"
    large.write_bytes(b"0123456789abcde\n" * (17 << 16))  # parts of 7, 5 and 5 MiB

    def lose(number: int) -> Opened:
        opened = Opened(chromium, page)
        gone = re.compile(rf"partNumber={number}&")
        opened.page.route(gone, lambda route: route.abort())
        opened.page.set_input_files("input", str(large))
        opened.wait("1 not sent. The browser cannot reach the bucket: the connection was lost")
        opened.page.unroute(gone)
        opened.problems = [each for each in opened.problems if "Failed to load" not in each]
        return opened

    def sent(opened: Opened) -> list[str]:
        urls = [each.url for each in opened.requests if each.method == "PUT"]
        return [found[1] for url in urls if (found := re.search("partNumber=([0-9]+)", url))]

    lose(2).close()
    opened = lose(3)
    assert sent(opened) == ["2", "3", "3", "3"], "the first part is not sent again"
    opened.page.evaluate("dispatchEvent(new Event('online'))")
    opened.wait("1 of 4 files are sent.")
    assert sent(opened)[4:] == ["3"]
    opened.close()
    assert stage(lake) == {"in/large": "staged"}
    entry = lake.ok("fs", "stat", f"{MAIN}/in/large", "--json").json
    assert entry["checksum"] == blake3_of(large.read_bytes()).hex()
    large.write_bytes(b"x" * (11 << 20))
    again = Opened(chromium, page)
    again.page.set_input_files("input", str(large))
    again.wait("1 of 4 files are sent.")
    assert sent(again) == [], "what replaces a file is sent whole"
    again.close()
    assert stage(lake) == {"in/large": "staged"}


def test_only_files_that_are_asked_for_are_sent(lake: Cli, chromium: Any) -> None:
    (lake.directory / "names").write_text("large\nsub/ünï\nnone\n")
    opened = Opened(chromium, put_page(lake, "--files-from", str(lake.directory / "names")))
    files = [str(lake.directory / "files" / name) for name in ("a b.csv", "large", "sub/ünï")]
    opened.page.set_input_files("input", files)
    opened.wait("2 of 3 files are sent.")
    assert "no file of this name is asked for" in opened.page.inner_text("tbody")
    opened.close()
    assert stage(lake) == {"in/large": "staged", "in/none": "awaited", "in/sub/ünï": "staged"}


def test_a_form_sends_files_of_a_limited_size(lake: Cli, chromium: Any) -> None:
    opened = Opened(chromium, put_page(lake, "-n", "4", "--max-size", "1MB"))
    files = [str(lake.directory / "files" / name) for name in ("a b.csv", "large")]
    opened.page.set_input_files("input", files)
    opened.wait("1 of 4 files are sent.")
    assert "it has more than 1000000 bytes" in opened.page.inner_text("tbody")
    opened.close()
    assert stage(lake) == {"in/a b.csv": "staged"}


def test_a_browser_downloads_all_as_an_archive(lake: Cli, chromium: Any) -> None:
    lake.ok("fs", "upload", "-r", lake.directory / "files", f"{MAIN}/out/")
    lake.ok("fs", "cp", f"{MAIN}/out/empty", f"{MAIN}/out/../up")
    file = lake.directory / "get.html"
    lake.ok("fs", "presign", "-r", f"{MAIN}/out/", "--page", file)
    opened = Opened(chromium, file, accept_downloads=True)
    opened.page.keyboard.press("Tab")
    with opened.page.expect_download() as download:
        opened.page.keyboard.press("Enter")
    opened.wait("1 with unusual names are left out")
    with ZipFile(download.value.path()) as archive:
        assert archive.testzip() is None
        assert {each.compress_type for each in archive.infolist()} == {ZIP_STORED}
        assert {each.filename: archive.read(each) for each in archive.infolist()} == CONTENTS
    opened.close()


def test_large_archives_have_the_wide_form(lake: Cli, chromium: Any) -> None:
    """What stands at the end of an archive whose data are not there."""
    lake.ok("fs", "upload", "-s", "-", f"{MAIN}/out/a", stdin="a")
    file = lake.directory / "get.html"
    lake.ok("fs", "presign", "-r", f"{MAIN}/out/", "--page", file)
    opened = Opened(chromium, file)
    for size, offset in product((3, 2**32 - 1, 2**32, 2**35), (0, 2**32 - 1, 2**33)):
        found = opened.page.evaluate(
            """([size, at]) => {
              const file = {name: new TextEncoder().encode("ü"), at, size, crc: 7};
              const local = entry(file), central = entry(file, true);
              const last = end(1, at + local.length + size, central.length);
              return [local, central, last].map(part => [...part]);
            }""",
            [size, offset],
        )
        local, central, end = map(bytes, found)
        with ZipFile(_Sparse(offset, local, size, central + end)) as archive:
            (info,) = archive.infolist()
            assert (info.filename, info.file_size, info.CRC) == ("ü", size, 7)
            assert (info.header_offset, info.compress_size) == (offset, size)
            assert archive.open(info).read(0) == b""
    opened.close()


class _Sparse(io.RawIOBase):
    """An archive in which only one header, and the directory at the end, are not zeros."""

    def __init__(self, offset: int, local: bytes, size: int, tail: bytes) -> None:
        super().__init__()
        self._parts = ((offset, local), (offset + len(local) + size, tail))
        self._size, self._at = offset + len(local) + size + len(tail), 0

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._at + size)
        data = bytearray(max(0, end - self._at))
        for start, part in self._parts:
            low, high = max(start, self._at), min(start + len(part), end)
            if low < high:
                data[low - self._at : high - self._at] = part[low - start : high - start]
        self._at += len(data)
        return bytes(data)


def test_a_bucket_without_a_rule_for_pages_is_explained(lake: Cli, chromium: Any) -> None:
    lake.ok("fs", "upload", "-s", "-", f"{MAIN}/out/a", stdin="a")
    get = lake.directory / "get.html"
    lake.ok("fs", "presign", "-r", f"{MAIN}/out/", "--page", get)
    for file in (put_page(lake, "-n", "4"), get):
        opened = Opened(chromium, file)
        opened.page.route(re.compile("^http:"), lambda route: route.abort())
        if file == get:
            opened.page.click("button")
        else:
            opened.page.reload()
            opened.page.set_input_files("input", str(lake.directory / "files" / "empty"))
        opened.wait("lakecli help clouds")
        opened.problems = [each for each in opened.problems if "Failed to load" not in each]
        opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_their_width_and_can_be_read(lake: Cli, chromium: Any, scheme: str) -> None:
    lake.ok("fs", "upload", "-s", "-", f"{MAIN}/out/{'long' * 60}.csv", stdin="a")
    get = lake.directory / "get.html"
    lake.ok("fs", "presign", "-r", f"{MAIN}/out/", "--page", get)
    for file, width in product((put_page(lake, "-n", "4"), get), WIDTHS):
        opened = Opened(
            chromium, file, viewport={"width": width, "height": 800}, color_scheme=scheme
        )
        if file != get:
            opened.page.set_input_files("input", str(lake.directory / "files" / "a b.csv"))
            opened.wait("1 of 4 files are sent.")
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        opened.page.keyboard.press("Tab")
        focused = opened.page.evaluate("document.activeElement.tagName")
        assert focused == ("BUTTON" if file == get else "INPUT")
        colour = opened.page.evaluate("getComputedStyle(document.body).colorScheme")
        assert "dark" in colour
        text = opened.page.evaluate("getComputedStyle(document.body).color")
        assert (text == "rgb(0, 0, 0)") == (scheme == "light")
        opened.close()


def test_the_page_says_that_its_links_have_expired(lake: Cli, chromium: Any) -> None:
    file = put_page(lake, "-n", "1")
    text = file.read_text()
    data = json.loads(text.partition('id="links">')[2].partition("</script>")[0])
    file.write_text(text.replace(data["expires"], "2020-01-01T00:00:00Z"))
    opened = Opened(chromium, file)
    opened.wait("These links have expired: ask for a new page.")
    opened.close()

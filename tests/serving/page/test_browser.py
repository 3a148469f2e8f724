"""The pages in Chromium: every link, the keyboard, three widths, and both colour schemes."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.serving import server
from lakecli.serving.clients import url_of
from lakecli.serving.context import Options
from lakecli.serving.page.asked import link
from tests.serving.page.site import Site, fill
from tests.support import lakes
from tests.support.tools import require_package, require_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.servers

WIDTHS = (390, 800, 1280)
SCHEMES = ("light", "dark")
_FLAGS = ("disable-gpu", "no-sandbox", "no-first-run", "disable-quic", "disable-sync",
          "disable-background-networking", "disable-component-update")  # fmt: skip
PAGES = {
    "repositories": link(),
    "branches": link("demo"),
    "log": link("demo", "log", ref="experiment"),
    "commit": link("demo", "commit", ref="experiment~1"),
    "tree": link("demo", "tree", ref="main"),
    "hostile": link("demo", "tree", ref="main", path="x/"),
    "csv": link("demo", "object", ref="v1.0", path="raw/orders.csv"),
    "text": link("demo", "object", ref="main", path="raw/2026/notes.txt"),
    "parquet": link("demo", "object", ref="main", path="prices.parquet"),
    "image": link("demo", "object", ref="v1.0", path="logo.png"),
    "bytes": link("demo", "object", ref="main", path="model.bin"),
    "staged": link("demo", "staged", ref="main"),
    "diff": link("demo", "diff", left="main", right="experiment"),
    "operations": link("demo", "operations"),
    "error": link("demo", "tree", ref="nothing"),
}
"""Pages of each kind."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    require_package("playwright")
    from playwright.sync_api import sync_playwright

    program = require_tool("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=[f"--{flag}" for flag in _FLAGS]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Site]]:
    """An endpoint with a repository."""
    directory = tmp_path_factory.mktemp("browser")
    with lakes.open_lake(directory) as lake:
        fill(lake, directory)
        site = Site(lake)
        bound = server.bind(server.LOOPBACK, 0)
        url = url_of(server.LOOPBACK, bound.getsockname()[1], secure=False)
        options = Options(url=url, hosts=server.names_of(server.LOOPBACK))
        started, errors = Event(), list[BaseException]()
        endpoint = server.Endpoint(
            replace(site.context, options=options), bound, report=errors.append, started=started.set
        )
        thread = Thread(target=endpoint.run_until_stopped)
        thread.start()
        assert started.wait(30)
        yield url, site
        endpoint.stop()
        thread.join()
        assert errors == []


class Visit:
    """A window that began by the link of the endpoint; whatever goes wrong in it is noted."""

    def __init__(self, browser: Any, url: str, site: Site, **options: Any) -> None:
        self.url, self.problems, self.statuses = url, list[str](), dict[str, int]()
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("request", self._check)
        self.page.on("response", self._look)
        self.page.goto(f"{url}/?token={site.access.new_link_token()}")
        self.page.wait_for_url(f"{url}/-/")

    def _note(self, message: Any) -> None:
        if message.type in {"error", "warning"} and "404" not in message.text:
            self.problems.append(message.text)

    def _check(self, request: Any) -> None:
        if not request.url.startswith(self.url):
            self.problems.append(f"asked another server: {request.url}")

    def _look(self, response: Any) -> None:
        self.statuses[response.url] = response.status

    def go(self, address: str) -> Any:
        self.page.goto(self.url + address)
        return self.page

    def close(self) -> None:
        self.context.close()
        assert self.problems == []


def test_pages_fit(url: tuple[str, Site], chromium: Any) -> None:
    """No page is wider than its window; ``SCREENSHOTS`` in the environment keeps pictures."""
    visit = Visit(chromium, *url)
    kept = os.environ.get("SCREENSHOTS")
    for name, address in PAGES.items():
        page = visit.go(address)
        assert page.locator("h1").count() == 1
        for width, scheme in product(WIDTHS, SCHEMES):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            back = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (back == "rgb(255, 255, 255)") == (scheme == "light")
            if kept:
                page.screenshot(path=Path(kept) / f"{name}-{width}-{scheme}.png", full_page=True)
    visit.close()


def test_every_link_is_followed(url: tuple[str, Site], chromium: Any) -> None:
    visit = Visit(chromium, *url)
    waiting, seen = list(PAGES.values())[:-1], set[str]()
    while waiting:
        address = waiting.pop()
        seen.add(address)
        page = visit.go(address)
        assert visit.statuses[page.url] == 200
        assert page.evaluate("[...document.images].every(each => each.naturalWidth)")
        for found in page.locator("a:not([download]):not(.skip)").all():
            to = found.get_attribute("href")
            verb = to.partition("?")[0]
            # Of each kind of page, some: the tests in process see all of them.
            if to not in seen and sum(each.startswith(verb) for each in seen) < 3:
                seen.add(to)
                waiting.append(to)
    assert len(seen) > 20
    visit.close()


def test_names_with_markup_are_clicked(url: tuple[str, Site], chromium: Any) -> None:
    visit = Visit(chromium, *url)
    for name in (
        "?ref=main&path=y#z+",
        "'{{ 7*7 }}",
        "back\\\\slash",
        "\\x00",
        "a\\nb\\tc\\x1b[31m",
    ):
        if name == "\\x00":
            continue
        visit.go(PAGES["hostile"])
        visit.page.get_by_role("link", name=name, exact=True).click()
        assert visit.page.get_by_text("harmless").count() == 1
        with visit.page.expect_download() as saved:
            visit.page.get_by_role("link", name="Download").click()
        assert Path(saved.value.path()).read_bytes() == b"harmless\n"
    visit.close()


def test_the_keyboard_is_enough(url: tuple[str, Site], chromium: Any) -> None:
    from playwright.sync_api import expect

    visit = Visit(chromium, *url)
    page = visit.go(PAGES["tree"])
    page.keyboard.press("Tab")
    skip = page.locator(":focus")
    assert skip.inner_text() == "Skip to the content"
    assert skip.bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.locator(":focus").get_attribute("name") == "ref"
    page.keyboard.press("Control+A")
    page.keyboard.type("v1.0")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tree?ref=v1.0")
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        focused = page.evaluate("document.activeElement.tagName")
        assert focused == "BODY" or ring == "solid"
        seen.add(page.evaluate("document.activeElement.innerText"))
    assert {"raw/", "empty", "History", "Compare"} <= seen
    page = visit.go(PAGES["csv"])
    rows = page.get_by_role("region", name="Rows")
    rows.focus()
    expect(rows.get_by_role("row").last).not_to_be_in_viewport()
    page.keyboard.press("End")
    expect(rows.get_by_role("row").last).to_be_in_viewport()
    page = visit.go(link("demo", "diff"))
    page.get_by_label("to", exact=True).fill("experiment")
    page.get_by_label("to", exact=True).press("Enter")
    page.wait_for_url("**/diff?left=main&right=experiment")
    visit.close()


def test_a_spent_link_and_a_page_elsewhere_open_nothing(
    url: tuple[str, Site], chromium: Any, tmp_path: Path
) -> None:
    visit = Visit(chromium, *url)
    context = chromium.new_context()
    page = context.new_page()
    assert page.goto(f"{url[0]}/-/").status == 403
    assert page.get_by_role("alert").count() == 1
    context.close()
    file = tmp_path / "elsewhere.html"
    file.write_text(f'<iframe src="{url[0]}/-/"></iframe><a href="{url[0]}/-/">there</a>')
    visit.page.goto(f"file://{file}")
    assert visit.page.frame_locator("iframe").get_by_text("lakecli").count() == 0
    visit.page.get_by_role("link").click()
    visit.page.wait_for_url(f"{url[0]}/-/")
    visit.context.close()

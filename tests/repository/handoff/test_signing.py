"""URLs get their signatures in order, from threads, as far as they need any."""

from __future__ import annotations

from datetime import UTC, datetime
from threading import get_ident
from typing import TYPE_CHECKING

from lakecli.base.model import Entry
from lakecli.errors import LakeError, PermissionDenied
from lakecli.repository.handoff.links import THREADS, WINDOW, in_order
from lakecli.stores.presigned_urls import PresignedUrl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakecli.repository.handoff.links import SigningItem

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ENTRY = Entry("data/x", 1, "c", NOW)


def unsigned(sign: Callable[[bytes], bytes], count: int) -> Iterator[SigningItem]:
    for number in range(count):
        text = b"%d" % number
        yield text, ENTRY, PresignedUrl(f"https://{number}?s=", NOW, {}, (sign, text))


def urls(items: Iterator[SigningItem]) -> list[str]:
    found = []
    for _, _, url in items:
        assert isinstance(url, PresignedUrl)
        assert url.unsigned is None
        found.append(url.url)
    return found


def expected(count: int, sign: Callable[[bytes], bytes]) -> list[str]:
    return [f"https://{number}?s={sign(b'%d' % number).hex()}" for number in range(count)]


def test_threads_sign_many_urls_in_their_order() -> None:
    drawn = 0
    threads = set()

    def drawing() -> Iterator[SigningItem]:
        nonlocal drawn
        for item in unsigned(sign, 3_000):
            drawn += 1
            yield item

    def sign(text: bytes) -> bytes:
        threads.add(get_ident())
        return text

    ahead = 0
    found = []
    for number, (path, entry, url) in enumerate(in_order(drawing())):
        assert isinstance(url, PresignedUrl)
        assert (path, entry) == (b"%d" % number, ENTRY)
        found.append(url.url)
        ahead = max(ahead, drawn - number)
    assert found == expected(3_000, bytes)
    assert ahead <= WINDOW
    assert get_ident() not in threads


def test_a_failure_takes_the_place_of_its_url() -> None:
    def sign(text: bytes) -> bytes:
        if text == b"20":
            raise PermissionDenied("no key")
        signed.append(text)
        return text

    signed: list[bytes] = []
    items = in_order(unsigned(sign, 100_000))
    found = [next(items)[2] for _ in range(22)]
    assert [isinstance(url, LakeError) for url in found] == [False] * 20 + [True, False]
    items.close()
    assert len(signed) < 2_000


def test_the_first_urls_wait_for_few_others() -> None:
    def sign(text: bytes) -> bytes:
        signed.append(text)
        return text

    signed: list[bytes] = []
    items = in_order(unsigned(sign, 100_000))
    next(items)
    assert len(signed) == THREADS
    items.close()


def test_whole_urls_and_failures_pass_through() -> None:
    mixed: list[SigningItem] = []
    for item in unsigned(bytes, 200):
        url = PresignedUrl("https://whole", NOW)
        failure = PermissionDenied("no")
        mixed += [item, (item[0], ENTRY, url), (item[0], ENTRY, failure)]
    found = [url for _, _, url in in_order(iter(mixed))]
    assert found[1::3] == [url for _, _, url in mixed[1::3]]
    assert found[2::3] == [url for _, _, url in mixed[2::3]]
    assert urls((b"", ENTRY, url) for url in found[::3]) == expected(200, bytes)

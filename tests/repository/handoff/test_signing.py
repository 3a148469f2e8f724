"""URLs get their signatures in order, from threads or processes, as far as they need any."""

from __future__ import annotations

import json
import os
from collections import deque
from datetime import UTC, datetime
from hashlib import sha256
from threading import get_ident
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lakecli.errors import LakeError, PermissionDenied
from lakecli.model import Entry
from lakecli.objectstore import rsa_processes
from lakecli.objectstore.presigned import PresignedUrl
from lakecli.repository.handoff import signing
from lakecli.repository.handoff.signing import BATCH, THREADS, WORTH_PROCESSES, Helpers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.objectstore.rsa import PrivateKey
    from lakecli.repository.handoff.signing import Item

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ENTRY = Entry("data/x", 1, "c", NOW)


class Signer(NamedTuple):
    sign: Callable[[bytes], bytes]
    key: PrivateKey | None = None


def unsigned(signer: Signer, count: int) -> Iterator[Item]:
    for number in range(count):
        text = b"%d" % number
        yield text, ENTRY, PresignedUrl(f"https://{number}?s=", NOW, {}, (signer, text))


def in_order(items: Iterator[Item], count: int, namespace: str = "") -> Iterator[Item]:
    """Sign items that exist already."""
    waiting: deque[Item] = deque()

    def records() -> Iterator[tuple[bytes, bytes]]:
        for item in items:
            waiting.append(item)
            yield item[0], b""

    def prepare(_path: bytes, _value: bytes) -> Item:
        return waiting.popleft()

    with (
        Helpers(count, namespace) as helpers,
        signing.in_order(records(), prepare, helpers) as signed,
    ):
        yield from signed


def urls(items: Iterator[Item]) -> list[str]:
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

    def drawing() -> Iterator[Item]:
        nonlocal drawn
        for item in unsigned(signer, 3_000):
            drawn += 1
            yield item

    def sign(text: bytes) -> bytes:
        threads.add(get_ident())
        return text

    signer = Signer(sign)
    ahead = 0
    found = []
    for number, (path, entry, url) in enumerate(in_order(drawing(), 0)):
        assert isinstance(url, PresignedUrl)
        assert (path, entry) == (b"%d" % number, ENTRY)
        found.append(url.url)
        ahead = max(ahead, drawn - number)
    assert found == expected(3_000, bytes)
    assert ahead <= (2 * THREADS + 1) * BATCH
    assert get_ident() not in threads


def test_a_failure_takes_the_place_of_its_url() -> None:
    def sign(text: bytes) -> bytes:
        if text == b"20":
            raise PermissionDenied("no key")
        signed.append(text)
        return text

    signed: list[bytes] = []
    items = in_order(unsigned(Signer(sign), 100_000), 0)
    found = [next(items)[2] for _ in range(22)]
    assert [isinstance(url, LakeError) for url in found] == [False] * 20 + [True, False]
    items.close()  # type: ignore[attr-defined]
    assert len(signed) < 2_000


def test_whole_urls_and_failures_pass_through() -> None:
    signer = Signer(lambda text: text)
    mixed: list[Item] = []
    for item in unsigned(signer, 200):
        url = PresignedUrl("https://whole", NOW)
        failure = PermissionDenied("no")
        mixed += [item, (item[0], ENTRY, url), (item[0], ENTRY, failure)]
    found = [url for _, _, url in in_order(iter(mixed), 0)]
    assert found[1::3] == [url for _, _, url in mixed[1::3]]
    assert found[2::3] == [url for _, _, url in mixed[2::3]]
    assert urls((b"", ENTRY, url) for url in found[::3]) == expected(200, signer.sign)


def keyed(key: PrivateKey, signed_here: list[bytes]) -> Signer:
    def sign(text: bytes) -> bytes:
        signed_here.append(text)
        return key.sign(sha256(text).digest())

    return Signer(sign, key)


def test_processes_sign_many_urls_in_their_order(
    rsa_key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rsa_processes, "BATCHES_AHEAD", 12)
    here: list[bytes] = []
    signer = keyed(rsa_key, here)
    count = 2 * 12 * BATCH + BATCH + 1  # more than they take at a time
    found = urls(in_order(unsigned(signer, count), 2))
    assert here == []
    some = {0: b"0", count // 2: b"%d" % (count // 2), count - 1: b"%d" % (count - 1)}
    assert [found[at] for at in some] == [
        f"https://{at}?s={signer.sign(text).hex()}" for at, text in some.items()
    ]
    assert [url.partition("?")[0] for url in found] == [f"https://{at}" for at in range(count)]
    assert len(set(found)) == count


@pytest.mark.parametrize(("count", "processes"), [(WORTH_PROCESSES - 1, 2), (WORTH_PROCESSES, 0)])
def test_few_urls_or_no_leave_start_no_process(
    rsa_key: PrivateKey, monkeypatch: pytest.MonkeyPatch, count: int, processes: int
) -> None:
    monkeypatch.setattr(os, "posix_spawn", None)
    here: list[bytes] = []
    assert len(urls(in_order(unsigned(keyed(rsa_key, here), count), processes))) == count
    assert len(here) == count


@pytest.mark.parametrize(
    ("namespace", "is_named", "by_processes"),
    [
        ("gs://bucket/lake", True, True),
        ("gs://bucket/lake", False, False),
        ("s3://bucket/lake", True, False),
    ],
)
def test_a_namespace_tells_whether_processes_start_at_once(
    rsa_key: PrivateKey,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    namespace: str,
    *,
    is_named: bool,
    by_processes: bool,
) -> None:
    account = {"type": "service_account", "client_email": "a@b", "token_uri": "https://c"}
    file = tmp_path / "key.json"
    file.write_text(json.dumps({**account, "private_key": rsa_key.pem}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file) if is_named else "")
    here: list[bytes] = []
    items = unsigned(keyed(rsa_key, here), 3)
    assert len(urls(in_order(items, 2, namespace))) == 3
    assert len(here) == (0 if by_processes else 3)


def test_what_processes_cannot_sign_is_signed_here(
    rsa_key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing, "WORTH_PROCESSES", 40)
    here: list[bytes] = []
    signer, other = keyed(rsa_key, here), Signer(lambda text: text)
    items = [*unsigned(signer, 80), *unsigned(other, 10), *unsigned(signer, 64)]
    found = urls(in_order(iter(items), 1))
    assert found[:80] == expected(80, signer.sign)
    assert found[80:90] == expected(10, other.sign)
    assert found[90:] == expected(64, signer.sign)


def test_without_processes_this_one_signs(
    rsa_key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/program")
    here: list[bytes] = []
    count = WORTH_PROCESSES
    assert len(urls(in_order(unsigned(keyed(rsa_key, here), count), 2))) == count
    assert len(here) == count

"""What presigned URLs promise on every cloud. One subclass and one table per cloud.

A module that subclasses the contract has fixtures `store` (of a server that checks signatures and
expiry), `make_stranger` (makes a store of the same
namespace, with a key that the server does not know), `answering`
(of a server that gives the signed type and name back), `offline` (of the cloud itself, with a
key), and `without_credentials`.
"""

from __future__ import annotations

import gzip
import json
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from lakecli.errors import PermissionDenied, UsageError
from lakecli.stores.contract import ANY
from lakecli.stores.presigned_urls import PresignRequest, content_disposition
from lakecli.stores.registry import open_store
from tests.stores.contract import ODD_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from email.message import Message
    from pathlib import Path

    from lakecli.stores.contract import ObjectStore
    from lakecli.stores.presigned_urls import PresignedUrl

NOW = datetime(2030, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
GET = PresignRequest("GET", MINUTE)
PUT = PresignRequest("PUT", MINUTE)


def fetch(
    url: str, *, trusted: Path | None = None, **options: object
) -> tuple[int, bytes, Message]:
    """Return status, body and headers; with the certificate to trust, over TLS."""
    request = urllib.request.Request(url, **options)  # type: ignore[arg-type]
    context = ssl.create_default_context(cafile=str(trusted)) if trusted else None
    try:
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def clock() -> datetime:
    """Return the present; the servers have a clock of their own."""
    return datetime.now(UTC)  # noqa: TID251


class SignatureTable(NamedTuple):
    """What differs between the clouds.

    Attributes:
        uri: of a namespace, for a process that signs offline.
        start: how its URL of ``k +`` begins.
        key_id: part of that URL; tells who signed.
        secrets: that no URL may hold.
        unimported: modules that signing does not import.
        tampered: returns URLs that were changed in one place each.
        refusal: part of the answers to them; ``b""`` if nothing is said.
        expired: statuses of the answer to an expired URL.
        expired_refusal: part of that answer.
        put_headers: that go with every upload.
        put_status: of the answer to an upload.
        type_is_signed: an upload of another content type is refused.
        impossible: names that the server cannot hold.
        of_encoded_text: type and encoding in the answer to a URL of text that is stored as gzip.
        lifetime: returns the query parameters that say when a URL ends.
        credentials_hint: part of the hint if there are no credentials.
    """

    uri: str
    start: str
    key_id: str
    secrets: tuple[str, ...]
    unimported: frozenset[str]
    tampered: Callable[[PresignedUrl], set[str]]
    refusal: bytes
    expired: frozenset[int]
    expired_refusal: bytes
    put_headers: Mapping[str, str]
    put_status: int
    type_is_signed: bool
    impossible: frozenset[str]
    of_encoded_text: tuple[str, str | None]
    lifetime: Callable[[PresignedUrl, timedelta], dict[str, list[str]]]
    credentials_hint: str


OFFLINE = """
import json, os, sys
touched = []
key_file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
def watch(event, arguments):
    # The SDKs' models are large JSON files; the list of AWS's partitions is a small one.
    if event == "open" and str(arguments[0]).endswith((".json", ".json.gz")):
        if str(arguments[0]) != key_file and not str(arguments[0]).endswith("/partitions.json"):
            touched.append(str(arguments[0]))
    # An HTTP library binds a socket when it is imported, to see whether there is IPv6.
    if event.startswith("socket.") and event not in ("socket.__new__", "socket.bind"):
        touched.append(event)
sys.addaudithook(watch)
from datetime import UTC, datetime, timedelta
from lakecli.stores.presigned_urls import PresignRequest
from lakecli.stores.registry import open_store
store = open_store(sys.argv[1], region="eu-north-1")
request = PresignRequest("GET", timedelta(minutes=5))
signed = store.presign("k +", request, now=datetime(2030, 1, 1, tzinfo=UTC))
print(json.dumps([touched, sorted(sys.modules), signed.url]))
"""


class PresignContract:
    """Subclasses give the table; every test below then runs on their stores."""

    table: ClassVar[SignatureTable]

    # A server accepts them

    def test_a_url_works_with_urllib_and_with_curl(
        self, store: ObjectStore, tmp_path: Path
    ) -> None:
        store.put("data/k", b"the body", ANY)
        url = store.presign("data/k", GET, now=clock()).url
        assert fetch(url)[:2] == (200, b"the body")
        assert fetch(url, headers={"Range": "bytes=4-"})[1] == b"body"
        curl = shutil.which("curl")
        assert curl is not None, "these tests need curl"
        target = tmp_path / "out"
        subprocess.run([curl, "-sSf", "-o", str(target), url], check=True, timeout=60)
        assert target.read_bytes() == b"the body"

    def test_odd_keys_are_signed(self, store: ObjectStore) -> None:
        names = {*ODD_NAMES, "~tilde-and.dots_", "a//b", "new\nline"} - self.table.impossible
        for name in names:
            store.put(f"odd/{name}", name.encode(), ANY)
            url = store.presign(f"odd/{name}", GET, now=clock()).url
            assert fetch(url)[:2] == (200, name.encode()), name

    def test_what_was_not_signed_is_refused(self, store: ObjectStore) -> None:
        store.put("k", b"the body", ANY)
        store.put("other", b"another body", ANY)
        signed = store.presign("k", GET, now=clock())
        tampered = self.table.tampered(signed)
        assert len(tampered) >= 3
        assert signed.url not in tampered
        for url in tampered:
            status, body, _ = fetch(url)
            assert status == 403
            assert self.table.refusal in body
            assert b"body" not in body
        headers = dict(self.table.put_headers)
        assert fetch(signed.url, data=b"x", method="PUT", headers=headers)[0] == 403
        assert store.get("k") == b"the body"

    def test_an_expired_url_is_refused(self, store: ObjectStore) -> None:
        store.put("k", b"the body", ANY)
        signed = store.presign("k", GET, now=clock() - timedelta(hours=1))
        assert signed.expires_at < clock()
        status, body, _ = fetch(signed.url)
        assert status in self.table.expired
        assert self.table.expired_refusal in body
        assert b"the body" not in body

    def test_a_url_signed_with_an_unknown_key_is_refused(
        self, store: ObjectStore, make_stranger: Callable[[], ObjectStore]
    ) -> None:
        store.put("k", b"the body", ANY)
        assert fetch(make_stranger().presign("k", GET, now=clock()).url)[0] == 403

    def test_a_put_url_takes_a_body(self, store: ObjectStore) -> None:
        signed = store.presign("incoming/x", PUT, now=clock())
        assert signed.headers == self.table.put_headers
        headers = dict(signed.headers) | {"Content-Type": "application/octet-stream"}
        status, _, _ = fetch(signed.url, data=b"from a partner", method="PUT", headers=headers)
        assert status == self.table.put_status
        assert store.get("incoming/x") == b"from a partner"
        assert fetch(signed.url)[0] == 403

    def test_a_put_url_gives_the_content_type_to_send(self, store: ObjectStore) -> None:
        request = PresignRequest("PUT", MINUTE, content_type="text/csv")
        signed = store.presign("incoming/x", request, now=clock())
        assert signed.headers == {**self.table.put_headers, "Content-Type": "text/csv"}
        other = dict(signed.headers) | {"Content-Type": "text/html"}
        status = fetch(signed.url, data=b"a,b", method="PUT", headers=other)[0]
        assert status == (403 if self.table.type_is_signed else self.table.put_status)
        status = fetch(signed.url, data=b"a,b", method="PUT", headers=dict(signed.headers))[0]
        assert status == self.table.put_status

    def test_the_answer_has_the_signed_type_and_name(self, answering: ObjectStore) -> None:
        answering.put("k", b"a,b", ANY)
        request = PresignRequest(
            "GET", MINUTE, content_type="text/csv; charset=utf-8", file_name="Übersicht 1.csv"
        )
        status, body, headers = fetch(answering.presign("k", request, now=clock()).url)
        assert (status, body) == (200, b"a,b")
        assert headers["Content-Type"] == "text/csv; charset=utf-8"
        assert headers["Content-Disposition"] == content_disposition("Übersicht 1.csv")
        assert headers["Content-Encoding"] is None

    def test_the_answer_says_how_the_bytes_are_encoded(self, answering: ObjectStore) -> None:
        compressed = gzip.compress(b"a,b")
        answering.put("k", compressed, ANY)
        request = PresignRequest("GET", MINUTE, content_type="text/csv", content_encoding="gzip")
        status, body, headers = fetch(answering.presign("k", request, now=clock()).url)
        assert (status, body) == (200, compressed)
        said = headers["Content-Type"], headers["Content-Encoding"]
        assert said == self.table.of_encoded_text

    def test_another_type_than_the_signed_one_is_refused(self, store: ObjectStore) -> None:
        store.put("k", b"a,b", ANY)
        request = PresignRequest("GET", MINUTE, content_type="text/csv; charset=utf-8")
        url = store.presign("k", request, now=clock()).url
        other = url.replace("text/csv", "text/html").replace("text%2Fcsv", "text%2Fhtml")
        assert other != url
        assert fetch(url)[0] == 200
        assert fetch(other)[0] == 403

    # When they end, and what is refused

    @pytest.mark.parametrize(
        ("asked", "granted"),
        [
            (timedelta(seconds=90), timedelta(seconds=90)),
            (timedelta(seconds=90, microseconds=999_999), timedelta(seconds=90)),
            (timedelta(days=7), timedelta(days=7)),
            (timedelta(days=8), timedelta(days=7)),
        ],
    )
    def test_a_url_ends_as_asked_or_after_seven_days(
        self, offline: ObjectStore, asked: timedelta, granted: timedelta
    ) -> None:
        signed = offline.presign("k", PresignRequest("GET", asked), now=NOW)
        assert signed.expires_at == NOW.replace(microsecond=0) + granted
        expected = self.table.lifetime(signed, granted)
        query = parse_qs(urlsplit(signed.url).query)
        assert {name: query[name] for name in expected} == expected

    @pytest.mark.parametrize(
        "request_",
        [
            PresignRequest("DELETE", MINUTE),
            PresignRequest("GET", timedelta(0)),
            PresignRequest("GET", timedelta(seconds=-5)),
        ],
    )
    def test_a_malformed_request_is_refused(
        self, offline: ObjectStore, request_: PresignRequest
    ) -> None:
        with pytest.raises(UsageError):
            offline.presign("k", request_, now=NOW)

    @pytest.mark.usefixtures("without_credentials")
    def test_without_credentials_the_error_says_what_to_set(self) -> None:
        store = open_store(self.table.uri)
        with pytest.raises(PermissionDenied, match="no credentials") as raised:
            store.presign("k", GET, now=NOW)
        assert self.table.credentials_hint in str(raised.value.hint)

    # No server is asked

    @pytest.mark.usefixtures("offline")
    def test_signing_with_a_key_sends_no_request(self) -> None:
        self.check_that_signing_sends_no_request(self.table.key_id)

    def check_that_signing_sends_no_request(self, key_id: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", OFFLINE, self.table.uri],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        touched, modules, url = json.loads(done.stdout)
        assert touched == []
        assert not self.table.unimported & set(modules)
        assert url.startswith(self.table.start)
        assert key_id in url
        for secret in self.table.secrets:
            assert secret not in url

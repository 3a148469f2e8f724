"""Requests are signed as the SDK signs them, each with what is its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import product
from typing import TYPE_CHECKING

import pytest

from lakecli.stores.presigned_urls import PresignRequest
from lakecli.stores.s3.settings import AccessKeys
from lakecli.stores.s3.signing import UNSIGNED, S3Signer

if TYPE_CHECKING:
    from collections.abc import Mapping

NOW = datetime(2020, 2, 29, 1, 2, 3, 456_789, UTC)
KEYS = AccessKeys("access", "secret", "")
HOST = {"host": "bucket.example:8080"}
EMPTY = sha256().hexdigest()


def signed_by_sdk(
    keys: AccessKeys, method: str, url: str, headers: dict[str, str], payload: str
) -> dict[str, str]:
    """Return the headers that the SDK adds, by lower-case names."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    class Signer(S3SigV4Auth):  # type: ignore[misc]
        def payload(self, _request: object) -> str:
            return payload

    request = AWSRequest(method, url, headers=headers)
    request.context["timestamp"] = NOW.strftime("%Y%m%dT%H%M%SZ")
    signer = Signer(Credentials(keys.access_key, keys.secret_key, keys.token), "s3", "r-1")
    signer._modify_request_before_signing(request)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    signer._inject_signature_to_request(request, signer.signature(text, request))
    return {name.lower(): value for name, value in request.headers.items()}


@pytest.mark.parametrize("token", ["", "token/of+session="])
def test_the_sdk_signs_in_the_same_way(token: str) -> None:
    keys = KEYS._replace(token=token)
    for method, query, headers, payload in product(
        ("GET", "PUT"),
        ("", "list-type=2&prefix=a%2Fb"),
        ({}, {"range": "bytes=1-2", "x-amz-checksum-mode": "ENABLED"}),
        (EMPTY, UNSIGNED),
    ):
        path, now = "/bucket/k-1_2.x", NOW.timestamp()
        signer = S3Signer(keys, "r-1")
        ours = signer.headers(method, path, query, HOST | headers, payload=payload, now=now)
        named = {name.lower(): value for name, value in ours.items()}
        assert (named.pop("accept-encoding"), named.pop("user-agent")) == ("identity", "lakecli")
        url = f"http://{HOST['host']}/bucket/k-1_2.x" + (f"?{query}" if query else "")
        theirs = signed_by_sdk(keys, method, url, HOST | headers, payload)
        assert named == theirs


def test_whatever_differs_from_the_last_request_is_signed() -> None:
    def made(
        keys: AccessKeys = KEYS,
        region: str = "r-1",
        now: datetime = NOW,
        *,
        method: str = "GET",
        path: str = "/k",
        query: str = "",
        headers: Mapping[str, str] = HOST,
        payload: str = EMPTY,
    ) -> str:
        signer, at = S3Signer(keys, region), now.timestamp()
        return signer.headers(method, path, query, headers, payload=payload, now=at)[
            "Authorization"
        ]

    others = [
        made(KEYS._replace(secret_key="other")),
        made(KEYS._replace(access_key="other")),
        made(KEYS._replace(token="other")),
        made(region="r-2"),
        made(now=NOW + timedelta(seconds=1)),
        made(method="HEAD"),
        made(path="/l"),
        made(query="a=b"),
        made(headers=HOST | {"range": "bytes=0-1"}),
        made(headers={"host": "other"}),
        made(payload=UNSIGNED),
        made(),
    ]
    assert len(set(others)) == len(others)
    assert made(now=NOW + timedelta(microseconds=1)) == made()


@pytest.mark.parametrize(
    ("token", "end", "lifetime"),
    [
        ("", None, timedelta(days=7)),
        ("token", None, timedelta(hours=36)),
        ("token", NOW.replace(microsecond=0) + timedelta(hours=1), timedelta(hours=1)),
        ("token", NOW + timedelta(days=9), timedelta(days=7)),
    ],
)
def test_no_url_outlives_the_keys_that_sign_it(
    token: str, end: datetime | None, lifetime: timedelta
) -> None:
    signer = S3Signer(KEYS._replace(token=token, expires_at=end), "r-1")
    made = signer.url(PresignRequest("GET", timedelta(days=30)), "https://h/b/k", NOW)
    assert made.expires_at == NOW.replace(microsecond=0) + lifetime
    assert f"X-Amz-Expires={int(lifetime.total_seconds())}" in made.url

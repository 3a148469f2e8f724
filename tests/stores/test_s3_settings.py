"""Endpoint and region come from where AWS's tools read them, and are checked."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lakecli.errors import UsageError
from lakecli.stores.s3.connection import S3Connection
from lakecli.stores.s3.settings import S3Config


def configured(monkeypatch: pytest.MonkeyPatch, **variables: str) -> S3Config:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return S3Connection("").config


@pytest.mark.parametrize(
    ("variables", "endpoint", "region"),
    [
        ({}, "", "us-east-1"),
        ({"AWS_DEFAULT_REGION": "eu-north-1"}, "", "eu-north-1"),
        ({"AWS_ENDPOINT_URL": "http://h:9000/x"}, "http://h:9000/x", "us-east-1"),
        (
            {"AWS_ENDPOINT_URL": "http://h", "AWS_ENDPOINT_URL_S3": "https://s3.h"},
            "https://s3.h",
            "us-east-1",
        ),
    ],
)
def test_variables_say_where_requests_go(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], endpoint: str, region: str
) -> None:
    found = configured(monkeypatch, **variables)
    assert (found.endpoint, found.region) == (endpoint, region)
    assert found.is_region_configured == ("AWS_DEFAULT_REGION" in variables)
    assert found.addressing_style == ("path" if endpoint else "auto")


def test_a_malformed_endpoint_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no URL of a server") as raised:
        configured(monkeypatch, AWS_ENDPOINT_URL="ftp://h?secret")
    assert "secret" not in raised.value.message


@pytest.mark.parametrize("url", ["https://user:secret@h", "https://secret@h/p", "ftp://u:secret@h"])
def test_an_endpoint_with_a_password_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    with pytest.raises(UsageError, match="a password in the S3 endpoint") as raised:
        configured(monkeypatch, AWS_ENDPOINT_URL=url)
    assert "secret" not in f"{raised.value.message} {raised.value.hint}"


@pytest.mark.parametrize("region", ["evil.example/#", "a" * 64, "a b", "eu\n"])
def test_a_malformed_region_is_refused(monkeypatch: pytest.MonkeyPatch, region: str) -> None:
    with pytest.raises(UsageError, match="the region is malformed"):
        configured(monkeypatch, AWS_DEFAULT_REGION=region)


def test_no_client_of_the_sdk_is_made(aws_environment: pytest.MonkeyPatch) -> None:
    program = """
import os
from datetime import UTC, datetime, timedelta
from botocore.session import Session
from lakecli.stores.presigned_urls import PresignRequest
from lakecli.stores.registry import open_store

made = []
Session.create_client = lambda *_, **__: made.append(1)
request = PresignRequest("GET", timedelta(minutes=5), "text/csv", "a.csv")
store = open_store("s3://bucket/prefix", region="eu-north-1")
print(store.presign("k", request, now=datetime(2030, 1, 1, tzinfo=UTC)).url)
os.environ["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9/path"  # nobody listens there
assert open_store("s3://bucket/prefix")._reader.direct.get("prefix/k") is None
print(made)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    url, made = done.stdout.splitlines()
    assert "/prefix/k?X-Amz-Algorithm=" in url
    assert made == "[]"

"""Servers that credentials come from, proxies, and TLS, which answer byte by byte."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING

import pytest
from google.auth.exceptions import TransportError

from lakecli.doctor.probe import fetch
from lakecli.errors import LakeError, Unreachable, Unresponsive
from lakecli.stores.answer_limits import AnswerLimits
from lakecli.stores.azure.store import AzureStore
from lakecli.stores.gs.credentials import GsLogin
from lakecli.stores.gs.store import GsStore
from lakecli.stores.s3.connection import S3Connection
from lakecli.stores.s3.store import S3Store
from tests.stores.errors_contract import with_attempts
from tests.stores.hostile_contract import PATIENCE, SLOW_BODIES, SLOW_HEADS
from tests.support.slow_server import Drip, SlowServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.stores.contract import ObjectStore

SLOW = [SLOW_HEADS["nothing"], SLOW_HEADS["headers"], SLOW_BODIES["a body"]]
TLS = Drip(b"\x16\x03\x03\x40\x00\x02", b"\x00")
"""The beginning of a long message of a handshake."""


@pytest.fixture
def slow() -> Iterator[SlowServer]:
    with SlowServer() as slow:
        yield slow
    assert slow.asked(1) >= 1
    assert not slow.outlasted


def fails(store: ObjectStore) -> LakeError:
    with pytest.raises(LakeError) as error:
        store.get("k")
    return error.value


@pytest.fixture
def aws(aws_environment: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        aws_environment.delenv(name)
    aws_environment.setenv("AWS_EC2_METADATA_DISABLED", "false")
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    return aws_environment


@pytest.mark.parametrize("drip", SLOW)
class TestCredentials:
    def test_aws_sts(
        self, drip: Drip, slow: SlowServer, aws: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        slow.drip = drip
        token = tmp_path / "token"
        token.write_text("token")
        aws.setenv("AWS_ENDPOINT_URL_STS", slow.url)
        aws.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
        aws.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
        error = fails(S3Store("b", region="eu-west-1", account=PATIENCE))
        assert isinstance(error, Unresponsive)
        assert error.message.startswith(slow.url.removeprefix("http://"))

    def test_the_roles_of_a_machine(
        self, drip: Drip, slow: SlowServer, aws: pytest.MonkeyPatch
    ) -> None:
        slow.drip = drip
        aws.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", slow.url)
        error = fails(S3Store("b", region="eu-west-1", account=PATIENCE))
        assert "no credentials for S3" in error.message

    def test_the_roles_of_a_container(
        self, drip: Drip, slow: SlowServer, aws: pytest.MonkeyPatch
    ) -> None:
        slow.drip = drip
        aws.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
        aws.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{slow.url}/role")
        aws.setenv("http_proxy", "http://127.0.0.1:9")  # it is not asked by a proxy
        fails(S3Store("b", region="eu-west-1", account=PATIENCE))
        assert slow.asked(3) == 3

    def test_google(
        self, drip: Drip, slow: SlowServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        slow.drip = drip
        file = tmp_path / "login.json"
        file.write_text(
            json.dumps(
                {
                    "type": "external_account",
                    "audience": "//iam.googleapis.com/pool",
                    "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
                    "token_url": f"{slow.url}/token",
                    "credential_source": {"file": str(file)},
                }
            )
        )
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
        monkeypatch.setattr("time.sleep", lambda _: None)
        assert isinstance(fails(with_attempts(1, GsStore("b", "", PATIENCE))), Unreachable)

    def test_what_asks_googles_servers_for_tokens(self, drip: Drip, slow: SlowServer) -> None:
        slow.drip = drip
        ask = GsLogin(PATIENCE).request()
        with pytest.raises(TransportError):
            ask(slow.url, timeout=120)

    def test_azure(self, drip: Drip, slow: SlowServer, monkeypatch: pytest.MonkeyPatch) -> None:
        slow.drip = drip
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{slow.url}/token")
        monkeypatch.setenv("IDENTITY_HEADER", "header")
        monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
        monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", "https://127.0.0.1:9")
        monkeypatch.setattr("time.sleep", lambda _: None)
        fails(with_attempts(1, AzureStore("lake", "container", "", PATIENCE)))
        assert slow.connections <= 4


@pytest.mark.parametrize("is_direct", [True, False])
@pytest.mark.parametrize("is_proxy", [True, False])
def test_connecting_has_an_end(
    slow: SlowServer, aws_environment: pytest.MonkeyPatch, *, is_direct: bool, is_proxy: bool
) -> None:
    slow.drip = SLOW_HEADS["headers"] if is_proxy else TLS
    url = slow.url.replace("http:", "https:")
    aws_environment.setenv("AWS_ENDPOINT_URL", "https://store.example" if is_proxy else url)
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    if is_proxy:
        aws_environment.setenv("https_proxy", slow.url)
    store = S3Store("bucket", region="eu-north-1", account=PATIENCE)
    if not is_direct:
        aws_environment.setattr(store.direct, "_is_usable", False)
    assert isinstance(fails(store), Unreachable)


def test_connecting_to_google_by_a_slow_proxy(
    slow: SlowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow.drip = SLOW_HEADS["headers"]
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "https://store.example")
    monkeypatch.setenv("https_proxy", slow.url)
    assert isinstance(fails(with_attempts(1, GsStore("b", "", PATIENCE))), Unreachable)


def test_connecting_to_azure_by_a_slow_proxy(
    slow: SlowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow.drip = SLOW_HEADS["headers"]
    monkeypatch.setenv("AZURE_STORAGE_KEY", "a2V5")
    monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", "https://store.example")
    monkeypatch.setenv("https_proxy", slow.url)
    store = AzureStore("lake", "container", "", PATIENCE)
    assert isinstance(fails(with_attempts(1, store)), Unreachable)


@pytest.mark.parametrize("drip", SLOW)
def test_the_url_of_a_doctor(slow: SlowServer, drip: Drip) -> None:
    slow.drip = drip
    with pytest.raises(Unreachable, match="cannot be fetched") as error:
        fetch(f"{slow.url}/key?signature=secret", PATIENCE)
    assert "secret" not in str(error.value)


def test_a_server_that_is_too_slow_is_asked_twice(
    slow: SlowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", slow.url)
    monkeypatch.setenv("AZURE_STORAGE_KEY", "a2V5")
    monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", slow.url)
    for store in (GsStore("b", "", PATIENCE), AzureStore("lake", "c", "", PATIENCE)):
        for drip in SLOW:
            slow.drip, before = drip, slow.connections
            with pytest.raises(Unresponsive):
                list(store.list())
            assert slow.asked(before + 2) == before + 2


def test_a_server_of_s3_that_is_too_slow_is_asked_twice_by_the_sdk(
    slow: SlowServer, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setattr("time.sleep", lambda _: None)
    aws_environment.setenv("AWS_ENDPOINT_URL", slow.url)
    store = S3Store("bucket", region="eu-north-1", account=PATIENCE)
    for drip in SLOW:
        slow.drip, before = drip, slow.connections
        with pytest.raises(Unresponsive):
            list(store.list())
        assert slow.asked(before + 3) == before + 3


@pytest.mark.parametrize("is_enough", [True, False])
def test_blanks_are_waited_for_while_s3_works(
    slow: SlowServer, aws_environment: pytest.MonkeyPatch, *, is_enough: bool
) -> None:
    """By the clock of the test, which goes on by 10 s for each of them, that takes minutes."""
    seconds = count(0, 10)
    limits = AnswerLimits(60, 1_024, 60, lambda: float(next(seconds)))
    aws_environment.setattr(S3Connection, "limits", limits)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    blank = b"1\r\n \r\n"
    copied = (
        b"<CopyObjectResult><ETag>e</ETag><LastModified>2030-01-01T00:00:00.000Z</LastModified>"
        b"</CopyObjectResult>"
    )
    end = b"%x\r\n%b\r\n0\r\n\r\n" % (len(copied), copied)
    slow.drip = Drip(head, blank, 15, end) if is_enough else Drip(head, blank)
    aws_environment.setenv("AWS_ENDPOINT_URL", slow.url)
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    store = S3Store("bucket", region="eu-north-1")
    if is_enough:
        store.copy("k", "l")
        return
    with pytest.raises(Unresponsive, match="for 600 s"):
        store.copy("k", "l")

"""Connections that a certificate or a proxy prevents are named as such, by every cloud's SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.errors import Unreachable, UsageError
from lakecli.stores.registry import open_store
from tests.support.azurite import write_certificate
from tests.support.servers import Answer, StubServer, free_port

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

URIS = ["s3://bucket/p", "gs://bucket/p", "az://account/container/p"]
BUNDLES = {"s3": "AWS_CA_BUNDLE", "gs": "REQUESTS_CA_BUNDLE", "az": "REQUESTS_CA_BUNDLE"}


@pytest.fixture(params=URIS)
def get(
    request: pytest.FixtureRequest, aws_environment: pytest.MonkeyPatch
) -> Callable[[str], object]:
    """Read an object from a server at a URL, without a second try."""
    uri = request.param
    for name in ("no_proxy", "NO_PROXY"):
        aws_environment.delenv(name, raising=False)
    aws_environment.setenv("AZURE_STORAGE_KEY", "a2V5")
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")

    def read(url: str) -> object:
        aws_environment.setenv("AWS_ENDPOINT_URL", url)
        aws_environment.setenv("STORAGE_EMULATOR_HOST", url)
        aws_environment.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", url)
        store: Any = open_store(uri)
        store.attempts = 1
        return store.get("k")

    read.bundle = BUNDLES[uri[:2]]  # type: ignore[attr-defined]
    return read


def test_an_untrusted_certificate(get: Callable[[str], object], tmp_path: Path) -> None:
    with (
        StubServer(Answer(), secured_by=write_certificate(tmp_path)) as server,
        pytest.raises(Unreachable, match="is not trusted: self-signed") as raised,
    ):
        get(server.url)
    assert get.bundle in str(raised.value.hint)  # type: ignore[attr-defined]


def test_a_server_without_tls(get: Callable[[str], object]) -> None:
    with StubServer(Answer()) as server, pytest.raises(Unreachable, match="does not speak TLS"):
        get(server.url.replace("http:", "https:"))


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_dead_proxy(
    get: Callable[[str], object], monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    port = free_port()
    monkeypatch.setenv(f"{scheme}_proxy", f"http://user:secret@127.0.0.1:{port}")
    with pytest.raises(Unreachable) as raised:
        get(f"{scheme}://store.invalid")
    said = f"the proxy 127.0.0.1:{port} does not connect to store.invalid: Connection refused"
    assert raised.value.message == said
    assert "HTTPS_PROXY" in str(raised.value.hint)


def test_a_proxy_that_refuses(
    get: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    with StubServer(Answer(403)) as server:
        monkeypatch.setenv("https_proxy", server.url)
        with pytest.raises(Unreachable, match=r"the proxy 127\.0\.0\.1:.* does not connect"):
            get("https://store.invalid")


def test_certificates_that_cannot_be_read(
    get: Callable[[str], object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bundle").write_text("none")
    bundle = get.bundle  # type: ignore[attr-defined]
    monkeypatch.setenv(bundle, str(tmp_path / "bundle"))
    with (
        StubServer(Answer(), secured_by=write_certificate(tmp_path)) as server,
        pytest.raises(UsageError, match="trusted certificates cannot be read") as raised,
    ):
        get(server.url)
    assert bundle in str(raised.value.hint)

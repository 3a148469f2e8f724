"""Direct requests go where the SDK's go, by the same proxies, and trust the same certificates."""

from __future__ import annotations

import ssl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from botocore.configprovider import BOTOCORE_DEFAUT_SESSION_VARIABLES

from lakecli.errors import Unreachable
from lakecli.stores.s3 import direct_requests
from lakecli.stores.s3.direct_requests import find_settings
from lakecli.stores.s3.store import S3Store
from tests.support.azurite import write_certificate
from tests.support.proxies import tunnels
from tests.support.servers import Answer, StubServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OBJECT = Answer(
    body=b"body", headers={"ETag": '"e"', "Last-Modified": "Mon, 02 Mar 2026 00:00:00 GMT"}
)
PROFILE = "[default]\nca_bundle = {}\n"

LISTING = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
READ_AND_CREATE = """
import sys
from lakecli.stores.registry import open_store
store = open_store("s3://bucket/ns", region="us-east-1")
assert store.put_new("k", b"body")
assert store.get("k") == b"body"
assert store.head("k").size == 4
assert list(store.list()) == []
print(*{"botocore"} & {*sys.modules})
"""


class Secure:
    """A server that speaks TLS, its certificate, and another one."""

    def __init__(self, server: StubServer, right: Path, wrong: Path, files: Path) -> None:
        self.server = server
        self.files = {"right": str(right), "wrong": str(wrong), "missing": str(files / "no.pem")}


@pytest.fixture
def secure(aws_environment: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Secure]:
    folders = [tmp_path / name for name in ("right", "wrong")]
    made = []
    for folder in folders:
        folder.mkdir()
        made.append(write_certificate(folder))
    with StubServer(OBJECT, secured_by=made[0]) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
        yield Secure(server, made[0][0], made[1][0], tmp_path)


@pytest.mark.parametrize("by_sdk", [False, True], ids=["direct", "the SDK"])
@pytest.mark.parametrize(
    ("of_aws", "of_requests", "in_profile", "trusts"),
    [
        ("right", None, None, True),
        (None, "right", None, True),
        ("right", "wrong", None, True),
        ("right", "", None, True),
        (None, "wrong", "right", True),
        ("right", None, "wrong", True),
        ("wrong", "right", None, False),
        (None, "right", "wrong", False),
        ("wrong", None, "right", False),
        ("missing", "right", None, False),
        (None, None, None, False),
    ],
)
def test_certificates_are_those_of_the_sdk(
    secure: Secure,
    aws_environment: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    by_sdk: bool,
    of_aws: str | None,
    of_requests: str | None,
    in_profile: str | None,
    trusts: bool,
) -> None:
    for name, value in (("AWS_CA_BUNDLE", of_aws), ("REQUESTS_CA_BUNDLE", of_requests)):
        if value is not None:
            aws_environment.setenv(name, secure.files.get(value, value))
    if in_profile is not None:
        file = tmp_path / "config"
        file.write_text(PROFILE.format(secure.files[in_profile]))
        aws_environment.setenv("AWS_CONFIG_FILE", str(file))
    store = S3Store("bucket", region="us-east-1")
    if by_sdk:
        if trusts:
            assert store.head("k").size == 4
        else:
            with pytest.raises(Exception, match=r"certificate|does not answer|broke"):
                store.head("k")
    else:
        found = store.direct.get("k")
        assert (found is not None) == trusts
    assert len(secure.server.requests) == trusts


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("name", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_a_blank_bundle_is_left_to_the_sdk(
    aws_environment: pytest.MonkeyPatch, name: str, *, is_plain: bool
) -> None:
    aws_environment.setenv(name, " ")
    if not is_plain:
        aws_environment.setenv("AWS_USE_FIPS_ENDPOINT", "false")
    assert find_settings(S3Store("bucket")._connection, "bucket") is None


def test_requests_over_tls_share_a_connection(
    secure: Secure, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_CA_BUNDLE", secure.files["right"])
    store = S3Store("bucket", region="us-east-1")
    for _ in range(3):
        assert store.get("k") == b"body"
    store.put_new("k", bytes(1 << 20))
    assert secure.server.connections == 1
    assert secure.server.requests[-1].body == bytes(1 << 20)
    assert secure.server.requests[-1].headers["X-Amz-Content-Sha256"] == "UNSIGNED-PAYLOAD"


def test_certificates_are_loaded_once(
    secure: Secure, aws_environment: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_CA_BUNDLE", secure.files["right"])
    made: list[object] = []

    load = ssl.SSLContext.load_verify_locations

    def record(context: ssl.SSLContext, *args: Any, **named: Any) -> None:
        made.append(context)
        load(context, *args, **named)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", record)
    store = S3Store("bucket", region="us-east-1")
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(store.get, ["k"] * 8)) == {b"body"}
    assert len(made) == 1


def test_a_certificate_of_another_host_is_refused(
    secure: Secure, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_CA_BUNDLE", secure.files["right"])
    port = secure.server.url.rpartition(":")[2]
    aws_environment.setenv("AWS_ENDPOINT_URL", f"https://localhost:{port}")
    assert S3Store("bucket", region="us-east-1").direct.get("k") is None
    assert not secure.server.requests


def test_the_sdk_reads_the_same_variables() -> None:
    for name, variable in direct_requests._VARIABLES.items():
        _, expected, default, _ = BOTOCORE_DEFAUT_SESSION_VARIABLES[name]
        assert (variable, default) in {(expected, None), (expected, "when_supported")}


@pytest.mark.parametrize("setting", [None, "when_supported", "WHEN_SUPPORTED", "when_required"])
def test_checksums_are_asked_for_as_by_the_sdk(
    aws_environment: pytest.MonkeyPatch, setting: str | None
) -> None:
    """Whether the settings were found with or without it."""
    if setting is not None:
        for name in ("AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_RESPONSE_CHECKSUM_VALIDATION"):
            aws_environment.setenv(name, setting)
    plain = find_settings(S3Store("bucket")._connection, "bucket")
    aws_environment.setenv("AWS_USE_FIPS_ENDPOINT", "false")
    by_sdk = find_settings(S3Store("bucket")._connection, "bucket")
    assert plain is not None
    assert by_sdk is not None
    for found in (plain, by_sdk):
        assert found.sends_checksums is found.wants_checksums is (setting != "when_required")
    assert plain.keys() == (*tuple(by_sdk.keys())[:2], "", None)


@pytest.mark.parametrize("name", ["AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT"])
def test_other_endpoints_are_left_to_the_sdk(
    aws_environment: pytest.MonkeyPatch, name: str
) -> None:
    aws_environment.setenv(name, "true")
    assert find_settings(S3Store("bucket")._connection, "bucket") is None


@pytest.mark.parametrize("endpoint", ["http://ü.example", "http://.h"])
def test_odd_endpoints_are_left_to_the_sdk(
    aws_environment: pytest.MonkeyPatch, endpoint: str
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", endpoint)
    assert find_settings(S3Store("bucket")._connection, "bucket") is None


@pytest.mark.parametrize(
    ("setting", "is_direct"),
    [("addressing_style = path", True), ("payload_signing_enabled = true", False)],
)
def test_settings_of_s3_that_change_requests_are_left_to_the_sdk(
    aws_environment: pytest.MonkeyPatch, tmp_path: Path, setting: str, *, is_direct: bool
) -> None:
    file = tmp_path / "config"
    file.write_text(f"[default]\ns3 =\n  {setting}\n")
    aws_environment.setenv("AWS_CONFIG_FILE", str(file))
    found = find_settings(S3Store("bucket")._connection, "bucket")
    assert (found is not None) == is_direct


@pytest.mark.parametrize(("bundle", "trusts"), [("right", True), ("wrong", False), (None, False)])
def test_a_proxy_does_not_weaken_the_check_of_certificates(
    secure: Secure, aws_environment: pytest.MonkeyPatch, *, bundle: str | None, trusts: bool
) -> None:
    aws_environment.delenv("REQUESTS_CA_BUNDLE", raising=False)
    if bundle is not None:
        aws_environment.setenv("AWS_CA_BUNDLE", secure.files[bundle])
    with tunnels() as (proxy, said):
        aws_environment.setenv("https_proxy", proxy.replace("//", "//user:p%40ss@"))
        store = S3Store("bucket", region="us-east-1")
        if trusts:
            assert store.get("k") == b"body"
        else:
            with pytest.raises(Unreachable):
                store.get("k")
    assert len(secure.server.requests) == trusts
    assert set(said) == {"Basic dXNlcjpwQHNz"}


def test_a_proxy_is_told_who_asks(aws_environment: pytest.MonkeyPatch) -> None:
    with StubServer(OBJECT) as proxy:
        aws_environment.setenv("http_proxy", proxy.url.replace("//", "//user:p%40ss@"))
        aws_environment.setenv("AWS_ENDPOINT_URL", "http://h.example")
        assert S3Store("bucket", region="us-east-1").get("k") == b"body"
        (request,) = proxy.requests
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert headers["proxy-authorization"] == "Basic dXNlcjpwQHNz"
    assert "proxy-authorization" not in headers["authorization"]  # the proxy leaves it out


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY"])
@pytest.mark.parametrize(("no_proxy", "is_used"), [(None, True), ("127.0.0.1", False), ("x", True)])
@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_proxy_is_left_to_the_sdk(
    aws_environment: pytest.MonkeyPatch,
    variable: str,
    no_proxy: str | None,
    *,
    is_used: bool,
    scheme: str,
) -> None:
    if no_proxy is not None:
        aws_environment.setenv("no_proxy", no_proxy)
    with StubServer(OBJECT) as proxy, StubServer(OBJECT) as server:
        aws_environment.setenv(variable, scheme + proxy.url.partition("//")[2])
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        store = S3Store("bucket", region="us-east-1")
        assert (find_settings(store._connection, "bucket") is None) == is_used
        assert store.get("k") == b"body"
        used, unused = (proxy, server) if is_used else (server, proxy)
        expected = f"{server.url}/bucket/k" if is_used else "/bucket/k"
        assert [request.path for request in used.requests] == [expected]
        assert not unused.requests


def test_a_proxy_for_another_scheme_is_not_used(aws_environment: pytest.MonkeyPatch) -> None:
    with StubServer(OBJECT) as server:
        aws_environment.setenv("https_proxy", "http://127.0.0.1:1")
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        assert S3Store("bucket", region="us-east-1").get("k") == b"body"


def test_the_region_that_was_learned_counts(aws_environment: pytest.MonkeyPatch) -> None:
    """Requests that follow go to another server."""
    aws_environment.delenv("AWS_ENDPOINT_URL", raising=False)
    store = S3Store("bucket", region="us-east-1")
    first = store.direct._prepared("k")
    store._connection.region = "eu-west-1"
    store._connection._config = None
    store._connection._is_plain_sought = False
    second = store.direct._prepared("k")
    assert first is not None
    assert second is not None
    assert first.url.netloc == "bucket.s3.us-east-1.amazonaws.com"
    assert second.url.netloc == "bucket.s3.eu-west-1.amazonaws.com"
    assert second.config.region == "eu-west-1"
    assert store.direct._prepared("k") is second


def test_objects_are_read_created_and_listed_without_the_sdk(
    aws_environment: pytest.MonkeyPatch,
) -> None:
    with StubServer(OBJECT, OBJECT, OBJECT, Answer(body=LISTING)) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        ran = subprocess.run(
            [sys.executable, "-c", READ_AND_CREATE], capture_output=True, text=True, check=False
        )
    assert (ran.stdout.strip(), ran.stderr) == ("", "")


@pytest.mark.parametrize(
    "headers",
    [{f"X-{number}": "v" * 600 for number in range(120)}, {"X-Long": "v" * 70_000}],
    ids=["many headers", "a long header"],
)
def test_a_hostile_server_gives_a_clear_error(
    aws_environment: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    with StubServer(Answer(body=b"body", headers=headers)) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        with pytest.raises(Unreachable, match="broke the connection"):
            S3Store("bucket", region="us-east-1").get("k")

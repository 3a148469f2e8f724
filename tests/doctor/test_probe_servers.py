"""`lakecli doctor` on real servers and directories, where it leaves nothing behind."""

from __future__ import annotations

import os
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

import pytest
from urllib3.exceptions import HTTPError

from lakecli.cli.context import random_id, system_now
from lakecli.doctor import conditions
from lakecli.doctor.checks import Check, CheckVerdict
from lakecli.doctor.probe import MAX_BODY, NAMES, FetchedUrl, Probe, fetch, requests
from lakecli.errors import ErrorKind, PermissionDenied, Refused, Unreachable, UsageError
from lakecli.stores.azure.store import AzureStore
from lakecli.stores.contract import ANY
from lakecli.stores.gs.store import GsStore
from lakecli.stores.local.store import DirectoryStore
from lakecli.stores.s3.store import S3Store
from tests.support.azurite import ACCOUNT, new_container
from tests.support.gcs import GcsServer, new_gcs_bucket
from tests.support.servers import Answer, StubServer, free_port, new_bucket, s3_error

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.stores.contract import ObjectStore

pytestmark = pytest.mark.races

ROOT = "_lakecli/doctor-"
OK, WARNING, FAILED, SKIPPED = (
    CheckVerdict.OK,
    CheckVerdict.WARNING,
    CheckVerdict.FAILED,
    CheckVerdict.SKIPPED,
)


def probe(store: ObjectStore) -> dict[str, Check]:
    found = {check.name: check for check in Probe(store, system_now, random_id).run()}
    assert tuple(found) == NAMES
    return found


def not_well(found: dict[str, Check]) -> dict[str, CheckVerdict]:
    return {name: check.verdict for name, check in found.items() if check.verdict is not OK}


def s3_store(endpoint: str, environment: pytest.MonkeyPatch) -> S3Store:
    environment.setenv("AWS_ENDPOINT_URL", endpoint)
    return S3Store(new_bucket(endpoint), "name/space")


def s3_leftovers(store: S3Store) -> tuple[list[str], list[object]]:
    """Return every object of the bucket, and every unfinished upload."""
    whole = S3Store(store.uri.split("/")[2])
    return [info.key for info in whole.list()], list(whole.uploads().iter_unfinished())


def test_moto_passes_the_probe(
    aws_environment: pytest.MonkeyPatch, moto_endpoint: str, sent: list[str]
) -> None:
    store = s3_store(moto_endpoint, aws_environment)
    store.put("theirs", b"theirs", ANY)
    before = len(sent)
    found = probe(store)
    assert 90 < len(sent) - before <= requests(conditions.RACES)
    # moto stores checksums without comparing them.
    assert not_well(found) == {"checksums": WARNING}
    assert found["reachable"].details["endpoint"] == moto_endpoint.removeprefix("http://")
    assert found["credentials"].details["identity"] == "acce…"
    assert s3_leftovers(store) == (["name/space/theirs"], [])


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record every request of this process."""
    requests: list[str] = []
    original = HTTPConnection.putrequest

    def putrequest(connection: HTTPConnection, method: str, *rest: Any, **options: Any) -> None:
        requests.append(method)
        original(connection, method, *rest, **options)

    monkeypatch.setattr(HTTPConnection, "putrequest", putrequest)
    return requests


def test_rclone_ignores_conditions(
    aws_environment: pytest.MonkeyPatch, rclone_endpoint: str
) -> None:
    store = s3_store(rclone_endpoint, aws_environment)
    found = probe(store)
    for name in ("create-only", "compare-and-set"):
        assert found[name].verdict is FAILED
        assert "ignores conditions" in found[name].seen
        assert found[name].kind is ErrorKind.REFUSED
    assert found["race"].verdict is SKIPPED
    assert found["ranges"].verdict is FAILED
    assert "with that part" in found["ranges"].seen
    assert found["presign"].verdict is OK
    assert found["clock"].verdict is OK
    assert s3_leftovers(store)[0] == []


def test_google_passes_the_probe(
    gcs_environment: pytest.MonkeyPatch, gcs_server: GcsServer
) -> None:
    del gcs_environment
    bucket = new_gcs_bucket(gcs_server)
    store = GsStore(bucket, "name/space")
    store.put("theirs", b"theirs", ANY)
    found = probe(store)
    assert not_well(found) == {}
    assert found["credentials"].details["source"] == "STORAGE_EMULATOR_HOST"
    whole = GsStore(bucket)
    assert [info.key for info in whole.list()] == ["name/space/theirs"]
    assert list(whole.uploads().iter_unfinished()) == []


def test_azure_passes_the_probe(azure_environment: pytest.MonkeyPatch, azurite: str) -> None:
    del azure_environment
    container = new_container(azurite)
    store = AzureStore(ACCOUNT, container, "name/space")
    store.put("theirs", b"theirs", ANY)
    found = probe(store)
    assert not_well(found) == {}
    assert found["credentials"].details["identity"] == f"of {ACCOUNT}"
    whole = AzureStore(ACCOUNT, container)
    assert [info.key for info in whole.list()] == ["name/space/theirs"]
    assert list(whole.uploads().iter_unfinished()) == []


def test_a_directory_passes_the_probe(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"theirs")
    before = snapshot(tmp_path)
    found = probe(DirectoryStore(str(tmp_path)))
    assert not_well(found) == dict.fromkeys(("multipart", "checksums", "presign", "cors"), SKIPPED)
    assert snapshot(tmp_path) == before


def test_a_directory_with_a_repository_keeps_its_lock(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    store.put("_lakecli/repository.json", b"{}", ANY)
    store.put("_lakecli/repository.json", b"{ }", ANY)
    before = snapshot(tmp_path)
    assert "_lakecli/tmp/lock" in before
    probe(store)
    assert snapshot(tmp_path) == before


def test_a_directory_that_fills_meanwhile_is_left_alone(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    store.put(f"{ROOT}1/theirs", b"theirs", ANY)
    (tmp_path / "_lakecli" / "tmp" / "unfinished").touch()
    store.prune(f"{ROOT}1/")
    store.prune(f"{ROOT}2/")
    assert snapshot(tmp_path) >= {f"{ROOT}1/theirs", "_lakecli/tmp/unfinished"}
    store.delete([f"{ROOT}1/theirs"])
    store.prune(f"{ROOT}1/")
    assert snapshot(tmp_path) == {"_lakecli", "_lakecli/tmp", "_lakecli/tmp/lock",
                                  "_lakecli/tmp/unfinished"}  # fmt: skip


def test_pruning_a_missing_directory_succeeds(tmp_path: Path) -> None:
    DirectoryStore(str(tmp_path)).prune(f"{ROOT}1/")
    DirectoryStore(str(tmp_path / "missing"))
    assert snapshot(tmp_path) == set()


def snapshot(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def test_a_missing_directory_is_reported(tmp_path: Path) -> None:
    found = probe(DirectoryStore(str(tmp_path / "missing")))
    assert found["reachable"].kind is ErrorKind.NOT_FOUND
    assert found["delete"].verdict is SKIPPED
    assert snapshot(tmp_path) == set()


def test_an_unwritable_directory_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # permissions do not restrict root
    try:
        found = probe(DirectoryStore(str(tmp_path)))
    finally:
        os.seteuid(user)
        tmp_path.chmod(0o755)
    assert found["reachable"].verdict is OK
    assert found["write"].verdict is FAILED
    assert found["write"].kind is ErrorKind.PERMISSION
    assert "owner and mode" in found["write"].fix
    assert snapshot(tmp_path) == set()


def test_an_unreachable_server_is_reported(aws_environment: pytest.MonkeyPatch) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    found = probe(S3Store("bucket"))
    assert found["credentials"].verdict is OK
    assert found["reachable"].kind is ErrorKind.UNREACHABLE
    assert set(list(not_well(found).values())[1:]) == {SKIPPED}


def test_a_missing_bucket_is_reported(
    aws_environment: pytest.MonkeyPatch, moto_endpoint: str
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    found = probe(S3Store("no-such-bucket"))
    assert found["reachable"].kind is ErrorKind.NOT_FOUND
    assert "aws s3 mb s3://no-such-bucket" in found["reachable"].fix


def test_expired_credentials_are_reported(aws_environment: pytest.MonkeyPatch) -> None:
    with StubServer(s3_error(400, "ExpiredToken")) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        found = probe(S3Store("bucket"))
    assert found["reachable"].verdict is OK
    assert found["list"].kind is ErrorKind.PERMISSION
    assert "ExpiredToken" in found["list"].seen
    assert "aws sso login" in found["list"].fix


def test_a_clock_that_breaks_signatures_is_reported(aws_environment: pytest.MonkeyPatch) -> None:
    """All writes fail; the refusals show the time of the server."""
    refusal = s3_error(403, "RequestTimeTooSkewed")
    refusal.headers["Date"] = "Thu, 01 Jan 2026 00:00:00 GMT"
    with StubServer(refusal) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        found = probe(S3Store("bucket"))
    assert found["clock"].verdict is FAILED
    assert "behind" in found["clock"].seen
    assert "set the clock" in found["list"].fix


# Fetching


def test_a_fetched_url_returns_status_and_body() -> None:
    answer = Answer(200, b"body", {"X-Some": "thing"})
    with StubServer(answer) as server:
        found = fetch(f"{server.url}/key?signature=s")
        assert (found.status, found.body, found.headers["x-some"]) == (200, b"body", "thing")
        assert found.problem() is None
        assert found.date() is not None
        assert "Authorization" not in server.requests[0].headers
    with StubServer(Answer(200, b"x" * (MAX_BODY + 10))) as server:
        assert len(fetch(server.url).body) == MAX_BODY


@pytest.mark.parametrize(
    ("status", "error"), [(403, PermissionDenied), (404, Refused), (500, Unreachable)]
)
def test_a_refused_url_returns_its_status(status: int, error: type[Exception]) -> None:
    with StubServer(s3_error(status, "SomeCode")) as server:
        found = fetch(server.url)
    problem = found.problem()
    assert isinstance(problem, error)
    assert f"{status} SomeCode" in str(problem)


def test_an_unreachable_url_shows_no_secret() -> None:
    with pytest.raises(Unreachable) as caught:
        fetch(f"http://127.0.0.1:{free_port()}/key?signature=secret")
    assert "secret" not in str(caught.value)
    assert isinstance(caught.value.__cause__, HTTPError)
    with StubServer(Answer(200, b"body", sent=2)) as server, pytest.raises(Unreachable):
        fetch(server.url)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "http://host:99999/key?sig=secret", "http://[::1/key?sig=secret"]
)
def test_what_is_no_http_url_is_not_shown(url: str) -> None:
    with pytest.raises(UsageError, match=r"^a signed URL is not an HTTP URL$") as caught:
        fetch(url)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("proxy", ["ftp://u:secret@proxy:1", "http://u:secret@proxy:99999"])
def test_a_proxy_that_cannot_be_used_is_named(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(Unreachable, match=r"(?i)proxy") as caught:
        fetch("http://host/key?sig=secret")
    assert "secret" not in str(caught.value)
    assert "check proxies" in str(caught.value.hint)


def test_a_redirect_is_not_followed() -> None:
    with StubServer(Answer(302, headers={"Location": "/elsewhere"})) as server:
        assert isinstance(fetch(server.url).problem(), Refused)
        assert len(server.requests) == 1


def test_a_url_is_fetched_by_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with StubServer(Answer(200, b"body")) as server:
        monkeypatch.setenv("http_proxy", server.url.replace("://", "://me:pass@"))
        assert fetch("http://bucket.invalid/key").body == b"body"
        assert server.requests[0].headers["proxy-authorization"] == "Basic bWU6cGFzcw=="


def test_a_malformed_time_is_ignored() -> None:
    assert FetchedUrl(200, b"").date() is None
    assert FetchedUrl(200, b"", {"date": "yesterday"}).date() is None
    far = "Thu, 01 Jan 2026 00:00:00 +99999999999999999"
    assert FetchedUrl(200, b"", {"date": far}).date() is None

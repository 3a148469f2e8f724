"""A proxy or an enemy answers in place of a store: commands end with an error, change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from lakecli.cli.context import system_now
from lakecli.cli.exit_codes import ExitCode
from lakecli.repository.handle import lake
from lakecli.stores.contract import ANY
from lakecli.stores.s3.store import S3Store
from tests.support.flaky import FlakyProxy, Trouble, flaky
from tests.support.servers import Answer, StubServer, new_bucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.golden import Cli

MAIN = "lakefs://demo/main"
SECRET = "hunter2"
PAGES = pytest.mark.parametrize("page", [Trouble.LOGIN, Trouble.NOTHING])


@pytest.fixture
def proxy(
    moto_endpoint: str, cli: Cli, aws_environment: pytest.MonkeyPatch
) -> Iterator[FlakyProxy]:
    with flaky(moto_endpoint) as proxy:
        aws_environment.setenv("AWS_ENDPOINT_URL", proxy.url)
        aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
        cli.now = system_now()  # servers take no signature of another day
        yield proxy


@pytest.fixture
def bucket(moto_endpoint: str, proxy: FlakyProxy, cli: Cli) -> str:
    """A bucket with a repository in lake/ and objects to import in source/."""
    bucket = new_bucket(moto_endpoint)
    source = S3Store(bucket, "source")
    for name in ("a", "b"):
        source.put(name, name.encode(), ANY)
    cli.ok("repo", "create", "lakefs://demo", f"s3://{bucket}/lake")
    cli.ok("config", "set", "trust.addresses", f"s3://{bucket}/source")
    cli.ok("import", "--from", f"s3://{bucket}/source", "--to", f"{MAIN}/in/", "-m", "import")
    cli.ok("branch", "create", "lakefs://demo/side", "--source", MAIN)
    cli.ok("push", "lakefs://demo")
    return bucket


def keys_of(bucket: str) -> list[str]:
    return [info.key for info in S3Store(bucket, "lake").list()]


def is_listing(method: str, path: str, prefix: str) -> bool:
    return method == "GET" and "list-type=2" in path and f"prefix={prefix}" in unquote(path)


@PAGES
@pytest.mark.parametrize("below", ["lake/_lakecli/refs", "lake/_lakecli", "lake/data", "lake"])
def test_gc_deletes_nothing_by_a_listing_that_is_none(
    cli: Cli, proxy: FlakyProxy, bucket: str, page: Trouble, below: str
) -> None:
    before = keys_of(bucket)
    proxy.trouble = lambda method, path: page if is_listing(method, path, below) else None
    ended = cli("gc", "run", "lakefs://demo")
    proxy.trouble = lambda *_: None
    assert ended.exit_code == ExitCode.UNREACHABLE, ended
    assert "sent an answer that cannot be used" in ended.stderr
    assert "a proxy or a login page" in ended.stderr
    assert set(before) <= set(keys_of(bucket))


@PAGES
def test_an_import_removes_nothing_by_a_listing_that_is_none(
    cli: Cli, proxy: FlakyProxy, bucket: str, page: Trouble
) -> None:
    head = cli.ok("branch", "show", MAIN, "--json").json
    proxy.trouble = lambda method, path: page if is_listing(method, path, "source") else None
    again = ("import", "--from", f"s3://{bucket}/source", "--to", f"{MAIN}/in/", "-m", "again")
    for arguments in (again, (*again, "--allow-empty")):
        ended = cli(*arguments)
        assert ended.exit_code == ExitCode.UNREACHABLE, ended
        assert "sent an answer that cannot be used" in ended.stderr
    assert cli.ok("branch", "show", MAIN, "--json").json == head
    assert cli.ok("fs", "ls", f"{MAIN}/in/").stdout.count("\n") == 2


def test_a_region_that_would_be_another_host_is_never_stored(
    cli: Cli, aws_environment: pytest.MonkeyPatch
) -> None:
    with StubServer(Answer(headers={"x-amz-bucket-region": "evil.example/#"})) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        refused = cli("repo", "create", "lakefs://demo", "s3://bucket/lake")
    assert refused.exit_code == ExitCode.UNREACHABLE, refused
    assert "the region is malformed" in refused.stderr
    assert cli.ok("repo", "list").stdout.strip().splitlines()[1:] == []


def test_a_region_in_a_record_is_checked_before_it_is_used(
    cli: Cli, bucket: str, aws_environment: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = lake.record_of
    monkeypatch.setattr(
        lake, "record_of", lambda fields: load(fields)._replace(region="evil.example/#")
    )
    aws_environment.delenv("AWS_ENDPOINT_URL")
    asked: list[object] = []
    monkeypatch.setattr("socket.getaddrinfo", lambda *named, **_: asked.append(named))
    for arguments in (("fs", "cat", f"{MAIN}/in/a"), ("fetch", "lakefs://demo")):
        refused = cli(*arguments)
        assert refused.exit_code == ExitCode.INTEGRITY, refused
        assert "the region is malformed" in refused.stderr
        assert "clone the repository again" in refused.stderr
    assert asked == []


@pytest.mark.parametrize(
    ("uri", "variable"),
    [
        ("s3://bucket/lake", "AWS_ENDPOINT_URL"),
        ("gs://bucket/lake", "STORAGE_EMULATOR_HOST"),
        ("az://account/container/lake", "AZURE_STORAGE_SERVICE_ENDPOINT"),
    ],
)
def test_a_password_in_an_endpoint_is_refused_and_not_shown(
    cli: Cli, aws_environment: pytest.MonkeyPatch, uri: str, variable: str
) -> None:
    aws_environment.setenv(variable, f"https://user:{SECRET}@store.example")
    for arguments in (
        ("repo", "create", "lakefs://demo", uri),
        ("clone", uri, "lakefs://demo"),
        ("doctor", uri),
    ):
        refused = cli(*arguments, "--verbose")
        assert refused.exit_code == ExitCode.USAGE, refused
        assert "a user name or a password in" in refused.stdout + refused.stderr
        assert SECRET not in refused.stdout + refused.stderr


def test_a_password_in_an_endpoint_gets_into_no_presigned_url(
    cli: Cli, bucket: str, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", f"https://user:{SECRET}@store.example")
    refused = cli("fs", "presign", f"{MAIN}/in/a")
    assert refused.exit_code == ExitCode.USAGE, refused
    assert SECRET not in refused.stdout + refused.stderr

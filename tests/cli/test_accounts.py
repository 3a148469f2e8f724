"""Repositories with a profile, an endpoint and a region of their own: two servers in one shell."""

from __future__ import annotations

import pickle
import urllib.request
from typing import TYPE_CHECKING

import fsspec
import pytest

import lakecli
from lakecli.cli.context import system_now
from lakecli.cli.exit_codes import ExitCode
from lakecli.engine.runner import StoreLocation
from lakecli.repository.reading.contents import read_object
from tests.support.servers import ACCESS_KEY, SECRET_KEY, new_bucket, rclone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.golden import Cli, Golden

OTHER = ("other-access-key", "other-secret-key")


@pytest.fixture(scope="module")
def other_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that accepts other keys than the usual one."""
    with rclone(tmp_path_factory.mktemp("other"), *OTHER) as url:
        yield url


@pytest.fixture
def buckets(
    cli: Cli,
    home: Path,
    rclone_endpoint: str,
    other_endpoint: str,
    aws_environment: pytest.MonkeyPatch,
) -> tuple[str, str]:
    """Two repositories in buckets of two servers; the environment's variables fit neither."""
    cli.now = system_now()
    aws_environment.setenv("AWS_ACCESS_KEY_ID", "wrong")
    aws_environment.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    aws_environment.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    profiles = {"one": (ACCESS_KEY, SECRET_KEY), "two": OTHER}
    (home / ".aws").mkdir()
    (home / ".aws/credentials").write_text(
        "".join(
            f"[{name}]\naws_access_key_id = {keys[0]}\naws_secret_access_key = {keys[1]}\n"
            for name, keys in profiles.items()
        )
    )
    (home / ".aws/config").write_text(f"[profile two]\nendpoint_url = {other_endpoint}\n")
    cli.ok("config", "set", "repo.one.profile", "one")
    cli.ok("config", "set", "repo.one.endpoint", rclone_endpoint)
    cli.ok("config", "set", "repo.two.profile", "two")
    names = new_bucket(rclone_endpoint), new_bucket(other_endpoint, keys=OTHER)
    for repository, bucket in zip(("one", "two"), names, strict=True):
        cli.ok("repo", "create", f"lakefs://{repository}", f"s3://{bucket}/lake")
        (cli.directory / "a").write_text(repository)
        cli.ok("fs", "upload", cli.directory / "a", f"lakefs://{repository}/main/a")
        cli.ok("commit", f"lakefs://{repository}/main", "-m", "first")
    return names


def test_two_servers_are_used_at_once(
    cli: Cli, buckets: tuple[str, str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, bucket in zip(("one", "two"), buckets, strict=True):
        uri = f"lakefs://{name}"
        assert cli.ok("fs", "cat", f"{uri}/main/a").stdout == name
        with urllib.request.urlopen(cli.ok("fs", "presign", f"{uri}/main/a").stdout.strip()) as url:
            assert url.read() == name.encode()
        cli.ok("fsck", uri, "--data")
        accessed = cli("doctor", uri, "--json").stdout
        assert f"profile {name} of ~/.aws/credentials" in accessed
        # Other buckets of the same server: sources, destinations, addresses.
        cli.ok("export", f"{uri}/main/", f"s3://{bucket}/exported")
        imported = f"{uri}/main/imported/"
        cli.ok("import", "--from", f"s3://{bucket}/exported/", "--to", imported, "-m", "import")
        assert cli.ok("fs", "cat", f"{imported}a").stdout == name
        cli.ok(
            "import", "--copy", "--from", f"s3://{bucket}/exported/", "--to", imported, "-m", "c"
        )
        with lakecli.open(uri) as opened, opened.reader("main") as reader:
            entry = reader.stat("a")
            assert b"".join(read_object(opened, entry)) == name.encode()
            there = pickle.loads(pickle.dumps(StoreLocation.of(opened)))  # as executors get it
            assert there.store().get(entry.physical_address) == name.encode()
        assert fsspec.filesystem("lakefs").cat(f"lakefs://{name}/main/a") == name.encode()
    cli.ok("config", "set", "repo.one.profile", "two")
    refused = cli("fs", "cat", "lakefs://one/main/a")
    assert refused.exit_code == ExitCode.PERMISSION, refused
    cli.ok("config", "unset", "repo.one.profile")
    assert cli("fs", "cat", "lakefs://one/main/a").exit_code == ExitCode.PERMISSION
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    assert cli.ok("fs", "cat", "lakefs://one/main/a").stdout == "one"
    # The settings of a name count for its clone, too.
    monkeypatch.setenv("LAKECLI_HOME", str(home / "lakecli2"))
    cli.ok("config", "set", "repo.copy.profile", "two")
    result = cli("clone", f"s3://{buckets[1]}/lake", "lakefs://copy")
    assert result.exit_code == ExitCode.OK, result


def test_settings_are_shown_and_checked(cli: Cli, golden: Golden) -> None:
    cli.ok("config", "set", "repo.sales.profile", "prod")
    cli.ok("config", "set", "repo.sales.endpoint", "https://minio.example.com:9000/")
    cli.ok("config", "set", "repo.sales.region", "eu-central-1")
    listed = cli.ok("config", "list", "--show-origin", "--json").json_lines
    assert [each["key"] for each in listed if each["key"].startswith("repo.")] == [
        "repo.sales.endpoint",
        "repo.sales.profile",
        "repo.sales.region",
    ]
    golden("config_get_profile", cli("config", "get", "repo.sales.profile", "--json"))
    golden(
        "config_set_endpoint_with_credentials",
        cli("config", "set", "repo.sales.endpoint", "https://key:secret@minio.example.com"),
    )
    golden("config_set_region_wrong", cli("config", "set", "repo.sales.region", "eu central"))
    golden("config_set_profile_of_all", cli("config", "set", "profile", "prod"))


def test_a_profile_counts_as_a_whole(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakecli.base.model import Account
    from lakecli.stores.registry import open_store
    from lakecli.stores.s3.store import S3Store

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")
    (home / ".aws").mkdir()
    (home / ".aws/config").write_text(
        "[profile prod]\nregion = eu-north-1\naws_access_key_id = a\naws_secret_access_key = b\n"
    )

    def opened(account: Account, region: str = "") -> S3Store:
        store = open_store("s3://bucket/p", region=region, account=account)
        assert isinstance(store, S3Store)
        return store

    for account, region, endpoint in (
        (Account("prod"), "eu-north-1", ""),
        (Account("prod", "http://minio:9000"), "eu-north-1", "http://minio:9000"),
        (Account("prod", region="af-south-1"), "af-south-1", ""),
        (Account(endpoint="http://minio:9000"), "us-west-2", "http://minio:9000"),
        (Account(region="af-south-1"), "af-south-1", "http://127.0.0.1:1"),
    ):
        config = opened(account)._connection.config
        assert (config.region, config.endpoint) == (region, endpoint), account
        plain = opened(account)._connection.plain_access
        assert plain is None or plain.config == config, account
    assert opened(Account("prod"), "sa-east-1")._connection.config.region == "sa-east-1"
    assert opened(Account("prod")).access().source == "profile prod of ~/.aws/config"
    client = opened(Account("prod"))._connection.client()
    assert client.meta.endpoint_url == "https://s3.eu-north-1.amazonaws.com"

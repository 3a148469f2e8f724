"""Settings found without the SDK equal those of the SDK, or none are found."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from botocore.endpoint_provider import EndpointProvider
from botocore.loaders import Loader

from lakecli.base.model import Account
from lakecli.errors import UsageError
from lakecli.stores.s3.settings import (
    PlainAccess,
    S3Config,
    find_plain_access,
    new_session,
    resolve_config,
)

if TYPE_CHECKING:
    from pathlib import Path

RULES = Loader().load_service_model("s3", "endpoint-rule-set-1")
PARTITIONS = Loader().load_data("partitions")
ALL_REGIONS = {
    region
    for partition in PARTITIONS["partitions"]
    for region in partition["regions"]
    if not region.startswith("aws-")  # a name for a service without regions
} | {"eusc-de-east-9", "zz-unknown-1"}

KEYS = {"AWS_ACCESS_KEY_ID": "env-key", "AWS_SECRET_ACCESS_KEY": "env-secret"}
SECTION = "aws_access_key_id = {0}-key\naws_secret_access_key = {0}-secret\n"
DEFAULT = "[default]\n" + SECTION.format("file")
PARTNER = "[partner]\n" + SECTION.format("partner")


def find(
    environ: dict[str, str],
    place: tuple[Path, pytest.MonkeyPatch],
    *,
    config: str | None = None,
    credentials: str | None = None,
) -> PlainAccess | None:
    """Return the settings found in an environment, compared with those of the SDK."""
    directory, monkeypatch = place
    files = {"AWS_CONFIG_FILE": config, "AWS_SHARED_CREDENTIALS_FILE": credentials}
    for name, text in files.items():
        file = directory / name
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)
        monkeypatch.setenv(name, str(file))
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    found = find_plain_access(os.environ, region="")
    if found is not None:
        session = new_session()
        credentials_found = session.get_credentials().get_frozen_credentials()
        assert found.keys.access_key == credentials_found.access_key
        assert found.keys.secret_key == credentials_found.secret_key
        assert found.keys.token == (credentials_found.token or "")
        assert found.config == resolve_config(session, region="")
    return found


@pytest.fixture
def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sdk_models: Loader
) -> tuple[Path, pytest.MonkeyPatch]:
    monkeypatch.setattr("botocore.session.create_loader", lambda *_: sdk_models)
    return tmp_path, monkeypatch


@pytest.mark.parametrize(
    ("environ", "config", "credentials", "access_key", "region"),
    [
        (KEYS, None, None, "env-key", ""),
        (KEYS | {"AWS_SESSION_TOKEN": "t"}, None, None, "env-key", ""),
        (KEYS | {"AWS_SESSION_TOKEN": ""}, None, None, "env-key", ""),
        (KEYS | {"AWS_DEFAULT_REGION": "eu-north-1"}, None, None, "env-key", "eu-north-1"),
        (KEYS | {"AWS_REGION": "eu-north-1"}, None, None, "env-key", "eu-north-1"),
        (
            KEYS | {"AWS_REGION": "eu-north-1", "AWS_DEFAULT_REGION": "eu-west-1"},
            "[default]\nregion = eu-west-3\n",
            None,
            "env-key",
            "eu-north-1",
        ),
        (KEYS | {"AWS_REGION": ""}, None, None, "env-key", ""),
        (KEYS | {"AWS_ENDPOINT_URL": "http://h:9000/x"}, None, None, "env-key", ""),
        (
            KEYS | {"AWS_ENDPOINT_URL": "http://h", "AWS_ENDPOINT_URL_S3": "https://s3.h"},
            None,
            None,
            "env-key",
            "",
        ),
        (KEYS, "[default]\nregion = eu-west-1\noutput = json\n", DEFAULT, "env-key", "eu-west-1"),
        (KEYS, "", "", "env-key", ""),
        (KEYS, "[profile other]\nrole_arn = r\nsource_profile = x\n", None, "env-key", ""),
        ({}, None, DEFAULT, "file-key", ""),
        (
            {},
            "[default]\nREGION=eu-west-1\n",
            f"{DEFAULT}aws_session_token=t\n",
            "file-key",
            "eu-west-1",
        ),
        ({}, DEFAULT, None, "file-key", ""),
        ({}, f"{DEFAULT}region = eu-west-1\n# a comment\n", None, "file-key", "eu-west-1"),
        (
            {},
            f"{DEFAULT}aws_session_token = t\nregion = eu-west-1\noutput = json\ncli_pager =\n",
            None,
            "file-key",
            "eu-west-1",
        ),
        ({"AWS_PROFILE": "partner"}, None, DEFAULT + PARTNER, "partner-key", ""),
        ({"AWS_DEFAULT_PROFILE": "partner"}, None, DEFAULT + PARTNER, "partner-key", ""),
        (
            {"AWS_PROFILE": "default", "AWS_DEFAULT_PROFILE": "partner"},
            None,
            DEFAULT + PARTNER,
            "partner-key",
            "",
        ),
        (
            {"AWS_PROFILE": "partner"},
            "[profile partner]\nregion = sa-east-1\n[default]\nregion = x\n",
            PARTNER,
            "partner-key",
            "sa-east-1",
        ),
        (
            {"AWS_PROFILE": "partner"},
            f"[profile partner]\n{SECTION.format('config')}",
            DEFAULT,
            "config-key",
            "",
        ),
        (KEYS | {"AWS_PROFILE": "partner"}, None, PARTNER, "env-key", ""),
    ],
)
def test_plain_keys_are_recognised(
    place: tuple[Path, pytest.MonkeyPatch],
    *,
    environ: dict[str, str],
    config: str | None,
    credentials: str | None,
    access_key: str,
    region: str,
) -> None:
    found = find(environ, place, config=config, credentials=credentials)
    assert found is not None
    assert found.keys.access_key == access_key
    assert (found.config.region, found.config.is_region_configured) == (
        region or "us-east-1",
        bool(region),
    )


@pytest.mark.parametrize(
    ("environ", "config", "credentials"),
    [
        ({}, None, None),
        ({"AWS_ACCESS_KEY_ID": "k"}, None, DEFAULT),
        ({"AWS_SECRET_ACCESS_KEY": "s"}, None, DEFAULT),
        (KEYS | {"AWS_CREDENTIAL_EXPIRATION": "2099-01-01T00:00:00Z"}, None, None),
        (KEYS | {"AWS_SECURITY_TOKEN": "t"}, None, None),
        (KEYS | {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, None, None),
        (KEYS | {"AWS_USE_FIPS_ENDPOINT": "true"}, None, None),
        (KEYS | {"AWS_USE_DUALSTACK_ENDPOINT": "true"}, None, None),
        (KEYS, "[default]\nuse_fips_endpoint = true\n", None),
        (KEYS | {"AWS_DATA_PATH": "/data"}, None, None),
        (KEYS | {"AWS_PROFILE": "missing"}, None, DEFAULT),
        (KEYS | {"AWS_PROFILE": ""}, None, None),
        (KEYS | {"AWS_DEFAULT_REGION": ""}, None, None),
        ({"AWS_ROLE_ARN": "r", "AWS_WEB_IDENTITY_TOKEN_FILE": "/f"}, None, DEFAULT),
        ({}, "[default]\nrole_arn = r\nsource_profile = default\n", DEFAULT),
        ({}, "[default]\nsso_session = s\n", DEFAULT),
        ({}, "[default]\ncredential_process = p\n", None),
        ({}, "[default]\nendpoint_url = http://h\n", DEFAULT),
        ({}, "[default]\nservices = s\n[services s]\ns3 =\n  endpoint_url = http://h\n", DEFAULT),
        ({}, "[default]\ns3 =\n  addressing_style = path\n", DEFAULT),
        ({}, "[default]\nregion = a\n  b\n", DEFAULT),
        ({}, DEFAULT, "[default]\naws_access_key_id = k\n"),
        ({}, None, f"{DEFAULT}region = eu-west-1\n"),
        ({}, None, f"{DEFAULT}{DEFAULT}"),
        ({}, "[profile default]\nregion = eu-west-1\n[default]\nregion = x\n", DEFAULT),
        ({"AWS_PROFILE": "partner"}, '[profile "partner"]\nrole_arn = r\n', PARTNER),
        ({"AWS_PROFILE": "partner"}, "[profile  partner]\nrole_arn = r\n", PARTNER),
        (KEYS, "no section\n", None),
        (KEYS, None, "[default\n"),
        ({}, None, "[default]\naws_access_key_id = k\n"),
        ({}, None, "[default]\naws_access_key_id =\naws_secret_access_key =\n"),
    ],
)
def test_other_credentials_are_left_to_the_sdk(
    place: tuple[Path, pytest.MonkeyPatch],
    environ: dict[str, str],
    config: str | None,
    credentials: str | None,
) -> None:
    assert find(environ, place, config=config, credentials=credentials) is None


@pytest.mark.parametrize("file", ["relative/config", "$HOME/config", "~other/config"])
def test_files_have_plain_names(
    place: tuple[Path, pytest.MonkeyPatch], monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    del place
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_CONFIG_FILE", file)
    assert find_plain_access(os.environ, region="") is None


def test_without_a_home_the_sdk_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # what it then returns
    assert find_plain_access(KEYS, region="") is None


@pytest.mark.parametrize("name", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"])
@pytest.mark.parametrize("content", [None, b"\xff"])
def test_a_file_that_cannot_be_read_is_left_to_the_sdk(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    file = tmp_path / "file"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    absent = {
        other: str(tmp_path / "absent")
        for other in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
    }
    assert find_plain_access(KEYS | absent, region="") is not None
    assert find_plain_access(KEYS | absent | {name: str(file)}, region="") is None


def test_files_lie_in_the_home(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    (home / ".aws").mkdir()
    (home / ".aws" / "credentials").write_text(DEFAULT)
    (home / ".aws" / "config").write_text("[default]\nregion = eu-west-3\n")
    found = find_plain_access(os.environ, region="")
    assert found is not None
    assert (found.keys.access_key, found.config.region) == ("file-key", "eu-west-3")
    learned = find_plain_access(os.environ, region="ap-south-1")
    assert learned is not None
    assert (learned.config.region, learned.config.is_region_configured) == ("ap-south-1", True)


@pytest.mark.parametrize(
    "endpoint", ["ftp://h?secret", "http://h:99999?secret", "http://h:1a", "http://[::1"]
)
def test_a_malformed_endpoint_is_reported(endpoint: str) -> None:
    environ = KEYS | {"AWS_ENDPOINT_URL": endpoint}
    with pytest.raises(UsageError, match="not the URL of a server") as raised:
        find_plain_access(environ, region="")
    assert "secret" not in raised.value.message


@pytest.mark.parametrize("url", ["https://user:secret@h", "https://secret@h/p", "ftp://u:secret@h"])
def test_an_endpoint_with_a_password_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="a password in the S3 endpoint") as raised:
        find_plain_access(KEYS | {"AWS_ENDPOINT_URL": url}, region="")
    assert "secret" not in f"{raised.value.message} {raised.value.hint}"


@pytest.mark.parametrize("region", ["evil.example/#", "a" * 64, "a b", "eu\n"])
def test_a_malformed_region_is_refused(region: str) -> None:
    with pytest.raises(UsageError, match="the region is malformed"):
        find_plain_access(KEYS | {"AWS_DEFAULT_REGION": region}, region="")


@pytest.mark.parametrize("region", sorted(ALL_REGIONS))
def test_each_region_has_the_hosts_that_the_sdk_knows(region: str) -> None:
    provider = EndpointProvider(RULES, PARTITIONS)
    config = S3Config("", region, is_region_configured=True, addressing_style="auto")
    for bucket in ("bucket-1", "with.dots"):
        found = provider.resolve_endpoint(Region=region, Bucket=bucket)
        assert config.object_url(bucket, "k") == f"{found.url}/k"


@pytest.mark.parametrize(
    ("environ", "config", "host"),
    [
        ({"AWS_USE_FIPS_ENDPOINT": "true"}, "", "b-1.s3-fips.us-east-1.amazonaws.com"),
        ({"AWS_USE_DUALSTACK_ENDPOINT": "true"}, "", "b-1.s3.dualstack.us-east-1.amazonaws.com"),
        (
            {"AWS_USE_DUALSTACK_ENDPOINT": "true", "AWS_USE_FIPS_ENDPOINT": "true"},
            "",
            "b-1.s3-fips.dualstack.us-east-1.amazonaws.com",
        ),
        ({}, "use_fips_endpoint = true", "b-1.s3-fips.us-east-1.amazonaws.com"),
        ({}, "s3 =\n  use_accelerate_endpoint = true", "b-1.s3-accelerate.amazonaws.com"),
        (
            {},
            "s3 =\n  use_accelerate_endpoint = true\n  use_dualstack_endpoint = true",
            "b-1.s3-accelerate.dualstack.amazonaws.com",
        ),
        (
            {"AWS_USE_FIPS_ENDPOINT": "true"},
            "s3 =\n  addressing_style = path",
            "s3-fips.us-east-1.amazonaws.com",
        ),
        ({"AWS_USE_FIPS_ENDPOINT": "false"}, "", "b-1.s3.us-east-1.amazonaws.com"),
        ({"AWS_USE_FIPS_ENDPOINT": "true", "AWS_ENDPOINT_URL": "http://h"}, "", "h"),
    ],
)
def test_urls_go_to_the_kind_of_endpoint_that_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], config: str, host: str
) -> None:
    (tmp_path / "config").write_text(f"[default]\n{config}\n")
    for name, value in {**KEYS, **environ, "AWS_CONFIG_FILE": str(tmp_path / "config")}.items():
        monkeypatch.setenv(name, value)
    found = resolve_config(new_session(), region="us-east-1")
    assert urlsplit(found.object_url("b-1", "k")).netloc == host


def test_a_kind_of_endpoint_that_a_region_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
    with pytest.raises(UsageError, match="AWS has no such endpoint in cn-north-1"):
        resolve_config(new_session(), region="cn-north-1")


def test_a_kind_of_endpoint_that_has_no_paths_of_buckets_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = "[default]\ns3 =\n  use_accelerate_endpoint = true\n  addressing_style = path\n"
    (tmp_path / "config").write_text(config)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with pytest.raises(UsageError, match="Path-style addressing cannot be used with S3 Accelerate"):
        resolve_config(new_session(), region="us-east-1")


@pytest.mark.parametrize("more", ["", "s3 = odd\n"])
def test_a_profile_without_a_region_has_the_default_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    (tmp_path / "config").write_text(f"[profile p]\naws_access_key_id = a\n{more}")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    account = Account(profile="p")
    found = resolve_config(new_session(account), region="", account=account)
    assert (found.region, found.is_region_configured) == ("us-east-1", False)


def test_the_sdk_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    program = """
import os, sys
from datetime import UTC, datetime, timedelta
from lakecli.stores.presigned_urls import PresignRequest
from lakecli.stores.registry import open_store

def loaded():
    return sorted(sys.modules.keys() & {"botocore", "http.client", "urllib3"})

request = PresignRequest("GET", timedelta(minutes=5), "text/csv", "a.csv")
store = open_store("s3://bucket/prefix", region="eu-north-1")
print(store.presign("k", request, now=datetime(2030, 1, 1, tzinfo=UTC)).url)
print(loaded())
os.environ["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9/path"  # nobody listens there
assert open_store("s3://bucket/prefix").direct.get("prefix/k") is None
print(loaded())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    url, before, after = done.stdout.splitlines()
    assert url.startswith("https://bucket.s3.eu-north-1.amazonaws.com/prefix/k?X-Amz-Algorithm=")
    assert (before, after) == ("[]", "['http.client']")

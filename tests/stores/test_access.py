"""Describing the credentials in use, without showing them in full."""

from __future__ import annotations

import os
import pwd
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.errors import PermissionDenied
from lakecli.stores.azure.store import AzureStore
from lakecli.stores.capabilities import Access, access_of, beginning_of
from lakecli.stores.gs.store import GsStore
from lakecli.stores.local.store import DirectoryStore
from lakecli.stores.s3.store import S3Store
from tests.support.azurite import KEY
from tests.support.gcs import ACCOUNT, write_key
from tests.support.memory_store import MemoryStore
from tests.support.servers import ACCESS_KEY, SECRET_KEY

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "session-token-of-the-tests"


@pytest.fixture
def aws(home: Path) -> Path:
    """The directory of the configuration files of the SDK."""
    directory = home / ".aws"
    directory.mkdir()
    return directory


def s3_access() -> Access:
    access = access_of(S3Store("bucket"))
    assert access is not None
    for secret in (ACCESS_KEY, SECRET_KEY, TOKEN):
        assert secret not in repr(access)
    return access


def test_key_names_are_shortened() -> None:
    assert beginning_of("AKIAIOSFODNN7EXAMPLE") == "AKIA…"
    assert beginning_of("AKIA") == "…"


def test_keys_of_the_environment_are_described(aws_environment: pytest.MonkeyPatch) -> None:
    assert s3_access() == Access(
        kind="access key",
        identity="acce…",
        source="the environment (AWS_ACCESS_KEY_ID)",
        endpoint="s3.us-east-1.amazonaws.com",
        region="us-east-1",
    )
    aws_environment.setenv("AWS_SESSION_TOKEN", TOKEN)
    aws_environment.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    aws_environment.setenv("AWS_REGION", "eu-west-1")
    access = s3_access()
    assert access.kind == "temporary access key"
    assert access.endpoint == "127.0.0.1:9"


def test_a_profile_is_described(aws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (aws / "credentials").write_text(
        f"[lake]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    )
    (aws / "config").write_text("[profile lake]\nregion = eu-central-1\n")
    monkeypatch.setenv("AWS_PROFILE", "lake")
    access = s3_access()
    assert access.source == "profile lake of ~/.aws/credentials"
    assert access.region == "eu-central-1"


def test_temporary_keys_of_a_process_are_described(
    aws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)  # noqa: TID251 - the SDK compares
    answer = (
        f'{{"Version": 1, "AccessKeyId": "{ACCESS_KEY}", "SecretAccessKey": "{SECRET_KEY}", '
        f'"SessionToken": "{TOKEN}", "Expiration": "{end:%Y-%m-%dT%H:%M:%SZ}"}}'
    )
    (aws / "answer").write_text(answer)
    (aws / "config").write_text(f"[default]\ncredential_process = cat {aws / 'answer'}\n")
    access = s3_access()
    assert access.source == "credential_process of profile default"
    assert access.kind == "temporary access key"
    assert access.expires_at == end


def test_missing_credentials_are_described(home: Path) -> None:
    with pytest.raises(PermissionDenied, match="no credentials for S3") as caught:
        s3_access()
    assert "AWS_PROFILE" in str(caught.value.hint)


def test_a_missing_profile_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(PermissionDenied, match="nobody"):
        s3_access()


def gs_access() -> Access:
    access = access_of(GsStore("bucket"))
    assert access is not None
    assert "PRIVATE KEY" not in repr(access)
    return access


def test_a_google_emulator_needs_no_credentials(gcs_environment: pytest.MonkeyPatch) -> None:
    gcs_environment.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    assert gs_access() == Access(
        "no credentials", "", "STORAGE_EMULATOR_HOST", endpoint="127.0.0.1:9"
    )


def test_a_google_service_account_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_file, _ = write_key(tmp_path)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file))
    assert gs_access() == Access(
        kind="service account credentials",
        identity=ACCOUNT,
        source=f"GOOGLE_APPLICATION_CREDENTIALS ({key_file})",
        endpoint="storage.googleapis.com",
    )


def test_google_credentials_of_an_unknown_kind_are_described(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from google.auth.credentials import AnonymousCredentials

    made: Any = AnonymousCredentials  # the SDK is not typed
    monkeypatch.setattr("lakecli.stores.gs.credentials._default_credentials", lambda _: made())
    access = gs_access()
    assert access.kind == "AnonymousCredentials"
    assert access.source == "the application default credentials"


def test_missing_google_credentials_are_described(home: Path) -> None:
    with pytest.raises(PermissionDenied, match="no credentials for Google"):
        gs_access()


SAS = "sv=2026-02-06&se={end}&sig=signature-of-the-tests"


def azure_access() -> Access:
    access = access_of(AzureStore("lake", "container"))
    assert access is not None
    assert "signature-of-the-tests" not in repr(access)
    assert KEY not in repr(access)
    return access


def test_azure_keys_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    assert azure_access() == Access(
        "account key", "of lake", "AZURE_STORAGE_KEY", endpoint="lake.blob.core.windows.net"
    )


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("2026-03-01T12:00:00Z", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("", None),
        ("soon", None),
    ],
)
def test_azure_tokens_are_described_with_their_expiry(
    text: str, end: datetime | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", SAS.format(end=text))
    access = azure_access()
    assert (access.kind, access.source) == ("SAS token", "AZURE_STORAGE_SAS_TOKEN")
    assert access.expires_at == end


def test_azure_logins_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    assert azure_access().kind == "your own login"
    monkeypatch.setenv("AZURE_CLIENT_ID", "00112233-4455-6677-8899-aabbccddeeff")
    access = azure_access()
    assert (access.kind, access.identity, access.source) == ("client", "0011…", "AZURE_CLIENT_ID")


def test_azure_keys_of_another_account_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "other")
    with pytest.raises(PermissionDenied, match="'other'"):
        azure_access()


def test_a_directory_is_accessed_as_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = pwd.getpwuid(os.geteuid()).pw_name
    assert access_of(DirectoryStore(str(tmp_path))) == Access("user", name, "this process")

    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert access_of(DirectoryStore(str(tmp_path))) == Access(
        "user", str(os.geteuid()), "this process"
    )


def test_a_store_without_access_information_gives_none() -> None:
    assert access_of(MemoryStore()) is None

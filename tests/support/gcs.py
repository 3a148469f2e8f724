"""A Google Cloud Storage server for tests, and the service account that it accepts."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.support.servers import running

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ACCOUNT = "tests@lakecli.iam.gserviceaccount.com"


@dataclass(frozen=True)
class GcsServer:
    """URL of the server, and the file of the key whose signatures it accepts."""

    url: str
    key_file: Path


def write_key(folder: Path) -> tuple[Path, Path]:
    """Make the key of a service account; return its file and that of the public key."""
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    file, public_file = folder / "key.json", folder / "public.pem"
    public_file.write_bytes(public)
    file.write_text(
        json.dumps(
            {
                "type": "service_account",
                "project_id": "lakecli",
                "private_key_id": "of-the-tests",
                "private_key": private.decode(),
                "client_email": ACCOUNT,
                # No server listens there, so a request for a token fails.
                "token_uri": "http://127.0.0.1:9/token",
            }
        )
    )
    return file, public_file


@pytest.fixture(scope="session")
def gcs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    """A strict server, which runs for the session; each test makes its own bucket."""
    folder = tmp_path_factory.mktemp("gcs")
    key_file, public_file = write_key(folder)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}

    def command(port: int) -> Sequence[str]:
        return (sys.executable, "-m", "tests.support.gcs_server", str(port), str(public_file))

    with running(command, folder / "log", environment=environment) as url:
        yield GcsServer(url, key_file)


@pytest.fixture
def gcs_environment(gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment with the server in Google's place, and with a key to sign with."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs_server.url)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(gcs_server.key_file))
    return monkeypatch


def new_gcs_bucket(server: GcsServer, *, keeps_versions: bool = False) -> str:
    """Create a bucket and return its unique name."""
    name = f"{'versioned' if keeps_versions else 'bucket'}-{uuid4().hex}"
    request = urllib.request.Request(
        f"{server.url}/storage/v1/b?project=tests",
        data=json.dumps({"name": name, "versioning": {"enabled": keeps_versions}}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20):
        return name

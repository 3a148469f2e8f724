"""`lakecli serve` against other servers of S3 over a directory: wall time, in turn.

    python -m tests.benchmarks.serve [--rounds 5] [--scale 1.0] [--only SERVER,…]

The client is obstore with 16 connections. The others are `rclone serve s3` and versitygw, which do
not wait until bytes are on the disk, as lakecli does. One round has all servers in turn, and
medians are compared. At the end 32 clients write and read at the same time, and the highest memory
of the process is taken.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import obstore
from obstore.store import S3Store

from tests.servers.programs import from_go
from tests.support.servers import ACCESS_KEY, SECRET_KEY, running, server_environment
from tests.support.serving import lakecli, serving

KIB: Final = 1 << 10
MIB: Final = 1 << 20
CONNECTIONS: Final = 16
SMALL, SMALL_SIZE = 1_000, 64 * KIB
LARGE, LARGE_SIZE = 4, 256 * MIB
CHUNK: Final = 16 * MIB
KEYS: Final = 200_000
CLIENTS: Final = 32
MOST_MEMORY: Final = 300 * MIB
DISK: Final = Path("/var/tmp")


class Peer(NamedTuple):
    """A server that runs.

    Attributes:
        url: its URL.
        bucket: a bucket that is there.
        prefix: what keys begin with.
        keys: its key pair.
        memory: returns its highest memory until now.
    """

    url: str
    bucket: str
    prefix: str
    keys: tuple[str, str]
    memory: Callable[[], int]

    def store(self) -> S3Store:
        """Return a store of this server."""
        return S3Store(
            self.bucket,
            prefix=self.prefix,
            endpoint=self.url,
            region="us-east-1",
            access_key_id=self.keys[0],
            secret_access_key=self.keys[1],
            virtual_hosted_style_request=False,
            client_options={"allow_http": True, "timeout": "300s"},
        )


class Work(NamedTuple):
    """How much is moved."""

    small: int
    large: int
    keys: int


@contextmanager
def ours(home: Path, listed: Path) -> Iterator[Peer]:
    """Run `lakecli serve`."""
    with serving(home) as endpoint:
        uri = "lakefs://demo/main"
        lakecli(
            endpoint.environment, "fs", "upload", "-q", "-r", f"{uri}/listed/", "-s", str(listed)
        )
        lakecli(endpoint.environment, "commit", uri, "-m", "Listed")
        to = endpoint.to
        yield Peer(to.url, "demo", "main/", (to.access_key, to.secret_key), endpoint.peak)


def _other(
    home: Path, listed: Path, command: Callable[[int], Sequence[str]], **environment: str
) -> AbstractContextManager[Peer]:
    @contextmanager
    def run() -> Iterator[Peer]:
        bucket = home / "data/bucket"
        bucket.mkdir(parents=True)
        shutil.copytree(listed, bucket / "listed", copy_function=os.link)
        environ = {**server_environment(), "HOME": str(home), **environment}
        with running(command, home / "log", environment=environ) as url:
            yield Peer(url, "bucket", "", (ACCESS_KEY, SECRET_KEY), lambda: 0)

    return run()


def rclone(home: Path, listed: Path) -> AbstractContextManager[Peer]:
    """Run `rclone serve s3`."""
    program = str(Path(sys.executable).with_name("rclone"))
    key = f"{ACCESS_KEY},{SECRET_KEY}"
    return _other(
        home,
        listed,
        lambda port: (
            *(program, "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", key),
            str(home / "data"),
        ),
    )


def versitygw(home: Path, listed: Path) -> AbstractContextManager[Peer]:
    """Run versitygw."""
    program = from_go("github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
    return _other(
        home,
        listed,
        lambda port: (program, "--port", f"127.0.0.1:{port}", "-q", "posix", str(home / "data")),
        ROOT_ACCESS_KEY=ACCESS_KEY,
        ROOT_SECRET_KEY=SECRET_KEY,
    )


SERVERS: Final = {"lakecli": ours, "rclone": rclone, "versitygw": versitygw}


def _bodies(count: int, size: int, seed: int) -> list[bytes]:
    """Return bodies that differ from all others, and compress badly."""
    block = os.urandom(size)
    return [(b"%d-%d-" % (seed, number)).ljust(32, b"x") + block[32:] for number in range(count)]


def _in_parallel(work: Callable[[int], object], count: int) -> None:
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(work, range(count)))


def measure(peer: Peer, work: Work, number: int) -> dict[str, float]:
    """Do all work once; return the seconds by its name."""
    store = peer.store()
    found: dict[str, float] = {}

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        found[name] = time.perf_counter() - began

    small = _bodies(work.small, SMALL_SIZE, number)
    with timed("PUT of small objects"):
        _in_parallel(
            lambda each: obstore.put(store, f"s{number}/{each:06}", small[each]), work.small
        )

    def read(key: str, size: int) -> None:
        total = sum(len(piece) for piece in obstore.get(store, key).stream())
        assert total == size, f"{key}: {total}"

    with timed("GET of small objects"):
        _in_parallel(lambda each: read(f"s{number}/{each:06}", SMALL_SIZE), work.small)
    large = _bodies(1, LARGE_SIZE, number)[0]

    def put_large(each: int) -> None:
        body = memoryview(large)
        parts: list[bytes | memoryview] = [b"%032d" % each]
        parts += (body[at : at + MIB] for at in range(32, len(body), MIB))
        obstore.put(store, f"l{number}/{each}", iter(parts), chunk_size=CHUNK, max_concurrency=4)

    with timed("PUT of large objects"):
        _in_parallel(put_large, work.large)
    with timed("GET of large objects"):
        _in_parallel(lambda each: read(f"l{number}/{each}", LARGE_SIZE), work.large)
    with timed("listing"):
        count = sum(len(batch) for batch in obstore.list(store, "listed", chunk_size=5_000))
    assert count == work.keys, f"{count} keys"
    return found


def stress(peer: Peer) -> None:
    """Write and read by many clients at the same time."""
    body = os.urandom(24 * MIB)

    def one(number: int) -> None:
        store = peer.store()
        for each in range(4):
            key = f"stress/{number}-{each}"
            obstore.put(store, key, iter([b"%d-%d" % (number, each), body]), chunk_size=8 * MIB)
            assert sum(map(len, obstore.get(store, key).stream())) > len(body)

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(one, range(CLIENTS)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the servers; return 1 if the memory is above its limit."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="with less, only a trial")
    parser.add_argument("--only", default=",".join(SERVERS))
    options = parser.parse_args(arguments)
    scale = options.scale
    work = Work(int(SMALL * scale), max(1, int(LARGE * scale)), int(KEYS * scale) // 1_000 * 1_000)
    names = options.only.split(",")
    directory = Path(tempfile.mkdtemp(prefix="lakecli-serve-", dir=os.environ.get("TMPDIR", DISK)))
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    peak = 0
    try:
        listed = directory / "listed"
        for number in range(work.keys):
            folder = listed / f"{number // 1_000:03}"
            if not number % 1_000:
                folder.mkdir(parents=True)
            (folder / f"{number:06}").write_bytes(b"%d" % number)
        with ExitStack() as stack:
            peers = {}
            for name in names:
                (directory / name).mkdir()
                peers[name] = stack.enter_context(SERVERS[name](directory / name, listed))
            for number in range(options.rounds):
                for name, peer in peers.items():
                    found = measure(peer, work, number)
                    results[name].append(found)
                    said = ", ".join(f"{key} {value:.2f}" for key, value in found.items())
                    print(f"{number} {name}: {said}", flush=True)
            if "lakecli" in peers:
                stress(peers["lakecli"])
                peak = peers["lakecli"].memory()
        _show(results)
    finally:
        subprocess.run(["rm", "-rf", directory], check=True)
    print(f"\nmemory with {CLIENTS} clients: {peak / MIB:.0f} MiB, at most {MOST_MEMORY / MIB:.0f}")
    return int(peak > MOST_MEMORY)


def _show(results: dict[str, list[dict[str, float]]]) -> None:
    """Print a table of medians, and of the ratios to the first server."""
    first = next(iter(results))
    print(f"\n{'seconds':<24}" + "".join(f"{name:>12}" for name in results))
    for what in results[first][0]:
        medians = {name: median(one[what] for one in found) for name, found in results.items()}
        cells = "".join(f"{value:>12.2f}" for value in medians.values())
        ratios = ", ".join(
            f"{medians[first] / value:.2f} of {name}"
            for name, value in medians.items()
            if name != first
        )
        print(f"{what:<24}{cells}  {ratios}")


if __name__ == "__main__":
    sys.exit(main())

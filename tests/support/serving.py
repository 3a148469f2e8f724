"""`lakecli serve` as a process of its own, with a repository to serve."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lakecli.serving.clients import EndpointAddress
from tests.serving.s3_wire import Keys, Wire
from tests.support.servers import ACCESS_KEY, SECRET_KEY, moto, new_bucket

ROOT = Path(__file__).parents[2]
SCRUBBED = ("AWS_", "LAKECLI_", "XDG_")


class Endpoint(NamedTuple):
    """A running endpoint.

    Attributes:
        to: what clients need to know of it; `bucket` is the first repository.
        home: the home of lakecli, of this process and of commands beside it.
        pid: the process.
        page: the URL for browsers.
        environment: of commands.
    """

    to: EndpointAddress
    home: Path
    pid: int
    page: str
    environment: Mapping[str, str]

    def wire(self) -> Wire:
        """Return what sends requests to it."""
        return Wire(self.to.url, Keys(self.to.access_key, self.to.secret_key, self.to.region))

    def lakecli(self, *arguments: str) -> str:
        """Run a command beside it, and return what it says."""
        return lakecli(self.environment, *arguments)

    def rows(self, *arguments: str) -> list[Any]:
        """Run a command beside it, and return the lines of its answer in JSON."""
        return [json.loads(line) for line in self.lakecli(*arguments, "--json").splitlines()]

    def memory(self) -> int:
        """Return the memory of the process, in bytes."""
        return _status(self.pid, "VmRSS")

    def peak(self) -> int:
        """Return the highest memory of the process until now, in bytes."""
        return _status(self.pid, "VmHWM")


def _status(pid: int, name: str) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition(f"{name}:")[2].split()[0]) << 10


def environment_of(home: Path) -> dict[str, str]:
    """Return the environment of commands with a home of their own, without the machine's AWS."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SCRUBBED)}
    return kept | {
        "HOME": str(home),
        "LAKECLI_HOME": str(home / "lakecli"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": str(ROOT),
        "TZ": "UTC",
    }


def lakecli(environment: Mapping[str, str], *arguments: str) -> str:
    """Run a command, and return what it says."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "lakecli", *arguments],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not done.returncode, f"lakecli {' '.join(arguments)}:\n{done.stderr}{done.stdout}"
    return done.stdout


@contextmanager
def serving(
    home: Path,
    *options: str,
    repositories: Sequence[str] = ("demo",),
    namespace: str = "",
    more: Mapping[str, str] | None = None,
) -> Iterator[Endpoint]:
    """Make repositories and serve them until the end of the block.

    Args:
        home: an empty directory, or one with these repositories.
        options: further options of the command.
        repositories: their names.
        namespace: where they store their objects: below `home` by default.
        more: further variables of the environment.
    """
    environment = {**environment_of(home), **(more or {})}
    home.mkdir(exist_ok=True, parents=True)
    where = namespace or str(home / "namespaces")
    for name in repositories:
        if not (home / name).exists():
            (home / name).touch()
            lakecli(environment, "repo", "create", f"lakefs://{name}", f"{where}/{name}")
    log = home / "serve.log"
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "lakecli", "serve", *repositories),
                *("--port", "0", "--json", *options),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            text=True,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, log.read_text(errors="replace")[-3_000:]
        said = json.loads(line)
        to = EndpointAddress(
            said["url"],
            said["access_key"],
            said["secret_key"],
            said["region"],
            said["repositories"][0] if said["repositories"] else "",
        )
        yield Endpoint(to, home, process.pid, said["page"], environment)
        assert process.poll() is None, log.read_text(errors="replace")[-3_000:]
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@contextmanager
def serving_a_bucket(factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """Make a repository in a bucket of moto, and serve it until the end of the block."""
    with moto(factory) as url:
        more = {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        }
        home = factory.mktemp("serve") / "home"
        with serving(home, namespace=f"s3://{new_bucket(url)}/lake", more=more) as endpoint:
            yield endpoint

"""``doctor``."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lakecli import native
from lakecli.cli.context import system_now
from lakecli.cli.out.output import STYLES
from lakecli.stores.contract import ANY
from lakecli.stores.local.store import DirectoryStore
from tests.support.golden import Cli
from tests.support.servers import (
    ACCESS_KEY,
    SECRET_KEY,
    StubServer,
    free_port,
    new_bucket,
    s3_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from lakecli.stores.contract import Version
    from tests.support.golden import Golden, Result

pytestmark = pytest.mark.races

_NORMAL = (
    (re.compile(r"\bin \d+ ms"), "in <N> ms"),
    (re.compile(r'("milliseconds": )"\d+"'), r'\1"<N>"'),
    (re.compile(r"[\d,]+\.\d [MG]B"), "<SIZE>"),
    (re.compile(r'("(?:free|used|size)": )"\d+"'), r'\1"<BYTES>"'),
    (re.compile(r"\b(user) [^\s,]+, from"), r"\1 <USER>, from"),
    (re.compile(r'("identity": )"[^"]+"(, "source": "this process")'), r'\1"<USER>"\2'),
    (re.compile(r"127\.0\.0\.1:\d+"), "<SERVER>"),
    (re.compile(r"bucket-[0-9a-f]{32}"), "<BUCKET>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<TIME>"),
)


def normal(result: Result) -> Result:
    """Replace what differs between two runs, and see that no secret is among it."""
    texts = [result.stdout, result.stderr, "\n".join(result.argv)]
    for text in texts:
        assert SECRET_KEY not in text
        assert ACCESS_KEY not in text
    for pattern, name in _NORMAL:
        texts = [pattern.sub(name, text) for text in texts]
    stdout, stderr, argv = texts
    return replace(
        result, argv=tuple(argv.split("\n")), stdout_bytes=stdout.encode(), stderr=stderr
    )


class PunctualCli(Cli):
    """Its clock is the machine's, as that of the stores is."""

    @property
    def now(self) -> datetime:
        return system_now()

    @now.setter
    def now(self, _: datetime) -> None:
        """Go on by itself."""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return PunctualCli(tmp_path)


@pytest.fixture(autouse=True)
def usual_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecli.repository.doctor.free_space", lambda _: 20 * 10**9)
    monkeypatch.setattr(native, "problem", lambda: "")


def in_bucket(endpoint: str, environment: pytest.MonkeyPatch) -> str:
    environment.setenv("AWS_ENDPOINT_URL", endpoint)
    return f"s3://{new_bucket(endpoint)}/prefix"


def test_a_directory_passes(cli: Cli, golden: Golden) -> None:
    place = cli.directory / "namespace"
    missing = cli.directory / "missing"
    place.mkdir()
    results = [cli("doctor", place), cli("doctor", place, "--json"), cli("doctor", missing)]
    assert list(place.iterdir()) == []
    assert not missing.exists()
    cli.ok("repo", "create", "lakefs://demo", place)
    results += [cli("doctor", "lakefs://demo"), cli("doctor", f"file://{place}", "--json")]
    golden("doctor_directories", *map(normal, results))


def test_bad_targets_are_refused(cli: Cli, golden: Golden) -> None:
    golden(
        "doctor_refuses",
        cli("doctor"),
        cli("doctor", "lakefs://demo"),
        cli("doctor", "lakefs://demo/main"),
        cli("doctor", "relative/path"),
        cli("doctor", "ftp://host/path"),
        cli("doctor", "lakefs://demo", "--json"),
    )


def test_a_bucket_of_moto_passes(
    cli: Cli, golden: Golden, aws_environment: pytest.MonkeyPatch, moto_endpoint: str
) -> None:
    namespace = in_bucket(moto_endpoint, aws_environment)
    bare = cli("doctor", namespace)
    cli.ok("repo", "create", "lakefs://demo", namespace)
    golden("doctor_moto", *map(normal, (bare, cli("doctor", "lakefs://demo", "--json"))))


def test_a_bucket_of_rclone_passes(
    cli: Cli, golden: Golden, aws_environment: pytest.MonkeyPatch, rclone_endpoint: str
) -> None:
    namespace = in_bucket(rclone_endpoint, aws_environment)
    golden("doctor_rclone", normal(cli("doctor", namespace)))


def test_broken_buckets_fail(
    cli: Cli, golden: Golden, aws_environment: pytest.MonkeyPatch, moto_endpoint: str
) -> None:
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    results = [cli("doctor", "s3://no-such-bucket/prefix")]
    aws_environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    results.append(cli("doctor", "s3://bucket/prefix"))
    with StubServer(s3_error(403, "AccessDenied")) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        results.append(cli("doctor", "s3://bucket/prefix"))
    aws_environment.delenv("AWS_ACCESS_KEY_ID")
    results.append(cli("doctor", "s3://bucket/prefix", "--json"))
    assert [result.exit_code for result in results] == [6, 10, 9, 9]
    golden("doctor_buckets", *map(normal, results))


def test_a_local_store_that_does_not_open_is_reported(cli: Cli, home: Path) -> None:
    (home / "lakecli").mkdir()
    (home / "lakecli" / "store").write_text("in the way")
    result = cli("doctor", "lakefs://demo")
    assert result.exit_code == 9
    assert result.lines[0] == "ok       compiled-core     used"
    assert result.lines[1].startswith("failed   local-store")
    assert result.stderr.startswith("error: 1 of 36 checks failed: local-store")
    assert cli("doctor", "lakefs://demo", "--json").json["storage_namespace"] is None


@pytest.mark.parametrize(
    ("problem", "verdict", "shown"),
    [
        (native.MISSING, "ok", "with the same results"),
        (native.OUTDATED, "warning", "install this version of lakecli again"),
    ],
)
def test_a_compiled_core_that_is_not_used_is_reported(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, problem: str, verdict: str, shown: str
) -> None:
    monkeypatch.setattr(native, "problem", lambda: problem)
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    result = cli("doctor", "lakefs://demo")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert f"{verdict} compiled-core not used: {problem}" in text
    assert shown in text
    stderr = cli("version", "--verbose").stderr
    assert f"debug: compiled core: not used, {problem}\n" in stderr


def test_the_base_uri_names_a_repository(cli: Cli) -> None:
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    result = cli("doctor", "demo", "--json", "--base-uri", "lakefs://")
    assert result.json["target"] == "lakefs://demo"
    namespace = cli("doctor", cli.directory / "namespace", "--base-uri", "lakefs://", "--json")
    assert namespace.json["target"] == f"local://{cli.directory}/namespace"


def test_a_terminal_shows_a_line_for_each_group_and_what_is_wrong(cli: Cli) -> None:
    result = cli("doctor", cli.directory, terminal=True)
    assert result.lines[2].startswith(f"{STYLES['green']}ok     \033[0m  credentials ")
    assert any(
        line.startswith(f"{STYLES['green']}ok     \033[0m  conditions ")
        and line.endswith(" create-only, compare-and-set, race")
        for line in result.lines
    )
    assert f"\n{STYLES['dim']}skipped\033[0m  features " in result.stdout
    missing = cli("doctor", cli.directory / "missing", terminal=True)
    assert f"\n{STYLES['bright red']}failed \033[0m  reachable " in missing.stdout
    assert (missing.stdout + missing.stderr).count("mkdir") <= 1
    every = cli("doctor", cli.directory, "--verbose", terminal=True)
    assert "race " in every.stdout
    assert len(every.lines) > len(result.lines) + 10


@pytest.mark.parametrize("operation", ["put", "get", "delete"])
def test_an_interruption_leaves_nothing(
    cli: Cli, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = getattr(DirectoryStore, operation)
    times = iter(range(1000))
    stop = 0 if operation == "delete" else 5

    def interrupted(*arguments: object, **options: object) -> object:
        found = original(*arguments, **options) if operation != "delete" else None
        if next(times) == stop:
            raise KeyboardInterrupt
        return original(*arguments, **options) if operation == "delete" else found

    monkeypatch.setattr(DirectoryStore, operation, interrupted)
    result = cli("doctor", cli.directory)
    assert result.exit_code == 130
    assert list(cli.directory.rglob("*")) == []


def test_an_interrupted_process_leaves_nothing(cli: Cli, home: Path) -> None:
    """A process that gets SIGINT while it races."""
    script = home / "slow.py"
    script.write_text(
        "import sys, time\n"
        "from lakecli.cli import app\n"
        "from lakecli.stores.local.store import DirectoryStore\n"
        "put = DirectoryStore.put\n"
        "def slow(*arguments, **options):\n"
        "    if 'race-' in arguments[1]:\n"
        "        print('racing', flush=True)\n"
        "        time.sleep(0.2)\n"
        "    return put(*arguments, **options)\n"
        "DirectoryStore.put = slow\n"
        "sys.argv[0] = 'lakecli'\n"
        "app.main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, script, "doctor", cli.directory],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line == "racing\n":
            break
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr == "error: interrupted\n"
    assert list(cli.directory.rglob("*")) == []


def test_a_failure_is_refused_until_the_hint_is_followed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint of a refused push, pasted, ends the failure where the store is mended."""
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "put", unconditional(DirectoryStore.put))
        first = cli("push", "lakefs://demo/main")
    assert first.exit_code == 7
    for refused in (first, cli("push", "lakefs://demo/main")):
        assert refused.stderr.count("the store ignores conditions") == 1
    assert cli("doctor", "lakefs://demo").exit_code == 0  # its own test passed
    command = re.search(r"lakecli (doctor lakefs://demo --again)$", first.stderr, re.MULTILINE)
    assert command is not None
    cli.ok(*command[1].split())
    cli.ok("push", "lakefs://demo/main")
    recorded = json.loads((cli.directory / "namespace/_lakecli/sharing.json").read_text())
    first, last = recorded["results"]
    assert "the store ignores conditions" in first["reason"]
    assert (last["reason"], last["again"], last["races"]) == ("", True, 4)
    assert "@" in last["by"]


def unconditional(put: Callable[..., Version]) -> Callable[..., Version]:
    def changed(store: DirectoryStore, key: str, body: bytes, *rest: object) -> Version:
        condition = ANY if "doctor-" in key else rest[0]
        return put(store, key, body, condition)

    return changed

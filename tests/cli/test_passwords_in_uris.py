"""A user name and a password in a URI are refused, and neither shown nor kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.exit_codes import ExitCode
from lakecli.errors import LakeError, without_passwords
from tests.support.command_lines import Sample, command_lines
from tests.support.demo import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli

MAIN = f"{REPOSITORY}/main"
SECRET = "wJalr/XUtn+FEMI"
WITH_PASSWORD = tuple(
    f"{scheme}://AKIAUSER:{SECRET}@{rest}"
    for scheme, rest in (
        ("s3", "bucket/ns"),
        ("S3A", "bucket/ns@main/a"),
        ("gs", "bucket/ns"),
        ("az", "account/container/ns"),
        ("https", "account.blob.core.windows.net/container/ns"),
        ("lakefs", "demo/main/a"),
    )
)


@pytest.mark.parametrize("uri", WITH_PASSWORD)
def test_errors_leave_passwords_out(uri: str) -> None:
    error = LakeError(f"no such namespace: {uri!r}", hint=f"lakecli clone {uri}")
    assert SECRET not in f"{error} {error.message} {error.hint} {error!r}"


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket@main/x:y@z",
        "s3://bucket@ma:in/x",
        "http://127.0.0.1:9000/a@b",
        "http://[::1]:9000/x@y",
        "abfss://container@account.dfs.core.windows.net/x",
        "lakefs://demo/main@{2026-01-01 10:00}",
        "local:///a:b/@main",
        "Ada <ada@example.com>: https://example.com:443/@",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert without_passwords(text) == text


def lines(sample: Sample) -> Iterator[tuple[str, ...]]:
    """Yield the lines of all commands with another URI in the place of each one, and as options."""
    for number, words in enumerate(command_lines(sample)):
        for at, word in enumerate(words):
            if "://" in word or word.startswith(sample.namespace):
                uri = WITH_PASSWORD[(number + at) % len(WITH_PASSWORD)]
                yield (*words[:at], uri, *words[at + 1 :])
    for uri in WITH_PASSWORD:
        yield ("config", "set", "trust.addresses", uri)
        yield ("--base-uri", uri, "fs", "ls", "main/")
        yield ("fs", "stage", f"{MAIN}/x", "--location", uri, "--size", "1", "--checksum", "x")
        yield ("import", "--from", uri, "--to", f"{MAIN}/x/")
        yield ("import", "--manifest", uri, "--to", f"{MAIN}/x/")
        yield ("export", f"{MAIN}/", uri)
        yield ("clone", uri, "lakefs://other")


def test_no_command_shows_logs_or_keeps_a_password(cli: Cli, demo: Demo, tmp_path: Path) -> None:
    demo.commit("first", {"a": "a"})
    log = tmp_path / "log"
    sample = Sample(tmp_path, str(tmp_path / "ns"))
    asked = 0
    for words in lines(sample):
        asked += 1
        result = cli(*words, "--verbose", "--log-output", log, "--log-level", "trace")
        shown = result.stdout + result.stderr
        assert result.exit_code not in (ExitCode.OK, ExitCode.UNEXPECTED), (words, shown)
        assert SECRET not in shown, (words, shown)
    assert asked > 100
    for uri in WITH_PASSWORD:
        listed = tmp_path / "listed.json"
        listed.write_text(json.dumps({"path": "x", "uri": uri, "size": 1, "checksum": "0" * 32}))
        result = cli("import", "--manifest", listed, "--to", f"{MAIN}/x/", "-m", "x", "--verbose")
        assert result.exit_code not in (ExitCode.OK, ExitCode.UNEXPECTED), result
        assert SECRET not in result.stdout + result.stderr
        listed.unlink()
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert log in kept
    assert not [path for path in kept if SECRET.encode() in path.read_bytes()]
    assert SECRET not in cli.ok("op", "log", REPOSITORY, "--json").stdout

"""URIs in place of local paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli

MAIN = "lakefs://demo/main"


@pytest.mark.parametrize("uri", ["s3://b/x", "gs://b", "az://a/c/x", "S3://b/", "file:///tmp/x"])
@pytest.mark.parametrize(
    ("command", "helps"),
    [
        (("fs", "download", f"{MAIN}/a", "URI"), "export"),
        (("fs", "download", "-r", f"{MAIN}/", "URI"), "export"),
        (("fs", "download", "-r", f"{MAIN}/", "URI", "--dry-run"), "export"),
        (("fs", "upload", "URI", f"{MAIN}/x"), "import"),
        (("fs", "upload", "-r", "URI", f"{MAIN}/x"), "import"),
        (("fs", "presign", "-r", f"{MAIN}/", "--manifest", "URI"), "this machine"),
        (("fs", "presign", "-r", f"{MAIN}/", "--script", "URI"), "this machine"),
    ],
)
def test_a_uri_is_refused_as_a_directory(
    cli: Cli,
    demo: Demo,
    monkeypatch: pytest.MonkeyPatch,
    *,
    command: tuple[str, ...],
    helps: str,
    uri: str,
) -> None:
    cli.ok("fs", "upload", "-", f"{MAIN}/a", stdin="1")
    empty = cli.directory / "here"
    empty.mkdir()
    monkeypatch.chdir(empty)
    result = cli(*(uri if word == "URI" else word for word in command))
    assert result.exit_code == ExitCode.USAGE, result
    assert "not a path on this machine" in result.stderr
    assert helps in result.stderr or uri.startswith("file")
    assert not list(empty.iterdir())
    assert demo.contents().keys() == {"a"}


def test_other_names_with_colons_are_paths(
    cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert demo.contents() == {}
    cli.ok("fs", "upload", "-", f"{MAIN}/a", stdin="1")
    monkeypatch.chdir(cli.directory)
    for name in ("x:y", "s3:", "s3:x"):
        cli.ok("fs", "download", f"{MAIN}/a", name)
        assert (cli.directory / name).read_bytes() == b"1"

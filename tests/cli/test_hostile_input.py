"""No file or object causes an unexpected error: exit code 1 is a defect."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base import layout
from lakecli.base.model import RefKind
from lakecli.cli.exit_codes import ExitCode
from tests.support.forgeries import DOCUMENTS, VALUES

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli

REPOSITORY = "lakefs://demo"
MAIN = f"{REPOSITORY}/main"

FETCH = ("fetch", REPOSITORY)
CLONE = ("clone", "<NAMESPACE>", "lakefs://again")
PUSH = ("push", MAIN)
FSCK = ("fsck", REPOSITORY)
GC = ("gc", "status", REPOSITORY)
DOCTOR = ("doctor", REPOSITORY)

OBJECTS = {
    "repository.json": (layout.REPOSITORY, (FETCH, CLONE, PUSH, DOCTOR)),
    "ref": (layout.ref_key(RefKind.BRANCH, "main"), (FETCH, CLONE, PUSH, FSCK, ("pull", MAIN))),
    "state": (
        layout.GC + "state",
        (FETCH, CLONE, PUSH, GC, ("branch", "create", MAIN, "-s", MAIN)),
    ),
    "rules": (layout.GC + "rules.json", (GC, FSCK)),
    "pack": (layout.COMMITS + "ab" * 32, (FETCH, PUSH, FSCK)),
}
"""What a namespace holds, and the commands without Spark that read it."""

CONFIGS: dict[str, str] = {
    "levels": "a = " + "[" * 5_000,
    "closed levels": "a = " + "[" * 5_000 + "]" * 5_000,
    "tables": "[" + "a." * 5_000 + "a]\nb = 1",
    "known tables": "[repo." + "a." * 5_000 + "a]\nb = 1",
    "digits": "[transfer]\nparallelism = " + "9" * 5_000,
    "text of digits": f'[transfer]\nparallelism = "{"9" * 5_000}"',
    "huge number": "[transfer]\nparallelism = 99999999999999999999",
    "1e400": "[cache]\nsize = 1e400",
    "nan": "[cache]\nsize = nan",
    "huge size": f'[cache]\nsize = "{"9" * 400} TB"',
    "huge duration": f'[gc]\ngrace = "{"9" * 5_000}d"',
    "date": "[user]\nname = 9999-12-31T23:59:59-23:59",
    "list": "[user]\nname = [[]]",
    "NUL": '[user]\nname = "a\\u0000b"',
    "lone surrogate": '[user]\nname = "\\ud800"',
    "escape": '[user]\nname = "\\u001b[2J"',
    "garbage": "\x01\x02",
    "large": "#" * (1 << 20),
}


def checked(cli: Cli, *argv: str) -> None:
    result = cli(*argv)
    assert result.exit_code != ExitCode.UNEXPECTED, (argv, result.stderr)
    assert "Traceback" not in result.stderr


@pytest.fixture
def shared(demo: Demo) -> Demo:
    demo.commit("first", {"a": "1"})
    demo.cli.ok("push", MAIN)
    return demo


def spoil(demo: Demo, key: str, data: bytes) -> Any:
    path = Path(demo.namespace) / key
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_bytes() if path.exists() else None
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return lambda: path.unlink() if before is None else path.write_bytes(before)


@pytest.mark.parametrize(("key", "commands"), OBJECTS.values(), ids=OBJECTS)
def test_no_foreign_document_is_an_unexpected_error(
    shared: Demo, key: str, commands: tuple[tuple[str, ...], ...]
) -> None:
    for data in DOCUMENTS.values():
        restore = spoil(shared, key, data)
        for argv in commands:
            words = [word.replace("<NAMESPACE>", str(shared.namespace)) for word in argv]
            checked(shared.cli, *words)
        shared.cli("repo", "delete", "lakefs://again", "-y")
        restore()


@pytest.mark.parametrize(
    ("key", "fields"),
    [
        (layout.REPOSITORY, ("uuid", "range_entries", "default_branch", "created", "needs_read")),
        (
            layout.ref_key(RefKind.BRANCH, "main"),
            ("commit_id", "sequence", "write_id", "moves", "name"),
        ),
    ],
    ids=["repository.json", "ref"],
)
def test_no_field_value_is_an_unexpected_error(
    shared: Demo, key: str, fields: tuple[str, ...]
) -> None:
    sound = json.loads((Path(shared.namespace) / key).read_bytes())
    for field in fields:
        for value in VALUES.values():
            restore = spoil(shared, key, json.dumps({**sound, field: value}).encode())
            checked(shared.cli, *FETCH)
            restore()


def test_a_malformed_uuid_affects_no_other_repository(shared: Demo, tmp_path: Path) -> None:
    """An empty one was the beginning of every repository's key in the local store."""
    other = tmp_path / "other"
    shared.cli.ok("repo", "create", "lakefs://other", other)
    document = other / layout.REPOSITORY
    fields = json.loads(document.read_bytes())
    own = json.loads((Path(shared.namespace) / layout.REPOSITORY).read_bytes())["uuid"]
    shared.cli.ok("repo", "delete", "lakefs://other", "-y")
    before = shared.cli.ok("branch", "list", REPOSITORY).stdout
    for uuid in ("", own[0], own[:8], own[:31], "0" * 600, own.upper()):
        document.write_text(json.dumps({**fields, "uuid": uuid}))
        checked(shared.cli, "clone", str(other), "lakefs://evil")
        assert shared.cli("clone", str(other), "lakefs://evil").exit_code == ExitCode.INTEGRITY
        assert shared.cli.ok("branch", "list", REPOSITORY).stdout == before


@pytest.mark.parametrize("text", CONFIGS.values(), ids=CONFIGS)
def test_no_configuration_is_an_unexpected_error(shared: Demo, tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    for argv in (
        ("config", "list"),
        ("config", "get", "user.name"),
        ("config", "set", "user.name", "Ada"),
        ("config", "unset", "user.name"),
        ("fs", "upload", f"{MAIN}/x", "-s", str(path)),
        ("gc", "status", REPOSITORY),
    ):
        checked(shared.cli, "--config", str(path), *argv)


HUGE = "100000000000000000000"


@pytest.mark.parametrize(
    "argv",
    [
        ("repo", "list", "--amount", HUGE),
        ("repo", "list", "--amount", "9" * 5_000),
        ("branch", "list", REPOSITORY, "--amount", HUGE),
        ("tag", "list", REPOSITORY, "--amount", HUGE),
        ("log", MAIN, "--amount", HUGE),
        ("log", MAIN, "--amount", HUGE, "--limit"),
        ("reflog", MAIN, "--amount", HUGE),
        ("op", "log", REPOSITORY, "--amount", HUGE),
        ("fs", "ls", f"{MAIN}/", "--amount", HUGE),
        ("repo", "list", "--after", os.fsdecode(b"\xff")),
        ("repo", "list", "--prefix", os.fsdecode(b"\xff")),
        ("branch", "list", REPOSITORY, "--prefix", os.fsdecode(b"\xff")),
        ("branch", "list", REPOSITORY, "--after", os.fsdecode(b"\xff")),
        ("branch", "list", os.fsdecode(b"lakefs://\xff")),
        ("branch", "show", os.fsdecode(b"lakefs://demo/\xff")),
        ("tag", "show", os.fsdecode(b"lakefs://demo/\xff")),
        ("fs", "stat", os.fsdecode(b"lakefs://demo/main/\xff")),
        ("rev-parse", os.fsdecode(b"lakefs://demo/\xff")),
        ("clone", os.fsdecode(b"/\xff"), "lakefs://x"),
        ("push", os.fsdecode(b"lakefs://demo/\xff")),
        ("pull", os.fsdecode(b"lakefs://demo/\xff")),
        ("reflog", os.fsdecode(b"lakefs://demo/\xff")),
        ("repo", "create", "lakefs://made", "/nowhere/x", "--range-entries", HUGE),
        ("rev-parse", f"{REPOSITORY}/main~{'9' * 5_000}"),
        ("rev-parse", f"{REPOSITORY}/main@{{{'9' * 5_000} days ago}}"),
        ("commit", MAIN, "-m", "m", "--epoch-time-seconds", HUGE),
        ("push", MAIN, "--force-with-lease", "f" * 64),
    ],
    ids=lambda argv: " ".join(argv)[:40].encode("ascii", "backslashreplace").decode(),
)
def test_no_argument_is_an_unexpected_error(shared: Demo, argv: tuple[str, ...]) -> None:
    checked(shared.cli, *argv)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_manifest_is_an_unexpected_error(shared: Demo, tmp_path: Path, name: str) -> None:
    path = tmp_path / "links.json"
    path.write_bytes(DOCUMENTS[name])
    checked(shared.cli, "fs", "presign", "--check", str(path))
    path.write_bytes(b"# " + DOCUMENTS[name] + b"\npath,size\n")
    checked(shared.cli, "fs", "presign", "--check", str(path))


HEADER = {
    "manifest": 1, "repository": REPOSITORY, "uuid": "0" * 32, "ref": "main",
    "commit_id": "0" * 64, "prefix": "",
}  # fmt: skip
ITEM = {"path": "a", "size": 1, "checksum": "", "expires_at": "2026-03-01T12:00:00Z"}


@pytest.mark.parametrize("field", [*HEADER, *ITEM])
def test_no_manifest_field_is_an_unexpected_error(shared: Demo, tmp_path: Path, field: str) -> None:
    fields = json.loads((Path(shared.namespace) / layout.REPOSITORY).read_bytes())
    path = tmp_path / "links.json"
    for value in (
        *VALUES.values(),
        1e308,
        "9999-12-31T23:59:59-14:00",
        "0001-01-01T00:00:00+14:00",
    ):
        head = {**HEADER, "uuid": fields["uuid"]}
        item = dict(ITEM)
        (head if field in HEADER else item)[field] = value
        path.write_text(json.dumps({**head, "objects": [item]}))
        checked(shared.cli, "fs", "presign", "--check", str(path))


@pytest.mark.parametrize("line", ["reflog {} --after", "fs du {}/ --depth", "log {} --amount"])
@pytest.mark.usefixtures("demo")
def test_a_number_of_more_than_64_bits_is_refused(cli: Cli, line: str) -> None:
    refused = cli(*line.format(MAIN).split(), "9" * 20)
    assert refused.exit_code == ExitCode.USAGE
    assert "more than 18 digits" in refused.stderr

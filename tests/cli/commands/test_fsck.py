"""``fsck``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import REPOSITORY as REPOSITORY_FILE
from lakecli.base.layout import data_key

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

REPOSITORY = "lakefs://demo"


@pytest.fixture
def filled(cli: Cli, demo: Demo) -> Demo:
    for path, text in {"a": "one", "b/c": "two"}.items():
        cli.ok("fs", "upload", "-", f"{REPOSITORY}/main/{path}", stdin=text)
    cli.ok("commit", f"{REPOSITORY}/main", "-m", "first")
    cli.ok("tag", "create", f"{REPOSITORY}/v1", f"{REPOSITORY}/main")
    cli.ok("fs", "upload", "-", f"{REPOSITORY}/main/new\nline", stdin="three")
    return demo


def test_fsck_finds_nothing_in_a_sound_repository(cli: Cli, filled: Demo, golden: Golden) -> None:
    golden(
        "fsck",
        cli("fsck", REPOSITORY),
        cli("fsck", REPOSITORY, "--data"),
        cli("fsck", f"{REPOSITORY}/", "--data", "--json"),
        cli("fsck", "lakefs://none"),
        cli("fsck", f"{REPOSITORY}/main"),
    )


def test_fsck_lists_damage(cli: Cli, filled: Demo, golden: Golden) -> None:
    def file(text: str) -> str:
        return data_key(blake3_of(text.encode()).hex())

    (filled.namespace / file("one")).write_bytes(b"bad")
    (filled.namespace / file("two")).write_bytes(b"longer than that")
    (filled.namespace / file("three")).unlink()
    golden(
        "fsck_damaged",
        cli("fsck", REPOSITORY),
        cli("fsck", REPOSITORY, "--data"),
        cli("fsck", REPOSITORY, "--data", "--json"),
    )


def test_fsck_lists_and_deletes_damaged_files_of_the_cache(cli: Cli, filled: Demo) -> None:
    claim = json.loads((filled.namespace / REPOSITORY_FILE).read_text())
    cache = Path(os.environ["LAKECLI_HOME"]) / "cache" / claim["uuid"]
    cache.mkdir(parents=True, exist_ok=True)
    table = max((filled.namespace / "_lakefs").iterdir(), key=lambda file: file.stat().st_size)
    for name, data in ((table.name, table.read_bytes()), ("f" * 64, b"damaged")):
        (cache / name).write_bytes(data)
    found = cli.ok("fsck", REPOSITORY, "--json").json_lines
    assert [each["type"] for each in found] == ["repaired", "summary"]
    assert (found[0]["kind"], found[0]["name"]) == ("cache", "f" * 64)
    assert [file.name for file in cache.iterdir()] == [table.name]
    (cache / table.name).write_bytes(table.read_bytes()[1:])
    shown = cli.ok("fsck", REPOSITORY).lines
    assert shown[0] == f"repaired: cache {table.name}: damaged copy deleted"
    assert list(cache.iterdir()) == []


def test_fsck_keeps_outlines_of_metaranges(
    cli: Cli, filled: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.committed.tree_store.OUTLINED_FROM", 0)
    claim = json.loads((filled.namespace / REPOSITORY_FILE).read_text())
    cli.ok("fs", "ls", f"{REPOSITORY}/main/")
    cache = Path(os.environ["LAKECLI_HOME"]) / "cache" / claim["uuid"]
    (kept,) = cache.glob("*.outline1")
    assert [each["type"] for each in cli.ok("fsck", REPOSITORY, "--json").json_lines] == ["summary"]
    assert kept.exists()
    damaged = cache / f"{'f' * 64}.outline1"
    damaged.write_bytes(kept.read_bytes())
    shown = cli.ok("fsck", REPOSITORY).lines
    assert shown[0] == f"repaired: cache {damaged.name}: damaged copy deleted"
    assert [*cache.glob("*.outline1")] == [kept]


def test_repair_restores_and_lists_losses(cli: Cli, filled: Demo, golden: Golden) -> None:
    originals = cli.directory / "originals"
    originals.mkdir()
    (originals / "one").write_text("one")
    for text in ("one", "two"):
        (filled.namespace / data_key(blake3_of(text.encode()).hex())).unlink()
    golden(
        "fsck_repair",
        cli("fsck", REPOSITORY, "--repair", "--from", originals, "--dry-run"),
        cli("fsck", REPOSITORY, "--repair", "--from", originals),
        cli("fsck", REPOSITORY, "--repair", "--json"),
        cli("fsck", REPOSITORY, "--dry-run"),
        cli("fsck", REPOSITORY, "--sample", "0"),
    )
    cli.ok("fs", "upload", "-", f"{REPOSITORY}/main/again", stdin="two")
    cli.ok("fsck", REPOSITORY, "--data", "--repair")


def test_a_sample_reads_a_part(cli: Cli, demo: Demo) -> None:
    for number in range(60):
        cli.ok("fs", "upload", "-", f"{REPOSITORY}/main/{number}", stdin=f"contents {number:03d}")
    cli.ok("commit", f"{REPOSITORY}/main", "-m", "first")
    sizes = {
        cli.ok("fsck", REPOSITORY, "--sample", "25%", "--json").json_lines[-1]["bytes_hashed"] // 12
        for _ in range(5)
    }
    assert all(3 <= count <= 30 for count in sizes)
    assert len(sizes) > 1  # another part each time
    whole = cli.ok("fsck", REPOSITORY, "--sample", "100%", "--json").json_lines[-1]
    assert whole["bytes_hashed"] == 60 * 12


def test_uploading_again_repairs(cli: Cli, filled: Demo) -> None:
    (filled.namespace / data_key(blake3_of(b"one").hex())).unlink()
    assert cli("fsck", REPOSITORY).exit_code == 8
    cli.ok("fs", "upload", "-", f"{REPOSITORY}/main/a", stdin="one")
    cli.ok("fsck", REPOSITORY, "--data")


@pytest.mark.xdist_group("spark")
def test_fsck_runs_on_spark(cli: Cli, filled: Demo, spark: object) -> None:
    (filled.namespace / data_key(blake3_of(b"one").hex())).write_bytes(b"bad")
    here = cli("fsck", REPOSITORY, "--data", "--json")
    there = cli("fsck", REPOSITORY, "--data", "--json", "--engine", "spark")
    assert here.exit_code == there.exit_code == 8
    assert here.stdout == there.stdout

"""In and out of lakeFS from the command line."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest

from lakecli.cli.exit_codes import ExitCode
from lakecli.repository.lakefs.dump import format_manifest, parse_manifest
from lakecli.repository.lakefs.kept_dumps import KEPT_FOR, recorded_times
from lakecli.stores.local.store import DirectoryStore
from tests.cli.commands.test_gc import grow_old
from tests.committed.trees import new_trees
from tests.support.lakefs_files import live_expected, live_objects, log_children_first
from tests.support.lakefs_server import LakeFs

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.base.model import CommitId
    from tests.support.golden import Cli


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("lakefs") / "namespace"
    for key, data in {**live_objects(), "_lakefs/dummy": b"dummy"}.items():
        path = directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return directory


@pytest.fixture
def namespace(tmp_path: Path, template: Path) -> Path:
    shutil.copytree(template, tmp_path / "namespace", copy_function=os.link)
    return tmp_path / "namespace"


@pytest.fixture
def refs(tmp_path: Path) -> Path:
    path = tmp_path / "refs.json"
    path.write_text(json.dumps(live_expected()["refs_dump"]))
    return path


def test_a_plain_clone_of_a_lakefs_namespace_names_the_way_in(cli: Cli, namespace: Path) -> None:
    result = cli("clone", namespace, "lakefs://taken")
    assert result.exit_code == ExitCode.REFUSED
    assert "lakecli clone --from-lakefs" in result.stderr


def test_a_borrowed_clone_reads_and_commits_and_never_pushes(
    cli: Cli, namespace: Path, refs: Path, tmp_path: Path
) -> None:
    answer = cli.ok(
        "clone", "--from-lakefs", namespace, "lakefs://old", "--refs", refs, "--json"
    ).json
    assert (answer["branches"], answer["tags"], answer["commits"]) == (4, 3, 17)
    assert answer["default_branch"] == "main"
    log = cli.ok("log", "lakefs://old/main", "--json").json_lines
    assert [commit["id"] for commit in log] == log_children_first(live_expected(), "main@")
    (tmp_path / "file").write_bytes(b"contents")
    cli.ok("fs", "upload", "-s", tmp_path / "file", "lakefs://old/main/new")
    cli.ok("commit", "lakefs://old/main", "-m", "on this machine")
    assert cli.ok("fs", "cat", "lakefs://old/main/new").stdout == "contents"
    cli.ok("fsck", "lakefs://old", "--data")
    result = cli("push", "lakefs://old/main")
    assert result.exit_code == ExitCode.REFUSED
    assert "--take-over" in result.stderr
    result = cli("gc", "run", "lakefs://old", "--dry-run")
    assert result.exit_code == ExitCode.REFUSED


def test_a_log_has_children_first_within_one_second(cli: Cli, namespace: Path, refs: Path) -> None:
    cli.ok("clone", "--from-lakefs", namespace, "lakefs://old", "--refs", refs)
    expected = live_expected()
    for ref in ("after", "main@"):
        found = cli.ok("log", f"lakefs://old/{ref}", "--amount", "-1", "--json").json_lines
        said = log_children_first(expected, ref)
        assert [each["id"] for each in found] == said
        drawn = cli.ok("log", f"lakefs://old/{ref}", "--graph", "--limit", "--amount=-1").stdout
        places = [drawn.index(each[:7]) for each in said]
        assert places == sorted(places)


def test_sync_leaves_a_borrowed_namespace_alone(cli: Cli, namespace: Path, refs: Path) -> None:
    cli.ok("clone", "--from-lakefs", namespace, "lakefs://old", "--refs", refs)
    cli.ok("config", "set", "sync", "auto")
    cli.ok("branch", "create", "lakefs://old/new", "-s", "lakefs://old/main")
    assert not (namespace / "_lakecli").exists()


def test_a_taken_over_namespace_goes_back_to_lakefs(
    cli: Cli, namespace: Path, refs: Path, tmp_path: Path
) -> None:
    cli.ok("clone", "--from-lakefs", namespace, "lakefs://mine", "--refs", refs, "--take-over")
    result = cli("refs-dump", "lakefs://mine")
    assert result.exit_code == ExitCode.REFUSED
    assert "lakecli push --all lakefs://mine" in result.stderr
    out = tmp_path / "out.json"
    result = cli.ok("refs-dump", "lakefs://mine", "--push-first", "-o", out)
    assert "lakectl refs-restore lakefs://mine" in result.stderr
    cli.ok("repo", "delete", "lakefs://mine", "-y")
    shutil.rmtree(namespace / "_lakecli")
    cli.ok("clone", "--from-lakefs", namespace, "lakefs://again", "--refs", out)
    log = cli.ok("log", "lakefs://again/main", "--json").json_lines
    assert [commit["id"] for commit in log] == log_children_first(live_expected(), "main@")


def test_a_dump_names_what_lakefs_cannot_hold(cli: Cli, demo_root: Path) -> None:
    cli.ok("repo", "create", "lakefs://demo", demo_root / "ns")
    cli.ok("branch", "create", "lakefs://demo/a:b", "-s", "lakefs://demo/main")
    (demo_root / "file").write_bytes(b"x")
    cli.ok("fs", "upload", "-s", demo_root / "file", "lakefs://demo/main/caf\udce9")
    result = cli("refs-dump", "lakefs://demo")
    assert result.exit_code == ExitCode.REFUSED
    for word in ("names: branch a:b", "uncommitted: branch main", "unpushed: branch main"):
        assert word in result.stderr
    cli.ok("commit", "lakefs://demo/main", "-m", "m")
    result = cli("refs-dump", "lakefs://demo", "--push-first", "--leave-out", "names")
    assert result.exit_code == ExitCode.REFUSED
    assert "paths: main: " in result.stderr
    leave = ("--leave-out", "names", "--leave-out", "paths")
    manifest = cli.ok("refs-dump", "lakefs://demo", *leave).stdout
    cli.ok("repo", "create", "lakefs://empty", demo_root / "other")
    (demo_root / "refs.json").write_text(manifest)
    result = cli("refs-restore", "lakefs://empty", "--manifest", demo_root / "refs.json")
    assert result.exit_code == ExitCode.INTEGRITY
    result = cli("refs-restore", "lakefs://demo", "-m", demo_root / "refs.json")
    assert result.exit_code == ExitCode.REFUSED


@pytest.mark.parametrize(
    "arguments",
    [
        ("clone", "x", "lakefs://x", "--take-over"),
        ("clone", "x", "lakefs://x", "--refs", "y"),
        ("clone", "x", "lakefs://x", "--rebuild"),
        ("clone", "x", "lakefs://x", "--from-lakefs", "--rebuild", "--engine", "spark"),
        ("clone", "x", "lakefs://x", "--from-lakefs", "--take-over", "--engine", "spark"),
        ("refs-dump", "lakefs://x", "--leave-out", "everything"),
    ],
)
def test_options_that_make_no_sense_are_refused(cli: Cli, arguments: tuple[str, ...]) -> None:
    assert cli(*arguments).exit_code == ExitCode.USAGE


@pytest.fixture
def demo_root(tmp_path: Path) -> Path:
    return tmp_path


def test_the_records_of_every_kind_of_table_are_shown(cli: Cli, namespace: Path) -> None:
    expected = live_expected()
    dump = expected["refs_dump"]
    lists = {name: namespace / "_lakefs" / dump[f"{name}_meta_range_id"] for name in PLURALS}
    for name, column in PLURALS.items():
        ranges = cli.ok("cat-sst", "-f", lists[name], "--json").json_lines
        records = [
            record
            for each in ranges
            for record in cli.ok(
                "cat-sst", "-f", namespace / "_lakefs" / each["range_id"], "--json"
            ).json_lines
        ]
        assert sorted(record[column] for record in records) == sorted(expected[name])
    commit = expected["commits"][expected["branches"]["main"]]
    tree = namespace / "_lakefs" / commit["meta_range_id"]
    ranges = cli.ok("cat-sst", "--file", f"local://{tree}", "--json").json_lines
    entries = [
        record
        for each in ranges
        for record in cli.ok(
            "cat-sst", "-f", namespace / "_lakefs" / each["range_id"], "--json"
        ).json_lines
    ]
    answered = expected["entries"]["main@"]
    assert [entry["path"] for entry in entries] == [entry["path"] for entry in answered]
    assert [entry["checksum"] for entry in entries] == [entry["checksum"] for entry in answered]
    shown = cli.ok("cat-sst", "-f", tree, "--amount", "1").stdout
    assert ranges[0]["range_id"] in shown
    assert ranges[1]["range_id"] not in shown


def test_a_file_that_is_no_table_is_refused(cli: Cli, refs: Path, tmp_path: Path) -> None:
    assert cli("cat-sst", "-f", refs).exit_code == ExitCode.INTEGRITY
    assert cli("cat-sst", "-f", tmp_path / "missing").exit_code == ExitCode.NOT_FOUND
    assert cli("cat-sst", "-f", tmp_path).exit_code == ExitCode.USAGE
    assert cli("cat-sst").exit_code == ExitCode.USAGE


PLURALS = {"branches": "branch", "tags": "tag", "commits": "commit_id"}


def test_a_dump_is_kept_and_listed(cli: Cli, namespace: Path, refs: Path, tmp_path: Path) -> None:
    cli.ok("clone", "--from-lakefs", namespace, "lakefs://mine", "--refs", refs, "--take-over")
    (origin,) = cli.ok("gc", "status", "lakefs://mine", "--json").json["dumps"]
    assert {name: origin[name] for name in live_expected()["refs_dump"]} == live_expected()[
        "refs_dump"
    ]
    out = tmp_path / "out.json"
    result = cli.ok("refs-dump", "lakefs://mine", "--push-first", "-o", out)
    assert "garbage collection keeps the dump until" in result.stderr
    assert "below lakeFS's own blockstore.local.path" in result.stderr
    dumps = cli.ok("gc", "status", "lakefs://mine", "--json").json["dumps"]
    (kept,) = (each for each in dumps if each != origin)
    assert {name: kept[name] for name in json.loads(out.read_text())} == json.loads(out.read_text())
    assert datetime.fromisoformat(kept["until"]) - datetime.fromisoformat(kept["since"]) == KEPT_FOR
    assert kept["commits_meta_range_id"] in cli.ok("gc", "status", "lakefs://mine").stdout


def test_the_commands_of_lakectl_are_printed_in_order(
    cli: Cli, namespace: Path, refs: Path
) -> None:
    cli.ok("clone", "--from-lakefs", namespace, "lakefs://mine", "--refs", refs, "--take-over")
    lines = cli.ok("refs-dump", "lakefs://mine", "--push-first").stderr.splitlines()
    at = next(number for number, line in enumerate(lines) if "repo delete" in line)
    assert "sleep 10" in lines[at]
    assert f"repo create-bare lakefs://mine local://{namespace}" in lines[at + 1]
    assert "refs-restore" in lines[at + 2]


def newer_dump(namespace: Path, refs: Path) -> dict[str, CommitId]:
    """Let lakeFS commit to main and dev, and dump into the file; return the heads."""
    server = LakeFs(new_trees(DirectoryStore(str(namespace))), parse_manifest(refs.read_bytes()))
    tree = next(each.metarange_id for each in server.commits.values() if each.metarange_id)
    server.commit("main", tree)
    server.commit("dev", tree)
    refs.write_bytes(format_manifest(server.dump()))
    return server.branches


def test_newer_commits_of_lakefs_come_into_a_repository(
    cli: Cli, namespace: Path, refs: Path
) -> None:
    cli.ok("clone", "--from-lakefs", namespace, "lakefs://mine", "--refs", refs, "--take-over")
    cli.ok("push", "--all", "lakefs://mine")
    cli.ok("commit", "lakefs://mine/dev", "-m", "ours", "--allow-empty-commit")
    plain = cli("refs-restore", "lakefs://mine", "-m", refs)
    assert plain.exit_code == ExitCode.REFUSED
    assert "lakecli refs-restore --update lakefs://mine" in plain.stderr
    heads = newer_dump(namespace, refs)
    update = ("refs-restore", "--update", "lakefs://mine", "-m", refs)
    first = cli.ok(*update)
    assert "branch main: " in first.stderr
    assert "branch dev has commits of its own; that of lakeFS is lakefs:dev" in first.stderr
    assert "lakecli merge lakefs://mine/lakefs:dev lakefs://mine/dev" in first.stderr
    assert first.stdout == "Repository: lakefs://mine\n\nNew commits: 2\n"
    listed = {each["name"]: each["commit_id"] for each in branches(cli, "mine")}
    assert listed["main"] == heads["main"]
    assert listed["lakefs:dev"] == heads["dev"]
    cli.ok("undo", "lakefs://mine")
    assert "lakefs:dev" not in {each["name"] for each in branches(cli, "mine")}
    answer = cli.ok(*update, "--json").json
    assert [(each["name"], each["change"]) for each in answer["updated"]] == [
        ("lakefs:dev", "diverged"),
        ("main", "moved"),
    ]
    cli.ok("merge", "lakefs://mine/lakefs:dev", "lakefs://mine/dev", "--allow-empty")
    cli.ok("branch", "delete", "lakefs://mine/lakefs:dev", "-y")
    assert "everything up to date" in cli.ok(*update).stderr
    cli.ok("push", "--all", "lakefs://mine")
    cli.ok("fsck", "lakefs://mine")


def branches(cli: Cli, name: str) -> list[Any]:
    return cli.ok("branch", "list", f"lakefs://{name}", "--json").json_lines


def test_a_clone_from_lakefs_updates_a_repository_that_exists(
    cli: Cli, namespace: Path, refs: Path
) -> None:
    clone = ("clone", "--from-lakefs", namespace)
    cli.ok(*clone, "lakefs://mine", "--refs", refs, "--take-over")
    cli.ok("push", "--all", "lakefs://mine")
    heads = newer_dump(namespace, refs)
    answer = cli.ok(*clone, "lakefs://mine", "--refs", refs, "--json").json
    assert [each["change"] for each in answer["updated"]] == ["moved", "moved"]
    other = cli(*clone, "lakefs://other", "--refs", refs)
    assert other.exit_code == ExitCode.REFUSED
    assert "lakecli refs-restore --update lakefs://mine" in other.stderr
    cli.ok("repo", "delete", "lakefs://mine", "-y")
    cli.ok(*clone, "lakefs://again", "--refs", refs)  # only the bucket has the repository
    listed = {each["name"]: each["commit_id"] for each in branches(cli, "again")}
    assert listed == heads
    refs.replace(namespace / "_lakefs" / "refs_manifest.json")
    assert "everything up to date" in cli.ok(*clone, "lakefs://again").stderr


def test_a_dump_that_cannot_be_saved_writes_nothing(
    cli: Cli, namespace: Path, refs: Path, tmp_path: Path
) -> None:
    cli.ok("clone", "--from-lakefs", namespace, "lakefs://mine", "--refs", refs, "--take-over")
    before = sorted(namespace.rglob("*"))
    dump = ("refs-dump", "lakefs://mine", "--push-first", "-o")
    assert cli(*dump, tmp_path / "missing" / "refs.json").exit_code == ExitCode.NOT_FOUND
    assert cli(*dump, tmp_path).exit_code == ExitCode.USAGE
    assert sorted(namespace.rglob("*")) == before


DUMPED: Final = datetime(2026, 11, 24, tzinfo=UTC)
"""Two days after the names of the objects: when lakeFS made its dump, and all was written."""


def date_all(namespace: Path) -> None:
    """Let everything in a namespace be of the time of the dump, also by what the claim says."""
    claim = namespace / "_lakecli" / "repository.json"
    fields = json.loads(claim.read_bytes())
    fields["origin"] |= recorded_times(DUMPED, DUMPED)
    claim.write_bytes(json.dumps(fields).encode())
    for path in namespace.rglob("*"):
        if path.is_file():
            os.utime(path, (DUMPED.timestamp(), DUMPED.timestamp()))


def test_garbage_of_lakefs_is_collected_once_it_has_stopped(
    cli: Cli, namespace: Path, refs: Path
) -> None:
    cli.ok("clone", "--from-lakefs", namespace, "lakefs://mine", "--refs", refs, "--take-over")
    cli.ok("push", "--all", "lakefs://mine")
    cli.now = cli.now.replace(year=cli.now.year + 1)
    garbage = namespace / "data" / ("0" * 20) / ("0" * 20)
    garbage.parent.mkdir()
    garbage.write_bytes(b"uncommitted")
    step = ("gc", "run", "lakefs://mine", "--grace", "24h")
    confirm = (*step, "--lakefs-stopped")
    grow_old(namespace)
    copied = cli(*confirm)
    assert copied.exit_code == ExitCode.REFUSED
    assert "are those of a copy" in copied.stderr
    date_all(namespace)
    old = garbage.stat().st_mtime
    os.utime(garbage, (old, old + 10))
    ahead = cli(*confirm)
    assert (ahead.exit_code, "since the last refs dump" in ahead.stderr) == (ExitCode.REFUSED, True)
    assert "lakecli refs-restore --update lakefs://mine" in ahead.stderr
    os.utime(garbage, (old, old))  # uncommitted before lakeFS made the dump
    result = cli(*step)
    assert result.exit_code == ExitCode.REFUSED
    assert "lakecli gc run --lakefs-stopped lakefs://" in result.stderr
    assert cli.ok("gc", "status", "lakefs://mine", "--json").json["lakefs_stopped"] is None
    condemned = cli.ok(*confirm, "--json").json
    assert [each["kind"] for each in condemned["garbage"]].count("lakefs") == 1
    assert cli.ok("gc", "status", "lakefs://mine", "--json").json["lakefs_stopped"] is not None
    date_all(namespace)
    swept = cli.ok(*step, "-y").stdout
    assert "written by lakeFS, and nothing that is in use refers to it" in swept
    assert not garbage.exists()
    cli.ok("fsck", "lakefs://mine", "--data")


def test_trees_of_branches_are_rebuilt_ahead_with_the_clone(
    cli: Cli, namespace: Path, refs: Path
) -> None:
    before = sorted(namespace.rglob("*"))
    result = cli.ok(
        "clone", "--from-lakefs", namespace, "lakefs://old", "--refs", refs, "--rebuild"
    )
    assert "rebuilt trees of branches: 4" in result.stderr
    assert sorted(namespace.rglob("*")) == before  # what is written is on this machine
    cli.ok("fsck", "lakefs://old")

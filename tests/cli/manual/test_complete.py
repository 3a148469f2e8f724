"""What a TAB offers for refs and paths; `test_completion` has the shells."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.manual import complete
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli

DEMO = "lakefs://demo/"


def asked(kind: str, typed: str) -> list[str]:
    stdout = io.StringIO()
    complete.main([kind, typed], os.environ, stdout)
    return stdout.getvalue().splitlines()


def refs(typed: str, kind: str = "ref") -> list[str]:
    return [each.removeprefix(DEMO) for each in asked(kind, DEMO + typed)]


@pytest.fixture
def merged(forked: Demo) -> Demo:
    forked.merge("dev", "main", "--strategy", "dest-wins")
    forked.cli.ok("tag", "create", f"{DEMO}v1.0", f"{DEMO}main")
    return forked


@pytest.mark.usefixtures("merged")
def test_modifiers_are_offered_as_far_as_they_lead() -> None:
    assert refs("main~") == ["main~1", "main~2", "main~3"]
    assert refs("main~3") == ["main~3"]
    assert refs("main~1~") == ["main~1~1", "main~1~2"]
    assert refs("main^") == ["main^1", "main^2"]
    assert refs("main^2~", "path") == ["main^2~1/", "main^2~2/"]
    assert refs("v1.0~1") == ["v1.0~1"]
    assert refs("main@") == ["main@", "main@{1}", "main@{2}", "main@{3}"]
    assert refs("dev@{") == ["dev@{1}"]
    assert refs("v1.0@") == []
    for nothing in ("main~x", "nothing~", "main@{1}^7~", "~", "main$", "main@~"):
        assert refs(nothing) == []
    # Where a branch must be named, no expression is.
    assert refs("main~", "branch") == []


@pytest.mark.usefixtures("merged")
def test_both_sides_of_a_range_are_offered() -> None:
    assert refs("main..d") == ["main..dev"]
    assert refs("main...v") == ["main...v1.0"]
    assert refs("v1.0~1..main~") == [f"v1.0~1..main~{number}" for number in (1, 2, 3)]
    assert refs("main..d", "path") == ["main..dev/"]


@pytest.mark.usefixtures("merged")
def test_paths_follow_any_ref() -> None:
    assert refs("main@{1}/", "path") == ["main@{1}/a", "main@{1}/b", "main@{1}/c"]
    assert refs("v1.0^2/", "path") == ["v1.0^2/a", "v1.0^2/b", "v1.0^2/d"]


def test_many_branches_are_a_sample_with_the_right_beginning(
    demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complete, "MAX_CANDIDATES", 3)
    for name in ("fix-a", "fix-b", "fix-c", "fix-d", "fiz", "x"):
        demo.branch(name)
    assert refs("fi", "branch") == ["fix-a", "fix-b", "fix-c", "fiz"]
    assert refs("fix", "branch") == ["fix-a", "fix-b", "fix-c"]


def test_the_upstream_is_offered_once_it_is_known(cli: Cli, demo: Demo) -> None:
    assert refs("main@{u") == []
    cli.ok("push", f"{DEMO}main")
    assert refs("main@{u") == ["main@{upstream}"]
    assert demo.head("main@{upstream}") == demo.head()


# -- without a URI ---------------------------------------------------------------------------


@pytest.fixture
def root(cli: Cli, merged: Demo, monkeypatch: pytest.MonkeyPatch) -> Path:
    merged.commit("data", {f"data/{name}": name for name in ("a", "gone", "sub/b c", "sub/it's")})
    root = cli.directory / "wd"
    cli.ok("local", "clone", f"{DEMO}main/data/", root)
    (root / "gone").unlink()
    (root / "new").write_text("")
    monkeypatch.chdir(root)
    return root


def test_refs_and_files_of_a_linked_directory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked("ref", "") == ["dev", "main", "v1.0"]
    assert asked("ref", "main..d") == ["main..dev"]
    assert asked("branch", "m") == ["main"]
    assert asked("file-of-ref", "") == ["a", "gone", "sub/"]
    assert asked("ref-or-file", "") == ["dev", "main", "v1.0", "a", "gone", "sub/"]
    assert asked("ref-or-own-file", "") == ["dev", "main", "v1.0", "a", "gone", "new", "sub/"]
    assert asked("path-or-file", "sub/") == ["sub/b c", "sub/it's"]
    assert asked("path-or-file", "./s") == ["./sub/"]
    assert asked("path-or-file", f"{root}/sub/b") == [f"{root}/sub/b c"]
    assert asked("file-of-ref", "../") == []
    assert asked("path-or-file", f"{DEMO}v1.0/b") == [f"{DEMO}v1.0/b"]
    # An object has a URI everywhere.
    assert asked("path", "") == ["lakefs://demo/"]
    assert asked("path", "a") == []
    monkeypatch.chdir(root / "sub")
    assert asked("file-of-ref", "") == ["b c", "it's"]
    assert asked("file-of-ref", "../g") == ["../gone"]


def test_words_are_relative_to_the_default_repository(
    cli: Cli, merged: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cli.directory)
    assert asked("ref", "") == [DEMO]
    cli.ok("use", DEMO.rstrip("/"))
    assert asked("ref", "") == ["dev", "main", "v1.0"]
    assert asked("ref-or-file", "main/") == ["main/a", "main/b", "main/c", "main/d"]
    assert asked("file-of-ref", "") == []
    assert merged.namespace.exists()


# -- buckets ---------------------------------------------------------------------------------


def test_a_bucket_is_not_asked(
    cli: Cli, moto_endpoint: str, aws_environment: pytest.MonkeyPatch, tmp_path: Path, home: Path
) -> None:
    """What is staged, and what was read before, is offered; the rest is not."""
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    aws_environment.setenv("LAKECLI_USER_NAME", "Ada")
    file = tmp_path / "file"
    file.write_text("x")
    cli.ok("repo", "create", "lakefs://far", f"s3://{new_bucket(moto_endpoint)}/far")
    main = "lakefs://far/main/"
    for name in ("a", "d/b", "d/c"):
        cli.ok("fs", "upload", "-s", file, main + name)
    assert asked("path", main) == [main + "a", main + "d/"]
    cli.ok("commit", main.rstrip("/"), "-m", "m")
    aws_environment.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert asked("path", main + "d/") == [main + "d/b", main + "d/c"]
    tables = [each for each in home.rglob("*") if len(each.name) == 64]
    assert tables
    for table in tables:
        table.unlink()
    assert asked("path", main) == []
    assert asked("ref", main[:-2]) == [main[:-1]]


def test_the_process_ends_whatever_it_waits_for() -> None:
    """A directory of a network that does not answer, for one."""
    program = (
        "import sys, time\n"
        "from lakecli.cli import app\n"
        "from lakecli.cli.manual import complete\n"
        "complete.DEADLINE = 0.1\n"
        "complete.main = lambda *_: time.sleep(60)\n"
        "sys.argv = ['lakecli', '__complete', 'ref', '']\n"
        "app.main()\n"
    )
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - start < 30


# -- settings --------------------------------------------------------------------------------


def test_settings_of_repositories_are_offered_in_parts(cli: Cli, demo: Demo) -> None:
    del demo
    assert asked("setting", "sy") == ["sync"]
    assert asked("setting", "re") == ["repo."]
    assert "repo." in asked("setting", "")
    assert asked("setting", "repo.") == ["repo.demo."]
    cli.ok("config", "set", "repo.gone.profile", "prod")
    assert asked("setting", "repo.") == ["repo.demo.", "repo.gone."]
    assert asked("setting", "repo.g") == ["repo.gone."]
    assert asked("setting", "repo.demo.") == [
        f"repo.demo.{name}" for name in ("endpoint", "profile", "region", "sync", "trust.addresses")
    ]
    assert asked("setting", "repo.demo.p") == ["repo.demo.profile"]
    assert asked("setting", "repo.x") == []


def test_settings_need_no_store(cli: Cli) -> None:
    assert not (cli.directory / "home/store").exists()
    assert asked("setting", "user.") == ["user.email", "user.name"]
    assert asked("setting", "repo.") == []


# -- repositories without a clone ------------------------------------------------------------


def test_a_namespace_has_the_refs_and_paths_of_its_clone(cli: Cli, merged: Demo) -> None:
    place = f"local://{merged.namespace}"
    assert asked("path@", place[:-2]) == [f"{place}@"]
    assert asked("repository@", place) == [place]
    assert asked("path@", f"{place}@m") == [f"{place}@main/"]
    assert asked("ref@", f"{place}@main~2..d") == [f"{place}@main~2..dev"]
    assert asked("path@", f"{place}@v1.0/") == [f"{place}@v1.0/{name}" for name in "abcd"]
    assert asked("path@", f"{place}/@v1.0/a") == [f"{place}/@v1.0/a"]
    cli.ok("fs", "upload", "-", f"{DEMO}main/new", stdin="staged")
    assert asked("path@", f"{place}@main/n") == [f"{place}@main/new"]
    # A command that writes does not take it.
    assert asked("path", f"{place}@m") == []


def test_a_directory_is_read_without_a_clone(cli: Cli, merged: Demo) -> None:
    cli.ok("push", DEMO, "--all")
    place = str(merged.namespace)
    cli.ok("repo", "delete", DEMO, "-y")
    assert asked("path@", f"{place}@m") == [f"{place}@main/"]
    assert asked("path@", f"local://{place}@v1") == [f"local://{place}@v1.0/"]
    assert asked("path@", f"{place}@main/") == [f"{place}@main/{name}" for name in "abcd"]
    assert asked("path@", f"{place}-none@m") == []


def test_a_bucket_without_a_clone_is_not_asked(cli: Cli, demo: Demo) -> None:
    del demo
    began = time.perf_counter()
    assert asked("path@", "s3://no-such-bucket/sales@m") == []
    assert asked("path@", "s3://no-such-bucket/sa") == []
    assert time.perf_counter() - began < 1
    assert cli.directory.exists()


def test_files_of_a_linked_directory_are_no_namespace(root: Path) -> None:
    assert asked("path-or-file@", f"{root}/sub/b") == [f"{root}/sub/b c"]
    assert asked("path-or-file@", "sub/") == ["sub/b c", "sub/it's"]


def test_a_name_that_is_not_seen_whole_is_not_offered(demo: Demo) -> None:
    names = ("hidden", "hid\u200bden", "hid\U000e0041den", "hid\ufe0fden", "hid\x1bden")
    demo.stage(dict.fromkeys(names, "x"))
    assert asked("path", f"{DEMO}main/h") == [f"{DEMO}main/hidden"]

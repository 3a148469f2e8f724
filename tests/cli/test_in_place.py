"""Reading a repository by the URI of its storage namespace, without a clone."""

from __future__ import annotations

import shlex
import urllib.request
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.context import system_now
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.tree import COMMANDS, READ_IN_PLACE
from tests.support.azurite import ACCOUNT, new_container
from tests.support.command_lines import Sample, command_lines
from tests.support.gcs import new_gcs_bucket
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

REFUSES_OTHERWISE = {"doctor", "serve"}
"""Commands that take a storage namespace in another meaning."""


@pytest.fixture
def pushed(demo: Demo) -> Demo:
    """A repository whose bucket has all that it has."""
    demo.commit("first", {"a": "1", "raw/b@c": "2", "raw/d": "3"})
    demo.commit("second", {"a": "changed", "raw/d": None})
    demo.cli.ok("tag", "create", "lakefs://demo/v1", "lakefs://demo/main")
    demo.commit("third", {"e": "5"})
    demo.cli.ok("push", "--all", "lakefs://demo")
    return demo


@pytest.fixture
def elsewhere(pushed: Demo, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a machine that has never seen the repository."""
    del pushed
    there = home / "elsewhere"
    monkeypatch.setenv("LAKECLI_HOME", str(there))
    return there


def placed(line: Sequence[str], namespace: str) -> list[str]:
    """Name the repository by its namespace in a command line."""
    line = [word.replace("lakefs://demo/", f"{namespace}@") for word in line]
    return [word.replace("lakefs://demo", f"{namespace}@") for word in line]


READS = """
annotate -r {main}
blame {main}/a
branch list {demo}
branch show {main}
diff {main}~2 {main}
diff --two-way {main} {demo}/v1 --stat
diff {main}~1 {main} --json
find-merge-base {main}~1 {main}
fs cat {main}~2/a {main}/raw/b@c
fs download {main}/a {tmp}-a
fs download -r {main}/ {tmp}/tree
fs du {main}
fs find {main}/ --name '*@*'
fs ls {main}/
fs ls -r {demo}/v1/raw/ --json
fs stat {main}/raw/b@c
log {main}
log {main}/a --oneline
log {demo}/v1 --graph --amount 1
log {main} --stop-at v1 --json
rev-parse {main}@{{0}} --json
show commit {demo}/v1 --stat
tag list {demo}
tag show {demo}/v1
"""


def test_commands_show_what_they_show_of_a_clone(
    pushed: Demo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli, namespace = pushed.cli, str(pushed.namespace)
    seen = set()
    for line in READS.split("\n")[1:-1]:
        names = {"demo": "lakefs://demo", "main": "lakefs://demo/main"}
        here, there = home / "here", home / "there"
        seen |= {words for words in COMMANDS if line.startswith(words + " ")}
        expected = cli.ok(*shlex.split(line.format(tmp=here, **names)))
        with monkeypatch.context() as patch:
            patch.setenv("LAKECLI_HOME", str(home / "elsewhere"))
            found = cli.ok(*placed(shlex.split(line.format(tmp=there, **names)), namespace))
        shown = expected.stdout.replace("lakefs://demo/", f"{namespace}@")
        shown = shown.replace(str(here), str(there))
        assert found.stdout.replace(f"local://{namespace}@", f"{namespace}@") == shown, line
    assert READ_IN_PLACE - seen == {"fs presign", "reflog"}  # of buckets; of what was pushed only
    assert not (home / "elsewhere").exists()  # a directory needs no cache


@pytest.mark.usefixtures("elsewhere")
def test_all_other_commands_refuse_and_name_clone(pushed: Demo, tmp_path: Path) -> None:
    namespace = str(pushed.namespace)
    before = sorted(pushed.namespace.rglob("*"))
    refused = set()
    for line in command_lines(Sample(tmp_path, namespace)):
        words = next(each for each in (" ".join(line[:2]), line[0]) if each in COMMANDS)
        uris = [word for word in line if word.startswith("lakefs://demo")]
        if words in READ_IN_PLACE or words in REFUSES_OTHERWISE or not uris:
            continue
        result = pushed.cli(*placed(line, namespace))
        assert result.exit_code != ExitCode.OK, line
        if "this command needs a clone" in result.stderr:
            refused.add(words)
    assert {"commit", "fs rm", "fs upload", "merge", "branch create", "pull", "gc run"} <= refused
    assert sorted(pushed.namespace.rglob("*")) == before


@pytest.mark.usefixtures("elsewhere")
def test_errors(pushed: Demo, cli: Cli, golden: Golden) -> None:
    namespace = pushed.namespace
    golden("in_place_absent_path", cli("fs", "cat", f"{namespace}@main/absent"))
    golden("in_place_absent_ref", cli("fs", "cat", f"{namespace}@absent/a"))
    golden("in_place_no_ref", cli("fs", "cat", "s3://my-bucket/sales/orders.csv"))
    golden("in_place_write", cli("fs", "rm", "s3://my-bucket/sales@main/orders.csv"))
    golden("in_place_no_repository", cli("log", f"{cli.directory}@main"))
    golden("in_place_at_op", cli("log", f"{namespace}@main", "--at-op", "1234"))
    golden("in_place_uncommitted", cli("diff", f"{namespace}@main"))
    golden("in_place_two_repositories", cli("diff", f"{namespace}@main", "s3://my-bucket/x@main"))
    golden("in_place_put", cli("fs", "presign", "--put", f"{namespace}@main/new"))


@pytest.mark.usefixtures("elsewhere")
def test_the_namespace_may_have_an_at_sign_and_be_a_base_uri(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("repo", "create", "lakefs://odd", tmp_path / "a@b")
    (tmp_path / "file").write_text("odd")
    cli.ok("fs", "upload", tmp_path / "file", "lakefs://odd/main/x@y")
    cli.ok("commit", "lakefs://odd/main", "-m", "odd")
    cli.ok("push", "lakefs://odd/main")
    for start in (f"{tmp_path}/a%40b", f"file://{tmp_path}/a%40b/", f"local://{tmp_path}/a%40b"):
        assert cli.ok("fs", "cat", f"{start}@main/x@y").stdout == "odd"
        if "://" in start:  # as the file system of Python takes it
            assert cli.ok("fs", "cat", f"lakefs://{start}@main/x@y").stdout == "odd"
            assert (
                "this command needs a clone" in cli("fs", "rm", f"lakefs://{start}@main/x").stderr
            )
    listed = cli.ok("fs", "find", f"{tmp_path}/a%40b@main/").stdout
    assert listed == f"local://{tmp_path}/a%40b@main/x@y\n"
    monkeypatch.setenv("LAKECLI_BASE_URI", f"{tmp_path}/a%40b@main/")
    assert cli.ok("fs", "cat", "x@y").stdout == "odd"
    monkeypatch.setenv("LAKECLI_BASE_URI", f"{tmp_path}/a%40b@")
    assert "odd" in cli.ok("log", "main").stdout


def test_objects_outside_the_namespace_are_read_only_where_that_is_allowed(
    demo: Demo, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = demo.cli
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a").write_text("raw")
    cli.ok("import", "--from", tmp_path / "raw", "--to", "lakefs://demo/main/", "-m", "raw")
    cli.ok("push", "lakefs://demo/main")
    monkeypatch.setenv("LAKECLI_HOME", str(home / "elsewhere"))
    refused = cli("fs", "cat", f"{demo.namespace}@main/a")
    assert refused.exit_code == ExitCode.REFUSED
    _, _, command = refused.stderr.partition("objects there: lakecli ")
    cli.ok(*shlex.split(command))
    assert cli.ok("fs", "cat", f"{demo.namespace}@main/a").stdout == "raw"


@pytest.fixture(params=["s3", "gs", "az"])
def namespace(request: pytest.FixtureRequest, cli: Cli, aws_environment: pytest.MonkeyPatch) -> str:
    """A namespace in a bucket of each kind."""
    cli.now = system_now()  # servers take no signature of another day
    if request.param == "s3":
        endpoint = request.getfixturevalue("moto_endpoint")
        aws_environment.setenv("AWS_ENDPOINT_URL", endpoint)
        return f"s3://{new_bucket(endpoint)}/sales"
    if request.param == "gs":
        request.getfixturevalue("gcs_environment")
        return f"gs://{new_gcs_bucket(request.getfixturevalue('gcs_server'))}/sales"
    request.getfixturevalue("azure_environment")
    return f"az://{ACCOUNT}/{new_container(request.getfixturevalue('azurite'))}/sales"


@pytest.mark.servers
def test_buckets_of_every_kind_are_read(
    cli: Cli, namespace: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orders.csv").write_text("1,2\n")
    cli.ok("repo", "create", "lakefs://sales", namespace)
    cli.ok("fs", "upload", tmp_path / "orders.csv", "lakefs://sales/main/")
    commit_id = cli.ok("commit", "lakefs://sales/main", "-m", "orders", "--json").json["id"]
    cli.ok("push", "lakefs://sales/main")
    monkeypatch.setenv("LAKECLI_HOME", str(home / "elsewhere"))
    assert cli.ok("fs", "cat", f"{namespace}@main/orders.csv").stdout == "1,2\n"
    assert cli.ok("fs", "cat", f"{namespace}@{commit_id[:8]}/orders.csv").stdout == "1,2\n"
    assert cli.ok("log", f"{namespace}@main", "--amount", "1", "--json").json["id"] == commit_id
    with urllib.request.urlopen(
        cli.ok("fs", "presign", f"{namespace}@main/orders.csv").stdout
    ) as url:
        assert url.read() == b"1,2\n"
    cli.ok("fs", "download", "-r", f"{namespace}@main~0/", tmp_path / "tree")
    assert (tmp_path / "tree" / "orders.csv").read_text() == "1,2\n"
    assert {each.name for each in (home / "elsewhere").iterdir()} == {"cache"}

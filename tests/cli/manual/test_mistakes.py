"""What is typed by mistake gets an answer that names the right command."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from lakecli.cli.context import system_now
from lakecli.cli.manual.mistakes import HABITS
from lakecli.cli.tree import COMMANDS
from tests.support.golden import Result
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

TYPED: Final = Path(__file__).parents[2] / "data" / "mistakes"


class Mistake(NamedTuple):
    """A line, and what its error and its hint say."""

    line: str
    error: str
    hint: str
    exit_code: int = 2


MISTAKES = (
    # A slash in a name.
    Mistake("commit lakefs://demo/feature/x -m m", "got a path too", "has no '/'"),
    Mistake(
        "branch create lakefs://demo/feature/x -s lakefs://demo/main",
        "got a path too: 'lakefs://demo/feature/x'",
        "a new name has no '/': lakefs://demo/feature-x",
    ),
    # A tag or an expression where a branch is needed.
    Mistake(
        "commit lakefs://demo/main~1 -m m",
        "expected a branch, got the ref expression 'main~1'",
        "the branch: lakefs://demo/main\n"
        "  a new branch there: lakecli branch create lakefs://demo/NAME -s lakefs://demo/main~1",
    ),
    Mistake("fs rm lakefs://demo/main@{1}/a", "got the ref expression 'main@{1}'", "demo/main\n"),
    Mistake(
        "commit lakefs://demo/v1.0 -m m",
        "illegal branch name 'v1.0'",
        "at a tag: lakecli branch create lakefs://demo/NAME -s lakefs://demo/v1.0",
    ),
    Mistake(
        "fs upload file lakefs://demo/v1/a",
        "no branch 'v1' in lakefs://demo",
        "it is a tag; a new branch there: "
        "lakecli branch create lakefs://demo/NAME -s lakefs://demo/v1",
        6,
    ),
    Mistake("merge lakefs://demo/main lakefs://demo/v1", "no branch 'v1'", "it is a tag", 6),
    Mistake(
        "tag show lakefs://demo/main",
        "no tag 'main'",
        "it is a branch: lakecli branch show lakefs://demo/main",
        6,
    ),
    # Malformed URIs.
    Mistake("log lakefs:/demo/main", "not a lakefs:// URI", "did you mean lakefs://demo/main?"),
    Mistake("log LakeFS:demo/main", "not a lakefs:// URI", "did you mean lakefs://demo/main?"),
    Mistake("log lakefs:///demo/main", "illegal repository name ''", "3 to 63"),
    Mistake("log demo/main", "not a lakefs:// URI", "did you mean lakefs://demo/main?"),
    Mistake("fs ls raw/", "not a lakefs:// URI", "set a default repository: lakecli use lakefs://"),
    Mistake("log main", "not a lakefs:// URI: 'main'", "write lakefs://REPOSITORY[/REF[/PATH]]"),
    # A bucket or a file where a lakefs:// URI is needed, and the other way round.
    Mistake(
        "fs ls s3://b/x",
        "not a lakefs:// URI: 's3://b/x'",
        "lakecli import --from s3://b/x --to lakefs://REPOSITORY/BRANCH/",
    ),
    Mistake("fs cat ./file", "not a lakefs:// URI", "lakecli fs upload FILE lakefs://"),
    Mistake("fs cat /etc/hosts", "not a lakefs:// URI", "lakecli fs upload FILE lakefs://"),
    Mistake("fs ls local:///tmp", "not a lakefs:// URI", "lakecli fs upload FILE lakefs://"),
    Mistake("fs upload file s3://b/x", "not a lakefs:// URI", "lakecli import --from s3://b/x"),
    Mistake(
        "fs download lakefs://demo/main/a s3://b/x",
        "not a path on this machine: s3://b/x",
        "lakecli export",
    ),
    Mistake(
        "fs download lakefs://demo/main/a lakefs://demo/dev/a",
        "not a path on this machine",
        "from a branch to a branch: lakecli fs cp",
    ),
    Mistake("fs download ./x lakefs://demo/main/a", "not a lakefs:// URI", "lakecli fs upload"),
    Mistake(
        "fs upload lakefs://demo/main/a ./x", "not a path on this machine", "lakecli fs download"
    ),
    Mistake("fs upload s3://b/x lakefs://demo/main/", "not a path on this", "lakecli import"),
    Mistake(
        "export lakefs://demo/main/ lakefs://demo/dev/",
        "unsupported scheme 'lakefs'",
        "from a branch to a branch: lakecli fs cp",
    ),
    Mistake(
        "import --from lakefs://demo/main/ --to lakefs://demo/dev/",
        "unsupported scheme 'lakefs'",
        "lakecli fs cp",
    ),
    # A group with a URI.
    Mistake(
        "show lakefs://demo/main",
        "unknown command 'show lakefs://demo/main'",
        "did you mean lakecli show commit lakefs://demo/main?",
    ),
    Mistake("branch lakefs://demo/main", "unknown", "lakecli branch show lakefs://demo/main?"),
    Mistake("fs lakefs://demo/main/", "unknown", "did you mean lakecli fs ls lakefs://demo/main/?"),
    # A value that is missing.
    Mistake(
        "tag create lakefs://demo/v2 lakefs://demo/main --at-op",
        "no such option: --at-op",
        "lakecli tag create --help",
    ),
    Mistake(
        "merge lakefs://demo/dev lakefs://demo/main -m",
        "option '-m' requires an argument",
        "lakecli merge SOURCE [BRANCH] [OPTIONS]\n  lakecli merge --help",
    ),
    Mistake(
        "branch create lakefs://demo/dev --source",
        "option '--source' requires an argument",
        "lakecli branch create BRANCH --source REF [OPTIONS]",
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.line)
def test_a_mistake_is_explained(cli: Cli, demo: Demo, mistake: Mistake) -> None:
    demo.commit("first", {"a": "1"})
    cli.ok("tag", "create", "lakefs://demo/v1", "lakefs://demo/main")
    result = cli(*shlex.split(mistake.line))
    assert result.exit_code == mistake.exit_code
    error, _, hint = result.stderr.partition("hint: ")
    assert error.startswith("error: ")
    assert mistake.error in error
    assert mistake.hint in hint


@pytest.mark.parametrize("line", sorted(HABITS))
def test_a_line_of_another_program_is_explained(cli: Cli, demo: Demo, line: str) -> None:
    demo.commit("first", {"a": "1"})
    typed = line.replace("…", "hello world").replace("+", "main lakefs://demo/x y z")
    typed = typed.replace(" :", " main~1:main").replace("http", "https://example.com/x/y")
    typed = typed.replace("config user.", "config user.name").replace("lakefs://", "lakefs://demo")
    words = typed.split() + ["dir"] * line.startswith("clone")
    result = cli(*words)
    assert result.exit_code == 2, result.stderr
    assert result.stderr.endswith(f"hint: {HABITS[line]}\n")


def test_hints_name_commands_that_exist() -> None:
    groups = {words.split()[0] for words in COMMANDS}
    for hint in HABITS.values():
        for part in hint.split("lakecli ")[1:]:
            words = re.sub(r"[;,|:]", " ", part).split()
            whole = {" ".join(words[:1]), " ".join(words[:2])} & {*COMMANDS, "help"}
            assert whole or words[0] in groups - set(COMMANDS), part


def test_what_is_clear_works(cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.commit("first", {"a": "1"})
    demo.commit("second", {"a": "2"})
    monkeypatch.chdir(cli.directory)
    listed = cli.ok("branch", "list", "lakefs://demo").stdout
    assert cli.ok("branch", "lakefs://demo").stdout == listed
    assert cli.ok("log", "-n", "1", "--oneline", "lakefs://demo/main").stdout.count("\n") == 1
    (cli.directory / "file.csv").write_text("file")
    cli.ok("fs", "cp", "file.csv", "lakefs://demo/main/b")
    cli.ok("fs", "cp", "lakefs://demo/main/b", "./copy.csv")
    assert (cli.directory / "copy.csv").read_text() == "file"
    cli.ok("commit", "lakefs://demo/main", "-m", "third")
    cli.ok("local", "clone", "lakefs://demo/main/", "work")
    monkeypatch.chdir(cli.directory / "work")
    assert cli.ok("branch").stdout == cli.ok("branch", "list", "lakefs://demo").stdout
    cli.ok("checkout", "-b", "tried")
    assert "tried" in cli.ok("status").stderr + cli.ok("branch").stdout


def test_the_nearest_names_are_suggested(cli: Cli, demo: Demo) -> None:
    demo.commit("first", {"orders/january.csv": "1"})
    for line, near in {
        "fs stat lakefs://demo/main/orders/jan.csv": "lakefs://demo/main/orders/january.csv",
        "log lakefs://demo/mian": "lakefs://demo/main",
        "log lakefs://dem0/main": "lakefs://demo",
        "use demo": "lakefs://demo",
        "gc run demo": "lakefs://demo",
        "help tutorail": "lakecli help tutorial",
        "layout": "lakecli help layout",
        "config get user.nam": "user.name",
    }.items():
        assert f"did you mean {near}?" in cli(*line.split()).stderr, line


@pytest.mark.usefixtures("demo")
def test_hints_heed_global_options(cli: Cli, home: Path) -> None:
    (home / "lakecli" / "config.toml").write_text("malformed")
    given = cli.directory / "given.toml"
    given.write_text("")
    said = cli("--config", given, "log", "dem0/main").stderr
    assert "did you mean lakefs://demo/main?" in said
    assert cli("--config", given, "stash").stderr == cli("stash").stderr


@pytest.fixture
def sales(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """What the lines in `TYPED` are about: a repository, a directory, and a linked one."""
    monkeypatch.setenv("LAKECLI_USER_NAME", "Ada Lovelace")
    monkeypatch.setenv("LAKECLI_USER_EMAIL", "ada@example.com")
    monkeypatch.chdir(cli.directory)
    orders = cli.directory / "orders"
    orders.mkdir()
    for name in ("january", "feb"):
        (orders / f"{name}.csv").write_text(f"id,amount\n{name},1\n")
        os.utime(orders / f"{name}.csv", (1_700_000_000, 1_700_000_000))
    cli.ok("repo", "create", "lakefs://sales", cli.directory / "lake")
    cli.ok("fs", "upload", "-r", "orders", "lakefs://sales/main/orders/")
    cli.ok("commit", "lakefs://sales/main", "-m", "Orders")
    cli.ok("branch", "create", "lakefs://sales/dev", "-s", "main")
    cli.ok("local", "clone", "lakefs://sales/main/orders/", "work")
    (cli.directory / "mine.csv").write_text("mine")
    return cli


def typed(
    cli: Cli, file: str, monkeypatch: pytest.MonkeyPatch, bucket: str = ""
) -> Iterator[Result]:
    """Run each line of a file, and keep five lines of what was printed."""
    named = {"{directory}": str(cli.directory), "{bucket}": bucket}
    for line in (TYPED / file).read_text().splitlines():
        place, prompt, words = line.partition("$ ")
        if not prompt or line.startswith("#"):
            continue
        monkeypatch.chdir(cli.directory / place)
        for name, meant in named.items():
            words = words.replace(name, meant)
        result = cli(*shlex.split(words))
        assert "Traceback" not in result.stderr, line
        assert result.exit_code != 1, line
        first = result.stdout_bytes.splitlines(keepends=True)[:5]
        yield replace(result, stdout_bytes=b"".join(first))


def test_what_newcomers_typed(sales: Cli, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    golden("mistakes", *typed(sales, "directory.txt", monkeypatch))


def test_what_newcomers_typed_about_buckets(
    sales: Cli, golden: Golden, aws_environment: pytest.MonkeyPatch, moto_endpoint: str
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    sales.now = system_now()
    bucket = new_bucket(moto_endpoint)
    sales.ok("repo", "create", "lakefs://shared", f"s3://{bucket}/sales")
    results = list(typed(sales, "bucket.txt", aws_environment, bucket))
    golden("mistakes_bucket", *(_without(each, bucket, moto_endpoint) for each in results))


def _without(result: Result, bucket: str, endpoint: str) -> Result:
    """Return a result with the names that differ from run to run replaced."""
    names = {bucket: "my-bucket", endpoint.partition("://")[2]: "SERVER"}

    def plain(text: str) -> str:
        for name, shown in names.items():
            text = text.replace(name, shown)
        return text

    argv = tuple(map(plain, result.argv))
    out = plain(result.stdout_bytes.decode()).encode()
    return Result(argv, result.exit_code, out, plain(result.stderr))

"""Completion in real shells: candidates, and the line after TAB."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.context import Context, Environment
from lakecli.cli.line import Globals, Kind
from lakecli.cli.manual import complete
from lakecli.cli.manual.completion import SHELLS, completion_script
from lakecli.cli.manual.describe import CommandHelp, ParameterHelp, describe_all
from tests.support.terminal import Terminal
from tests.support.tools import require_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.golden import Cli

QUOTED = ("a it's", 'b say "hi"', "c back\\slash", "d $HOME `x`")
BREAKS = ":=@"
OBJECTS = ("raw data/a.txt", "readme.md", "résumé.md", *(f"quoted/{n}" for n in QUOTED))
ROOT = Path(__file__).parents[3]
PROBE = CommandHelp(
    words="probe",
    summary="A command of this test's own",
    description=(),
    examples=(),
    arguments=(ParameterHelp("PATH", "", required=True, repeatable=True, kind=Kind.PATH),),
    options=(),
)
SETTINGS = [
    "az.anonymous",
    "az.encryption-scope",
    "base_uri",
    "cache.memory",
    "cache.size",
    "gc.grace",
    "gs.anonymous",
    "gs.kms-key",
    "gs.user-project",
    *(f"hooks.{when}-{what}" for when in ("post", "pre") for what in ("commit", "merge", "push")),
    "local.link",
    "local.trust",
    "network.min_rate",
    "network.timeout",
    "presign.expires",
    "repo.",
    "s3.anonymous",
    "s3.bucket-key",
    "s3.requester-pays",
    "s3.sse",
    "s3.sse-kms-key-id",
    "serve.access-key",
    "serve.secret-key",
    "sync",
    "timeouts.check",
    "timeouts.hook",
    "transfer.parallelism",
    "trust.addresses",
    "use",
    "user.email",
    "user.name",
]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of the whole tree and of one more command, which takes paths."""
    directory = tmp_path_factory.mktemp("completions")
    commands = [*describe_all(), PROBE]
    for shell, name in SHELLS.items():
        (directory / name).write_text(completion_script(shell, commands), encoding="utf-8")
    return directory


@pytest.fixture
def _lake(tmp_path: Path) -> None:
    """Two repositories; one has branches, a tag, and objects with awkward names."""
    from lakecli.repository import branch, repo, tag

    context = Context(Environment(dict(os.environ), sys.stdin, sys.stdout, sys.stderr), Globals())
    try:
        lake = context.lake()
        mylake = repo.create(lake, "mylake", f"local://{tmp_path}/mylake")
        repo.create(lake, "other", f"local://{tmp_path}/other")
        for name in ("dev:joe", "feature-1", "feature-2"):
            branch.create(mylake, name, source="main")
        tag.create(mylake, "v1.0", "main")
    finally:
        context.close()


@pytest.fixture
def _objects(_lake: None, cli: Cli, tmp_path: Path) -> None:
    from lakecli.repository import upload

    options = upload.UploadOptions()
    source = tmp_path / "source"
    for name in OBJECTS:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    context = Context(Environment(dict(os.environ), sys.stdin, sys.stdout, sys.stderr), Globals())
    try:
        repository = context.lake().repository("mylake")
        for name in OBJECTS:
            upload.upload_file(
                repository, "main", name.encode(), source=source / name, options=options
            )
    finally:
        context.close()


def asked(kind: str, prefix: str) -> list[str]:
    """What ``lakecli __complete`` prints."""
    stdout = io.StringIO()
    complete.main([kind, prefix], os.environ, stdout)
    return stdout.getvalue().splitlines()


MYLAKE_BRANCHES = [
    f"lakefs://mylake/{name}" for name in ("dev:joe", "feature-1", "feature-2", "main")
]


@pytest.mark.usefixtures("_lake")
@pytest.mark.parametrize(
    ("kind", "prefix", "expected"),
    [
        ("repository", "", ["lakefs://mylake", "lakefs://other"]),
        ("repository", "lak", ["lakefs://mylake", "lakefs://other"]),
        ("repository", "lakefs://o", ["lakefs://other"]),
        ("repository", "lakefs://mylake/", []),
        ("branch", "lakefs:", ["lakefs://mylake/", "lakefs://other/"]),
        ("branch", "lakefs://my", ["lakefs://mylake/"]),
        ("branch", "lakefs://mylake/", MYLAKE_BRANCHES),
        ("branch", "lakefs://mylake/dev:", ["lakefs://mylake/dev:joe"]),
        ("branch", "lakefs://mylake/main/", []),
        ("branch", "lakefs://nothing/", []),
        ("branch", "LAKEFS://", []),
        ("branch", "x", []),
        ("tag", "lakefs://mylake/", ["lakefs://mylake/v1.0"]),
        ("ref", "lakefs://mylake/", [*MYLAKE_BRANCHES, "lakefs://mylake/v1.0"]),
        (
            "path",
            "lakefs://mylake/fe",
            ["lakefs://mylake/feature-1/", "lakefs://mylake/feature-2/"],
        ),
        ("path", "lakefs://mylake/main/", []),
        ("path", "lakefs://mylake/~^/", []),
        ("nonsense", "", ["lakefs://mylake/", "lakefs://other/"]),
    ],
)
def test_names_come_from_the_local_store(kind: str, prefix: str, expected: list[str]) -> None:
    assert asked(kind, prefix) == expected


@pytest.mark.usefixtures("_lake")
def test_names_are_relative_to_the_base_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKECLI_BASE_URI", "lakefs://mylake/")
    assert asked("branch", "fea") == ["feature-1", "feature-2"]
    assert asked("branch", "lakefs://o") == ["lakefs://other/"]
    monkeypatch.setenv("LAKECLI_BASE_URI", "lakefs://")
    assert asked("repository", "my") == ["mylake"]
    assert asked("branch", "my") == ["mylake/"]


@pytest.mark.usefixtures("_objects")
def test_objects_of_a_local_namespace_are_completed() -> None:
    start = "lakefs://mylake/main/"
    assert asked("path", start) == [
        *(start + name for name in ("quoted/", "raw data/", "readme.md", "résumé.md"))
    ]
    assert asked("path", start + "raw d") == [start + "raw data/"]
    assert asked("path", start + "raw data/") == [start + "raw data/a.txt"]


def test_errors_print_nothing(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert asked("branch", "") == []
    assert not (home / "lakecli").exists()
    (home / "lakecli").mkdir()
    (home / "lakecli" / "store").write_text("no store")
    assert asked("branch", "") == []
    (home / "lakecli" / "config.toml").write_text("[")
    assert asked("branch", "x") == []
    complete.main([], os.environ, io.StringIO())
    assert capfd.readouterr() == ("", "")


# -- the shells ------------------------------------------------------------------------------


@pytest.fixture
def shell_environment(home: Path, tmp_path: Path) -> dict[str, str]:
    """An environment in which `lakecli` is this one, whatever else is installed."""
    program = tmp_path / "bin" / "lakecli"
    program.parent.mkdir()
    root = shlex.quote(str(ROOT))
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={root} exec {shlex.quote(sys.executable)} -m lakecli "$@"\n'
    )
    program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
        "PS1": "> ",
    }


@pytest.fixture
def bash(
    shell_environment: dict[str, str], scripts: Path, tmp_path: Path
) -> Callable[[str], list[str]]:
    """Ask bash for its completions of a line, its words split as readline splits them."""
    shell = require_tool("bash")
    (tmp_path / "file one").write_text("")

    def ask(line: str) -> list[str]:
        words = readline_words(line)
        # What readline would replace: nothing yet behind a word break, no opening quote.
        text = "" if words[-1] in BREAKS else words[-1].removeprefix('"')
        script = (
            f"source {shlex.quote(str(scripts / 'lakecli.bash'))}\n"
            f"COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}\n"
            f"COMP_WORDS=({' '.join(map(shlex.quote, words))})\n"
            "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
            f"_lakecli lakecli {shlex.quote(text)}\n"
            'for reply in "${COMPREPLY[@]}"; do printf "%s\\n" "$reply"; done\n'
        )
        done = subprocess.run(
            [shell, "--norc", "-c", script],
            env=shell_environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        errors = [line for line in done.stderr.splitlines() if "compopt" not in line]
        assert errors == []
        return done.stdout.splitlines()

    return ask


def readline_words(line: str) -> list[str]:
    """Split as bash does for COMP_WORDS: at blanks, and around each run of word breaks."""
    words: list[str] = []
    for word in line.split(" "):
        pieces = [""]
        quoted = word.startswith(("'", '"'))
        for character in word:
            breaks = character in BREAKS and not quoted
            if pieces[-1] and breaks != (pieces[-1][-1] in BREAKS and not quoted):
                pieces.append("")
            pieces[-1] += character
        words += pieces
    return words


def test_bash_reassembles_words_that_readline_split() -> None:
    assert readline_words("a lakefs://r --x=b ") == [
        *("a", "lakefs", ":", "//r", "--x", "=", "b", "")
    ]
    assert readline_words('a "x:y') == ["a", '"x:y']


@pytest.mark.usefixtures("_lake")
def test_bash_function_fills_compreply(bash: Callable[[str], list[str]]) -> None:
    assert bash("lakecli conf") == ["config"]
    assert bash("lakecli config ") == ["get", "list", "set", "unset"]
    assert bash("lakecli help rev") == ["rev-parse", "revisions"]
    assert bash("lakecli --json -q config l") == ["list"]
    assert bash("lakecli --base-uri config config un") == ["unset"]
    assert bash("lakecli config list --sh") == ["--show-origin"]
    assert bash("lakecli config get --ba") == ["--base-uri"]
    assert sorted(bash("lakecli config get ")) == SETTINGS
    assert bash("lakecli config get user.n") == ["user.name"]
    assert bash("lakecli config set repo.my") == ["repo.mylake."]
    assert bash("lakecli config unset repo.mylake.re") == ["repo.mylake.region"]
    assert bash("lakecli config get -- -") == []
    assert bash("lakecli config set user.name ") == []
    assert bash("lakecli nonsense ") == []
    assert bash("lakecli completion ") == ["bash", "zsh", "fish"]
    assert bash("lakecli config list --config fi") == ["file one"]
    assert bash("lakecli config list --config=fi") == ["file one"]
    # Only the piece behind the last word break is replaced.
    assert bash("lakecli branch show lakefs://my") == ["//mylake/"]
    assert bash("lakecli branch show ") == ["lakefs://mylake/", "lakefs://other/"]
    assert bash("lakecli branch show lakefs:") == ["//mylake/", "//other/"]
    assert bash("lakecli branch show lakefs://mylake/fe") == [
        "//mylake/feature-1",
        "//mylake/feature-2",
    ]
    assert bash("lakecli branch show lakefs://mylake/dev:") == ["joe"]
    assert bash('lakecli branch show "lakefs://my') == ["lakefs://mylake/"]
    assert bash("lakecli branch create lakefs://mylake/new --source lakefs://mylake/v") == [
        "//mylake/v1.0"
    ]
    assert bash("lakecli branch create lakefs://mylake/new --source=lakefs://mylake/v") == [
        "//mylake/v1.0"
    ]
    assert bash("lakecli branch show lakefs://mylake/main lakefs://") == []


@pytest.mark.usefixtures("_objects")
def test_bash_quotes_candidates(bash: Callable[[str], list[str]]) -> None:
    assert bash("lakecli probe lakefs://mylake/main/ra") == ["//mylake/main/raw\\ data/"]
    assert bash('lakecli probe "lakefs://mylake/main/ra') == ["lakefs://mylake/main/raw data/"]


@pytest.fixture
def typed(shell_environment: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    """Start a shell on a terminal."""
    started: list[Terminal] = []

    def start(*argv: str) -> Terminal:
        started.append(Terminal(argv, shell_environment))
        return started[-1]

    yield start
    for terminal in started:
        terminal.__exit__(None, None, None)


BY_HAND = [
    ("lakecli conf\t", "<lakecli><config>"),
    ("lakecli --json config un\t", "<lakecli><--json><config><unset>"),
    ("lakecli config list --sh\t", "<lakecli><config><list><--show-origin>"),
    ("lakecli config get user.n\t", "<lakecli><config><get><user.name>"),
    ("lakecli config set repo.myl\tpr\t", "<lakecli><config><set><repo.mylake.profile>"),
    ("lakecli branch show lakefs://myl\t", "<lakecli><branch><show><lakefs://mylake/>"),
    ("lakecli branch show l\tmyl\tdev\t", "<lakecli><branch><show><lakefs://mylake/dev:joe>"),
    ("lakecli branch show lakefs://mylake/fea\t1", "<lakecli><branch><show>{mylake}/feature-1>"),
    ('lakecli branch show "lakefs://myl\tma\t', "<lakecli><branch><show>{mylake}/main>"),
    (
        "lakecli branch create x --source=lakefs://mylake/v\t",
        "<lakecli><branch><create><x><--source=lakefs://mylake/v1.0>",
    ),
    ("lakecli probe lakefs://mylake/main/ra\ta\t", "<lakecli><probe>{mylake}/main/raw data/a.txt>"),
    (
        "lakecli probe lakefs://mylake/main/raw\\ d\ta\t",
        "<lakecli><probe>{mylake}/main/raw data/a.txt>",
    ),
    *(
        (
            f"lakecli probe {quote}lakefs://mylake/main/quoted/{name[0]}\t",
            f"<lakecli><probe>{{mylake}}/main/quoted/{name}>",
        )
        for quote, name in (*(("", each) for each in QUOTED), ("'", QUOTED[0]), ('"', QUOTED[3]))
    ),
]
"""Keys, and the words that the line has then."""


def type_lines(terminal: Terminal) -> None:
    for keys, words in BY_HAND:
        # Control-A and control-E go to the ends of the line.
        terminal.press(f"{keys}\x01printf '<%s>' \x05\n")
        terminal.wait_for(words.replace("{", "<lakefs://").replace("}", ""))


@pytest.mark.usefixtures("_objects")
def test_bash_completes_in_a_terminal(typed: Callable[..., Terminal], scripts: Path) -> None:
    terminal = typed(require_tool("bash"), "--norc", "--noprofile", "-i")
    terminal.press("bind 'set enable-bracketed-paste off'; bind 'set bell-style none'\n")
    terminal.press(f"source {shlex.quote(str(scripts / 'lakecli.bash'))}; echo rea''dy\n")
    terminal.wait_for("ready")
    type_lines(terminal)


@pytest.mark.usefixtures("_objects")
@pytest.mark.parametrize("way", ["fpath=({} $fpath)", "eval_later"])
def test_zsh_completes_in_a_terminal(
    typed: Callable[..., Terminal], scripts: Path, way: str
) -> None:
    terminal = typed(require_tool("zsh"), "-f", "-i")
    directory = shlex.quote(str(scripts))
    before = way.format(directory) if "fpath" in way else ":"
    after = ":" if "fpath" in way else f'eval "$(cat {directory}/_lakecli)"'
    terminal.press(
        f"{before}; autoload -Uz compinit; compinit -u -D; {after}; unset zle_bracketed_paste;"
        " setopt no_list_beep no_beep; PS1='> '; echo rea''dy\n"
    )
    terminal.wait_for("ready")
    type_lines(terminal)


@pytest.fixture
def fish(
    shell_environment: dict[str, str], scripts: Path, tmp_path: Path
) -> Callable[[str], list[str]]:
    """Ask fish for its completions of a line."""
    shell = require_tool("fish")
    (tmp_path / "file one").write_text("")

    def ask(line: str) -> list[str]:
        script = (
            f"source {shlex.quote(str(scripts / 'lakecli.fish'))};"
            f" complete --do-complete {shlex.quote(line)}"
        )
        done = subprocess.run(
            [shell, "--no-config", "--command", script],
            env=shell_environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return [line.partition("\t")[0] for line in done.stdout.splitlines()]

    return ask


@pytest.mark.usefixtures("_objects")
def test_fish_completes(fish: Callable[[str], list[str]]) -> None:
    assert fish("lakecli conf") == ["config"]
    assert fish("lakecli config ") == ["get", "list", "set", "unset"]
    assert fish("lakecli --json -q config l") == ["list"]
    assert fish("lakecli --base-uri config config un") == ["unset"]
    assert fish("lakecli config list --sh") == ["--show-origin"]
    assert sorted(fish("lakecli config get ")) == SETTINGS
    assert fish("lakecli config set user.name ") == []
    assert fish("lakecli config set repo.my") == ["repo.mylake."]
    assert fish("lakecli config unset repo.mylake.re") == ["repo.mylake.region"]
    assert fish("lakecli nonsense ") == []
    assert fish("lakecli config list --config fi") == ["file one"]
    assert fish("lakecli config list --config=fi") == ["--config=file one"]
    assert fish("lakecli branch show lakefs://my") == ["lakefs://mylake/"]
    assert fish("lakecli branch show lakefs://mylake/fe") == [
        "lakefs://mylake/feature-1",
        "lakefs://mylake/feature-2",
    ]
    assert fish('lakecli branch show "lakefs://my') == ["lakefs://mylake/"]
    assert fish("lakecli branch create x --source=lakefs://mylake/v") == [
        "--source=lakefs://mylake/v1.0"
    ]
    probe = "lakecli probe lakefs://mylake/main/"
    assert fish(probe + "ra") == ["lakefs://mylake/main/raw data/"]
    assert fish(probe + "raw\\ d") == ["lakefs://mylake/main/raw data/"]
    assert fish("lakecli probe 'lakefs://mylake/main/raw d") == ["lakefs://mylake/main/raw data/"]
    for name in QUOTED:
        assert fish(probe + f"quoted/{name[0]}") == [f"lakefs://mylake/main/quoted/{name}"]
    assert fish("lakecli branch create x --source=lakefs://mylake/main..fe") == [
        f"--source=lakefs://mylake/main..feature-{number}" for number in (1, 2)
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed_for_eval(cli: Cli, shell: str) -> None:
    assert cli.ok("completion", shell).stdout == completion_script(shell, describe_all())
    assert cli("completion", shell, "--json").json["script"] == completion_script(
        shell, describe_all()
    )


def test_an_unknown_shell_is_refused(cli: Cli) -> None:
    result = cli("completion", "tcsh")
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.stderr

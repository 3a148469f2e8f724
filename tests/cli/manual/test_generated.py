"""Manual pages and completion scripts are current, complete and readable."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.line import GLOBAL_OPTIONS
from lakecli.cli.manual.completion import SHELLS
from lakecli.cli.manual.describe import CommandHelp, describe_all
from lakecli.cli.manual.generate import generated_files, write
from lakecli.cli.manual.man import command_page, page_name
from lakecli.cli.manual.topics import find_topic, topic_names
from lakecli.cli.tree import COMMANDS
from tests.support.tools import require_tool

if TYPE_CHECKING:
    from tests.support.golden import Cli

ROOT = Path(__file__).parents[3]
SHOWN = list(COMMANDS)


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return dict(generated_files())


def test_generated_files_are_current(files: dict[str, str]) -> None:
    present = {
        str(path.relative_to(ROOT))
        for directory in ("man", "completions")
        for path in (ROOT / directory).rglob("*")
        if path.is_file()
    }
    stale = [
        path
        for path, text in files.items()
        if path not in present or (ROOT / path).read_text(encoding="utf-8") != text
    ]
    surplus = sorted(present - files.keys())
    assert (stale, surplus) == ([], []), "run python -m lakecli.cli.manual.generate"


def test_two_runs_write_the_same(tmp_path: Path, files: dict[str, str]) -> None:
    (tmp_path / "man" / "man1").mkdir(parents=True)
    (tmp_path / "man" / "man1" / "lakecli-gone.1").write_text("")
    (tmp_path / "man" / "lakecli-where-pages-were-once.1").write_text("")
    write(tmp_path)
    written = {
        str(path.relative_to(tmp_path)): path.read_text(encoding="utf-8")
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert written == files


@pytest.fixture(scope="module")
def rendered(files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every page as man shows it on a wide terminal; a warning fails."""
    man = require_tool("man")
    directory = tmp_path_factory.mktemp("man")
    pages = {Path(path).name: text for path, text in files.items() if path.startswith("man/")}
    shown = {}
    for name, text in pages.items():
        page = directory / name
        page.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [man, "--warnings", "-E", "UTF-8", "-P", "cat", "-l", page],
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": "/usr/bin:/bin", "MANWIDTH": "300", "LC_ALL": "C.UTF-8"},
        )
        assert done.stderr == "", name
        shown[name] = done.stdout
    return shown


def test_every_page_renders_without_warnings(rendered: dict[str, str]) -> None:
    commands = {f"{name}.1" for name in ("lakecli", *map(page_name, SHOWN))}
    assert set(rendered) == commands | {f"{page_name(name)}.7" for name in topic_names()}
    for name, text in rendered.items():
        assert name.rpartition(".")[0] in text


def test_the_main_page_has_everything(rendered: dict[str, str]) -> None:
    text = rendered["lakecli.1"]
    words = re.sub(r"\s+", " ", text)
    for command in SHOWN:
        assert command in words
    for code in ExitCode:
        assert re.search(rf"^ +{int(code)} ", text, re.MULTILINE), code
    for option in GLOBAL_OPTIONS:
        assert option.flags[-1] in text
    for variable in ("LAKECLI_HOME", "LAKECLI_USER_NAME", "NO_COLOR", "AWS_ENDPOINT_URL"):
        assert variable in text


def test_special_characters_of_roff_are_rendered(tmp_path: Path) -> None:
    man = require_tool("man")
    command = CommandHelp(
        words="probe",
        summary="It's 'quoted' \\ back-slashed ~2 ^1 `x`",
        description=(".TH is no request here", "    'indented\n    \\fBx"),
        examples=("lakecli probe --meta 'k=v' lakefs://r/main~1^2/a\\b", ".sh"),
        arguments=(),
        options=(),
    )
    page = tmp_path / "probe.1"
    page.write_text(command_page(command, []), encoding="utf-8")
    done = subprocess.run(
        [man, "--warnings", "-E", "UTF-8", "-P", "cat", "-l", page],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "200", "LC_ALL": "C.UTF-8"},
    )
    assert done.stderr == ""
    for text in (
        "It's 'quoted' \\ back-slashed ~2 ^1 `x`.",
        ".TH is no request here",
        "'indented\n",
        "\\fBx\n",
        "lakecli probe --meta 'k=v' lakefs://r/main~1^2/a\\b\n",
        ".sh\n",
    ):
        assert text in done.stdout, done.stdout


@pytest.mark.parametrize("name", topic_names())
def test_a_topic_is_a_page_and_shown_by_help(name: str, rendered: dict[str, str], cli: Cli) -> None:
    topic = find_topic(name)
    assert topic is not None
    assert topic.summary
    assert len(topic.summary) <= 90
    assert not topic.summary.endswith(".")
    text = cli.ok("help", name).stdout
    # A line can be broken at blanks only.
    broken = [line for line in text.splitlines() if " " in line.strip() and "://" not in line]
    assert all(len(line) <= 80 for line in broken)
    page = re.sub(r"\s+", " ", rendered[f"{page_name(name)}.7"])
    shown = re.sub(r"\s+", " ", text)
    for block in topic.blocks:
        for line in block.text.splitlines():
            words = re.sub(r"\s+", " ", line)
            assert words in shown
            assert (words.upper() if block.kind == "heading" else words) in page
    assert f"{page_name(name)}(7)" in rendered["lakecli.1"]
    assert name in cli.ok("--help").stdout
    assert cli.ok("help", name, "--json").json["help"] == text.splitlines()


def test_an_unknown_topic_is_an_error(cli: Cli) -> None:
    assert cli("help", "nonsense").exit_code == ExitCode.USAGE
    assert cli("help", "../security").exit_code == ExitCode.USAGE


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_parses_its_script(shell: str) -> None:
    program = require_tool(shell)
    script = ROOT / "completions" / SHELLS[shell]
    done = subprocess.run([program, "-n", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", SHELLS.values())
def test_scripts_know_all_commands_and_options(files: dict[str, str], name: str) -> None:
    text = files[f"completions/{name}"]
    for command in describe_all():
        assert f"{command.words.split()[-1]}" in text
        for option in command.options:
            for flag in option.flags:
                assert flag in text


def test_the_pictures_of_the_readme_show_what_commands_show(tmp_path: Path) -> None:
    """They differ from run to run in IDs and times only."""
    subprocess.run([sys.executable, ROOT / ".ci" / "pictures.py", tmp_path], check=True)
    pictures = ROOT / ".github" / "pictures"
    assert {path.name for path in tmp_path.iterdir()} == {p.name for p in pictures.iterdir()}
    for path in pictures.iterdir():
        assert f"(.github/pictures/{path.name})" in (ROOT / "README.md").read_text()
        assert _words(path) == _words(tmp_path / path.name), path.name


def _words(picture: Path) -> list[str]:
    """Return the words of a picture, without IDs and times."""
    shown = html.unescape(" ".join(re.findall(r"<text [^>]*>(.*?)</text>", picture.read_text())))
    shown = re.sub(r"Last\sfetched.*?ago\.", "", shown)
    return [word for word in shown.split() if not re.search(r"\d", word)]

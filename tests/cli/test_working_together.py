"""The README's section "Working together", typed as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.golden import Cli

README = Path(__file__).parents[2] / "README.md"
NAMESPACE = "s3://my-bucket/sales"
_ID = re.compile(r"[0-9a-f]{64}|[0-9a-f]{12}…?")


class Typed(NamedTuple):
    """A command of the section, and what is shown of its answer."""

    machine: str
    argv: list[str]
    exit_code: int
    shown: list[str]


def section() -> str:
    text = README.read_text(encoding="utf-8")
    return text.split("\n## Working together\n")[1].split("\n## ")[0]


def typed_commands() -> Iterator[Typed]:
    (block,) = re.findall(r"```console\n(.*?)```", section(), re.DOTALL)
    for part in re.split(r"^(?=\w+\$ )", block, flags=re.MULTILINE):
        if not part.strip():
            continue
        line, *shown = [each for each in part.splitlines() if each]
        machine, _, command = line.partition("$ ")
        fails = re.search(r"# exits with (\d+)", command)
        words = shlex.split(command, comments=True)
        assert words[0] == "lakecli"
        yield Typed(machine, words[1:], int(fails[1]) if fails else 0, shown)


@pytest.fixture
def machines(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKECLI_USER_NAME", "Ada Lovelace")
    monkeypatch.setenv("LAKECLI_USER_EMAIL", "ada@example.com")
    for name in ("orders.csv", "prices.csv"):
        (tmp_path / name).write_text(name)
    return cli


def run(cli: Cli, machine: str, *argv: str) -> tuple[int, str]:
    place = str(cli.directory / "namespace")
    words = [place if word == NAMESPACE else word for word in argv]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKECLI_HOME", str(cli.directory / machine))
        result = cli(*words)
    return result.exit_code, _ID.sub("ID", result.stdout + result.stderr)


def test_a_day_on_two_machines(machines: Cli) -> None:
    count = 0
    for typed in typed_commands():
        count += 1
        code, answered = run(machines, typed.machine, *typed.argv)
        assert code == typed.exit_code, (typed, answered)
        for line in typed.shown:
            assert _ID.sub("ID", line) in answered.splitlines(), (typed, answered)
    assert count > 12


def test_the_recipe_for_a_job(machines: Cli, tmp_path: Path) -> None:
    for argv in (
        ["repo", "create", "lakefs://sales", NAMESPACE],
        ["branch", "create", "lakefs://sales/candidate", "-s", "lakefs://sales/main"],
        ["fs", "upload", "orders.csv", "lakefs://sales/candidate/orders/1.csv"],
        ["commit", "lakefs://sales/candidate", "-m", "candidate"],
        ["push", "--all", "lakefs://sales"],
    ):
        assert run(machines, "laptop", *argv)[0] == 0, argv
    (recipe,) = re.findall(r"```sh\n(.*?)```", section(), re.DOTALL)
    for line in recipe.splitlines():
        command, _, check = line.partition(" && ")
        assert not check or check == "./check orders/"
        code, answered = run(machines, "job", *shlex.split(command)[1:])
        assert code == 0, (command, answered)
    assert (tmp_path / "orders" / "1.csv").read_text() == "orders.csv"
    assert run(machines, "laptop", "pull", "lakefs://sales")[0] == 0
    assert "Checked by CI" in run(machines, "laptop", "log", "lakefs://sales/main")[1]

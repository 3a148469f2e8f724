"""Every example of README and of the topics, run as it is printed.

In README each line of a block ``bash`` is a command, so that blocks can be pasted. In topics an
example has a line ``$ COMMAND`` for each command, or ``NAME$ COMMAND`` where several machines are
shown. A comment ``# exits with N`` says that it does, else it must exit with 0. The
lines below a command must be among what it prints, in this order; IDs may differ. One shell runs a
page from its beginning to its end.

Buckets named ``s3://my-bucket`` are a directory, or an S3 server where `SERVED` says so.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from lakecli.cli.manual.topics import topic_names
from lakecli.repository.policy.document import parse_policy
from tests.support.servers import new_bucket
from tests.support.tools import require_tool

ROOT = Path(__file__).parents[3]
TOPICS = ROOT / "lakecli" / "cli" / "manual" / "topics"
PAGES = {"README": ROOT / "README.md", **{name: TOPICS / f"{name}.md" for name in topic_names()}}

SERVED = {"README", "clouds", "handoff", "policy", "recipes"}
"""Pages that speak of what only a bucket has: an endpoint, presigned URLs, a check before use."""

LAKEFS = ROOT / "tests" / "data" / "lakefs"
DUMP = "import gzip, json, sys; print(json.dumps(json.load(gzip.open(sys.argv[1]))['refs_dump']))"

PREPARED = {
    "lakefs": (
        f"mkdir namespace && tar -xzmf {LAKEFS}/live-1.tar.gz -C namespace",
        f'lakectl() {{ {sys.executable} -c "{DUMP}" {LAKEFS}/live-1.expected.json.gz; }}',
    ),
    "working-directory": (
        "lakecli repo create lakefs://sales s3://my-bucket/sales",
        "mkdir -p files/orders files/events/dt=2026-11-01",
        "echo id,price > files/orders/march.csv; echo x > files/events/dt=2026-11-01/part",
        "lakecli fs upload -r files lakefs://sales/main/",
        "lakecli commit lakefs://sales/main -m First",
        "lakecli push lakefs://sales",
    ),
    "policy": (
        "unset LAKECLI_USER_EMAIL",
        "lakecli repo create lakefs://sales s3://my-bucket/sales && lakecli push lakefs://sales",
        "mkdir orders && echo id,amount > orders/may.csv",
        (
            'awk \'BEGIN {split("all protect load release", name)}'
            ' /^    owners = / {file = name[++n] ".toml"} /^$/ {file = ""}'
            f" file {{print substr($0, 5) > file}}' {TOPICS}/policy.md"
        ),
    ),
    "recipes": (
        "export LAKECLI_HOME=$PWD/others",
        "lakecli repo create lakefs://sales s3://my-bucket/sales && lakecli push lakefs://sales",
        "mkdir orders && echo id,amount > orders/january.csv",
        "export LAKECLI_HOME=$PWD/mine",
    ),
    "security": (
        "lakecli repo create lakefs://sales s3://my-bucket/sales",
        "lakecli push lakefs://sales",
    ),
}
"""What has to be there before the first command of a page."""

ENDPOINT = "https://storage.example.com"
"""What stands for the endpoint of a store."""

CLONES = "git clone"
"""Names the block of README that fetches lakecli itself."""

_PROMPT = re.compile(r"(?P<machine>\w*)\$ (?P<command>.*)")
_FAILS = re.compile(r"# exits with (\d+)")
_ID = re.compile(r"[0-9a-f]{64}|[0-9a-f]{12}…?")
_MARK = "\x01"


class Typed(NamedTuple):
    """A command of a page, and what is shown of its answer."""

    machine: str
    command: str
    exit_code: int
    shown: list[str]


def blocks(name: str) -> list[str]:
    """Return the examples of a page: fenced in README, indented in topics."""
    text = PAGES[name].read_text(encoding="utf-8")
    if name == "README":
        found = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        return [re.sub(r"(?m)^", "$ ", block.rstrip()) for block in found if CLONES not in block]
    found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", text, re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def is_table(block: str) -> bool:
    """Return whether a block has columns of text: two spaces or more within each of its lines."""
    return all(re.search(r"\S {2,}\S|^ {2,}", line) for line in block.splitlines())


def is_console(block: str) -> bool:
    return _PROMPT.match(block) is not None


def typed_commands(name: str) -> list[Typed]:
    found: list[Typed] = []
    for block in filter(is_console, blocks(name)):
        for line in filter(None, block.splitlines()):
            prompt = _PROMPT.fullmatch(line)
            if prompt is None:
                found[-1].shown.append(line)
                continue
            fails = _FAILS.search(line)
            code = int(fails[1]) if fails else 0
            found.append(Typed(prompt["machine"], prompt["command"], code, []))
    return found


def script(commands: list[Typed], homes: Path) -> str:
    """Return a script that runs the commands and marks the end of each with its exit code."""
    lines = []
    for typed in commands:
        if typed.machine:
            lines.append(f"export LAKECLI_HOME={shlex.quote(str(homes / typed.machine))}")
        lines += [typed.command, f"printf '{_MARK}%s{_MARK}' $?"]
    return "\n".join(lines)


@pytest.mark.parametrize("name", [name for name in PAGES if any(map(is_console, blocks(name)))])
def test_the_commands_of_every_page_run(
    name: str,
    tmp_path: Path,
    home: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replaced = {"s3://my-bucket": str(tmp_path / "my-bucket")}
    if name in SERVED:
        endpoint = request.getfixturevalue("moto_endpoint")
        request.getfixturevalue("aws_environment")
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        replaced = {"my-bucket": new_bucket(endpoint), ENDPOINT: endpoint}
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("LAKECLI_USER_NAME", "Ada Lovelace")
    monkeypatch.setenv("LAKECLI_USER_EMAIL", "ada@example.com")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    before = [Typed("", command, 0, []) for command in PREPARED.get(name, ())]
    commands = [*before, *typed_commands(name)]
    text = script(commands, home)
    for old, new in replaced.items():
        text = text.replace(old, new)
    done = subprocess.run(
        [require_tool("bash"), "-c", text],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    *answers, rest = done.stdout.split(_MARK)
    assert rest == ""
    for typed, answer, code in zip(commands, answers[::2], answers[1::2], strict=True):
        assert int(code) == typed.exit_code, (typed, answer)
        lines = iter(_ID.sub("ID", answer).splitlines())
        for line in typed.shown:
            assert _ID.sub("ID", line) in lines, (typed, answer)


@pytest.mark.parametrize("name", PAGES)
def test_every_example_has_a_known_language(name: str) -> None:
    """Commands run above; policies are JSON; Python is run by the tests of its library, too.

    Hive's statement is parsed in `tests/exports/test_symlinks.py`; a table is for people.
    What needs a cluster has no prompt; `tests/engine/test_cluster.py` starts one.
    """
    for block in blocks(name):
        if is_console(block):
            continue
        if name == "spark" and not block.startswith("import "):
            continue
        if block.startswith(("{", "[")):
            assert json.loads(block)
            continue
        if block.startswith(("CREATE EXTERNAL TABLE ", "FROM ")) or is_table(block):
            continue
        if name == "serve" and block.startswith(("s3:", "lakecli serve ")):
            continue  # keys of objects; an endpoint that runs until Ctrl-C
        if block.startswith(("on:", "load:")):
            assert "load.sh" in str(yaml.safe_load(block))
            continue
        if block.startswith("owners = "):
            assert parse_policy(block).rules
            continue
        if block.startswith("set -e"):  # run by `test_recipes.py`
            subprocess.run(["bash", "-n"], input=block, text=True, check=True)
            continue
        assert any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.parse(block).body)


def test_the_library_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.golden import Cli

    monkeypatch.chdir(tmp_path)
    Path("2026.csv").write_text("id,amount\n")
    assert Cli(tmp_path)("repo", "create", "lakefs://sales", str(tmp_path / "lake")).exit_code == 0
    [example] = [block for block in blocks("python") if "upload_file" in block]
    names: dict[str, object] = {}
    exec(example, names)
    assert names["data"] == b"id,amount\n"
    reading, filling = [block for block in blocks("python") if ".reader(" in block]
    exec(reading, names)
    assert (names["found"], names["known"]) == ([None, names["entry"]], False)
    assert names["sizes"] == {b"orders/2026.csv": 10}
    exec(filling, names)
    assert names["first"] is names["in_memory"] is True


def test_readme_is_short() -> None:
    assert len(PAGES["README"].read_text(encoding="utf-8").splitlines()) <= 220

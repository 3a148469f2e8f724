"""``check`` and ``approve``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"
PASSES = "checks.schema", "true"


def test_checks_and_approvals(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("first", {"raw/a": "1", "b": "2"})
    demo.branch("dev")
    demo.commit("on main", {"b": "3"})
    cli.ok("config", "set", *PASSES)
    cli.ok("config", "set", "checks.fails", "sh -c 'exit 7'")
    golden(
        "check",
        cli("check", "list", MAIN),
        cli("check", "run", "schema", MAIN),
        cli("check", "run", "schema", MAIN, "--prefix", "raw/", "--json"),
        cli("check", "run", "fails", MAIN),
        cli("check", "run", "fails", MAIN, "--json"),
        cli("check", "run", "unknown", MAIN),
        cli("approve", MAIN, "--for", "lakefs://demo/release", "--json"),
        cli("approve", "lakefs://demo/dev", "--for", MAIN),
        cli("check", "list", MAIN),
        cli("check", "list", MAIN, "--prefix", "raw/", "--json"),
        cli("check", "list", "lakefs://demo/dev", "--prefix", "raw/"),
        cli("check", "list", "lakefs://demo/dev"),
        cli("approve", MAIN),
        cli("check", "list", "lakefs://demo/nope"),
    )


def test_a_check_reads_what_it_checks(cli: Cli, demo: Demo) -> None:
    demo.commit("first", {"a": "1"})
    out = cli.directory / "seen"
    names = "REF", "BASE_URI", "CHECK", "PREFIX"
    shown = " ".join(f"$LAKECLI_{name}" for name in names)
    cli.ok("config", "set", "checks.env", f"sh -c 'echo {shown} > {out}; cat >> {out}'")
    cli.ok("check", "run", "env", MAIN, "--prefix=a")
    ref = f"lakefs://demo/{demo.head()}"
    assert out.read_text() == f"{ref} {ref}/ env a\n"


def test_a_check_that_never_ends_is_ended_with_what_it_started(cli: Cli, demo: Demo) -> None:
    demo.commit("first", {"a": "1"})
    script = (
        "import subprocess, sys; "
        "subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    )
    command = f'{sys.executable} -c "{script}"'
    cli.ok("config", "set", "checks.slow", command)
    cli.ok("config", "set", "timeouts.check", "1s")
    ended = cli("check", "run", "slow", MAIN)
    assert ended.exit_code == 15
    assert "check 'slow' took longer than 1s and was ended" in ended.stderr
    assert cli("check", "list", MAIN).stdout == ""


def test_a_command_is_not_run_by_a_shell(cli: Cli, demo: Demo) -> None:
    demo.commit("first", {"a": "1"})
    marker = cli.directory / "marker"
    cli.ok("config", "set", "checks.quoted", f"true; touch {marker}")
    assert cli("check", "run", "quoted", MAIN).exit_code == 15
    assert not marker.exists()
    for wrong in ("", "'", "  "):
        assert cli("config", "set", "checks.quoted", wrong).exit_code == 2
    for name in ("checks.Upper", "checks.", "checks.a.b", "hooks.pre-tag"):
        assert cli("config", "set", name, "true").exit_code == 2


def test_a_command_may_be_a_list_in_the_file(cli: Cli, demo: Demo) -> None:
    demo.commit("first", {"a": "1"})
    file = cli.directory / "config.toml"
    file.write_text('[checks]\nlisted = ["sh", "-c", "exit 0; false"]\n')
    assert cli("--config", file, "check", "run", "listed", MAIN).exit_code == 0
    got = cli("--config", file, "config", "get", "checks.listed")
    assert got.stdout == "sh -c 'exit 0; false'\n"

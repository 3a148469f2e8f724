"""``policy`` and ``branch-protect``."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.commands import policy
from lakecli.cli.context import Context
from lakecli.cli.exit_codes import ExitCode
from lakecli.stores.uri import NamespaceUri

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

URI = "lakefs://demo"
MAIN = f"{URI}/main"
RULES = """\
owners = ["ada@example.com"]
[[rules]]
refs = ["main", "release-*"]
forbid = ["direct", "delete"]
"""


@pytest.fixture
def pushed(cli: Cli, demo: Demo) -> Demo:
    demo.commit("first", {"a": "1"})
    cli.ok("push", MAIN)
    return demo


@pytest.mark.usefixtures("pushed")
@pytest.mark.parametrize(
    ("does", "said"), [("", "has deleted the file"), ("; false", "exited with 1")]
)
def test_an_editor_that_deletes_its_file_is_named(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, does: str, said: str
) -> None:
    monkeypatch.setenv("EDITOR", f"sh -c 'rm \"$0\"{does}'")
    failed = cli("policy", "edit", URI, "-y")
    assert failed.exit_code == ExitCode.REFUSED
    assert said in failed.stderr


@pytest.mark.usefixtures("pushed")
def test_rules_are_set_shown_and_listed(cli: Cli, golden: Golden) -> None:
    golden(
        "policy_set",
        cli("policy", "show", URI),
        cli("policy", "show", URI, "--json"),
        cli("policy", "set", URI, "-", stdin=RULES),
        cli("policy", "set", URI, "-", "-y", stdin=RULES),
        cli("policy", "set", URI, "-", "-y", stdin=RULES),
        cli("policy", "set", URI, "-", "-y", "--json", stdin=RULES.replace('"direct", ', "")),
        cli("policy", "show", URI),
        cli("policy", "log", URI),
        cli("policy", "log", URI, "--json", "--amount", "1"),
        cli("policy", "log", URI, terminal=True),
        cli("undo", URI),
        cli("undo", URI, "--remote"),
        cli("redo", URI),
        cli("op", "log", URI, "--amount", "4"),
    )


@pytest.mark.usefixtures("pushed")
def test_bad_rules_are_refused(cli: Cli, golden: Golden, tmp_path: Path) -> None:
    golden(
        "policy_set_refuses",
        cli("policy", "set", URI, str(tmp_path / "none"), "-y"),
        cli("policy", "set", URI, "-", "-y", stdin="owners = ["),
        cli("policy", "set", URI, "-", "-y", stdin="version = 2"),
        cli("policy", "set", URI, "-", "-y", stdin="[roles]\na = ['b']\nb = ['a']"),
        cli("policy", "set", URI, "-", "-y", stdin="[[rules]]\nrefs = ['{a']"),
        cli("policy", "set", URI, "-", "-y", stdin="owners = ['bob@example.com']"),
        cli("policy", "set", URI, "-", "-y", stdin=""),
        cli("policy", "show", "lakefs://none"),
    )


@pytest.mark.usefixtures("pushed")
def test_what_the_rules_forbid(cli: Cli, demo: Demo, golden: Golden) -> None:
    cli.ok("fs", "upload", "-", f"{MAIN}/b", stdin="2")
    demo.branch("dev")
    demo.commit("on dev", {"c": "3"}, "dev")
    cli.ok("policy", "set", URI, "-", "-y", stdin=RULES)
    golden(
        "policy_forbids",
        cli("commit", MAIN, "-m", "b"),
        cli("fs", "upload", "-", f"{MAIN}/c", stdin="3"),
        cli("fs", "rm", f"{MAIN}/a"),
        cli("diff", MAIN),
        cli("branch", "reset", MAIN, "-y"),
        cli("merge", f"{URI}/dev", MAIN),
        cli("push", MAIN),
        cli("branch", "create", f"{URI}/release-1", "-s", MAIN),
        cli("push", f"{URI}/release-1"),
        cli("push", "--delete", f"{URI}/release-1"),
        cli("push", "--delete", f"{URI}/release-1", "--json"),
    )


@pytest.mark.usefixtures("pushed")
def test_it_says_what_it_would_have_refused(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("second", {"a": "2"})
    cli.ok("push", MAIN)
    golden("policy_would_refuse", cli("policy", "set", URI, "-", "-y", stdin=RULES))


@pytest.mark.usefixtures("pushed")
def test_rules_are_edited(cli: Cli, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "")
    monkeypatch.setenv("EDITOR", 'sh -c \'printf "# edited\\n" >> "$0"\'')
    edited = cli("policy", "edit", URI, "-y")
    assert edited.exit_code == 0
    shown = cli.ok("policy", "show", URI)
    assert shown.lines[0].startswith("# see")
    assert shown.lines[-1] == "# edited"
    monkeypatch.setenv("EDITOR", "sh -c 'echo x > \"$0\"'")
    failed = cli("policy", "edit", URI, "-y")
    assert failed.exit_code == 2
    assert "what you wrote is kept: " in failed.stderr
    results = []
    for editor in ("true", "false", "no-such-program", "'"):
        monkeypatch.setenv("EDITOR", editor)
        results.append(cli("policy", "edit", URI, "-y"))
    golden("policy_edit", *results)


@pytest.mark.usefixtures("pushed")
@pytest.mark.parametrize("before", ["", "# \udcff\n"])
def test_only_edits_that_were_not_set_are_kept(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: str
) -> None:
    if before:
        cli.ok("policy", "set", URI, "-", "-y", stdin=os.fsencode(before))
    (tmp_path / "edited").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "edited"))
    monkeypatch.delenv("VISUAL", raising=False)
    add = "printf '# edited\\n' >> \"$0\""
    for editor in ("true", "false", "no-such-program", f"sh -c {shlex.quote(add)}"):
        monkeypatch.setenv("EDITOR", editor)
        assert cli("policy", "edit", URI, "-y").exit_code != ExitCode.UNEXPECTED
        assert list((tmp_path / "edited").iterdir()) == []
    monkeypatch.setenv("EDITOR", f"sh -c {shlex.quote(f'{add}; exit 1')}")
    assert "what you wrote is kept: " in cli("policy", "edit", URI, "-y").stderr

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Context, "confirm", interrupt)
    monkeypatch.setenv("EDITOR", f"sh -c {shlex.quote(add)}")
    stopped = cli("policy", "edit", URI)
    assert stopped.exit_code == ExitCode.INTERRUPTED
    assert "what you wrote is kept: " in stopped.stderr
    kept = [each.read_bytes() for each in (tmp_path / "edited").iterdir()]
    assert [each.endswith(b"# edited\n# edited\n") for each in kept] == [True, True]


@pytest.mark.usefixtures("pushed")
def test_protected_branches(cli: Cli, golden: Golden) -> None:
    golden(
        "branch_protect",
        cli("branch-protect", "list", URI),
        cli("branch-protect", "add", URI, "main"),
        cli("branch-protect", "add", URI, "stable_*", "--json"),
        cli("branch-protect", "add", URI, "main"),
        cli("branch-protect", "add", URI, "[x"),
        cli("branch-protect", "list", URI),
        cli("branch-protect", "list", URI, "--json"),
        cli("branch-protect", "list", URI, terminal=True),
        cli("commit", MAIN, "-m", "m", "--allow-empty-commit"),
        cli("policy", "show", URI),
        cli("branch-protect", "delete", URI, "main"),
        cli("branch-protect", "delete", URI, "main"),
        cli("branch-protect", "list", URI),
    )


@pytest.mark.usefixtures("pushed")
def test_the_permissions_of_a_bucket_are_printed(
    cli: Cli, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    show = ("policy", "show", URI)
    cli.ok("policy", "set", URI, "-", "-y", stdin=RULES + "who = ['ada@example.com']\n")
    refused = (
        cli(*show, "--print-iam", "aws"),
        cli(*show, "--print-iam", "ibm"),
        cli(*show, "--for", "bob@example.com"),
    )
    monkeypatch.setattr(policy, "parse", lambda _: NamespaceUri("gs", "bkt", "demo"))
    shown = cli(*show, "--print-iam", "gcs", "--json")
    plain = cli.ok(*show, "--print-iam", "gcs").stdout
    assert shown.json["iam"] + "\n" == plain
    golden(
        "policy_show_print_iam",
        *refused,
        cli(*show, "--print-iam", "gcs", "--for", "bob@example.com"),
        cli(*show, "--print-iam", "gcs", "--for", "leads"),
    )

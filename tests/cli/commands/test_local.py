"""The commands of working directories."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.exit_codes import ExitCode
from lakecli.worktree.worktree import lock
from tests.support.worktrees import files, write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

DATA = "lakefs://demo/main/data/"


@pytest.fixture
def root(cli: Cli, demo: Demo) -> Path:
    demo.commit("first", {"data/a": "1", "data/b": "2", "data/d/c": "3", "other": "o"})
    root = cli.directory / "wd"
    cli.ok("local", "clone", DATA, root)
    return root


def test_a_directory_is_cloned_changed_and_committed(
    cli: Cli, demo: Demo, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.commit("first", {"data/a": "1", "data/b": "2", "data/d/c": "3"})
    root = cli.directory / "wd"
    cloned = cli("local", "clone", DATA, root)
    write(root, {"a": "mine", "b": None, "new/n": "n"})
    monkeypatch.chdir(root / "d")
    golden(
        "local",
        cloned,
        cli("local", "status"),
        cli("local", "status", "--json"),
        cli("local", "diff", "--exit-code"),
        cli("local", "commit", "-m", "mine", "--meta", "k=v"),
        cli("local", "status", root),
        cli("local", "commit", root, "-m", "again"),
        cli("local", "list", cli.directory),
        cli("local", "list", cli.directory, "--json"),
    )
    assert set(demo.contents()) == {"data/a", "data/d/c", "data/new/n"}


def test_conflicts_are_listed(cli: Cli, demo: Demo, root: Path, golden: Golden) -> None:
    write(root, {"a": "mine", "b": "mine"})
    demo.commit("theirs", {"data/a": "theirs", "data/d/c": "theirs"})
    golden(
        "local_conflict",
        cli("local", "status", root),
        cli("local", "commit", root, "-m", "mine"),
        cli("local", "pull", root),
        cli("local", "status", root),
        cli("local", "commit", root, "-m", "mine", "--json"),
        cli("local", "pull", root, "--force"),
        cli("local", "status", root, "--local"),
        cli("undo", "lakefs://demo"),
        cli("local", "status", root, "--local"),
    )
    assert files(root) == {"a": "mine", "b": "mine", "d/c": "theirs"}


def test_a_checkout_asks_before_it_reverts_changes(
    cli: Cli, demo: Demo, root: Path, golden: Golden
) -> None:
    demo.commit("second", {"data/a": "2"})
    write(root, {"b": "mine", "n": "n"})
    golden(
        "local_checkout",
        cli("local", "checkout", root),
        cli("local", "checkout", root, "-r", "main", "-y"),
        cli("local", "checkout", root, "--ref", "main~1", "--json"),
        cli("local", "checkout", root, "--all", "--ref", "main"),
        cli("local", "checkout", root, "--ref", "nope"),
        cli("local", "checkout", cli.directory, "--all", "-y"),
    )
    assert files(root) == {"a": "1", "b": "2", "d/c": "3"}
    assert cli("local", "checkout", root, "--ref", "main").exit_code == 0
    write(root, {"a": "mine"})
    assert cli("local", "checkout", root, stdin="n\n", terminal=True).exit_code == 7
    assert files(root)["a"] == "mine"
    assert cli("local", "checkout", root, stdin="y\n", terminal=True).exit_code == 0
    assert files(root)["a"] == "2"


def test_a_directory_is_linked(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("first", {"data/a": "1"})
    root = cli.directory / "own"
    write(root, {"x": "x"})
    golden(
        "local_init",
        cli("local", "init", DATA, root),
        cli("local", "init", DATA, root),
        cli("local", "init", DATA, root, "--force", "--json"),
        cli("local", "status", root),
        cli("local", "init", "lakefs://demo/main/data/a", cli.directory / "object"),
        cli("local", "init", "lakefs://demo/nope/", cli.directory / "nope"),
        cli("local", "clone", DATA, root),
        cli("local", "status", cli.directory),
    )


def test_an_interrupted_operation_is_named(cli: Cli, root: Path) -> None:
    link = root / ".lakefs_ref.yaml"
    link.write_text(link.read_text().replace('active_operation: ""', "active_operation: pull"))
    shown = cli("local", "status", root)
    assert "a pull was interrupted" in shown.stderr
    write(root, {"a": "mine"})
    refused = cli("local", "commit", root, "-m", "m")
    assert (refused.exit_code, "lakectl" in refused.stderr) == (7, True)
    assert cli("local", "pull", root).exit_code == 0
    assert cli("local", "commit", root, "-m", "m").exit_code == 0


def test_in_a_git_work_tree(cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.commit("first", {"data/a": "1"})
    work = cli.directory / "work"
    work.mkdir()

    def git(*words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        done = subprocess.run(
            ["git", *identity, *words], cwd=work, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q")
    (work / ".gitignore").write_text("*.pyc\n")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    git("remote", "add", "origin", "https://user:secret@example.com/team/project.git")
    refused = cli("local", "init", DATA, work)
    assert refused.exit_code == 7
    assert "is a git repository, please specify a sub-directory" in refused.stderr
    cloned = cli("local", "clone", DATA, work / "data")
    assert f"Location added to {work}/.gitignore" in cloned.stdout
    ignored = (work / ".gitignore").read_text()
    assert ignored == (
        "*.pyc\n\n# ignored by lakectl local\ndata/*\n!data/.lakefs_ref.yaml\n"
        "# end of what lakectl local ignores\n"
    )
    assert git("status", "--porcelain", "-uall").splitlines() == [
        "M .gitignore",
        "?? data/.lakefs_ref.yaml",
    ]
    cli.ok("local", "clone", DATA, work / "more[1]")
    assert (work / ".gitignore").read_text().count("# ignored by lakectl local") == 1
    cli.ok("local", "clone", DATA, work / "unseen", "--no-gitignore")
    assert "unseen" not in (work / ".gitignore").read_text()
    # A link is neither replaced nor followed.
    (work / ".gitignore").rename(work / "ignored")
    (work / ".gitignore").symlink_to("ignored")
    before = (work / "ignored").read_text()
    linked = cli.ok("local", "clone", DATA, work / "other")
    assert f"{work}/.gitignore is a symbolic link or no file, and was left alone" in linked.stderr
    assert "  other/*\n  !other/.lakefs_ref.yaml\n" in linked.stderr
    assert (work / ".gitignore").is_symlink()
    assert (work / "ignored").read_text() == before
    write(work / "data", {"a": "mine"})
    made = cli.ok("local", "commit", work / "data", "-m", "m", "--json").json
    head = git("rev-parse", "HEAD")
    assert made["metadata"] == {
        "git_commit_id": head,
        "::lakefs::lakecli::url[url:ui]": f"https://example.com/team/project/commit/{head}",
    }
    monkeypatch.chdir(work)
    listed = [each["directory"] for each in cli.ok("local", "list", "data", "--json").json_lines]
    assert listed == ["data", "more[1]", "other", "unseen"]


def test_links_are_refused_skipped_or_followed(cli: Cli, root: Path) -> None:
    (root / "l").symlink_to("a")
    write(root, {"n": "n"})
    assert "warning: l: a symbolic link" in cli("local", "status", root).stderr
    refused = cli("local", "commit", root, "-m", "m", "--json")
    assert (refused.exit_code, refused.error["paths"]) == (7, ["l"])
    assert cli("local", "commit", root, "-m", "m", "--skip").exit_code == 0
    assert cli("local", "commit", root, "-m", "m", "--follow").exit_code == 0


def test_ignored_files_are_named(
    cli: Cli, root: Path, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, {".lakefsignore": "# logs\n*.log\nbuild/\n", "d/.lakefsignore": "!keep.log\n"})
    write(root, {"x.log": "x", "d/keep.log": "k", "build/o": "o"})
    assert cli("check-ignore", "x.log").exit_code == 6
    monkeypatch.chdir(root)
    golden(
        "check_ignore",
        cli("check-ignore", "x.log", "a", "build"),
        cli("check-ignore", "--why", "x.log", "a", "build", "d/keep.log"),
        cli("check-ignore", "a"),
        cli("check-ignore", "/etc/passwd"),
        cli("check-ignore", "x.log", "a", "--json"),
        cli("local", "status", "--local"),
    )


def test_check_ignore_answers_as_status(
    cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, {".lakefsignore": "a\nsecrets/\n!*.md\nx\\\n", "secrets/key.md": "k", "n.md": "n"})
    write(root, {"a": "mine"})
    monkeypatch.chdir(root)
    assert cli.ok("check-ignore", "a", "secrets/key.md", "n.md", ".").stdout == "secrets/key.md\n"
    listed = cli.ok("local", "status", "--local", "--json").json_lines
    assert {each["path"] for each in listed} == {".lakefsignore", "a", "n.md"}


def test_a_malformed_link_is_listed_and_refused(cli: Cli, root: Path) -> None:
    (root / ".lakefs_ref.yaml").write_text("src: [1]\n")
    assert cli("local", "status", root).exit_code == 8
    (listed,) = cli.ok("local", "list", cli.directory, "--json").json_lines
    assert listed["uri"] is None


def test_what_lakectl_links_is_understood(cli: Cli, demo: Demo, root: Path) -> None:
    head = demo.head()
    text = f'src: lakefs://demo/main/data/\nat_head: {head}\nactive_operation: ""\n'
    (root / ".lakefs_ref.yaml").write_text(text)
    assert cli.ok("local", "status", root, "--json").stdout == ""
    found = json.dumps(cli.ok("local", "list", root, "--json").json)
    assert head in found


def test_redo_overwrites_again_what_undo_has_brought_back(
    cli: Cli, demo: Demo, root: Path, golden: Golden
) -> None:
    write(root, {"a": "mine", "n": "n", "b": "mine"})
    assert demo.contents()
    golden(
        "local_redo",
        cli("local", "checkout", root, "-y"),
        cli("undo", "lakefs://demo"),
        cli("redo", "lakefs://demo"),
        cli("undo", "lakefs://demo"),
    )
    assert files(root) == {"a": "mine", "b": "mine", "d/c": "3", "n": "n"}
    write(root, {"a": "since"})
    assert "a has changed since, and stays as it is" in cli.ok("redo", "lakefs://demo").stderr
    assert files(root) == {"a": "since", "b": "2", "d/c": "3"}
    link = (root / ".lakefs_ref.yaml").read_text()
    write(root, {".lakefs_ref.yaml": None})
    assert cli("undo", "lakefs://demo").exit_code == ExitCode.REFUSED
    write(root, {".lakefs_ref.yaml": link})
    cli.ok("undo", "lakefs://demo")
    write(root, {".lakefs_ref.yaml": None})
    assert "not linked with" in cli.ok("redo", "lakefs://demo").stderr


@pytest.mark.parametrize(
    "argv",
    [
        ("restore", "a"),
        ("local", "checkout", "{root}", "-y"),
        ("local", "pull", "{root}", "--force"),
    ],
)
def test_undo_brings_files_back_after_the_directory_was_renamed_or_is_refused(
    cli: Cli, demo: Demo, root: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    write(root, {"b": "committed"})
    cli.ok("local", "commit", root, "-m", "mine")
    demo.commit("theirs", {"data/a": "theirs"})
    write(root, {"a": "mine"})
    head = demo.head()
    with monkeypatch.context() as patch:
        patch.chdir(root)
        cli.ok(*(word.format(root=root) for word in argv))
    far = cli.directory / "far"
    far.mkdir()
    moved = root.rename(far / "moved")
    for _ in range(2):
        refused = cli("undo", "lakefs://demo")
        assert refused.exit_code == ExitCode.REFUSED
        assert f"hint: move the directory back to {root}" in refused.stderr
    assert demo.head() == head
    assert files(moved)["a"] != "mine"
    renamed = moved.rename(root.with_name("renamed"))
    assert f"a file is back in {renamed}" in cli.ok("undo", "lakefs://demo").stderr
    assert files(renamed)["a"] == "mine"
    assert demo.head() == head


def test_an_unfinished_undo_is_refused_while_its_directory_is_gone(
    cli: Cli, demo: Demo, root: Path
) -> None:
    demo.commit("second", {"other": "changed"})
    write(root, {"a": "mine"})
    cli.ok("local", "checkout", root, "-y")
    head = demo.head()
    with lock(root):
        assert cli("undo", "lakefs://demo").exit_code == ExitCode.REFUSED
    far = cli.directory / "far"
    far.mkdir()
    root.rename(far / "moved")
    for _ in range(2):
        assert f"belong in {root}" in cli("undo", "lakefs://demo").stderr
    assert demo.head() == head
    (far / "moved").rename(root)
    cli.ok("undo", "lakefs://demo")
    assert (files(root)["a"], demo.head()) == ("mine", head)


def test_undo_goes_on_where_the_directory_was_busy(cli: Cli, demo: Demo, root: Path) -> None:
    demo.commit("second", {"other": "changed"})
    write(root, {"a": "mine", "n": "n"})
    cli.ok("local", "checkout", root, "-y")
    head = demo.head()
    with lock(root):
        busy = cli("undo", "lakefs://demo")
    assert "another command is working" in busy.stderr
    assert files(root) == {"a": "1", "b": "2", "d/c": "3"}
    again = cli.ok("undo", "lakefs://demo", "--json")
    assert "the undo before was interrupted; it is complete now" in again.stderr
    assert again.json["kind"] == "local checkout"
    assert files(root) == {"a": "mine", "b": "2", "d/c": "3", "n": "n"}
    assert demo.head() == head  # the commit before is not undone as well
    cli.ok("redo", "lakefs://demo")
    assert files(root) == {"a": "1", "b": "2", "d/c": "3"}
    cli.ok("undo", "lakefs://demo")
    assert files(root)["n"] == "n"
    cli.ok("undo", "lakefs://demo")
    assert demo.head() != head


def test_root_gets_hard_links_only_if_it_insists(
    cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "c").write_text("another")
    cli.ok("local", "commit", root, "-m", "c")

    def links(name: str, value: str, user: int) -> int:
        monkeypatch.setattr("os.geteuid", lambda: user)
        cli.ok("config", "set", "local.link", value)
        said = cli.ok("local", "clone", DATA, cli.directory / name).stderr
        assert ("hardlink-root" in said) == (value == "hardlink" and not user)
        return (cli.directory / name / "a").stat().st_nlink

    assert files(root)
    assert links("user", "hardlink", 1000) > 1
    assert links("root", "hardlink", 0) == 1
    assert links("insists", "hardlink-root", 0) > 1
    overwritten = cli.directory / "insists" / "a"
    overwritten.chmod(0o644)
    with overwritten.open("a") as file:
        file.write("more")
    shown = cli.ok("local", "status", overwritten.parent)
    assert "a: a hard link; the object in the namespace was overwritten with it" in shown.stderr
    cli.ok("local", "commit", overwritten.parent, "-m", "mine")
    cli.ok("fsck", "lakefs://demo", "--data")
    overwritten = overwritten.with_name("c")
    overwritten.chmod(0o644)
    with overwritten.open("a") as file:
        file.write("more")
    cli.ok("local", "checkout", overwritten.parent, "--ref", "main", "-y")
    cli.ok("fsck", "lakefs://demo", "--data")
    overwritten = cli.directory / "user" / "b"
    overwritten.chmod(0o644)
    overwritten.write_text("other")
    assert cli("local", "commit", overwritten.parent, "-m", "x").exit_code == ExitCode.INTEGRITY
    pulled = cli("local", "pull", overwritten.parent, "--force")
    assert pulled.exit_code == ExitCode.INTEGRITY
    assert "fsck lakefs://demo --repair --from" in pulled.stderr


def test_list_prunes_the_indexes_of_directories_that_are_gone(cli: Cli, root: Path) -> None:
    assert cli("local", "list", cli.directory / "nowhere").exit_code == 6
    gone = cli.directory / "gone"
    cli.ok("local", "clone", DATA, gone)
    shutil.rmtree(gone)
    assert cli.ok("local", "list", cli.directory).stderr == ""
    pruned = cli.ok("local", "list", cli.directory, "--prune")
    assert pruned.stderr == f"index deleted: {gone} is gone\n"
    assert str(root.name) in pruned.stdout
    assert cli.ok("local", "list", cli.directory, "--prune").stderr == ""


UNDOABLE = {
    "local commit": ("local", "commit", "{root}", "-m", "mine"),
    "branch reset --to": ("branch", "reset", "lakefs://demo/main", "--to", "main~1", "-y"),
    "branch reset": ("branch", "reset", "lakefs://demo/main", "-y"),
    "branch rename": ("branch", "rename", "lakefs://demo/dev", "other"),
    "update-metadata": ("fs", "update-metadata", "lakefs://demo/main/data/a", "--metadata", "k=v"),
    "upload --delete": ("fs", "upload", "-r", "--delete", "{root}", "lakefs://demo/main/data/"),
    "commit --path": ("commit", "lakefs://demo/main", "-m", "part", "--path", "staged/1"),
    "commit": ("commit", "lakefs://demo/main", "-m", "all"),
}


@pytest.mark.parametrize("verb", UNDOABLE)
def test_undo_takes_back_what_changes_a_ref_or_staging(
    cli: Cli, demo: Demo, root: Path, verb: str
) -> None:
    def state() -> object:
        branches = cli.ok("branch", "list", "lakefs://demo", "--json").json_lines
        names = [each["name"] for each in branches]
        listed = [cli.ok("diff", f"lakefs://demo/{name}", "--json").json_lines for name in names]
        return [(each["name"], each["commit_id"]) for each in branches], listed

    demo.commit("second", {"data/a": "2"})
    demo.branch("dev")
    demo.stage({"staged/1": "1", "staged/2": "2"})
    write(root, {"b": "mine", "n": "n"})
    before = state()
    argv = [word.format(root=root) for word in UNDOABLE[verb]]
    cli.ok(*argv)
    after = state()
    assert after != before
    cli.ok("undo", "lakefs://demo")
    assert state() == before
    cli.ok("redo", "lakefs://demo")
    assert state() == after
    cli.ok("undo", "lakefs://demo")
    assert state() == before


def test_rows_of_a_status_have_colours_on_a_terminal(cli: Cli, root: Path) -> None:
    write(root, {"a": "mine", "b": None, "n": "n"})
    rows = cli("local", "status", root, terminal=True).lines[-3:]
    assert rows[0] == "\033[33mlocal   modified  a\033[0m"
    assert rows[1] == "\033[31mlocal   removed   b\033[0m"
    assert rows[2] == "\033[32mlocal   added     n\033[0m"
    plain = cli("local", "status", root, "--no-color", terminal=True).lines
    assert plain[-1] == "local   added     n"


def test_a_sparse_directory_says_so(cli: Cli, demo: Demo, root: Path) -> None:
    del demo, root
    sparse = cli.directory / "sparse"
    cli.ok("local", "clone", DATA, sparse, "--include", "d/**", "--exclude", "*.tmp")
    write(sparse, {"outside": "o"})
    shown = cli.ok("local", "status", sparse)
    assert shown.lines[-1] == "No diff found."
    note = 'sparse: only the files of --include "d/**" --exclude "*.tmp" are compared\n'
    assert shown.stderr == note
    assert cli.ok("local", "status", sparse, "-q").stderr == ""

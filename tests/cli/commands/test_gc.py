"""``gc``."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from lakecli.base.progress import NO_PROGRESS
from lakecli.cli.commands import engine
from lakecli.cli.context import Context
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.out.output import Output

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.base.progress import Progress
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

REPOSITORY = "lakefs://demo"
LONG_AGO = 1_700_000_000


def grow_old(namespace: Path) -> None:
    """Let everything in a namespace be old by its store's clock."""
    for path in namespace.rglob("*"):
        if path.is_file():
            os.utime(path, (LONG_AGO, LONG_AGO))


@pytest.fixture
def littered(cli: Cli, demo: Demo) -> Demo:
    """A repository with an object that is committed, and one that nothing refers to any more."""
    cli.ok("fs", "upload", "-", f"{REPOSITORY}/main/a", stdin="one")
    cli.ok("commit", f"{REPOSITORY}/main", "-m", "first")
    cli.ok("fs", "upload", "-", f"{REPOSITORY}/main/left", stdin="left")
    cli.ok("branch", "reset", f"{REPOSITORY}/main", "-y")
    cli.now = cli.now.replace(year=cli.now.year + 1)  # too long ago to be taken back
    grow_old(demo.namespace)
    return demo


def test_no_progress_is_shown_while_a_person_is_asked(
    cli: Cli, littered: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("gc", "run", REPOSITORY)
    grow_old(littered.namespace)
    shown: list[str] = []

    @contextmanager
    def progress(*_: object, **__: object) -> Iterator[Progress]:
        shown.append("begins")
        yield NO_PROGRESS
        shown.append("ends")

    monkeypatch.setattr(Output, "progress", progress)
    monkeypatch.setattr(Context, "confirm", lambda *_, **__: shown.append("a question"))
    cli.ok("gc", "run", REPOSITORY)
    assert shown == ["a question", "begins", "ends"]


def test_gc_condemns_and_sweeps(cli: Cli, littered: Demo, golden: Golden) -> None:
    namespace = littered.namespace
    before = [
        cli("gc", "status", REPOSITORY),
        cli("gc", "run", REPOSITORY, "--dry-run"),
        cli("gc", "run", REPOSITORY),
        cli("gc", "status", REPOSITORY, "--json"),
        cli("gc", "run", REPOSITORY),
        cli("gc", "undo", REPOSITORY),
        cli("gc", "undo", REPOSITORY),
        cli("gc", "run", REPOSITORY, "--json"),
    ]
    grow_old(namespace)
    golden(
        "gc",
        *before,
        cli("gc", "run", REPOSITORY, "--dry-run", "--json"),
        cli("gc", "run", REPOSITORY),
        cli("gc", "run", REPOSITORY, "-y"),
        cli("gc", "status", REPOSITORY),
        cli("gc", "run", REPOSITORY),
        cli("fsck", REPOSITORY),
    )
    assert [path.read_bytes() for path in namespace.glob("data/*/*")] == [b"one"]


@pytest.mark.usefixtures("littered")
def test_branches_are_measured_only_where_spark_is_installed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    def count(*_: object, **__: object) -> int:
        measured.append(1)
        return 1

    monkeypatch.setattr(engine, "count_head_entries", count)
    monkeypatch.setattr(engine, "_SPARK_PACKAGE", "no_such_package")
    cli.ok("gc", "run", REPOSITORY, "--dry-run")
    assert not measured
    monkeypatch.setattr(engine, "_SPARK_PACKAGE", "json")
    cli.ok("gc", "run", REPOSITORY, "--dry-run")
    assert len(measured) == 1


def test_rules_are_set_shown_and_deleted(
    cli: Cli, demo: Demo, golden: Golden, tmp_path: Path
) -> None:
    file = cli.directory / "rules.json"
    file.write_text(
        '{"default_retention_days": 21, "branches": [{"branch_id": "main", "retention_days": 28}]}'
    )
    golden(
        "gc_config",
        cli("gc", "get-config", REPOSITORY),
        cli("gc", "delete-config", REPOSITORY),
        cli("gc", "set-config", REPOSITORY, "-f", file),
        cli("gc", "get-config", REPOSITORY),
        cli("gc", "set-config", REPOSITORY, "-f", "-", stdin='{"default_retention_days": 7}'),
        cli("gc", "get-config", REPOSITORY, "--json"),
        cli("gc", "set-config", REPOSITORY, "-f", "-", stdin='{"default_retention_days": "7"}'),
        cli("gc", "set-config", REPOSITORY, "-f", cli.directory / "none"),
        cli("gc", "delete-config", REPOSITORY),
        cli("gc", "delete-config", REPOSITORY),
    )


def test_gc_refuses_bad_input(cli: Cli, littered: Demo, golden: Golden) -> None:
    namespace = littered.namespace
    results = [
        cli("gc", "run", REPOSITORY, "--grace", "1h"),
        cli("gc", "run", REPOSITORY, "--grace", "soon"),
        cli("gc", "run", "lakefs://none"),
        cli("gc", "run", REPOSITORY, "--engine", "local", "--master", "local[2]"),
    ]
    (namespace / "_lakefs" / "other.json").write_text("{}")
    results.append(cli("gc", "run", REPOSITORY))
    results.append(cli("gc", "run", REPOSITORY, "--force-shared", "--dry-run"))
    state = namespace / "_lakecli" / "gc" / "state"
    state.parent.mkdir(parents=True, exist_ok=True)
    for text in ("nonsense", '{"format": 9}', '{"format": 1, "phase": "resting"}'):
        state.write_text(text)
        results += [
            cli("gc", "run", REPOSITORY),
            cli("fs", "upload", "-", f"{REPOSITORY}/main/b", stdin="two"),
        ]
    golden("gc_bad_input", *results)


def test_the_grace_period_is_a_setting(cli: Cli, littered: Demo) -> None:
    cli.ok("config", "set", "gc.grace", "2d")
    assert cli("gc", "run", REPOSITORY, "--json").json["grace_seconds"] == 2 * 86_400
    cli.ok("gc", "undo", REPOSITORY)
    assert cli("config", "set", "gc.grace", "2h").exit_code == ExitCode.USAGE
    assert cli("gc", "run", REPOSITORY, "--grace", "2h").exit_code == ExitCode.USAGE


def test_an_interrupted_sweep_is_finished_or_ended(
    cli: Cli, littered: Demo, golden: Golden
) -> None:
    namespace = littered.namespace
    state = namespace / "_lakecli" / "gc" / "state"
    cli.ok("gc", "run", REPOSITORY)
    text = state.read_text()
    state.write_text(text.replace('"condemned"', '"sweeping"'))
    results = [
        cli("gc", "status", REPOSITORY),
        cli("gc", "run", REPOSITORY, "-y"),
        cli("gc", "undo", REPOSITORY),
        cli("gc", "undo", REPOSITORY, "--force"),
    ]
    grow_old(namespace)
    results += [cli("gc", "undo", REPOSITORY, "--force"), cli("gc", "status", REPOSITORY)]
    # A state that somebody has damaged: what is said, and the command that helps.
    state.write_text(text.replace("1209600", "-1"))
    results += [
        cli("gc", "status", REPOSITORY),
        cli("gc", "run", REPOSITORY, "-y"),
        cli("gc", "undo", REPOSITORY),
    ]
    grow_old(namespace)
    results += [
        cli("gc", "undo", REPOSITORY, "--force", "--json"),
        cli("gc", "run", REPOSITORY, "--dry-run"),
    ]
    golden("gc_interrupted", *results)


def test_a_branch_that_vanished_or_went_back_stops_a_collection(
    cli: Cli, littered: Demo, golden: Golden
) -> None:
    """This clone has pushed it, so it knows better than the bucket."""
    namespace = littered.namespace
    cli.ok("branch", "create", f"{REPOSITORY}/dev", "--source", f"{REPOSITORY}/main")
    cli.ok("push", f"{REPOSITORY}/dev")
    ref = namespace / "_lakecli" / "refs" / "branches" / "dev"
    earlier = ref.read_bytes()
    cli.ok("fs", "upload", "-", f"{REPOSITORY}/dev/b", stdin="two")
    cli.ok("commit", f"{REPOSITORY}/dev", "-m", "second")
    cli.ok("push", f"{REPOSITORY}/dev")
    later = ref.read_bytes()
    results = []
    for body in (None, earlier, b"{}"):
        if body is None:
            ref.unlink()
        else:
            ref.write_bytes(body)
        results.append(cli("gc", "run", REPOSITORY))
        assert results[-1].exit_code == ExitCode.INTEGRITY
    ref.write_bytes(later)
    results.append(cli("gc", "run", REPOSITORY))
    grow_old(namespace)
    ref.write_bytes(earlier)
    results += [
        cli("gc", "run", REPOSITORY, "-y"),
        cli("fetch", REPOSITORY),
        cli("gc", "run", REPOSITORY, "-y"),
        cli("gc", "run", REPOSITORY, "--accept-restored", "--dry-run"),
        cli("gc", "run", REPOSITORY, "--accept-restored"),
        cli("gc", "run", REPOSITORY, "--accept-restored", "-y", "--json"),
        cli("gc", "run", REPOSITORY, "-y"),
    ]
    golden("gc_went_back", *results)


def test_fsck_excuses_history_that_was_collected_and_no_head(
    cli: Cli, littered: Demo, golden: Golden
) -> None:
    """What a failing command hints at must say what has happened."""
    namespace = littered.namespace

    def let_go(expression: str) -> None:
        tree = cli("show", "commit", f"{REPOSITORY}/{expression}", "--json").json["metarange_id"]
        (namespace / "_lakefs" / tree).unlink()
        expired = namespace / "_lakecli" / "gc" / "expired"
        expired.mkdir(parents=True, exist_ok=True)
        (expired / str(len(list(expired.iterdir())) + 1)).write_bytes(bytes.fromhex(tree))

    cli.ok("fs", "upload", "-", f"{REPOSITORY}/main/b", stdin="two")
    cli.ok("commit", f"{REPOSITORY}/main", "-m", "second")
    cli.ok("push", f"{REPOSITORY}/main")
    let_go("main~1")
    results = [cli("fs", "ls", f"{REPOSITORY}/main~1/"), cli("fsck", REPOSITORY)]
    let_go("main")
    results += [cli("fs", "ls", f"{REPOSITORY}/main/"), cli("fsck", REPOSITORY)]
    results.append(cli("gc", "run", REPOSITORY))
    golden("gc_expired", *results)

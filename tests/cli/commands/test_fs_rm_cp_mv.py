"""``fs rm``, ``cp`` and ``mv``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"


@pytest.fixture
def filled(demo: Demo) -> Demo:
    demo.commit("first", {"a.csv": "1", "data/x": "2", "data/sub/y": "3", "data.csv": "4"})
    demo.branch("dev")
    return demo


def test_rm_removes_objects(cli: Cli, filled: Demo, golden: Golden) -> None:
    golden(
        "fs_rm",
        cli("fs", "rm", f"{MAIN}/a.csv"),
        cli("fs", "rm", "lakefs://demo/dev/a.csv", "--json"),
        cli("fs", "rm", "-r", f"{MAIN}/data"),
        cli("fs", "rm", "-r", "-C", "20", "lakefs://demo/dev/data/", "--json"),
        cli("fs", "rm", "-r", "-q", "lakefs://demo/dev/"),
        cli("diff", MAIN),
        cli("fs", "ls", "-r", "lakefs://demo/dev"),
    )


def test_rm_refuses_bad_input(cli: Cli, filled: Demo, golden: Golden) -> None:
    golden(
        "fs_rm_refuses",
        cli("fs", "rm", f"{MAIN}/nope"),
        cli("fs", "rm", f"{MAIN}/a.csw"),
        cli("fs", "rm", f"{MAIN}/a.csw", "--must-exist"),
        cli("fs", "cat", f"{MAIN}/data/sub/yy"),
        cli("fs", "rm", f"{MAIN}/data"),
        cli("fs", "rm", MAIN),
        cli("fs", "rm", "-r", f"{MAIN}/nope/", "--json"),
        cli("fs", "rm", "-r", f"{MAIN}/dat"),
        cli("fs", "rm", "lakefs://demo/main@/a.csv"),
        cli("fs", "rm", "lakefs://demo/nope/a.csv"),
        cli("diff", MAIN),
    )


def test_cp_copies_objects(cli: Cli, filled: Demo, golden: Golden) -> None:
    golden(
        "fs_cp",
        cli("fs", "cp", f"{MAIN}/a.csv", f"{MAIN}/b.csv"),
        cli("fs", "cp", "lakefs://demo/main@/a.csv", "lakefs://demo/dev/archive/", "--json"),
        cli("fs", "cp", f"{MAIN}/data/sub/y", "lakefs://demo/dev"),
        cli("fs", "cp", "-r", f"{MAIN}/data", f"{MAIN}/copy/"),
        cli("fs", "cp", "-r", f"{MAIN}/", "lakefs://demo/dev/all", "--json"),
        cli("diff", MAIN),
        cli("diff", "lakefs://demo/dev"),
    )


def test_mv_moves_objects(cli: Cli, filled: Demo, golden: Golden) -> None:
    golden(
        "fs_mv",
        cli("fs", "mv", f"{MAIN}/a.csv", f"{MAIN}/b.csv"),
        cli("fs", "mv", f"{MAIN}/data.csv", "lakefs://demo/dev/moved/", "--json"),
        cli("fs", "mv", "-r", f"{MAIN}/data", f"{MAIN}/new/place"),
        cli("diff", MAIN),
        cli("diff", "lakefs://demo/dev"),
    )


def test_cp_and_mv_refuse_bad_input(cli: Cli, filled: Demo, golden: Golden) -> None:
    golden(
        "fs_cp_refuses",
        cli("fs", "cp", f"{MAIN}/nope", f"{MAIN}/x"),
        cli("fs", "cp", f"{MAIN}/data", f"{MAIN}/x"),
        cli("fs", "cp", f"{MAIN}/a.csv", f"{MAIN}/a.csv"),
        cli("fs", "cp", f"{MAIN}/a.csv", MAIN),
        cli("fs", "cp", MAIN, f"{MAIN}/x"),
        cli("fs", "cp", f"{MAIN}/a.csv", "lakefs://demo/main~1/x"),
        cli("fs", "cp", f"{MAIN}/a.csv", "lakefs://demo/nope/x"),
        cli("fs", "cp", f"{MAIN}/a.csv", "lakefs://other/main/x"),
        cli("fs", "cp", "-r", f"{MAIN}/nope", f"{MAIN}/x", "--json"),
        cli("fs", "cp", "-r", f"{MAIN}/data", f"{MAIN}/data/"),
        cli("fs", "mv", "lakefs://demo/main@/a.csv", f"{MAIN}/x"),
        cli("fs", "mv", "-r", f"{MAIN}/data", f"{MAIN}/data/sub"),
        cli("fs", "mv", f"{MAIN}/a.csv"),
        cli("fs", "cp", f"{MAIN}/a.csv", f"{MAIN}/{'x' * 1025}"),
        cli("diff", MAIN),
    )

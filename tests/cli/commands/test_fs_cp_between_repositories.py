"""``fs cp`` and ``fs mv`` between repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.cli.context import system_now
from lakecli.cli.exit_codes import ExitCode
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"
OTHER = "lakefs://other/main"


@pytest.fixture
def other(cli: Cli, demo: Demo) -> None:
    """Another repository, and one with contents."""
    demo.commit("first", {"d/a": "1", "d/b/c": "2"})
    demo.stage({"d/new": "3", "z": "4"})
    cli.ok("repo", "create", "lakefs://other", cli.directory / "other-namespace")


def paths(cli: Cli, ref: str) -> list[str]:
    return [each["path"] for each in cli.ok("fs", "ls", "-r", f"{ref}/", "--json").json_lines]


@pytest.mark.usefixtures("other")
def test_copy_and_move_between_repositories(cli: Cli, golden: Golden) -> None:
    golden(
        "fs_across",
        cli("fs", "cp", f"{MAIN}/z", f"{OTHER}/in/", "--content-type", "text/own"),
        cli("fs", "cp", "-r", "lakefs://demo/main@/d", f"{OTHER}/copied/", "--json"),
        cli("fs", "mv", "-r", f"{MAIN}/d", f"{OTHER}/moved"),
        cli("fs", "mv", f"{MAIN}/z", f"{OTHER}/z", "--json"),
        cli("status", OTHER),
        cli("diff", MAIN),
        cli("fs", "cp", f"{MAIN}/none", f"{OTHER}/none"),
        cli("fs", "mv", f"{OTHER}/z", "lakefs://nowhere/main/z"),
        cli("fs", "stat", f"{OTHER}/in/z"),
    )


@pytest.mark.usefixtures("other")
def test_each_repository_takes_back_its_part(cli: Cli) -> None:
    cli.ok("fs", "mv", "-r", f"{MAIN}/d", f"{OTHER}/d")
    assert (paths(cli, MAIN), paths(cli, OTHER)) == (["z"], ["d/a", "d/b/c", "d/new"])
    cli.ok("undo", "lakefs://demo")
    assert paths(cli, MAIN) == ["d/a", "d/b/c", "d/new", "z"]
    cli.ok("undo", "lakefs://other")
    assert paths(cli, OTHER) == []
    cli.ok("redo", "lakefs://other")
    assert paths(cli, OTHER) == ["d/a", "d/b/c", "d/new"]


@pytest.mark.usefixtures("other")
def test_failures_are_listed_and_nothing_is_removed(cli: Cli, demo: Demo) -> None:
    damaged = cli.ok("fs", "stat", f"{MAIN}/d/a", "--json").json["checksum"]
    (demo.namespace / "data" / damaged[:2] / damaged[2:]).unlink()
    for verb in ("cp", "mv"):
        failed = cli("fs", verb, "-r", f"{MAIN}/d", f"{OTHER}/d", "--json")
        assert failed.exit_code == ExitCode.PARTIAL
        assert (failed.json["objects"], failed.json["failed"]) == (2, 1)
        assert failed.json["failures"][0]["path"] == "d/a"
    assert paths(cli, MAIN) == ["d/a", "d/b/c", "d/new", "z"]
    assert paths(cli, OTHER) == ["d/b/c", "d/new"]


def test_buckets_of_one_store_copy_themselves(
    cli: Cli, moto_endpoint: str, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    cli.now = system_now()
    for name in ("demo", "other"):
        cli.ok("repo", "create", f"lakefs://{name}", f"s3://{new_bucket(moto_endpoint)}/ns")
    cli.ok("repo", "create", "lakefs://disk", cli.directory / "disk")
    large = cli.directory / "large"
    large.write_bytes(b"0123456789abcdef" * (10 << 16))
    cli.ok("fs", "upload", large, f"{MAIN}/d/", "--meta", "k=v")
    cli.ok("fs", "upload", "-", f"{MAIN}/d/small", stdin="small")
    copied = cli.ok("fs", "cp", "-r", f"{MAIN}/d", f"{OTHER}/d", "--json").json
    assert (copied["objects"], copied["copied_by_store"]) == (2, 2)
    again = cli.ok("fs", "cp", "-r", f"{MAIN}/d", f"{OTHER}/e", "--json").json
    assert (again["objects"], again["copied_by_store"]) == (2, 0)
    moved = cli.ok("fs", "mv", "-r", f"{OTHER}/d", "lakefs://disk/main/d", "--json").json
    assert (moved["objects"], moved["copied_by_store"]) == (2, 0)
    cli.ok("repo", "create", "lakefs://back", f"s3://{new_bucket(moto_endpoint)}/ns")
    cli.ok("fs", "mv", "-r", "lakefs://disk/main/d", "lakefs://back/main/d")
    for uri in (f"{OTHER}/e", "lakefs://back/main/d"):
        assert cli.ok("fs", "cat", f"{uri}/large").stdout_bytes == large.read_bytes()
        made, had = (
            cli.ok("fs", "stat", f"{each}/large", "--json").json for each in (uri, f"{MAIN}/d")
        )
        for name in ("checksum", "metadata", "content_type", "size"):
            assert made[name] == had[name]


def test_stores_at_different_endpoints_do_not_copy(
    cli: Cli, moto_endpoint: str, rclone_endpoint: str, aws_environment: pytest.MonkeyPatch
) -> None:
    """There, a bucket of the same name is another one."""
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    cli.now = system_now()
    cli.ok("config", "set", "repo.other.endpoint", rclone_endpoint)
    for name, endpoint in (("demo", moto_endpoint), ("other", rclone_endpoint)):
        cli.ok("repo", "create", f"lakefs://{name}", f"s3://{new_bucket(endpoint)}/ns")
    cli.ok("fs", "upload", "-", f"{MAIN}/a", stdin="contents")
    moved = cli.ok("fs", "mv", f"{MAIN}/a", f"{OTHER}/a", "--json").json
    assert (moved["objects"], moved["copied_by_store"]) == (1, 0)
    assert cli.ok("fs", "cat", f"{OTHER}/a").stdout == "contents"

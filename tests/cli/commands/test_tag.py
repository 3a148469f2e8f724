"""``tag create``, ``list``, ``show`` and ``delete``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden


def test_create_makes_a_tag(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("first", {"a": "1"})
    golden(
        "tag_create",
        cli("tag", "create", "lakefs://demo/v1.0", "lakefs://demo/main"),
        cli("tag", "create", "lakefs://demo/v0.9", "lakefs://demo/main~1", "--json"),
        cli("tag", "create", "lakefs://demo/v0.9", "lakefs://demo/v1.0", "-f"),
        cli("tag", "list", "lakefs://demo"),
        cli("show", "commit", "lakefs://demo/v0.9"),
    )


@pytest.mark.usefixtures("demo")
def test_create_refuses_bad_input(cli: Cli, golden: Golden) -> None:
    main = "lakefs://demo/main"
    cli.ok("tag", "create", "lakefs://demo/v1", main)
    golden(
        "tag_create_refuses",
        cli("tag", "create", "lakefs://demo/v1", main),
        cli("tag", "create", main, main),
        cli("tag", "create", main, main, "--force"),
        cli("tag", "create", "lakefs://demo/v1~1", main),
        cli("tag", "create", "lakefs://demo/v..1", main),
        cli("tag", "create", "lakefs://demo/v2", "lakefs://demo/nope"),
        cli("tag", "create", "lakefs://demo/v2", "lakefs://demo/main$"),
        cli("tag", "create", "lakefs://demo/v2", "lakefs://other/main"),
        cli("tag", "create", "lakefs://demo/v2"),
        cli("tag", "create", "lakefs://demo/v1", "lakefs://demo/nope", "-f", "--json"),
    )
    assert len(cli.ok("tag", "list", "lakefs://demo").lines) == 2


@pytest.mark.usefixtures("demo")
def test_list_pages_tags(cli: Cli, golden: Golden) -> None:
    for name in ("v1.10", "v1.2", "w"):
        cli.ok("tag", "create", f"lakefs://demo/{name}", "lakefs://demo/main")
    golden(
        "tag_list",
        cli("tag", "list", "lakefs://demo"),
        cli("tag", "list", "lakefs://demo", "--json", "--prefix", "v"),
        cli("tag", "list", "lakefs://demo", "--amount=1", "--after=v1.10"),
        cli("tag", "list", "lakefs://demo", terminal=True),
        cli("tag", "list", "lakefs://none"),
    )


@pytest.mark.usefixtures("demo")
def test_show_prints_and_delete_removes_a_tag(cli: Cli, golden: Golden) -> None:
    cli.ok("tag", "create", "lakefs://demo/v1", "lakefs://demo/main")
    cli.ok("tag", "create", "lakefs://demo/v2", "lakefs://demo/main")
    golden(
        "tag_show_delete",
        cli("tag", "show", "lakefs://demo/v1"),
        cli("tag", "show", "lakefs://demo/v1", "--json"),
        cli("tag", "show", "lakefs://demo/nope"),
        cli("tag", "show", "lakefs://demo/v1^"),
        cli("tag", "delete", "lakefs://demo/v1"),
        cli("tag", "delete", "lakefs://demo/v1", "-y"),
        cli("tag", "delete", "lakefs://demo/v1"),
        cli("tag", "delete", "lakefs://demo/v2", "-y", "--json"),
        cli("tag", "list", "lakefs://demo"),
    )

"""``annotate`` and ``blame``: their lines, their JSON, and lakectl's scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"


@pytest.fixture
def annotated(demo: Demo) -> Demo:
    """The four commits of lakectl's own test of annotate, and a merge."""
    demo.commit("commit #1", {"a/b/c": "1", "a/b/d": "1"})
    demo.commit("commit #2\nwith a second line", {"a/bb/aa": "2", "a/bb/bb": "2", "b/x": "2"})
    demo.branch("dev")
    demo.commit("commit #3 " + "long " * 50, {"iii/kkk/lll": "3", "a/b/d": "3"})
    demo.commit("on dev", {"dev/a": "1", "b/x": None, "b/y": "1"}, "dev")
    demo.merge("dev", "main")
    demo.stage({"staged": "1", "a/b/c": "staged"})
    return demo


@pytest.mark.usefixtures("annotated")
def test_annotate(cli: Cli, golden: Golden) -> None:
    golden(
        "annotate",
        cli("annotate", f"{MAIN}/"),
        cli("annotate", "-r", f"{MAIN}/"),
        cli("annotate", f"{MAIN}/a/"),
        cli("annotate", f"{MAIN}/a/b/d"),
        cli("annotate", f"{MAIN}/iii/kkk/l"),
        cli("annotate", f"{MAIN}~1/b/"),
        cli("blame", f"{MAIN}/b/", "--first-parent"),
        cli("blame", "-r", f"{MAIN}/iii", "--json"),
        cli("annotate", f"{MAIN}/staged"),
        cli("annotate", f"{MAIN}/nope"),
        cli("annotate", "lakefs://demo/nope/"),
        cli("annotate", "lakefs://demo"),
    )


def test_annotate_reads_the_past(cli: Cli, annotated: Demo) -> None:
    operation = cli.ok("op", "log", "lakefs://demo", "--amount=1", "--json").json["id"]
    before = cli.ok("annotate", "-r", f"{MAIN}/").stdout
    annotated.commit("later", {"a/b/c": "later"})
    assert cli.ok("annotate", "-r", f"{MAIN}/").stdout != before
    assert cli.ok("annotate", "-r", f"{MAIN}/", "--at-op", operation).stdout == before

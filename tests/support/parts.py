"""Which tests the short run leaves to the long one, and what it says about them.

A test belongs to the long run if it carries one of the markers of `LONG`. It gets its marker here:
by the server or the Spark session that it asks for, or by the directory or file that it is in.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]

LONG = {
    "servers": "servers of Google Cloud Storage, Azure and S3, beyond the files that stay short",
    "spark": "a Spark session, beyond the files that stay short",
    "meetings": "commands that meet each other, models of the system, forged buckets, fuzzing",
    "quality": "lint, types, import contracts, generated files, the compiled core, mutants",
}
"""The markers of the long run, and what their tests need or are."""

SERVERS = {"moto_endpoint", "rclone_endpoint", "gcs_server", "azurite"}
SHORT = {"cli/test_s3.py", "pipeline/test_spark_runner.py"}
"""Files of the short run although they start a server of S3, or Spark."""

PLACES = {
    "meetings": "meetings",
    "protocol": "meetings",
    "test_forged.py": "meetings",
    "test_fuzz.py": "meetings",
    "mutants": "quality",
    "native": "quality",
    "test_quality.py": "quality",
}
"""The marker of each test in a directory or file."""


def _marker_of(item: pytest.Item) -> str | None:
    """Return the marker that a test gets; ``None`` if it belongs to the short run."""
    place = item.path.relative_to(TESTS).as_posix()
    for start, marker in PLACES.items():
        if place == start or place.startswith(f"{start}/"):
            return marker
    if place in SHORT:
        return None
    group = item.get_closest_marker("xdist_group")
    if group is not None and group.args == ("spark",):
        return "spark"
    if SERVERS.intersection(getattr(item, "fixturenames", ())):
        return "servers"
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of the long run; leave them out unless -m or a path asks for them.

    Nightly tests run only where -m selects them.
    """
    for item in items:
        marker = _marker_of(item)
        if marker is not None:
            item.add_marker(marker)
    if config.option.markexpr:
        return
    is_short = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    left_out = {"nightly"} | (LONG.keys() if is_short else set())
    left = [item for item in items if any(item.get_closest_marker(name) for name in left_out)]
    if not left:
        return
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in set(left)]
    counted = Counter(
        next(name for name in ("nightly", *LONG) if item.get_closest_marker(name)) for item in left
    )
    config.stash[_LEFT] = counted
    if hasattr(config, "workeroutput"):  # a worker of pytest-xdist, which prints nothing
        config.workeroutput["left"] = dict(counted)


_LEFT = pytest.StashKey[Counter[str]]()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker left out; all workers collect the same tests."""
    node.config.stash[_LEFT] = Counter(getattr(node, "workeroutput", {}).get("left", {}))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what this run left out."""
    left = config.stash.get(_LEFT, None)
    if left:
        found = ", ".join(f"{count:,} {name}" for name, count in sorted(left.items()))
        terminalreporter.write_line(
            f"Left to other runs: {found}. Run them by their marker, such as: pytest -m servers"
        )

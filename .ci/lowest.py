#!/usr/bin/env python3
"""Print the lowest versions that pyproject.toml declares, as constraints for pip.

`.ci/lowest.txt` holds what this prints; a test compares the two.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1]
EXTRAS = ("spark", "fsspec")


def minima() -> dict[str, str]:
    """Return the lowest version of each requirement, by name."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    lines = list(project["dependencies"])
    for extra in EXTRAS:
        lines += project["optional-dependencies"][extra]
    found = {}
    for line in lines:
        matched = re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*>=\s*([0-9][0-9.]*)", line)
        if matched is None:
            raise SystemExit(f"no lowest version: {line}")
        found[matched[1]] = matched[2]
    return found


if __name__ == "__main__":
    for name, version in sorted(minima().items()):
        sys.stdout.write(f"{name}=={version}\n")

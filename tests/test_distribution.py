from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from lakecli.errors import install_command

PROJECT = Path(__file__).parents[1]
DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]


def test_hints_say_how_an_extra_is_installed() -> None:
    assert install_command("spark") == "in a checkout of lakecli: pip install '.[spark]'"


def test_the_extras_refer_to_the_distribution_itself() -> None:
    for extra in DECLARED["optional-dependencies"].values():
        for requirement in extra:
            assert not re.match(r"lakecli\b(?!-)", requirement)


def test_no_text_tells_users_to_install_the_other_project() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    wrong = re.compile(r"(?<!\.)\blakecli\[|pip install '?\"?lakecli(?![-\w])|(?<!-)lakecli==")
    mine = Path(__file__).relative_to(PROJECT)
    for name in tracked:
        path = PROJECT / name
        if path.suffix in {".py", ".md", ".toml", ".1", ".7", ".fish", ".bash"} and name != str(
            mine
        ):
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            assert not wrong.search(text), name


def version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def lowest() -> dict[str, tuple[int, ...]]:
    lines = (PROJECT / ".ci" / "lowest.txt").read_text().splitlines()
    return {name: version(number) for name, _, number in (line.partition("==") for line in lines)}


def test_the_lowest_versions_are_those_that_ci_installs() -> None:
    script = PROJECT / ".ci" / "lowest.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert (PROJECT / ".ci" / "lowest.txt").read_text() == done.stdout
    assert ".ci/lowest.txt" in (PROJECT / ".ci" / "run").read_text()


WITHOUT_KNOWN_HOLES = {
    "azure-identity": "1.16.1",  # CVE-2024-35255
    "certifi": "2024.7.4",  # CVE-2024-39689
    "cryptography": "46.0.5",  # CVE-2026-26007
    "idna": "3.7",  # CVE-2024-3651
    "lmdb": "0.98",  # CVE-2019-16224 to 16228
    "protobuf": "5.29.6",  # CVE-2025-4565, CVE-2026-0994
    "pyarrow": "14.0.1",  # CVE-2023-47248
    "pyasn1": "0.6.2",  # CVE-2026-23490
    "pyjwt": "2.10.1",  # CVE-2024-53861
    "pyspark": "4.0.1",  # CVE-2025-54920
    "requests": "2.32.4",  # CVE-2024-47081
    "urllib3": "2.6.3",  # CVE-2025-66418, CVE-2025-66471, CVE-2026-21441
}


def test_no_lowest_version_has_a_known_hole() -> None:
    declared = lowest()
    for name, fixed in WITHOUT_KNOWN_HOLES.items():
        assert declared[name] >= version(fixed), name


WORKFLOWS = sorted((PROJECT / ".github" / "workflows").glob("*.yml"))


_PINNED = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_action_of_a_workflow_is_pinned_by_its_commit(path: Path) -> None:
    """A tag can be moved to other code, which would run with the rights of a release."""
    used = re.findall(r"uses: *(.*)", path.read_text())
    outside = [each for each in used if not each.startswith("./")]
    assert outside
    assert [each for each in outside if not _PINNED.fullmatch(each)] == []


def test_what_builds_published_files_has_exact_versions() -> None:
    required = tomllib.loads((PROJECT / "pyproject.toml").read_text())["build-system"]["requires"]
    installed = re.findall(
        r"pip\" install -q (build\S* twine\S*)", (PROJECT / ".ci/build").read_text()
    )
    assert len(installed) == 1
    for each in (*required, *installed[0].split()):
        assert re.fullmatch(r"[a-z]+==\d+\.\d+\.\d+", each), each


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_command_of_a_workflow_is_one_that_ci_runs_too(path: Path) -> None:
    scripts = "\n".join(
        (PROJECT / name).read_text() for name in ("README.md", ".ci/run", ".ci/build")
    )
    steps = [
        step
        for job in yaml.safe_load(path.read_text())["jobs"].values()
        for step in job.get("steps", ())
    ]
    for step in steps:
        assert ("uses" in step) != ("run" in step)
        command = step.get("run", "").removeprefix("sudo ")
        program = command.partition(" ")[0]
        if program.startswith(".ci/"):
            assert (PROJECT / program).stat().st_mode & 0o111
        else:
            assert command in scripts

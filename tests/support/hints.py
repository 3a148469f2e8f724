"""Runs each command that is printed as advice, in the state in which it was printed.

`HintRunner` is called after every run of `Cli`. It copies the files of the test, runs what stderr
advises, and puts the files back, so that the test goes on as if nothing had happened. An advised
command must succeed, or lead on: a refusal must not be one that led here, and must have a hint,
which succeeds or leads on, too. A command that cannot be read is a failure always.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.tree import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.support.golden import Result

_MAX_DEPTH: Final = 4

_COMMAND: Final = re.compile(
    r"""\blakecli (?P<words>(?:'[^']*'|"[^"]*"|[^'"])+?)"""
    r"""(?=[;,](?: |$)|\?$|[)`…]|: (?=lakecli )|(?: or| \|)(?= )| \(|$)"""
)
"""A command in a line of advice, up to what ends it."""

_OPTION: Final = re.compile(r"(?:^hint: |: |with |add )(-[a-z]|--[a-z-]+(?: \d+)?)$")
"""An option at the end of a hint: the same command, with it."""

_MALFORMED: Final = re.compile(
    r"missing argument|extra argument|no such option|requires an argument|unknown command|"
    r"not a lakefs:// URI|\bmissing$",
    re.MULTILINE,
)
"""Errors of a command line that cannot be read."""

_GUESS: Final = "hint: did you mean lakecli"
"""A correction of a word; what was wrong with the rest of the line still is."""

_LATER: Final = re.compile(r"after \d{4}-|from \d{4}-|in \d+ minutes|when it has ended")
"""Advice for another time."""

_REPORTS: Final = ("doctor", "fsck", "fs presign", "bisect")
"""Commands that have done what was advised when they report what they found."""

_VALUES: Final = {
    "BAD": "{branch}",
    "BRANCH": "{branch}",
    "BRANCH/PATH": "{branch}/copied/",
    "COMMAND": "true",
    "DEST": "{directory}/hinted-dest",
    "DESTINATION": "{branch}",
    "DIRECTORY": "{directory}/hinted-directory",
    "FILE": "{file}",
    "GOOD": "{branch}~1",
    "ID": "{operation}",
    "JOB": "true",
    "KEY": "user.name",
    "KEY=VALUE": "k=v",
    "MANIFEST": "{file}",
    "MESSAGE": "hinted",
    "NAME": "hinted",
    "NAMESPACE": "{directory}/hinted-namespace",
    "PATH": "{path}",
    "PATTERN": "*",
    "REF": "{branch}",
    "REF/PATH": "{path}",
    "REPOSITORY": "{repository}",
    "SOURCE": "{branch}",
    "SRC": "{file}",
    "TAG": "{repository}/hinted",
    "TARGET": "{repository}",
    "TIME": "5m",
    "VALUE": "hinted@example.com",
}
"""What a person puts in place of a word in capitals; a URI may have such words as parts."""

_OF_COMMANDS: Final = {
    ("approve", "DEST"): "{branch}",
    ("fs cp", "DEST"): "{branch}/copied",
    ("fs cp", "SOURCE"): "{path}",
    ("fs mv", "DEST"): "{branch}/moved",
    ("fs mv", "SOURCE"): "{path}",
    ("import", "SOURCE"): "{directory}/hinted-directory",
    ("run", "DEST"): "{branch}",
    ("restore", "FILE"): "{listed}",
}
"""The same for words that mean something else in one command."""


def advised(result: Result) -> Iterator[tuple[str, ...]]:
    """Yield the command lines that stderr advises, without the program's name."""
    lines = [] if "--json" in result.argv else _plain(result.stderr).splitlines()
    for line in lines:
        if line.startswith("  ") and "lakecli " not in line.lstrip()[:8]:
            continue
        for found in _COMMAND.finditer(line):
            try:
                words = tuple(shlex.split(found["words"]))
            except ValueError:
                words = tuple(found["words"].split())
            if _command(words) and not _LATER.search(line[: found.start()]):
                yield words
        if line.startswith("hint: ") and (option := _OPTION.search(line)):
            yield (*result.argv, *option[1].split())


def _command(words: Sequence[str]) -> str:
    """Return the command of a line; empty if it is none."""
    return next((w for w in (" ".join(words[:2]), words[0]) if w in COMMANDS or w == "help"), "")


class HintRunner:
    """Runs what outputs advise.

    Args:
        run: runs a command line, as somebody who sits at a terminal and answers ``y``.
        places: the directories that hold all files of the test; the first one is for new files.
        only: the commands that may be run; by default all.

    Attributes:
        failures: what was printed on each way that leads nowhere.
    """

    def __init__(
        self,
        run: Callable[[Sequence[str]], Result],
        *places: Path,
        only: frozenset[str] | None = None,
    ) -> None:
        self._run = run
        self._places = places
        self._only = {"help", *(COMMANDS if only is None else only)}
        self._seen: set[tuple[str, tuple[str, ...]]] = set()
        self.failures: list[str] = []

    def __call__(self, result: Result) -> None:
        """Run what the output of a run advises, each in the state of now."""
        for words in dict.fromkeys(advised(result)):
            if (result.stderr, words) not in self._seen and _command(words) in self._only:
                self._seen.add((result.stderr, words))
                self._follow(result, words)

    def _follow(self, result: Result, words: Sequence[str]) -> None:
        said, is_guess = [result], _GUESS in result.stderr
        with _Aside(self._places):
            for _ in range(_MAX_DEPTH):
                followed = self._run(self._filled(words, said))
                said.append(followed)
                if _is_done(followed) or (is_guess and "unknown command" not in followed.stderr):
                    return
                stderr = _plain(followed.stderr)
                if _MALFORMED.search(stderr) or followed.exit_code == ExitCode.UNEXPECTED:
                    break
                if "hint: " not in stderr or stderr in (_plain(each.stderr) for each in said[:-1]):
                    break
                if (leads := next(advised(followed), None)) is None:
                    return  # only a person can do what it says
                words = leads
        told = (f"$ lakecli {shlex.join(each.argv)}\n{_plain(each.stderr)}" for each in said)
        self.failures.append("\n".join(told))

    def _filled(self, words: Sequence[str], said: Sequence[Result]) -> list[str]:
        """Put values in place of words in capitals."""
        uris = [re.match(r"lakefs://([a-z0-9-]+)(?:/([\w-]+))?(?:/(.*))?$", word)
                for each in said for word in each.argv]  # fmt: skip
        name, ref, path = next((uri.groups() for uri in uris if uri), ("demo", None, None))
        directory = self._places[0]
        (directory / "hinted-file").write_text("hinted")
        (directory / "hinted-directory").mkdir(exist_ok=True)
        (directory / "hinted-directory" / "file").write_text("hinted")
        branch = f"lakefs://{name}/{ref or 'main'}"
        listed = re.findall(r"^  (\S+)$", _plain(said[-1].stderr), re.MULTILINE)
        lake = {
            "repository": f"lakefs://{name}",
            "branch": branch,
            "path": f"{branch}/{path or 'a'}",
            "directory": str(directory),
            "file": str(directory / "hinted-file"),
            "listed": listed[0] if listed else str(directory / "hinted-file"),
            "operation": "0" * 32,
        }
        command = _command(words)

        def filled(word: str) -> str | None:
            word = re.sub(r"\[.*", "", word).rstrip(".")
            form = _OF_COMMANDS.get((command, word)) or _VALUES.get(word)
            return word if form is None else form.format_map(lake)

        def inside(word: str) -> str:
            values = {"REPOSITORY": name, "BRANCH": ref or "main", "REF": ref or "main"}
            values |= {"PATH": "a", "NAME": "hinted", "BAD": "main", "GOOD": "main"}
            word = re.sub(r"^(?:REF|BRANCH)\b", branch, word)
            return re.sub("|".join(values), lambda found: values[found[0]], word)

        taken = words[: words.index(">")] if ">" in words else words
        return [inside(value) for word in taken if (value := filled(word))]


def _plain(text: str) -> str:
    """Return what a terminal shows: without colours, and bars that were drawn over."""
    return re.sub(r"\x1b\[\??[\d;]*[A-Za-z]", "", text)


def _is_done(result: Result) -> bool:
    if result.exit_code in {ExitCode.OK, ExitCode.DIFFERENCES, ExitCode.NOTHING_TO_DO}:
        return True
    if "--verbose" in result.argv and "Traceback" in result.stderr:
        return True
    reports = " ".join(result.argv).startswith(_REPORTS)
    return reports and bool(result.stdout) and result.exit_code != ExitCode.USAGE


class _Aside:
    """While it is entered, directories are copies of themselves; at its end they are as before.

    The originals are moved away and back, so that numbers and times of their files stay.
    """

    def __init__(self, places: Sequence[Path]) -> None:
        self._places = [place for place in places if place.exists()]

    def __enter__(self) -> None:
        self._here = Path.cwd()
        os.chdir("/")
        for place in self._places:
            kept = place.with_name(f"{place.name}-aside")
            place.rename(kept)
            subprocess.run(["cp", "-a", kept, place], check=True)
        os.chdir(self._here)

    def __exit__(self, *_: object) -> None:
        os.chdir("/")
        for place in self._places:
            shutil.rmtree(place)
            place.with_name(f"{place.name}-aside").rename(place)
        os.chdir(self._here)

"""``lakecli quickstart``: create a small repository, and show each command."""

import os
import shlex
import shutil
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import TypedDict

from lakecli.cli.context import Context
from lakecli.cli.line import Kind, argument
from lakecli.cli.out.records import answers
from lakecli.cli.out.text import one_line
from lakecli.cli.tree import PROGRAM
from lakecli.errors import NotFound
from lakecli.repository.transfer.walk import LinkPolicy, walk

NAME = "quickstart"
MAX_FILES = 300
MAX_SIZE = 20 << 20
_SUFFIXES = (".py", ".txt")
_LEFT_OUT = frozenset({"__pycache__", "site-packages", "dist-packages", "test", "tests"})


class QuickstartJson(TypedDict):
    """The repository of a quickstart.

    Attributes:
        repository: URI of the repository.
        storage_namespace: URI of the storage namespace.
        directory: directory of the uploaded files.
        commands: command lines that the quickstart ran.
    """

    repository: str
    storage_namespace: str
    directory: Path
    commands: Sequence[str]


@answers(QuickstartJson)
def quickstart(
    context: Context, directory: str | None = argument("DIR", default=None, kind=Kind.DIRECTORY)
) -> None:
    """Create a small repository, and show each command as it runs.

    It uses up to 300 files or 20 MiB of DIR, or of Python's own library. The files are copied below
    lakecli's home, uploaded to a new repository there, committed, changed on a branch, compared,
    merged and tagged. The repository stays for you to try things. Each run creates another one.
    Nothing outside lakecli's home is changed, and no network is used.

    Args:
        directory: Directory with files to use.

    Examples:
        lakecli quickstart
        lakecli quickstart ~/Documents
    """
    name, place = _free_name(context)
    files = place / "files"
    names = _copy(_sources(directory), files)
    if not names:
        raise NotFound(
            f"no files in {directory or 'this Python'}", hint="lakecli quickstart DIRECTORY"
        )
    repository, namespace = f"lakefs://{name}", place / "namespace"
    values = {
        "repository": repository,
        "files": files,
        "namespace": namespace,
        "count": len(names),
        "changed": names[0],
        "gone": names[len(names) // 2],
    }
    steps, _, farewell = Path(__file__).with_suffix(".txt").read_text("utf-8").partition("\n\n")
    context.out.emit(
        {
            "repository": repository,
            "storage_namespace": f"local://{namespace}",
            "directory": files,
            "commands": _run_steps(context, steps, values),
        },
        text=lambda: _farewell(farewell, values),
    )


def _free_name(context: Context) -> tuple[str, Path]:
    """Return an unused name for a repository, and the path for a new directory."""
    taken = {record.name for record in context.lake().repositories(prefix=NAME)}
    root = Path(context.home.store).parent / NAME
    names = chain([NAME], (f"{NAME}-{number}" for number in count(2)))
    name = next(name for name in names if name not in taken and not (root / name).exists())
    return name, root / name


def _sources(directory: str | None) -> Iterator[tuple[Path, Path]]:
    """Yield the path of each file to copy, and the path relative to the directory.

    Args:
        directory: the directory; ``None`` for Python's standard library.
    """
    if directory is not None:
        root = Path(directory)
        if not root.is_dir():
            raise NotFound(f"no such directory: {directory}")
    else:
        root = Path(sysconfig.get_path("stdlib"))
    for found in walk(os.fsencode(root.absolute()), LinkPolicy.SKIP):
        relative = Path(os.fsdecode(found.relative))
        if found.problem is not None or any(part.startswith(".") for part in relative.parts):
            continue
        if directory is None and (
            relative.suffix not in _SUFFIXES or not _LEFT_OUT.isdisjoint(relative.parts)
        ):
            continue
        yield Path(os.fsdecode(found.path)), relative


def _copy(sources: Iterator[tuple[Path, Path]], target: Path) -> list[Path]:
    """Copy files until `MAX_SIZE` or `MAX_FILES` is reached, and return their relative paths."""
    names: list[Path] = []
    room = MAX_SIZE
    for source, relative in sources:
        try:
            data = source.read_bytes() if source.stat().st_size <= room else None
        except OSError:
            data = None
        if data is None:
            continue  # too large or unreadable
        (target / relative.parent).mkdir(parents=True, exist_ok=True)
        (target / relative).write_bytes(data)
        shutil.copystat(source, target / relative)
        room -= len(data)
        names.append(relative)
        if len(names) == MAX_FILES:
            break
    return names


def _run_steps(context: Context, steps: str, values: Mapping[str, object]) -> list[str]:
    """Print and run the commands of the quickstart, and return them; stop if one fails.

    Args:
        steps: the first part of ``quickstart.txt``, before the empty line. It has explanations
            after ``#``, commands after ``$``, and files to which a line is added after ``+``.
        values: the values of the placeholders in the file.
    """
    commands: list[str] = []
    for step in steps.splitlines():
        if step.startswith("#"):
            context.out.say(*[""] if commands else [], step.format_map(values))
        elif step.startswith("+"):
            _append(context, Path(step[2:].format_map(values)), "One more line.")
        elif "{gone}" not in step or values["gone"] != values["changed"]:
            words = _words(step, values)
            commands.append(_typed(words))
            context.out.say("", f"$ {_typed(words)}")
            context.run(words)
    return commands


def _farewell(text: str, values: Mapping[str, object]) -> Iterator[str]:
    """Yield lines with the repository, its directories, and commands to try next.

    Args:
        text: the last part of ``quickstart.txt``, whose commands are shown but not run.
    """
    yield ""
    for line in text.splitlines():
        is_command = line.startswith("$")
        yield f"  {_typed(_words(line, values))}" if is_command else line.format_map(values)


def _words(line: str, values: Mapping[str, object]) -> list[str]:
    return [word.format_map(values) for word in shlex.split(line.removeprefix("$ "))]


def _append(context: Context, file: Path, text: str) -> None:
    context.out.say(f"$ echo {shlex.quote(text)} >> {shlex.quote(str(file))}")
    with file.open("a") as opened:
        opened.write(f"{text}\n")
    now = context.now().timestamp()
    os.utime(file, (now, now))


def _typed(words: Sequence[str]) -> str:
    return one_line(shlex.join([PROGRAM, *words]))

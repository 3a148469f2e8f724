"""``lakecli quickstart``: create a small repository, and show each command."""

import os
import shlex
import shutil
import sysconfig
from collections.abc import Iterator, Sequence
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
    tour = _Tour(context, f"lakefs://{name}", place, names)
    tour.run()
    context.out.emit(
        {
            "repository": tour.repository,
            "storage_namespace": f"local://{tour.namespace}",
            "directory": files,
            "commands": tour.commands,
        },
        text=tour.farewell,
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


class _Tour:
    """The commands of the quickstart; each command is printed and then run."""

    def __init__(self, context: Context, repository: str, place: Path, names: list[Path]) -> None:
        self._context = context
        self._say = context.out.say
        self.repository = repository
        self.files = place / "files"
        self.namespace = place / "namespace"
        self._names = names
        self.commands: list[str] = []

    def run(self) -> None:
        """Run all commands; stop if one fails."""
        main, trial = f"{self.repository}/main", f"{self.repository}/experiment"
        changed, gone = self._names[0], self._names[len(self._names) // 2]
        self._explain(
            "Create a repository. Its objects go to a directory, its branches to lakecli's home."
        )
        self._do("repo", "create", self.repository, str(self.namespace))
        self._explain(f"Upload {len(self._names)} files, and commit them.")
        self._do("fs", "upload", "-r", str(self.files), f"{main}/files/")
        self._do("commit", main, "-m", "Add files", "--meta", "source=quickstart")
        self._explain("Create a branch. No object is copied.")
        self._do("branch", "create", trial, "-s", main)
        self._explain("On the branch, add a line to one file and remove another file.")
        self._append(changed, "One more line.\n")
        self._do("fs", "upload", str(self.files / changed), f"{trial}/files/{changed}")
        if gone != changed:
            self._do("fs", "rm", f"{trial}/files/{gone}")
        self._do("diff", trial)
        self._do("commit", trial, "-m", "Try something")
        self._explain("Meanwhile, change main. A copy inside a repository copies no bytes.")
        self._do("fs", "cp", f"{main}/files/{changed}", f"{main}/first/")
        self._do("commit", main, "-m", "Keep the first version")
        self._explain("List what a merge would change on main, merge, and tag the result.")
        self._do("diff", main, trial)
        self._do("merge", trial, main)
        self._do("tag", "create", f"{self.repository}/v1", main)
        self._explain(
            "Show the history, and the file before the merge (~ is the parent of a commit)."
        )
        self._do("log", "--graph", main)
        self._do("fs", "stat", f"{main}~1/files/{changed}")

    def farewell(self) -> Iterator[str]:
        """Yield lines with the repository, its directories, and commands to try next."""
        repository, changed = self.repository, self._names[0]
        yield ""
        yield "The repository stays for you to try things:"
        yield ""
        yield f"  repository  {repository}"
        yield f"  objects     {self.namespace}"
        yield f"  files       {self.files}"
        yield ""
        yield "Try next:"
        yield ""
        for words in (
            ("fs", "ls", f"{repository}/main/"),
            ("fs", "cat", f"{repository}/v1/files/{changed}"),
            ("diff", "--two-way", f"{repository}/main~2", f"{repository}/v1"),
            ("branch", "revert", f"{repository}/main", "main~1", "-y"),
            ("fs", "download", "-r", f"{repository}/v1/files/", "./files"),
            ("fsck", repository, "--data"),
            ("repo", "delete", repository),
        ):
            yield "  " + _typed(words)

    def _explain(self, text: str) -> None:
        self._say(*[""] if self.commands else [], f"# {text}")

    def _do(self, *words: str) -> None:
        """Print a command, and run it."""
        self.commands.append(_typed(words))
        self._say("", f"$ {_typed(words)}")
        self._context.run(words)

    def _append(self, name: Path, text: str) -> None:
        self._say(f"$ echo {shlex.quote(text.rstrip())} >> {shlex.quote(str(self.files / name))}")
        with (self.files / name).open("a") as file:
            file.write(text)
        now = self._context.now().timestamp()
        os.utime(self.files / name, (now, now))


def _typed(words: tuple[str, ...]) -> str:
    return one_line(shlex.join([PROGRAM, *words]))

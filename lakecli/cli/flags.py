"""The flags and commands that errors of the library mean: their hints name actions only."""

from __future__ import annotations

from contextlib import contextmanager

from lakecli.errors import LakeError
from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PHRASES: Final = {
    "list them first, without doing anything": "list them: --dry-run",
    "the strategy source-wins": "--strategy source-wins",
    "record a merge anyway, an empty one": "record a merge anyway: --allow-empty",
    "record the commit anyway, an empty one": "record the commit anyway: --allow-empty-commit",
    "unless they must exist, the others": "without --must-exist the others",
    "say which: parent number 1 is": "say which: --parent-number 1 is",
    "a tag stays where it is, unless it is forced": "a tag stays where it is; --force moves it",
    "may have seen it, force it with a lease": "may have seen it: --force-with-lease",
    "a push that is forced with a lease moves": "push with --force-with-lease moves",
    "upload the file, or import a copy of it": "upload the file, or import it with --copy",
    "import a copy of the bytes instead": (
        "copy the bytes into the repository instead: lakecli import --copy"
    ),
    "or import copies of its objects": "or copy the bytes into the repository: --copy",
    "take the namespace over to": "clone it with --take-over to",
    "and give that file": "and give it: --refs refs.json",
    "name the default branch of the dump": "name the default branch: --default-branch NAME",
    "or name the format": "or say which by --format",
    "or leave these refs out": "or leave these refs out with --leave-out names",
    "or dump the paths as they are": "or dump the paths as they are with --leave-out paths",
    "reset the changes, or leave them out": (
        "reset the changes, or leave them out with --leave-out uncommitted"
    ),
    "push first, or leave unpushed commits out": (
        "push first, with --push-first, or leave unpushed commits out with --leave-out unpushed"
    ),
    "upload it as a directory": "upload it with -r",
    "upload it as a stream": "pipe it in: SRC is -",
    "presigning a prefix writes them": "fs presign -r --manifest writes them",
    "from a link for an upload": "from fs presign --put",
    "undo it in the bucket too; or": "--remote undoes it in the bucket too; or",
    "complete it in the bucket too": "--remote completes it there",
}
"""What hints of the library say, and the flags that do it."""

SET_RULES: Final = "lakecli gc set-config lakefs://REPOSITORY -f FILE"


def with_flags(hint: str) -> str:
    """Return a hint of the library as the command line gives it."""
    for phrase, said in PHRASES.items():
        if phrase in hint:
            return hint.replace(phrase, said)
    return hint


@contextmanager
def naming_flags(flags: Mapping[type[LakeError], str]) -> Iterator[None]:
    """Add a flag or a command to the hints of some errors.

    Args:
        flags: what follows the hint, by the class of the error, without its subclasses.
    """
    try:
        yield
    except LakeError as error:
        flag = flags.get(type(error))
        if flag and error.hint:
            error.hint = f"{error.hint}: {flag}"
        raise

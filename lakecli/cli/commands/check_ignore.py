"""``lakecli check-ignore``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.line.declare import Argument, Option
from lakecli.cli.out.answers.worktree import Ignored
from lakecli.cli.out.text import quote_path
from lakecli.cli.reading import Completion, Kind
from lakecli.cli.worktrees import open_ignore
from lakecli.worktree.ignore import IgnoreMatch


def check_ignore(
    context: Context,
    files: Annotated[
        list[str],
        Argument(metavar="FILE", help="Files or directories of a linked directory"),
        Completion(Kind.FILE),
    ],
    *,
    why: Annotated[
        bool, Option("--why", help="Show the deciding pattern, and files that are not excluded")
    ] = False,
) -> ExitCode:
    """List the files that .lakefsignore excludes.

    A file .lakefsignore has patterns as in .gitignore, and may be in any directory of a linked
    directory. A file that the ref has already is never excluded. The exit code is 0 if a file is
    excluded, and 13 if none is.

    Examples:
        lakecli check-ignore build/output.log
        lakecli check-ignore --why *
    """
    ignore, relative = open_ignore(context, files)
    found = [(file, ignore.match(path)) for file, path in zip(files, relative, strict=True)]
    ignored = [(file, match) for file, match in found if match is not None and match.ignores]
    context.out.stream(
        found if why or context.out.json else ignored,
        record=lambda item: _record(*item),
        text=lambda item: _line(*item) if why else quote_path(item[0]),
    )
    return ExitCode.OK if ignored else ExitCode.DIFFERENCES


def _record(file: str, match: IgnoreMatch | None) -> Ignored:
    return Ignored(
        path=file,
        ignored=match is not None and match.ignores,
        file=None if match is None else match.file,
        line=None if match is None else match.line,
        pattern=None if match is None else match.pattern,
    )


def _line(file: str, match: IgnoreMatch | None) -> str:
    place = "::"
    if match is not None:
        place = f"{quote_path(match.file)}:{match.line}:{quote_path(match.pattern)}"
    return f"{place}\t{quote_path(file)}"

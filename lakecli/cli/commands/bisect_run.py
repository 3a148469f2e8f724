"""``lakecli bisect run``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Final

from lakecli.base import uri
from lakecli.base.model import Commit
from lakecli.cli.bisecting import answer, find_named, subject
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Argument
from lakecli.cli.reading import Completion, Kind
from lakecli.errors import Refused, UsageError
from lakecli.repository.bisect import BAD, GOOD, SKIP, Session, say, show
from lakecli.repository.contract import Repository

SKIP_CODE: Final = 125
"""The exit code of a test that says that a commit cannot be tested."""

_NO_VERDICT: Final = 126
"""From this exit code on, a shell could not run a program, or a signal ended it."""


class NoVerdict(Refused):
    """The program that tests commits could not be run, or did not end as a test does."""


def bisect_run(
    context: Context,
    command: Annotated[
        list[str],
        Argument(metavar="COMMAND", help="Program that tests a commit, with its arguments"),
        Completion(Kind.COMMAND),
    ],
) -> None:
    """Search by a program that tests each commit.

    It exits with 0 if the commit is good, with 125 if the commit cannot be tested, and with 1 to
    124 if the commit is bad. Another exit code, a signal, or a program that cannot be run ends the
    search. If several repositories have a session, put lakefs://REPOSITORY before COMMAND.

    The program gets the variables BISECT_ID, BISECT_MESSAGE, BISECT_METARANGE_ID and
    BISECT_COMMITTER of the commit, and BISECT_URI, such as lakefs://demo/4bd9…. In its arguments,
    :BISECT_ID: and so on are replaced by the same values.

    Examples:
        lakecli bisect run ./check.sh
        lakecli bisect run sh -c 'lakecli fs cat "$BISECT_URI/orders.csv" | grep -q 2026'
        lakecli bisect run python check.py --commit :BISECT_ID:
    """
    first = command[0] if command[0].startswith(uri.SCHEME) else ""
    words = command[1:] if first else command
    if not words:
        raise UsageError("no program to run", hint="lakecli bisect run COMMAND")
    repository, _ = find_named(context, [first] if first else [])
    session = show(repository)
    if session.state is None:
        raise UsageError(
            "a good and a bad commit must be known first",
            hint=f"lakecli bisect good {repository.uri}/REF, lakecli bisect bad "
            f"{repository.uri}/REF",
        )
    while (commit := _current(session)) is not None:
        shown = f"[{commit.id}] {subject(commit)}"
        context.out.say(f"== Commit {shown}")
        code = _run(context, repository, commit, words)
        verdict = GOOD if code == 0 else SKIP if code == SKIP_CODE else BAD
        session = say(repository, verdict, [commit.id])
        context.out.say(f"-- {session.word(verdict).upper()} {shown}")
    answer(context, repository, session)


def _current(session: Session) -> Commit | None:
    return None if session.state is None else session.state.current


def _run(context: Context, repository: Repository, commit: Commit, words: Sequence[str]) -> int:
    """Run the program on a commit and return its exit code.

    Raises:
        NoVerdict: it could not be run, was ended by a signal, or its code is no verdict.
    """
    import subprocess

    values = {
        "BISECT_ID": commit.id,
        "BISECT_MESSAGE": commit.message.replace("\0", ""),
        "BISECT_METARANGE_ID": commit.metarange_id,
        "BISECT_COMMITTER": commit.committer.replace("\0", ""),
        "BISECT_URI": f"{repository.uri}/{commit.id}",
    }
    filled = list(words)
    for name, value in values.items():
        filled = [word.replace(f":{name}:", value) for word in filled]
    context.out.flush()
    try:
        done = subprocess.run(
            filled,
            env={**context.environ, **values},
            # In JSON mode stdout is for the answer.
            stdout=2 if context.out.json else None,
            check=False,
        )
    except OSError as error:
        raise NoVerdict(
            f"cannot run {filled[0]!r}: {os.strerror(error.errno or 0)}",
            hint="name a program in PATH or by its path; for a shell: sh -c '...'",
        ) from None
    code = done.returncode
    if not 0 <= code < _NO_VERDICT:
        ended = f"was ended by signal {-code}" if code < 0 else f"exited with {code}"
        raise NoVerdict(
            f"{filled[0]!r} {ended} on commit {commit.id}",
            hint="exit with 0 (good), 125 (cannot be tested), or 1 to 124 (bad)",
        )
    return code

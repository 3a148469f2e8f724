"""``lakecli bisect``: search history for the commit that introduced a problem."""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, TypedDict

from lakecli.base import uri
from lakecli.base.model import Commit, CommitId
from lakecli.base.uri import LakeUri
from lakecli.cli.context import Context
from lakecli.cli.line import Argument, Kind, argument
from lakecli.cli.out.records import answers
from lakecli.cli.out.text import log_lines, subject
from lakecli.cli.parsers import read_ref_of, read_repository_or_expression
from lakecli.cli.programs import outcome_of, run_program
from lakecli.errors import NotFound, Refused, UsageError
from lakecli.repository import bisect as library
from lakecli.repository.contract import Repository

SKIP_CODE: Final = 125
"""The exit code by which a test program reports that a commit cannot be tested."""

_FREE_TEXT: Final = ("BISECT_MESSAGE", "BISECT_COMMITTER")
"""The variables whose values may contain any characters; all other variables are IDs."""

_TAKES_PROGRAM: Final = re.compile(r"-[A-Za-z]*[ce]|--(command|eval|exec|execute|expression)")
"""Matches options of shells and interpreters whose value is a program."""

_JOIN_ARGUMENTS: Final = {"parallel", "rsh", "ssh", "watch"}
"""Programs that pass all their arguments to a shell as one command."""

_NO_VERDICT: Final = 126
"""The lowest exit code with which a shell reports that a program could not be run or was ended
by a signal."""
BisectRefs = Annotated[
    Sequence[str], Argument("REF", "Ref or its URI; by default the commit that is being tested")
]
BisectRepository = Annotated[
    str, Argument("REPOSITORY", "lakefs://REPOSITORY; by default the one with a session")
]


class BisectionJson(TypedDict):
    """The state of a search for the first bad commit.

    Attributes:
        repository: URI of the repository.
        bad: the commit that was last marked as bad; null if none was.
        good: the commits that were marked as good.
        skipped: the commits that cannot be tested.
        current: the commit to test; null before a good and a bad commit are known, and at the end.
        left: number of commits left to test after the current one; null without a current commit.
        steps: approximate number of tests after the current one; null without a current commit.
        found: the first bad commit; null if it is not known yet.
        untested: if only skipped commits are left, these commits; one of them is the first bad one.
    """

    repository: str
    bad: CommitId | None
    good: Sequence[CommitId]
    skipped: Sequence[CommitId]
    current: Commit | None
    left: int | None
    steps: int | None
    found: Commit | None
    untested: Sequence[CommitId]


class BisectResetJson(TypedDict):
    """The end of a bisect session.

    Attributes:
        cleared: whether a session existed and was ended.
    """

    cleared: bool


@answers(BisectionJson)
def bisect_start(
    context: Context,
    bad: LakeUri = argument("BAD", read=read_repository_or_expression, kind=Kind.REF),
    good: list[str] = argument("GOOD", default=[], kind=Kind.REF),
) -> None:
    """Begin to search history for the first commit with a problem.

    Name a commit that has the problem and commits that do not, here or later by `lakecli bisect
    bad` and `lakecli bisect good`. Each verdict then halves the number of remaining commits: of
    1,000 commits, about 10 are tested. Merges are searched as by `git bisect`. To search for a
    change that is not a problem, use `lakecli bisect new` and `lakecli bisect old` instead.

    A repository has one session, which is kept on this machine until `lakecli bisect reset`. While
    only one repository has a session, the other commands need no argument.

    Args:
        bad: lakefs://REPOSITORY[/REF]: a commit with the problem.
        good: Commit without the problem: a ref or its URI.

    Examples:
        lakecli bisect start lakefs://demo/main lakefs://demo/v1.0
        lakecli bisect start lakefs://demo/main main~100 v1.0
        lakecli bisect start lakefs://demo
    """
    named = [read_ref_of(bad, each, context) for each in good]
    repository = context.synced_repository(bad, *named)
    session = library.start(repository, bad=bad.ref, good=list(map(uri.ref_of, named)))
    answer(context, repository, session)


@answers(BisectionJson)
def bisect_bad(context: Context, refs: BisectRefs = ()) -> None:
    """Record that a commit is bad: it has the problem.

    REF defaults to the commit that is being tested. The output names the next commit to test, or
    the first bad commit.

    Examples:
        lakecli bisect bad
        lakecli bisect bad lakefs://demo/main
    """
    say_and_answer(context, library.BAD, refs, is_old_new=False)


@answers(BisectionJson)
def bisect_good(context: Context, refs: BisectRefs = ()) -> None:
    """Record that commits are good: they do not have the problem.

    REF defaults to the commit that is being tested. The output names the next commit to test, or
    the first bad commit.

    Examples:
        lakecli bisect good
        lakecli bisect good lakefs://demo/v1.0 lakefs://demo/main~20
    """
    say_and_answer(context, library.GOOD, refs, is_old_new=False)


@answers(BisectionJson)
def bisect_old(context: Context, refs: BisectRefs = ()) -> None:
    """Record that commits are old: they do not have the change that is searched for.

    This is `bisect good` for a change that is not a problem, such as a repair. A session has either
    good and bad commits, or old and new ones.

    Examples:
        lakecli bisect old
        lakecli bisect old lakefs://demo/v1.0
    """
    say_and_answer(context, library.GOOD, refs, is_old_new=True)


@answers(BisectionJson)
def bisect_new(context: Context, refs: BisectRefs = ()) -> None:
    """Record that commits are new: they have the change that is searched for.

    This is `bisect bad` for a change that is not a problem, such as a repair. A session has either
    good and bad commits, or old and new ones.

    Examples:
        lakecli bisect new
        lakecli bisect new lakefs://demo/main
    """
    say_and_answer(context, library.BAD, refs, is_old_new=True)


@answers(BisectionJson)
def bisect_skip(context: Context, refs: BisectRefs = ()) -> None:
    """Record that commits cannot be tested.

    REF defaults to the commit that is being tested. The output names the next commit to test, or
    the first bad commit.

    Examples:
        lakecli bisect skip
        lakecli bisect skip lakefs://demo/main~3
    """
    say_and_answer(context, library.SKIP, refs)


@answers(BisectionJson)
def bisect_run(context: Context, command: list[str] = argument("COMMAND")) -> None:
    """Search with a program that tests each commit.

    The program exits with 0 if the commit is good, with 125 if the commit cannot be tested, and
    with 1 to 124 if the commit is bad. Another exit code, a signal, or a program that cannot be run
    ends the search. If several repositories have a session, put lakefs://REPOSITORY before COMMAND.

    The program gets the variables BISECT_ID, BISECT_MESSAGE, BISECT_METARANGE_ID and
    BISECT_COMMITTER of the commit, and BISECT_URI, such as lakefs://demo/4bd9…. In its arguments,
    :BISECT_ID: and so on are replaced by the same values. Anyone who commits can choose the message
    and the committer. So :BISECT_MESSAGE: and :BISECT_COMMITTER: must each be a separate argument,
    and not the code of an option such as `sh -c`. In a shell, use "$BISECT_MESSAGE".

    Args:
        command: Program that tests a commit, with its arguments.

    Examples:
        lakecli bisect run ./check.sh
        lakecli bisect run sh -c 'lakecli fs cat "$BISECT_URI/orders.csv" | grep -q 2026'
        lakecli bisect run sh -c 'echo "$BISECT_MESSAGE" | grep -q fix'
        lakecli bisect run python check.py --commit :BISECT_ID: --message :BISECT_MESSAGE:
    """
    first = command[0] if command[0].startswith(uri.SCHEME) else ""
    words = command[1:] if first else command
    if not words:
        raise UsageError("no program to run", hint="lakecli bisect run COMMAND")
    _check_words(words)
    repository = _session_of(context, first)
    session = library.show(repository)
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
        verdict = library.GOOD if code == 0 else library.SKIP if code == SKIP_CODE else library.BAD
        session = library.say(repository, verdict, [commit.id])
        context.out.say(f"-- {session.word(verdict).upper()} {shown}")
    answer(context, repository, session)


def _check_words(words: Sequence[str]) -> None:
    """Refuse a command in which a shell might execute the text of a commit.

    Raises:
        UsageError: a placeholder for the text of a commit is only a part of an argument, or is the
            program itself, or is code in an option (``sh -c``), or is an argument of a program
            that joins its arguments into one command.
    """
    joins = words[0].rpartition("/")[2] in _JOIN_ARGUMENTS
    is_program = True
    for word in words:
        for name in _FREE_TEXT:
            if f":{name}:" in word and (word != f":{name}:" or is_program or joins):
                raise UsageError(
                    f":{name}: is not a separate argument: a shell might execute a commit's text",
                    hint=f"use the variable instead: sh -c '... \"${name}\" ...'",
                )
        # Other options may come in between, as in `sh -c -- PROGRAM`.
        is_program = bool(_TAKES_PROGRAM.fullmatch(word)) or (is_program and word.startswith("-"))


def _current(session: library.Session) -> Commit | None:
    return None if session.state is None else session.state.current


def _run(context: Context, repository: Repository, commit: Commit, words: Sequence[str]) -> int:
    """Run the program on a commit and return its exit code.

    Raises:
        Refused: the program cannot be run, was ended by a signal, or its exit code is not a
            verdict.
    """
    values = {
        "BISECT_ID": commit.id,
        "BISECT_MESSAGE": commit.message.replace("\0", ""),
        "BISECT_METARANGE_ID": commit.metarange_id,
        "BISECT_COMMITTER": commit.committer.replace("\0", ""),
        "BISECT_URI": f"{repository.uri}/{commit.id}",
    }
    named = re.compile(f":({'|'.join(values)}):")
    filled = [named.sub(lambda found: values[found[1]], word) for word in words]
    context.out.flush()
    # In JSON mode stdout is for the answer.
    shows = not context.out.json
    code = run_program(filled, {**context.environ, **values}, Refused, shows=shows)
    if not 0 <= code < _NO_VERDICT:
        raise Refused(
            f"{filled[0]!r} {outcome_of(code)} on commit {commit.id}",
            hint="exit with 0 (good), 125 (cannot be tested), or 1 to 124 (bad)",
        )
    return code


@answers(Commit, each=True)
def bisect_view(context: Context, repository: BisectRepository = "") -> None:
    """Show the commits that may be the first bad one, newest first.

    Examples:
        lakecli bisect view
        lakecli bisect view lakefs://demo --json
    """
    state = library.show(_session_of(context, repository)).state
    context.out.stream(
        [] if state is None else state.candidates,
        text=lambda commit: "\n".join(log_lines(commit, show_metarange=True)),
    )


@answers(library.BisectVerdict, each=True)
def bisect_log(context: Context, repository: BisectRepository = "") -> None:
    """Show what was recorded in a bisect session.

    The lines are commands that repeat the session.

    Examples:
        lakecli bisect log
        lakecli bisect log lakefs://demo > session.sh
    """
    opened = _session_of(context, repository)
    session = library.show(opened)
    context.out.say(f"lakecli bisect start {opened.uri}")

    def line(said: library.BisectVerdict) -> str:
        return f"lakecli bisect {session.word(said.verdict)} {opened.uri}/{said.commit_id}"

    context.out.stream(session.said, text=line)


@answers(BisectResetJson)
def bisect_reset(context: Context, repository: BisectRepository = "") -> None:
    """End a bisect session.

    Branches and objects stay as they are.

    Examples:
        lakecli bisect reset
        lakecli bisect reset lakefs://demo
    """
    cleared = False
    if repository or library.names_with_session(context.lake()):
        cleared = library.reset(_session_of(context, repository))
    context.out.emit({"cleared": cleared}, text=lambda: ["Cleared bisect session"] * cleared)
    if not cleared:
        context.out.warn("no active bisect session")


def _session_of(context: Context, uri: str) -> Repository:
    """Return the repository that a URI names; without a URI, the only repository with a session."""
    return find_named(context, [uri] if uri else [])[0]


def find_named(context: Context, texts: Sequence[str]) -> tuple[Repository, list[str]]:
    """Return the repository that the arguments name, and the refs in the arguments.

    If no argument is a URI, this is the only repository with a bisect session.

    Raises:
        NotFound: no repository has a session.
        UsageError: several repositories have a session and no argument names a repository, or the
            arguments name different repositories.
    """
    uris: list[LakeUri] = []
    refs: list[str] = []
    for text in texts:
        if text.startswith(uri.SCHEME) or context.base_uri:
            parsed = uri.parse(text, base=context.base_uri)
            uris.append(parsed)
            if parsed.ref is not None:
                refs.append(uri.ref_of(uri.parse_ref(text, base=context.base_uri)))
        else:
            refs.append(text)
    if not uris:
        uris.append(uri.LakeUri(_only_session(context)))
    opened = context.synced_repository if refs else context.repository
    return opened(*uris), refs


def _only_session(context: Context) -> str:
    names = library.names_with_session(context.lake())
    if not names:
        raise NotFound(
            "no bisect session", hint="lakecli bisect start lakefs://REPOSITORY/BAD GOOD"
        )
    if len(names) > 1:
        raise UsageError(
            f"several repositories have a bisect session: {', '.join(names)}",
            hint=f"name one: {uri.SCHEME}{names[0]}",
        )
    return names[0]


def say_and_answer(
    context: Context, verdict: str, texts: Sequence[str], *, is_old_new: bool | None = None
) -> None:
    """Record a verdict, such as ``good``, on commits, and show the state of the search."""
    repository, refs = find_named(context, texts)
    answer(context, repository, library.say(repository, verdict, refs, is_old_new=is_old_new))


def answer(context: Context, repository: Repository, session: library.Session) -> None:
    """Show the state of a search."""
    state, current = session.state, _current(session)
    record = BisectionJson(
        repository=repository.uri,
        bad=None if session.bad is None else session.bad.id,
        good=session.good,
        skipped=session.skipped,
        current=current,
        left=None if state is None or current is None else state.left,
        steps=None if state is None or current is None else state.steps,
        found=None if state is None else state.found,
        untested=[] if state is None else [commit.id for commit in state.untested],
    )
    context.out.emit(record, text=lambda: _lines(repository, session))


def _lines(repository: Repository, session: library.Session) -> Iterator[str]:
    yield f"Repository: {repository.record.name}"
    state = session.state
    if state is None:
        yield _waiting(repository, session)
    elif state.found is not None:
        yield f"Found commit {repository.uri}/{state.found.id} {subject(state.found)}"
    elif state.untested:
        bad = session.word(library.BAD)
        yield f"Only skipped commits are left; the first {bad} commit is one of:"
        for commit in state.untested:
            yield f"{repository.uri}/{commit.id} {subject(commit)}"
    elif state.current is not None:
        if state.is_merge_base:
            yield "Bisecting: a common ancestor must be tested"
        else:
            yield (  # lakectl's words, whatever the numbers
                f"Bisecting: {state.left} commits left to test after this "
                f"(roughly {state.steps} steps)"
            )
        yield f"Current commit {repository.uri}/{state.current.id} {subject(state.current)}"


def _waiting(repository: Repository, session: library.Session) -> str:
    good, bad = session.word(library.GOOD), session.word(library.BAD)
    if session.bad is not None:
        uri = f"{repository.uri}/{session.bad.id}"
        return f"{bad.title()} commit {uri}, waiting for {good} commit"
    if session.good:
        uri = f"{repository.uri}/{session.good[-1]}"
        return f"{good.title()} commit {uri}, waiting for {bad} commit"
    return f"Missing both {good} and {bad} commits"

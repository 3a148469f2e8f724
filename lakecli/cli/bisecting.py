"""The commands of ``bisect``: which repository they mean, and what they answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

from lakecli.base import uri
from lakecli.base.model import Commit
from lakecli.base.uri import LakeUri
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Argument
from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers.changes import Bisection as BisectionRecord
from lakecli.cli.out.common_records import commit_record
from lakecli.cli.out.text import one_line
from lakecli.cli.reading import Completion, Kind
from lakecli.errors import NotFound, UsageError
from lakecli.repository.bisect import BAD, GOOD, Session, names_with_session, say
from lakecli.repository.contract import Repository

BisectRefs = Annotated[
    list[str],
    Argument(metavar="REF", help="Ref or its URI; by default the commit that is being tested"),
    Completion(Kind.REF),
]
BisectRepository = Annotated[
    str,
    Argument(metavar="REPOSITORY", help="lakefs://REPOSITORY; by default the one with a session"),
    Completion(Kind.REPOSITORY),
]


class Named(NamedTuple):
    """What the arguments of a command name.

    Attributes:
        repository: the repository.
        refs: expressions, without the URI of the repository alone.
    """

    repository: Repository
    refs: Sequence[str]


def find_named(context: Context, texts: Sequence[str]) -> Named:
    """Return the repository with a session that arguments mean, and the refs.

    Raises:
        NotFound: no repository has a session.
        UsageError: several have one and no argument says which, or they are of different ones.
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
    return Named(opened(*uris), refs)


def _only_session(context: Context) -> str:

    names = names_with_session(context.lake())
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
    """Record a verdict on commits, and show where the search stands."""
    repository, refs = find_named(context, texts)
    answer(context, repository, say(repository, verdict, refs, is_old_new=is_old_new))


def answer(context: Context, repository: Repository, session: Session) -> None:
    """Show where a search stands."""
    context.out.emit(
        bisection_record(repository, session), text=lambda: _lines(repository, session)
    )


def bisection_record(repository: Repository, session: Session) -> BisectionRecord:
    """Return the JSON answer about a session."""
    state = session.state
    return pick(
        BisectionRecord,
        repository=repository.uri,
        bad=None if session.bad is None else session.bad.id,
        good=session.good,
        skipped=session.skipped,
        current=_record_of(None if state is None else state.current),
        left=None if state is None or state.current is None else state.left,
        steps=None if state is None or state.current is None else state.steps,
        found=_record_of(None if state is None else state.found),
        untested=[] if state is None else [commit.id for commit in state.untested],
    )


def _record_of(commit: Commit | None) -> object:
    return None if commit is None else commit_record(commit)


def subject(commit: Commit) -> str:
    """Return the first line of a commit's message."""
    return one_line(commit.message.partition("\n")[0])


def _lines(repository: Repository, session: Session) -> Iterator[str]:

    yield f"Repository: {repository.record.name}"
    state = session.state
    if state is None:
        yield _waiting(repository, session)
    elif state.found is not None:
        yield f"Found commit {repository.uri}/{state.found.id} {subject(state.found)}"
    elif state.untested:
        yield f"Only skipped commits are left; the first {session.word(BAD)} commit is one of:"
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


def _waiting(repository: Repository, session: Session) -> str:

    good, bad = session.word(GOOD), session.word(BAD)
    if session.bad is not None:
        uri = f"{repository.uri}/{session.bad.id}"
        return f"{bad.title()} commit {uri}, waiting for {good} commit"
    if session.good:
        uri = f"{repository.uri}/{session.good[-1]}"
        return f"{good.title()} commit {uri}, waiting for {bad} commit"
    return f"Missing both {good} and {bad} commits"

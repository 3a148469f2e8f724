"""Search history for the commit that introduced a problem.

A repository has at most one session: a row in the local store, with the verdicts about commits.
Everything else is computed from the verdicts and the commits when it is needed.
"""

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from lakecli.base.model import Commit, CommitId
from lakecli.base.validation import Invalid, Record, boolean, list_of, optional, text
from lakecli.errors import IntegrityError, LostRace, NotFound, UsageError
from lakecli.kv.local_store import ReadTransaction, Table
from lakecli.refs.bisection import Bisection, bisection
from lakecli.repository.contract import OwnLake, Repository
from lakecli.repository.handle.lake import LocalRepository, iter_repositories
from lakecli.repository.reading.view import commit_at

GOOD: Final = "good"
BAD: Final = "bad"
SKIP: Final = "skip"

WORDS: Final = {GOOD: "old", BAD: "new"}
"""Alternative words for verdicts, as in Git, to search for a change that is not a problem."""

_MAX_SAID: Final = 1 << 20


class BisectVerdict(NamedTuple):
    """The user's verdict on one commit.

    Attributes:
        verdict: ``good``, ``bad`` or ``skip``.
    """

    verdict: str
    commit_id: CommitId


class Session(NamedTuple):
    """A bisect session, and the state of the search that follows from the verdicts.

    Attributes:
        said: all verdicts, in the order in which they were given.
        bad: the commit that was marked as bad last.
        good: the commits that were marked as good.
        skipped: the commits that cannot be tested.
        state: the state of the search; ``None`` until a good and a bad commit are known.
        is_old_new: whether the user's words are ``old`` and ``new`` instead of ``good`` and
            ``bad``; ``None`` before the first verdict.
    """

    said: tuple[BisectVerdict, ...]
    bad: Commit | None
    good: tuple[CommitId, ...]
    skipped: tuple[CommitId, ...]
    state: Bisection | None
    is_old_new: bool | None = None

    def word(self, verdict: str) -> str:
        """Return the word that the user uses for a verdict, such as ``old`` for ``good``."""
        return WORDS.get(verdict, verdict) if self.is_old_new else verdict


def _said(value: object) -> BisectVerdict:
    fields = list_of(text(64, min_size=1), 2)(value)
    if len(fields) != len(BisectVerdict._fields) or fields[0] not in {GOOD, BAD, SKIP}:
        raise Invalid(f"not a verdict of bisect: {value!r}")
    return BisectVerdict(fields[0], CommitId(fields[1]))


_RECORD: Final = Record(
    {"said": list_of(_said, _MAX_SAID), "is_old_new": optional(boolean, default=None)}
)


def start(repository: Repository, *, bad: str | None, good: Sequence[str]) -> Session:
    """Begin a session, which replaces an earlier session of the repository.

    Args:
        bad: a ref expression of a bad commit, if one is known.
        good: ref expressions of good commits.

    Raises:
        NotFound: a ref expression names nothing.
        Refused: the bad commit is an ancestor of a good commit.
    """
    with repository.lake.kv.read() as txn:
        said = [BisectVerdict(BAD, commit_at(repository, txn, bad).id)] if bad is not None else []
        said += [BisectVerdict(GOOD, commit_at(repository, txn, each).id) for each in good]
    return _keep(repository, None, (said, None))


def say(
    repository: Repository, verdict: str, refs: Sequence[str], *, is_old_new: bool | None = None
) -> Session:
    """Record that commits are good or bad, or cannot be tested.

    Args:
        verdict: ``good``, ``bad`` or ``skip``.
        refs: ref expressions of the commits; if empty, the commit that is to be tested next.
        is_old_new: whether the user's words are ``old`` and ``new`` instead of ``good`` and
            ``bad``; ``None``: the words of the session.

    Raises:
        NotFound: there is no session, or a ref expression names nothing.
        UsageError: no ref is given, and no commit is to be tested next; or the session uses the
            other pair of words.
        Refused: the bad commit would be an ancestor of a good commit.
        LostRace: another command recorded a verdict meanwhile.
    """
    session = show(repository)
    if None not in {is_old_new, session.is_old_new} and is_old_new != session.is_old_new:
        good, bad = session.word(GOOD), session.word(BAD)
        hint = f"`bisect {session.word(verdict)}`"
        raise UsageError(f"the bisect session of {repository.uri} says {good} and {bad}", hint=hint)
    words = session.is_old_new if is_old_new is None else is_old_new
    with repository.lake.kv.read() as txn:
        ids = [commit_at(repository, txn, ref).id for ref in refs]
    if not refs:
        word = session._replace(is_old_new=words).word(verdict)
        if session.state is None or session.state.current is None:
            hint = f"say which commit: `bisect {word} {repository.uri}/REF`"
            raise UsageError("there is no commit to test", hint=hint)
        ids = [session.state.current.id]
    said = [*session.said, *(BisectVerdict(verdict, each) for each in ids)]
    return _keep(repository, session.said, (said, words))


def show(repository: Repository) -> Session:
    """Return the session of a repository.

    Raises:
        NotFound: there is no session.
    """
    with repository.lake.kv.read() as txn:
        row = _load(txn, repository)
        if row is None:
            hint = f"`bisect start {repository.uri}/BAD {repository.uri}/GOOD`"
            raise NotFound(f"no bisect session in {repository.uri}", hint=hint)
        return _session(repository, txn, row)


def reset(repository: Repository) -> bool:
    """End the session of a repository; return whether it had a session."""
    with repository.lake.kv.write() as txn:
        return txn.delete(Table.META, _key(repository))


def names_with_session(lake: OwnLake) -> list[str]:
    """Return the names of the repositories that have a session."""
    with lake.kv.read() as txn:
        return [
            record.name
            for record in iter_repositories(txn)
            if txn.get(Table.META, _key(LocalRepository(lake, record))) is not None
        ]


_Row = tuple[Sequence[BisectVerdict], bool | None]
"""The row of a session in the local store: the verdicts, and `Session.is_old_new`."""


def _keep(repository: Repository, before: tuple[BisectVerdict, ...] | None, row: _Row) -> Session:
    """Record the verdicts of a session; first check that they do not contradict each other.

    Args:
        before: the verdicts as they were read; ``None`` for a new session.
        row: the row to write.

    Raises:
        LostRace: another command recorded a verdict meanwhile.
    """
    with repository.lake.kv.read() as txn:
        session = _session(repository, txn, row)
    said, is_old_new = row
    fields = {"said": said} | ({} if is_old_new is None else {"is_old_new": is_old_new})
    with repository.lake.kv.write() as txn:
        present = None if before is None else _load(txn, repository)
        if before is not None and (present is None or tuple(present[0]) != before):
            what = f"another command went on with the bisect session of {repository.uri}"
            raise LostRace(what, hint=f"show where it stands: `bisect log {repository.uri}`")
        txn.put(Table.META, _key(repository), json.dumps(fields).encode("ascii"))
    return session


def _load(txn: ReadTransaction, repository: Repository) -> _Row | None:
    data = txn.get(Table.META, _key(repository))
    if data is None:
        return None
    try:
        fields = _RECORD.read(json.loads(data))
    except (Invalid, ValueError) as error:
        what = f"the bisect session of {repository.uri} is damaged: {error}"
        raise IntegrityError(what, hint=f"end it: `bisect reset {repository.uri}`") from None
    return tuple(fields["said"]), fields["is_old_new"]


def _session(repository: Repository, txn: ReadTransaction, row: _Row) -> Session:
    said, is_old_new = row
    refs = repository.refs(txn)
    last = {each.commit_id: each.verdict for each in said}
    bad = next((each.commit_id for each in reversed(said) if last[each.commit_id] == BAD), None)
    good = tuple(each for each, verdict in last.items() if verdict == GOOD)
    skipped = tuple(each for each, verdict in last.items() if verdict == SKIP)
    state = None
    if bad is not None and good:
        first = next(each.commit_id for each in said if last[each.commit_id] == BAD)
        state = bisection(refs, bad, good, skipped, first_bad=first)
    bad_commit = None if bad is None else refs.get_commit(bad)
    return Session(tuple(said), bad_commit, good, skipped, state, is_old_new)


def _key(repository: Repository) -> bytes:
    return b"bisect/" + repository.key

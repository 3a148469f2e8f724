"""Search history for the commit that introduced a problem.

The state of a session is one row of the local store for each repository: what was said about which
commit. What follows from it is computed from the commits each time.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import IntegrityError, LostRace, NotFound, UsageError
from lakecli.kv.env import Table
from lakecli.model import CommitId
from lakecli.refs.ref_store import RefStore
from lakecli.repository.core.view import commit_at
from lakecli.validation import Invalid, Record, list_of, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakecli.kv.env import ReadTransaction
    from lakecli.model import Commit
    from lakecli.refs.bisection import Bisection
    from lakecli.repository.core.lake import Lake, Repository

GOOD: Final = "good"
BAD: Final = "bad"
SKIP: Final = "skip"

_MAX_SAID: Final = 1 << 20


class Said(NamedTuple):
    """What was said about a commit.

    Attributes:
        verdict: ``good``, ``bad`` or ``skip``.
        commit_id: the commit.
    """

    verdict: str
    commit_id: CommitId


class Session(NamedTuple):
    """A session, and what follows from it.

    Attributes:
        said: everything that was said, in order.
        bad: the last commit that was called bad.
        good: the commits that were called good.
        skipped: the commits that cannot be tested.
        state: where the search stands; ``None`` until a good and a bad commit are known.
    """

    said: tuple[Said, ...]
    bad: Commit | None
    good: tuple[CommitId, ...]
    skipped: tuple[CommitId, ...]
    state: Bisection | None


def _said(value: object) -> Said:
    fields = list_of(text(64, min_size=1), 2)(value)
    if len(fields) != len(Said._fields) or fields[0] not in {GOOD, BAD, SKIP}:
        raise Invalid(f"not a verdict of bisect: {value!r}")
    return Said(fields[0], CommitId(fields[1]))


_RECORD: Final = Record({"said": list_of(_said, _MAX_SAID)})


def start(repository: Repository, *, bad: str | None, good: Sequence[str]) -> Session:
    """Begin a session, in place of an earlier one.

    Args:
        repository: the repository to search.
        bad: a ref expression of a bad commit, if one is known.
        good: ref expressions of good commits.

    Raises:
        NotFound: one of them names nothing.
        Refused: the bad commit is an ancestor of a good one.
    """
    with repository.lake.kv.read() as txn:
        said = [Said(BAD, commit_at(repository, txn, bad).id)] if bad is not None else []
        said += [Said(GOOD, commit_at(repository, txn, each).id) for each in good]
    return _keep(repository, None, said)


def say(repository: Repository, verdict: str, refs: Sequence[str]) -> Session:
    """Record that commits are good or bad, or cannot be tested.

    Args:
        repository: the repository of the session.
        verdict: ``good``, ``bad`` or ``skip``.
        refs: ref expressions; without one, the commit that is to be tested.

    Raises:
        NotFound: there is no session, or one of the refs names nothing.
        UsageError: no ref is given, and no commit is to be tested.
        Refused: the bad commit would be an ancestor of a good one.
        LostRace: another command said something meanwhile.
    """
    session = show(repository)
    with repository.lake.kv.read() as txn:
        ids = [commit_at(repository, txn, ref).id for ref in refs]
    if not refs:
        if session.state is None or session.state.current is None:
            raise UsageError(
                "there is no commit to test",
                hint=f"say which commit: lakecli bisect {verdict} {repository.uri}/REF",
            )
        ids = [session.state.current.id]
    return _keep(repository, session.said, [*session.said, *(Said(verdict, each) for each in ids)])


def show(repository: Repository) -> Session:
    """Return the session of a repository.

    Raises:
        NotFound: there is none.
    """
    with repository.lake.kv.read() as txn:
        said = _load(txn, repository)
        if said is None:
            raise NotFound(
                f"no bisect session in {repository.uri}",
                hint=f"lakecli bisect start {repository.uri}/BAD {repository.uri}/GOOD",
            )
        return _session(repository, txn, said)


def reset(repository: Repository) -> bool:
    """End a session; return whether there was one."""
    with repository.lake.kv.write() as txn:
        return txn.delete(Table.META, _key(repository))


def names_with_session(lake: Lake) -> list[str]:
    """Return the names of the repositories that have a session."""
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.records import iter_repositories

    with lake.kv.read() as txn:
        return [
            record.name
            for record in iter_repositories(txn)
            if txn.get(Table.META, _key(Repository(lake, record))) is not None
        ]


def _keep(repository: Repository, before: Sequence[Said] | None, said: Sequence[Said]) -> Session:
    """Record what was said, if a search can go on from there.

    Args:
        repository: the repository of the session.
        before: what was said when it was read; ``None`` for a new session.
        said: what is said now.

    Raises:
        LostRace: another command said something meanwhile.
    """
    with repository.lake.kv.read() as txn:
        session = _session(repository, txn, said)
    with repository.lake.kv.write() as txn:
        if before is not None and _load(txn, repository) != list(before):
            raise LostRace(
                f"another command went on with the bisect session of {repository.uri}",
                hint=f"show where it stands: lakecli bisect log {repository.uri}",
            )
        txn.put(Table.META, _key(repository), json.dumps({"said": said}).encode("ascii"))
    return session


def _load(txn: ReadTransaction, repository: Repository) -> list[Said] | None:
    data = txn.get(Table.META, _key(repository))
    if data is None:
        return None
    try:
        said: list[Said] = _RECORD.read(json.loads(data))["said"]
    except (Invalid, ValueError) as error:
        raise IntegrityError(
            f"the bisect session of {repository.uri} is damaged: {error}",
            hint=f"end it: lakecli bisect reset {repository.uri}",
        ) from None
    return said


def _session(repository: Repository, txn: ReadTransaction, said: Sequence[Said]) -> Session:
    from lakecli.refs.bisection import bisection

    refs = RefStore(txn, repository.key)
    last = {each.commit_id: each.verdict for each in said}
    bad = next((each.commit_id for each in reversed(said) if last[each.commit_id] == BAD), None)
    good = tuple(each for each, verdict in last.items() if verdict == GOOD)
    skipped = tuple(each for each, verdict in last.items() if verdict == SKIP)
    state = None
    if bad is not None and good:
        first = next(each.commit_id for each in said if last[each.commit_id] == BAD)
        state = bisection(refs, bad, good, skipped, first_bad=first)
    return Session(tuple(said), None if bad is None else refs.get_commit(bad), good, skipped, state)


def _key(repository: Repository) -> bytes:
    return b"bisect/" + repository.key

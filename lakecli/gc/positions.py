"""Where the refs of the bucket point, and where they pointed recently, by the bucket's own dates.

A move in the shared reflog is dated by the clock of the machine that made it, which may be wrong by
months. So a move is too old to count only if the bucket proves it: the move was made before the
object that contains it was written, and before an earlier collection saw it there.

A collection writes an observation of all refs about once a day, and the bucket dates it; see
`observations`. Of those that are old enough the newest counts. If neither proves that a move is
old, but its own date says so, the move is *doubtful*. It counts too, unless there are retention
rules and a ref still reaches the commit: then the rules decide, as the commit was not removed by
force.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from lakecli.base.layout import MAX_REF_SIZE, REFLOG, REFS, ref_key, reflog_prefix
from lakecli.base.model import CommitId, RefKind
from lakecli.gc.known_refs import Seen, observed_before
from lakecli.remote.ref_records import NotOurs, RefMove, RemoteRef, parse_moves
from lakecli.stores.contract import ObjectInfo, ObjectNotFound

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore


class Positions(NamedTuple):
    """Where one ref points and pointed.

    Attributes:
        branch: the branch's name; ``""`` for a tag.
        head: commit of the ref; ``None``: the ref is deleted.
        recent: commits that the ref recently pointed to.
        doubtful: commits that it may recently have pointed to: only the moving machine's clock
            says when.
    """

    branch: str
    head: CommitId | None
    recent: frozenset[CommitId]
    doubtful: frozenset[CommitId]


def read_positions(
    store: ObjectStore, refs: Sequence[RemoteRef], cutoff: datetime
) -> Iterator[Positions]:
    """Yield the positions of refs.

    Args:
        store: the namespace.
        refs: all refs, deleted ones too, as they have just been read.
        cutoff: earlier positions do not count.

    Raises:
        NotOurs: an object of the reflog is invalid.
    """
    # Listed after reading, so each date is that of the ref as read, or later.
    written = {info.key: info.modified_at for info in store.list(REFS)}
    chunks = _recent_chunks(store, cutoff)
    observed = observed_before(store, cutoff)
    for ref in refs:
        key = ref_key(ref.kind, ref.name)
        groups = []
        at = written.get(key)
        if at is None or at >= cutoff:
            groups.append(ref.moves)
        groups += [
            _read_chunk(store, ref, info)
            for info in chunks.get(reflog_prefix(ref.kind, ref.name), ())
        ]
        yield _positions(ref, groups, observed.get(key), cutoff)


def _positions(
    ref: RemoteRef, groups: Sequence[Sequence[RefMove]], seen: Seen | None, cutoff: datetime
) -> Positions:
    recent: set[CommitId | None] = set()
    doubtful: set[CommitId | None] = set()
    for move in counted(groups, seen, cutoff):
        (recent if move.at >= cutoff else doubtful).update((move.before, move.after))
    recent -= {None}
    return Positions(
        branch=ref.name if ref.kind is RefKind.BRANCH else "",
        head=ref.commit_id,
        recent=frozenset(each for each in recent if each is not None),
        doubtful=frozenset(each for each in doubtful - recent if each is not None),
    )


def counted(
    groups: Sequence[Sequence[RefMove]], seen: Seen | None, cutoff: datetime
) -> Iterator[RefMove]:
    """Yield the moves that may have been made since `cutoff`.

    Args:
        groups: moves of one ref, for each object written since `cutoff`.
        seen: the last move that a collection saw before `cutoff`, if there is one.
        cutoff: moves that provably were made earlier are left out.
    """
    moves = [move for group in groups for move in group]
    # If the bucket was restored from a copy, sequence numbers repeat, and the observation does not
    # apply.
    believed = 0
    if seen is not None and any(
        (move.sequence, move.write_id) == (seen.sequence, seen.write_id) for move in moves
    ):
        believed = seen.sequence
    for move in moves:
        if move.sequence > believed or move.at >= cutoff:
            yield move


def _recent_chunks(store: ObjectStore, cutoff: datetime) -> dict[str, list[ObjectInfo]]:
    """Return the objects of the reflog written since `cutoff`, by the prefix of their keys."""
    found: dict[str, list[ObjectInfo]] = {}
    for info in store.list(REFLOG):
        if info.modified_at >= cutoff:
            found.setdefault(info.key.rpartition("/")[0] + "/", []).append(info)
    return found


def _read_chunk(store: ObjectStore, ref: RemoteRef, info: ObjectInfo) -> tuple[RefMove, ...]:
    if info.size > MAX_REF_SIZE:
        raise NotOurs(
            f"{info.key} has {info.size} bytes; moves of {ref.kind} {ref.name!r} take at most "
            f"{MAX_REF_SIZE}",
            hint="another program wrote into this namespace: restore the object from a backup",
        )
    try:
        return parse_moves(info.key, store.get(info.key))
    except ObjectNotFound:
        return ()


def reached_by_heads(
    parents: Mapping[CommitId, Sequence[CommitId]], heads: Iterable[CommitId | None]
) -> frozenset[CommitId]:
    """Return the known commits that refs reach; the head of a deleted ref is ``None``."""
    waiting = [each for each in heads if each is not None]
    found: set[CommitId] = set()
    while waiting:
        commit_id = waiting.pop()
        if commit_id in parents and commit_id not in found:
            found.add(commit_id)
            waiting += parents[commit_id]
    return frozenset(found)

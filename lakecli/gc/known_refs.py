"""Read the refs in the bucket and their recent moves; find refs that are missing or too old.

Each collection records in the bucket which refs it saw, for later collections::

    _lakecli/gc/seen/<id>    written about once a day, never changed, and dated by the bucket
    _lakecli/gc/refs         replaced by each run: the refs as the last collection saw them

Both kinds of records have a line for each ref, including deleted refs: sequence number, write ID,
key, and the commit or ``-``. Anybody who can write to the bucket can write such a record. A record
in ``seen/``, called an observation, can only protect more objects. `read_last` reads a whole record
or none, since the record lists the refs that must exist. The first run writes
``_lakecli/gc/refs`` before any observation. So if this record is missing while an observation
exists, the record was lost.

**Missing and older refs.** Garbage collection deletes the objects that no ref reaches. So if a ref
is missing or older than before by mistake, its data would be lost. A ref object is never deleted:
deleting a ref leaves a tombstone. Its sequence number only grows. So the refs that are read are
compared with the refs that this clone tracks, with the record of the last collection, and with the
refs that this process read before.

An older ref does no harm once some ref reaches the commit that the older ref pointed to when it was
last seen: then somebody has pushed the commit again. A clone that fetches an older ref records the
commit that the ref pointed to before. These commits must be reached, too.

Otherwise a person may accept the present refs, after a backup was restored. Refs that are damaged,
or that are listed and cannot be read, cannot be accepted: nobody knows which objects they need.

**Recent positions.** The recent positions of a ref are the commits that it recently pointed to. A
move in the shared reflog is dated by the clock of the machine that made the move, and this clock
may be wrong by months. So a move is ignored as too old only if the bucket proves that it is old.
There are two proofs: the object that contains the move was written long ago, or an earlier
collection saw the move long ago. Of the observations that are old enough the newest is used.
If there is no proof, but the move's own date is old, the move is *doubtful*. A doubtful move counts
as recent, too, unless there are retention rules and a ref still reaches the commit: then the rules
decide, as the commit was not removed by force.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final, NamedTuple

from lakecli.base.ids import WriteId
from lakecli.base.layout import GC, MAX_REF_SIZE, REFLOG, REFS, ref_key, ref_of_key, reflog_prefix
from lakecli.base.model import CommitId, RefKind
from lakecli.errors import IntegrityError
from lakecli.kv.bucket import Tracked
from lakecli.remote.ref_records import InvalidRecord, NotOurs, RecordedMove, RemoteRef, parse_moves
from lakecli.remote.refs import ListedRef, find_ref, iter_refs, read_refs
from lakecli.repository.contract import Repository
from lakecli.repository.journal import bucket_state, tracking
from lakecli.stores.contract import (
    ANY,
    ObjectInfo,
    ObjectNotFound,
    ObjectStore,
    Version,
    get_bounded,
)

SEEN: Final = GC + "seen/"
LAST: Final = GC + "refs"
OBSERVED_EVERY: Final = timedelta(days=1)

MAX_SEEN_SIZE: Final = 64 << 20
"""Maximum size of a record in bytes, enough for 300,000 refs. Refs beyond it are left out."""

_LINE: Final = re.compile(r"([1-9][0-9]{0,15}) ([0-9a-f]{32}) ([!-~]+) ([0-9a-f]{64}|-)", re.ASCII)


class ObservedMove(NamedTuple):
    """The last move of a ref, as a collection saw it."""

    sequence: int
    write_id: str


class UncertainRefs(IntegrityError):
    """Refs may be missing or too old; a person may accept the present refs.

    Attributes:
        what: a text with the reason for the doubt.
        lost: refs that are missing, or older than when they were last seen.
    """

    what: str
    lost: "tuple[LostRef, ...]" = ()


class DamagedObservation(UncertainRefs):
    """The record of the refs that the last collection saw is missing or damaged."""

    def __init__(self, why: str, uri: str) -> None:
        self.what = f"the refs that the last garbage collection saw are damaged: {LAST}: {why}"
        super().__init__(
            self.what,
            hint="check that no branch or tag is missing, and accept the present ones: "
            f"`gc run --accept-restored {uri}`",
        )


def dump(refs: Iterable[RemoteRef]) -> bytes:
    """Encode refs as a record, with one line for each ref; see the module."""
    lines, size = [], 0
    for ref in refs:
        key = ref_key(ref.kind, ref.name)
        line = f"{ref.sequence} {ref.write_id} {key} {ref.commit_id or '-'}\n"
        size += len(line)
        if size > MAX_SEEN_SIZE:
            break
        lines.append(line)
    return "".join(lines).encode("ascii")


def observe(
    store: ObjectStore, name: str, refs: Iterable[RemoteRef], *, now: datetime, cutoff: datetime
) -> None:
    """Record the last move of each ref, at most about once a day; delete old records.

    Args:
        name: the name of the new record below ``_lakecli/gc/seen/``.
        now: the present time by the store's clock.
        cutoff: records written before this time are deleted, except the newest of them.
    """
    there = _observations(store)
    old = [info.key for info in there if info.modified_at < cutoff]
    if len(old) > 1:
        store.delete(old[:-1])
    is_due = not there or there[-1].modified_at <= now - OBSERVED_EVERY
    if is_due and (body := dump(refs)):
        store.put(SEEN + name, body, ANY)


def _observations(store: ObjectStore) -> list[ObjectInfo]:
    """List the records of earlier collections, oldest first."""
    return sorted(store.list(SEEN), key=attrgetter("modified_at", "key"))


def observed_before(store: ObjectStore, cutoff: datetime) -> Mapping[str, ObservedMove]:
    """Return the last moves of refs from the newest record before `cutoff`, by the refs' keys."""
    old = [info.key for info in _observations(store) if info.modified_at < cutoff]
    data = b""
    with suppress(ObjectNotFound):
        data = store.get(old[-1], start=0, length=MAX_SEEN_SIZE) if old else b""
    lines = map(_LINE.fullmatch, data.decode("ascii", "replace").split("\n"))
    return {line[3]: ObservedMove(int(line[1]), line[2]) for line in lines if line is not None}


def put_last(store: ObjectStore, refs: Iterable[RemoteRef]) -> None:
    """Record the refs for the next collection, replacing the record of the last collection."""
    store.put(LAST, dump(refs), ANY)


def read_last(store: ObjectStore, uri: str) -> list[Tracked]:
    """Return the refs as the last collection saw them; an empty list if there was no collection.

    Raises:
        DamagedObservation: the record is lost or too large, or a line of it is not valid.
    """
    try:
        data = store.get(LAST, start=0, length=MAX_SEEN_SIZE + 1)
    except ObjectNotFound:
        if any(store.list(SEEN)):
            raise DamagedObservation("it is missing", uri) from None
        return []
    if len(data) > MAX_SEEN_SIZE:
        raise DamagedObservation(f"more than {MAX_SEEN_SIZE} bytes", uri)
    found = {}
    *lines, rest = data.decode("latin-1").split("\n")
    for number, text in enumerate(lines, 1):
        line = _LINE.fullmatch(text)
        ref = None if line is None else ref_of_key(line[3])
        if line is None or ref is None or ref in found:
            raise DamagedObservation(f"line {number}", uri)
        commit = None if line[4] == "-" else CommitId(line[4])
        found[ref] = Tracked(*ref, commit, int(line[1]), WriteId(line[2]), "")
    if rest:
        raise DamagedObservation("it ends within a line", uri)
    return list(found.values())


_NAMED: Final = 3
"""Maximum number of refs that an error names."""

_CLONE: Final = "this clone"
_COLLECTION: Final = "the last garbage collection"
_RUN: Final = "this run"
_MISSING: Final = "is missing"


class LostRef(NamedTuple):
    """A ref that is missing in the bucket, or in an older state than before.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
        commit_id: commit to which the ref pointed when last seen; null if the ref was deleted then.
        sequence: number of the ref's last move at that time; 0 if unknown.
        seen_by: what saw the ref then: this clone, the last garbage collection, or this run.
        now: the state of the ref now, in words, such as "is missing".
    """

    kind: RefKind
    name: str
    commit_id: CommitId | None
    sequence: int
    seen_by: str
    now: str

    def __str__(self) -> str:
        """Describe the ref: who last saw it, and its present state."""
        return f"{self.kind} {self.name!r} {self.now}; {self.seen_by} saw it {_where(self)}"


class RefsWentBack(UncertainRefs):
    """Refs are missing, or older than when last seen, so the objects that they need are unknown."""

    def __init__(self, uri: str, all_lost: Sequence[LostRef]) -> None:
        lost = list({(each.kind, each.name): each for each in reversed(all_lost)}.values())[::-1]
        more = f"; and {len(lost) - _NAMED} more refs" if lost[_NAMED:] else ""
        what = f"{'; '.join(map(str, lost[:_NAMED]))}{more}"
        super().__init__(
            "branches or tags are missing in the bucket or older than they were, so nothing is "
            f"collected: {what}",
            hint=f"restore them from a clone that has them, by `push --all {uri}` or "
            f"`fsck --repair {uri}`; if a backup was restored, accept the present ones: "
            f"`gc run --accept-restored {uri}`",
        )
        self.lost, self.what = tuple(lost), what


class UnreadableRef(NotOurs):
    """A ref that is damaged, or that is listed and not found."""


class KnownRefs(NamedTuple):
    """The refs of one bucket as they were seen before this run.

    Attributes:
        seen: pairs of an observer and the refs that it saw.
        stood: refs that were older than before when this clone fetched them, with the commits to
            which they pointed before the fetch.
        damage: the error if the record of the last collection is damaged, so that `seen` lacks its
            refs; else ``None``.
    """

    uri: str
    seen: tuple[tuple[str, Sequence[Tracked]], ...] = ()
    stood: tuple[LostRef, ...] = ()
    damage: DamagedObservation | None = None


def find_known(repository: Repository) -> KnownRefs:
    """Return the refs of a repository's bucket that this clone and the last collection saw."""
    with repository.lake.kv.read() as txn:
        tracked = list(repository.tracking(txn).iter())
        last = bucket_state.find_rollback(txn, repository)
    rolled_back = () if last is None else last.refs
    stood = tuple(LostRef(*each, 0, _CLONE, "went back") for each in rolled_back)
    known = KnownRefs(repository.uri, ((_CLONE, tracked),), stood)
    try:
        collected = read_last(repository.store, repository.uri)
    except DamagedObservation as error:
        return known._replace(damage=error)
    return known._replace(seen=(*known.seen, (_COLLECTION, collected)))


def read_known_refs(
    store: ObjectStore, known: KnownRefs, before: Iterable[RemoteRef] = ()
) -> tuple[list[RemoteRef], list[LostRef]]:
    """Return all refs, even deleted refs, and the refs that are missing or older than last seen.

    Args:
        known: the refs as they were seen before this run.
        before: the refs as this run has already read them.

    Raises:
        UnreadableRef: a ref is damaged, or it is listed and cannot be read.
    """
    seen: dict[tuple[RefKind, str], dict[str, Tracked]] = defaultdict(dict)
    for who, tracked in (*known.seen, (_RUN, map(_tracked, before))):
        for each in tracked:
            seen[each.kind, each.name][who] = each
    listed = {(each.kind, each.name): each for each in iter_refs(store)}
    # A listing may lag behind, so refs that it lacks are requested one by one.
    late = [ListedRef(*ref, Version("")) for ref in seen.keys() - listed.keys()]
    read = list(read_refs(store, [*listed.values(), *late]))
    refs = [each for each in read if isinstance(each, RemoteRef)]
    found = {(ref.kind, ref.name): ref for ref in refs}
    unread = [(RefKind(each.kind), each.name) for each in read if isinstance(each, InvalidRecord)]
    unread += listed.keys() - found.keys()
    if unread:
        raise _unreadable(store, known.uri, *unread[0], seen=seen[unread[0]])
    lost = [
        _lost(each, who, found.get(ref))
        for ref, by in sorted(seen.items())
        for who, each in by.items()
        if tracking.went_back(store, each, found.get(ref))
    ]
    # An error names a ref by the first of its entries.
    return refs, sorted([*known.stood, *lost], key=lambda each: each.now != _MISSING)


def find_lost(gone_back: Iterable[LostRef], reached: Collection[CommitId]) -> list[LostRef]:
    """Return the refs that are missing, and older refs whose last seen commit is not reached.

    Args:
        gone_back: refs that are missing or older than when they were last seen.
        reached: the commits that the present refs reach.
    """
    return [each for each in gone_back if each.now == _MISSING or each.commit_id not in reached]


def _unreadable(
    store: ObjectStore, uri: str, kind: RefKind, name: str, *, seen: Mapping[str, Tracked]
) -> UnreadableRef:
    """Return the error for a ref that could not be read; the error says who saw the ref."""
    before = next(iter(seen.items()), None)
    known = "" if before is None else f"; {before[0]} saw it {_where(before[1])}"
    try:
        found = find_ref(store, kind, name)
    except NotOurs as error:
        return UnreadableRef(f"{error.message}{known}", hint=error.hint)
    if found is not None:
        what = f"{kind} {name!r} could not be read in {store.uri} at first{known}"
        return UnreadableRef(what, hint="repeat the command")
    return UnreadableRef(
        f"{kind} {name!r} is listed in {store.uri}, but cannot be read there{known}",
        hint="repeat the command later; if it stays so, restore the object from a clone that has "
        f"seen it: `fsck --repair {uri}`",
    )


def _lost(before: Tracked, who: str, ref: RemoteRef | None) -> LostRef:
    if ref is None:
        now = _MISSING
    elif ref.sequence < before.sequence:
        now = f"is at move {ref.sequence}"
    else:
        now = f"has another move {before.sequence} now"
    return LostRef(before.kind, before.name, before.commit_id, before.sequence, who, now)


def _where(seen: LostRef | Tracked) -> str:
    """Describe the commit and the number of the move at which a ref was seen."""
    commit = f"on commit {seen.commit_id}" if seen.commit_id else ""
    move = f"at move {seen.sequence}" if seen.sequence else ""
    return f"{commit} {move}".strip()


def _tracked(ref: RemoteRef) -> Tracked:
    return Tracked(ref.kind, ref.name, ref.commit_id, ref.sequence, ref.write_id, str(ref.version))


class Positions(NamedTuple):
    """The commits that one ref points to now, and recently pointed to.

    Attributes:
        branch: the branch's name; ``""`` for a tag.
        head: the commit that the ref points to; ``None`` if the ref is deleted.
        recent: commits that the ref recently pointed to.
        doubtful: commits of old moves whose age is known only from the clock of the machine that
            moved the ref, which may be wrong.
    """

    branch: str
    head: CommitId | None
    recent: frozenset[CommitId]
    doubtful: frozenset[CommitId]


def read_positions(
    store: ObjectStore, refs: Sequence[RemoteRef], recent: Iterable[ObjectInfo], cutoff: datetime
) -> Iterator[Positions]:
    """Yield for each ref the commits to which it points now, and to which it recently pointed.

    Args:
        refs: all refs, including deleted refs, as they were just read.
        recent: the objects of the reflog written since `cutoff`, listed after the refs were read.

    Raises:
        NotOurs: an object of the reflog is invalid.
    """
    # Listed after the refs were read, so each date is the write time of the ref as read, or later.
    written = {info.key: info.modified_at for info in store.list(REFS)}
    chunks: dict[str, list[ObjectInfo]] = defaultdict(list)
    for info in recent:
        chunks[info.key.rpartition("/")[0] + "/"].append(info)
    observed = observed_before(store, cutoff)
    for ref in refs:
        key = ref_key(ref.kind, ref.name)
        groups = []
        at = written.get(key)
        if at is None or at >= cutoff:
            groups.append(ref.moves)
        older = chunks.get(reflog_prefix(ref.kind, ref.name), ())
        groups += [_read_chunk(store, ref, info) for info in older]
        found: tuple[set[CommitId], set[CommitId]] = set(), set()
        for move in counted(groups, observed.get(key), cutoff):
            found[move.at < cutoff].update(filter(None, (move.before, move.after)))
        since, doubtful = map(frozenset, found)
        branch = ref.name if ref.kind is RefKind.BRANCH else ""
        yield Positions(branch, ref.commit_id, since, doubtful - since)


def counted(
    groups: Sequence[Sequence[RecordedMove]], seen: ObservedMove | None, cutoff: datetime
) -> Iterator[RecordedMove]:
    """Yield the moves that may have been made since `cutoff`.

    Args:
        groups: the moves of one ref, grouped by the object that contains them. These objects were
            written since `cutoff`.
        seen: the last move that a collection saw before `cutoff`, if there is one.
        cutoff: moves that were provably made before this time are left out.
    """
    moves = [move for group in groups for move in group]
    # If the bucket was restored from a copy, sequence numbers repeat. So the observation counts
    # only if the very move that it saw is among the moves.
    is_ours = seen is not None and any((each.sequence, each.write_id) == seen for each in moves)
    believed = seen.sequence if seen is not None and is_ours else 0
    for move in moves:
        if move.sequence > believed or move.at >= cutoff:
            yield move


def list_reflog(store: ObjectStore, cutoff: datetime) -> tuple[list[ObjectInfo], list[ObjectInfo]]:
    """Return the objects of the reflog written since `cutoff`, and those written before it.

    The moves in the earlier objects are older than `cutoff`, too.
    """
    found: tuple[list[ObjectInfo], list[ObjectInfo]] = [], []
    for info in store.list(REFLOG):
        found[info.modified_at < cutoff].append(info)
    return found


def _read_chunk(store: ObjectStore, ref: RemoteRef, info: ObjectInfo) -> tuple[RecordedMove, ...]:
    if info.size > MAX_REF_SIZE:
        raise NotOurs(
            f"{info.key} has {info.size} bytes; moves of {ref.kind} {ref.name!r} take at most "
            f"{MAX_REF_SIZE}",
            hint="another program wrote into this namespace: restore the object from a backup",
        )
    try:
        return parse_moves(info.key, get_bounded(store, info.key, MAX_REF_SIZE))
    except ObjectNotFound:
        return ()

"""The roots of garbage collection: refs, their recent past, and the unpushed work of this clone.

The bucket has all refs (of every clone), the moves in their reflog, all commit packs, the refs
dumps that are kept, and the refs dump that a lakeFS server left. This clone has its own refs, its
staged changes, and the commits and staged changes that its operation log could restore. Operations
expire by the same rule as for undo, `housekeeping.expired_through`: a command that ran while the
clock was wrong does not end the protection of other operations.

`retained` returns the commits that keep their objects, by lakeFS's rule: heads, and commits that
recently were heads. From each start the walk follows first parents. The start is kept. As long as a
commit is younger than the retention of its branch, its parent is kept too. So the first commit
older than the limit is kept, because it was the head when the retention period began. Without rules
all reachable commits are kept, along all parents. The tree of a merge commit refers to the objects
of the merged branch. So the commits of that branch lose only objects that no kept tree has.

All commit packs are read, including replaced packs. A pack only claims which packs it replaces, and
anybody who can write to the bucket can write a pack. So the commits of all packs count, and a pack
is garbage only if another pack that stays contains all of its commits.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from operator import itemgetter
from typing import Final, NamedTuple

from lakecli.base.ids import PackId
from lakecli.base.layout import COMMITS
from lakecli.base.model import Commit, CommitId, MetarangeId, RefKind, StagingToken
from lakecli.errors import IntegrityError
from lakecli.gc import known_refs, tasks
from lakecli.gc.policy import Times, Work
from lakecli.gc.report import Doomed
from lakecli.kv import operations as log
from lakecli.kv.local_store import ReadTransaction
from lakecli.kv.operations import Operation
from lakecli.remote.packs import DamagedPack, find_replaceable_pack, read_new_packs
from lakecli.remote.ref_records import RemoteRef
from lakecli.repository.contract import Repository
from lakecli.repository.handle.housekeeping import KEPT_FOR, expired_through
from lakecli.repository.journal import intents, operation_log
from lakecli.repository.lakefs import kept_dumps
from lakecli.repository.lakefs.dump import reach_of_dump
from lakecli.staging import area
from lakecli.stores.contract import ObjectInfo, ObjectStore

_BATCH: Final = 50_000
"""Number of addresses of staged changes that are in memory at a time."""

REFLOG_KEPT: Final = KEPT_FOR
"""Minimum time to keep commits that a ref formerly pointed to; a longer grace period applies."""

_CLOCKS: Final = timedelta(days=1)
"""Allowance for a difference between the time of a move and the date of the object with it."""


class Known(NamedTuple):
    """The fields of a commit that garbage collection needs; `created_at` is in unix seconds."""

    parents: tuple[CommitId, ...]
    tree: MetarangeId
    created_at: int

    @classmethod
    def of(cls, commit: Commit) -> "Known":
        """Return the fields of a commit that garbage collection needs."""
        return cls(commit.parents, commit.metarange_id, int(commit.created_at.timestamp()))


class Roots(NamedTuple):
    """The roots of garbage collection.

    Attributes:
        commits: number of commits that keep their objects.
        heads: trees of the commits that the bucket's refs point to.
        trees: trees of the commits that the bucket's refs and reflog reach, including `heads`.
        own_trees: trees that only this clone reaches; their objects may be lost already.
        dumped_trees: trees of the commits in refs dumps that are kept.
        dumps: IDs of the tables of these refs dumps.
        refs: the refs in the bucket, including deleted refs.
        unneeded: commit packs, and expired records of moves and dumps, that are garbage.
    """

    commits: int
    heads: frozenset[MetarangeId]
    trees: frozenset[MetarangeId]
    own_trees: frozenset[MetarangeId]
    dumped_trees: frozenset[MetarangeId]
    dumps: frozenset[str]
    refs: tuple[RemoteRef, ...]
    history: Mapping[CommitId, Known]
    unneeded: tuple[Doomed, ...]


def check_refs(
    store: ObjectStore, known: known_refs.KnownRefs
) -> tuple[list[RemoteRef], known_refs.UncertainRefs | None]:
    """Return the refs, and an error if some are missing, or older than when they were last seen.

    Raises:
        UnreadableRef: a ref is damaged, or it is listed and cannot be read.
    """
    refs, gone_back = known_refs.read_known_refs(store, known)
    damage = known.damage
    if not gone_back:
        return refs, damage
    heads = [ref.commit_id for ref in refs]
    lost = known_refs.find_lost(gone_back, reached_by_heads(read_packs(store).commits, heads))
    if not lost:
        return refs, damage
    uncertain = known_refs.RefsWentBack(known.uri, lost)
    if damage is not None:
        uncertain.what = f"{damage.what}; {uncertain.what}"
    return refs, uncertain


def gather(work: Work, before: Iterable[RemoteRef]) -> Roots:
    """Read the roots of garbage collection from the bucket and from this clone.

    Args:
        before: the refs as this run has already read them.

    Raises:
        LostHistory: a commit that a ref reaches is missing.
        DamagedPack: a commit is missing, perhaps because it is in this damaged commit pack.
        RefsWentBack: refs are missing, or older than when they were last seen.
        NotOurs: a ref in the bucket is invalid.
        LostDump, BadRecord: a refs dump that is kept, or that lakeFS left, cannot be read.
    """
    repository, store, known, now = work.repository, work.store, work.known, work.times.now
    # Read the refs first: none of the refs as read can reach commits that are written later.
    refs, gone_back = known_refs.read_known_refs(store, known, before)
    cutoff = reflog_cutoff(now, work.times.grace)
    recent, expired = known_refs.list_reflog(store, cutoff)
    positions = list(known_refs.read_positions(store, refs, recent, cutoff))
    packs = read_packs(store)
    commits = packs.commits
    if gone_back:
        reached = reached_by_heads(commits, [each.head for each in positions])
        if lost := known_refs.find_lost(gone_back, reached):
            raise known_refs.RefsWentBack(known.uri, lost)
    with repository.lake.kv.read() as txn:
        for commit in repository.refs(txn).iter_commits():
            commits.setdefault(commit.id, Known.of(commit))
        mine = list(own_positions(txn, repository, now))
    own = [Start(each, _since(work, branch)) for each, branch in mine if each in commits]
    try:
        kept = retained(commits, _shared_starts(commits, positions, work))
        all_kept = kept | retained(commits, own)
    except LostHistory as error:
        if packs.damaged:
            raise packs.damaged[0] from error
        raise
    heads = _trees_of(commits, {each.head for each in positions if each.head is not None})
    trees = _trees_of(commits, kept)
    own_trees = _trees_of(commits, all_kept) - trees
    tables, dumped = _reach_dumps(work)
    unneeded = tuple(_unneeded(store, packs, expired, work.times))
    found = (len(all_kept), heads, trees, own_trees, dumped, tables)
    return Roots(*found, refs=tuple(refs), history=commits, unneeded=unneeded)


def reflog_cutoff(now: datetime, grace: timedelta) -> datetime:
    """Return the time since which the commits that refs pointed to keep their objects."""
    return now - max(REFLOG_KEPT, grace) - _CLOCKS


class PacksRead(NamedTuple):
    """The commits of all packs in the bucket, and what the packs say about each other.

    Attributes:
        replaces: the IDs of the packs that a pack claims to replace, by the ID of that pack.
        damaged: packs that cannot be read. A damaged pack matters only if one of its commits is
            reached and is in no other pack.
    """

    commits: dict[CommitId, Known]
    replaces: dict[PackId, tuple[PackId, ...]]
    damaged: list[DamagedPack]


def read_packs(store: ObjectStore) -> PacksRead:
    """Read all packs in the bucket."""
    commits: dict[CommitId, Known] = {}
    replaces: dict[PackId, tuple[PackId, ...]] = {}
    damaged: list[DamagedPack] = []
    for pack in read_new_packs(store, (), all_packs=True):
        if isinstance(pack, DamagedPack):
            damaged.append(pack)
            continue
        if pack.replaces:
            replaces[pack.id] = pack.replaces
        commits.update((commit.id, Known.of(commit)) for commit in pack.commits)
    return PacksRead(commits, replaces, damaged)


def reached_by_heads(
    commits: Mapping[CommitId, Known], heads: Iterable[CommitId | None]
) -> frozenset[CommitId]:
    """Return the known commits that heads reach; the head of a deleted ref is ``None``."""
    waiting = [each for each in heads if each is not None]
    found: set[CommitId] = set()
    while waiting:
        commit_id = waiting.pop()
        if commit_id in commits and commit_id not in found:
            found.add(commit_id)
            waiting += commits[commit_id].parents
    return frozenset(found)


class OwnPosition(NamedTuple):
    """A commit that a ref of this clone points or pointed to; `branch` is ``""`` for a tag."""

    commit_id: CommitId
    branch: str


def own_positions(
    txn: ReadTransaction, repository: Repository, now: datetime
) -> Iterator[OwnPosition]:
    """Yield the commits that this clone's refs point to, and commits that undo could restore."""
    refs = repository.refs(txn)
    for kind, name, head in refs.iter_refs():
        yield OwnPosition(head, name if kind is RefKind.BRANCH else "")
    for operation in iter_operations(txn, repository, now):
        for change in operation.refs:
            for fields in (change.before, change.after):
                if fields is not None and "commit_id" in fields:
                    name = change.name if change.kind is RefKind.BRANCH else ""
                    yield OwnPosition(CommitId(fields["commit_id"]), name)
    for begun in intents.iter_begun(txn, repository):
        for commit_id in (begun.intent.before, begun.intent.after):
            if commit_id is not None:
                yield OwnPosition(commit_id, "")


def iter_operations(
    txn: ReadTransaction, repository: Repository, now: datetime
) -> Iterator[Operation]:
    """Yield the operations that have not expired, so that undo can still use them, newest first.

    Args:
        now: the time by the store's clock. If this machine's clock differs, the earlier of both
            times determines the limit, so that fewer operations expire.
    """
    here = repository.lake.runtime.now()
    expired = expired_through(txn, repository, now=max(here, now), cutoff=min(here, now) - KEPT_FOR)
    operations = log.iter_operations(txn, repository.key)
    return takewhile(lambda operation: operation.sequence > expired, operations)


def _since(work: Work, branch: str) -> int | None:
    if work.rules is None:
        return None
    days = work.rules.days_of(branch) if branch else work.rules.default_days
    return int((work.times.now - timedelta(days=days)).timestamp())


def iter_staged(repository: Repository, now: datetime) -> Iterator[bytes]:
    """Yield the digests of data objects of staged changes, and of changes that undo could restore.

    Call this before `gather`. Then changes that are committed between the two calls are found by
    this function. Changes that an undo stages again between the two calls are found by both, since
    the operation log names commits and staged changes.
    """
    with repository.lake.kv.read() as txn:
        found: set[bytes] = set()
        for value in _staged_values(txn, repository, now):
            found.update(tasks.addresses_in(value))
            if len(found) >= _BATCH:
                yield tasks.digests_of(found)
                found.clear()
        yield tasks.digests_of(found)


def _staged_values(txn: ReadTransaction, repository: Repository, now: datetime) -> Iterator[bytes]:
    tokens: set[bytes] = set()
    for branch in repository.refs(txn).iter_branches():
        tokens.update(branch.tokens)
    tokens.update(token for token, _ in operation_log.iter_copies(txn, repository))
    for operation in iter_operations(txn, repository, now):
        tokens.update(operation.sealed)
        for ref in operation.refs:
            tokens.update(_tokens_of(ref.before), _tokens_of(ref.after))
        for change in operation.staging:
            tokens.add(change.token)
            for _, image in log.iter_images(txn, operation.id, change.token):
                if image is not None:
                    yield image
    for token in sorted(tokens):
        for _, value in area.scan(txn, StagingToken(token)):
            yield value


def _tokens_of(fields: Mapping[str, object] | None) -> Iterator[bytes]:
    if fields is None or "staging_token" not in fields:
        return
    yield bytes.fromhex(str(fields["staging_token"]))
    sealed = fields.get("sealed_tokens")
    for token in sealed if isinstance(sealed, list) else ():
        yield bytes.fromhex(str(token))


class Start(NamedTuple):
    """The commit where a walk starts, and the unix time at which it ends; ``None`` for no limit."""

    commit_id: CommitId
    since: int | None


class LostHistory(IntegrityError):
    """A commit that refs reach is missing, so the objects that it needs are unknown."""


def retained(commits: Mapping[CommitId, Known], starts: Iterable[Start]) -> set[CommitId]:
    """Return the commits that keep their objects: walk from each start to its limit."""
    found: set[CommitId] = set()
    limited: list[tuple[int, CommitId]] = []
    waiting = []
    for commit_id, since in starts:
        if since is None:
            waiting.append(commit_id)
        else:
            limited.append((since, commit_id))
    while waiting:
        commit_id = waiting.pop()
        if commit_id not in found:
            found.add(commit_id)
            waiting += _get(commits, commit_id).parents
    # The walk that goes back furthest comes first, since a walk ends at commits already found.
    for since, commit_id in sorted(limited, key=itemgetter(0)):
        while commit_id not in found:
            found.add(commit_id)
            commit = _get(commits, commit_id)
            if commit.created_at <= since or not commit.parents:
                break
            commit_id = commit.parents[0]  # noqa: PLW2901 - continue the walk
    return found


def _get(commits: Mapping[CommitId, Known], commit_id: CommitId) -> Known:
    commit = commits.get(commit_id)
    if commit is None:
        raise LostHistory(
            f"commit {commit_id} is in no commit pack, so the objects that it needs are unknown",
            hint="push from a clone that has it, or check: `fsck lakefs://REPOSITORY`",
        )
    return commit


def _shared_starts(
    commits: Mapping[CommitId, Known], positions: Sequence[known_refs.Positions], work: Work
) -> Iterator[Start]:
    """Yield the commits that the bucket's refs point to, or recently pointed to."""
    reached: frozenset[CommitId] = frozenset()
    if work.rules is not None and any(each.doubtful for each in positions):
        reached = reached_by_heads(commits, [each.head for each in positions])
    for each in positions:
        since = _since(work, each.branch)
        if each.head is not None:
            yield Start(each.head, since)
        for commit_id in sorted(each.recent | (each.doubtful - reached)):
            yield Start(commit_id, since)


def _trees_of(commits: Mapping[CommitId, Known], ids: Iterable[CommitId]) -> frozenset[MetarangeId]:
    return frozenset(commits[each].tree for each in ids) - {MetarangeId("")}


def _reach_dumps(work: Work) -> tuple[frozenset[str], frozenset[MetarangeId]]:
    """Return the tables of the refs dumps that are kept, and the trees of their commits."""
    repository, taken = work.repository, work.taken
    tables: frozenset[str] = frozenset()
    trees: frozenset[MetarangeId] = frozenset()
    kept = kept_dumps.all_kept(work.store, taken, work.times.now)
    left = kept_dumps.find_left(work.store)
    if left is not None:
        kept.insert(0, left)
    for each in {dump.lists: dump for dump in kept}.values():
        try:
            more_tables, more_trees = reach_of_dump(repository.trees, each.manifest)
        except IntegrityError as error:
            if each is left and taken is not None and each.lists == taken.dump.lists:
                continue  # the take-over restored this dump, whose tables were collected later
            raise kept_dumps.LostDump(each, error) from error
        tables, trees = tables | more_tables, trees | more_trees
    return tables, trees


def _unneeded(
    store: ObjectStore, read: PacksRead, moves: Iterable[ObjectInfo], times: Times
) -> Iterator[Doomed]:
    """Yield unneeded objects: replaced packs, and expired records of moves and dumps."""
    packs = {info.key.removeprefix(COMMITS): info for info in store.list(COMMITS)}
    for replaced, by in sorted(superseded_packs(store, packs, read.replaces).items()):
        # A process that listed the packs before the new pack was written still reads the old one.
        info = packs[replaced]
        if max(info.modified_at, packs[by].modified_at) < times.cutoff:
            yield Doomed(info.key, info.size, "pack", info.version)
    for info in moves:
        yield Doomed(info.key, info.size, "reflog", info.version)
    for info in kept_dumps.iter_expired_records(store, times.now):
        yield Doomed(info.key, info.size, "dump", info.version)


def superseded_packs(
    store: ObjectStore, packs: Collection[str], replaces: Mapping[PackId, tuple[PackId, ...]]
) -> dict[PackId, PackId]:
    """Return the packs that are garbage, because another pack that stays has all of their commits.

    Returns:
        The ID of the pack that has the commits, by the ID of the pack that is garbage.
    """
    direct: dict[PackId, PackId] = {}
    for by, replaced in sorted(replaces.items()):
        wanted = [each for each in replaced if each in packs and each not in direct]
        if by not in packs or not wanted:
            continue
        holder = find_replaceable_pack(store, by)
        if holder is None:
            continue
        held = {commit.id for commit in holder.commits}
        for each in wanted:
            pack = find_replaceable_pack(store, each)
            if pack is not None and held.issuperset(commit.id for commit in pack.commits):
                direct[each] = by
    return {each: _last(direct, each) for each in direct}


def _last(direct: Mapping[PackId, PackId], pack_id: PackId) -> PackId:
    """Return the last pack in a chain of replacements.

    There are no cycles, since a pack's ID is a digest that covers the IDs of the packs that it
    replaces.
    """
    while (by := direct.get(pack_id)) is not None:
        pack_id = by
    return pack_id

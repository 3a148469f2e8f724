"""What counts as in use before any object is listed: refs, their recent past, and this clone.

Read from the bucket, afresh: all refs (of every clone), the moves in their reflog, all commit
packs. From this clone: its refs, its operation log with what that could bring back, what is staged.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.kv import operations as log
from lakecli.layout import REFLOG
from lakecli.model import CommitId, MetarangeId, StagingToken
from lakecli.pipeline.gc.history import Known, Start, retained
from lakecli.pipeline.gc.tasks import addresses_in, digests_of
from lakecli.refs.store import RefStore
from lakecli.repository.housekeeping import KEPT_FOR
from lakecli.staging import area

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from lakecli.kv.env import ReadTransaction
    from lakecli.kv.operations import Operation
    from lakecli.objectstore.base import ObjectStore
    from lakecli.pipeline.gc.live import DigestSet
    from lakecli.pipeline.gc.rules import Rules
    from lakecli.repository.lake import Repository

REFLOG_KEPT: Final = KEPT_FOR
"""How long where a ref stood counts, and is kept in the reflog; longer if the grace period is."""

_CLOCKS: Final = timedelta(days=1)
"""How far the clocks that date moves are allowed for."""

_BATCH: Final = 50_000


class Roots(NamedTuple):
    """What counts.

    Attributes:
        commits: how many keep their objects.
        trees: of these, as far as the bucket's refs and reflog reach them.
        own_trees: of those that only this clone can reach; objects of them may be lost already.
        replaced: IDs of commit packs that others hold the commits of, with those of the others.
    """

    commits: int
    trees: frozenset[MetarangeId]
    own_trees: frozenset[MetarangeId]
    replaced: Mapping[str, str]


def reflog_cutoff(now: datetime, grace: timedelta) -> datetime:
    """Return the moment from which on it counts where a ref stood."""
    return now - max(REFLOG_KEPT, grace) - _CLOCKS


def gather(
    repository: Repository,
    live: DigestSet,
    *,
    now: datetime,
    grace: timedelta,
    rules: Rules | None,
) -> Roots:
    """Find out what counts; data objects of what is staged here go to `live`.

    Args:
        repository: whose.
        live: is added to.
        now: by the store's clock.
        grace: the grace period.
        rules: for how long commits keep their objects; ``None``: as long as refs reach them.

    Raises:
        LostHistory: a commit that a ref reaches is nowhere.
        DamagedPack: a commit pack is damaged.
        NotOurs: a ref in the bucket is none.
    """
    from lakecli.remote.packs import read_new_packs

    store = repository.store
    # Refs first: commits that come after are of no ref that was read.
    shared = list(_shared_starts(store, now, grace, rules))
    commits: dict[CommitId, Known] = {}
    replaced: dict[str, str] = {}
    for pack in read_new_packs(store, ()):
        replaced.update(dict.fromkeys(pack.replaces, pack.id))
        for commit in pack.commits:
            at = int(commit.created_at.timestamp())
            commits[commit.id] = Known(commit.parents, commit.metarange_id, at)
    with repository.lake.kv.read() as txn:
        for commit in RefStore(txn, repository.key).iter_commits():
            at = int(commit.created_at.timestamp())
            commits.setdefault(commit.id, Known(commit.parents, commit.metarange_id, at))
        own = [
            Start(each.commit_id, _since(now, rules, each.name))
            for each in _own_positions(txn, repository, _operations(txn, repository))
            if each.commit_id in commits
        ]
        _add_staged(txn, repository, live)
    kept = retained(commits, shared)
    all_kept = kept | retained(commits, own)
    trees = frozenset(commits[each].tree for each in kept) - {MetarangeId("")}
    own_trees = frozenset(commits[each].tree for each in all_kept) - {MetarangeId("")} - trees
    return Roots(len(all_kept), trees, own_trees, replaced)


def _since(now: datetime, rules: Rules | None, branch: str) -> int | None:
    if rules is None:
        return None
    days = rules.default_days if not branch else rules.days_of(branch)
    return int((now - timedelta(days=days)).timestamp())


def _shared_starts(
    store: ObjectStore, now: datetime, grace: timedelta, rules: Rules | None
) -> Iterator[Start]:
    """Yield where the bucket's refs stand, and stood lately."""
    from lakecli.remote.reflog import iter_moves
    from lakecli.remote.refs import iter_refs, read_refs

    cutoff = reflog_cutoff(now, grace)
    for ref in read_refs(store, iter_refs(store)):
        since = _since(now, rules, ref.name if ref.kind == "branch" else "")
        found: set[CommitId | None] = {ref.commit_id}
        in_object = len(ref.moves)
        for number, move in enumerate(iter_moves(store, ref)):
            if move.at >= cutoff:
                found |= {move.before, move.after}
            elif number >= in_object - 1:
                break  # the next one would have to be fetched
        for commit_id in found:
            if commit_id is not None:
                yield Start(commit_id, since)


class _Position(NamedTuple):
    """A commit that a ref stands or stood on here; `name` is ``""`` but for a branch."""

    commit_id: CommitId
    name: str


def _operations(txn: ReadTransaction, repository: Repository) -> Iterator[Operation]:
    """Yield what can be taken back; older operations only wait for being tidied away."""
    cutoff = repository.lake.now() - KEPT_FOR
    for operation in log.iter_operations(txn, repository.key):
        if operation.at < cutoff:
            return
        yield operation


def _own_positions(
    txn: ReadTransaction, repository: Repository, operations: Iterable[Operation]
) -> Iterator[_Position]:
    """Yield where this clone's refs stand, and where its operation log could put them."""
    from lakecli.repository.sharing import intents

    refs = RefStore(txn, repository.key)
    for branch in refs.iter_branches():
        yield _Position(branch.commit_id, branch.name)
    for tag in refs.iter_tags():
        yield _Position(tag.commit_id, "")
    for operation in operations:
        for change in operation.refs:
            for fields in (change.before, change.after):
                if fields is not None and "commit_id" in fields:
                    name = change.name if change.kind == "branch" else ""
                    yield _Position(CommitId(fields["commit_id"]), name)
    for begun in intents.iter_begun(txn, repository):
        for commit_id in (begun.intent.before, begun.intent.after):
            if commit_id is not None:
                yield _Position(commit_id, "")


def _add_staged(txn: ReadTransaction, repository: Repository, live: DigestSet) -> None:
    """Add what is staged here, and what was and could come back."""
    tokens: set[bytes] = set()
    for branch in RefStore(txn, repository.key).iter_branches():
        tokens.update((branch.staging_token, *branch.sealed_tokens))
    found: set[bytes] = set()
    for operation in _operations(txn, repository):
        tokens.update(operation.sealed)
        for ref in operation.refs:
            tokens.update(_tokens_of(ref.before), _tokens_of(ref.after))
        for change in operation.staging:
            tokens.add(change.token)
            for _, image in log.iter_images(txn, operation.id, change.token):
                if image is not None:
                    _collect(found, image, live)
    for token in sorted(tokens):
        for _, value in area.scan(txn, StagingToken(token)):
            _collect(found, value, live)
    live.add(digests_of(found))


def _collect(found: set[bytes], value: bytes, live: DigestSet) -> None:
    found.update(addresses_in(value))
    if len(found) >= _BATCH:
        live.add(digests_of(found))
        found.clear()


def _tokens_of(fields: Mapping[str, object] | None) -> Iterator[bytes]:
    if fields is None or "staging_token" not in fields:
        return
    yield bytes.fromhex(str(fields["staging_token"]))
    sealed = fields.get("sealed_tokens")
    for token in sealed if isinstance(sealed, list) else ():
        yield bytes.fromhex(str(token))


def expired_reflog(
    store: ObjectStore, *, now: datetime, grace: timedelta
) -> Iterator[tuple[str, int]]:
    """Yield key and size of objects of the reflog whose moves are all too old to count."""
    cutoff = reflog_cutoff(now, grace)
    for info in store.list(REFLOG):
        if info.modified_at < cutoff:  # its moves are older still
            yield info.key, info.size

"""Make a repository from a refs dump, and update it from newer dumps of lakeFS.

`clone_from_lakefs` makes a repository from a lakeFS namespace, `restore_refs` fills an empty
repository, and `update_refs` takes a newer dump. A dump names commits, branches and tags; the trees
of the commits are in the namespace already. Nothing is copied, and nothing is written before the
complete dump was verified. Then all refs become visible in one transaction, as one operation.
`undo` can undo this operation, and automatic sharing sends it to the bucket.

The namespace can belong to lakeFS or to lakecli:

- A *borrowed* namespace belongs to lakeFS. It is read and never written. Commits made here are
  written to a directory of this machine (`lakecli.stores.overlay`) and cannot be pushed.
- A namespace that was *taken over* has a ``repository.json`` and works like any other. lakeFS's
  server and its garbage collection do not know the objects that lakecli writes, so they must be
  stopped.

Taking a newer dump is like fetching from the bucket, except that branches move:

- If all commits of a local branch are in lakeFS's branch, the local branch is fast-forwarded. Its
  uncommitted changes are kept, and committing them finds conflicts.
- If a local branch has diverged, it stays. lakeFS's branch is created beside it as ``lakefs:NAME``,
  which follows later dumps. No branch of lakeFS has a colon in its name.
- If lakeFS has moved a branch back to an older commit, the local branch stays. If lakecli has added
  commits to those that lakeFS has removed, lakeFS's branch is created beside it, as for a branch
  that has diverged. Otherwise the report names a command that moves the local branch back, too.
- A dump is out of date if an earlier update has taken all commits in it and more. Such a dump is
  reported and not taken.
- New branches and tags are created. A tag that differs is reported and stays. Refs that the dump
  lacks stay.

An update writes commits first, and records the dump last. So objects that lakeFS wrote after the
recorded dump are known to be in no dump (`lakecli.repository.lakefs.kept_dumps`). Repeating an
interrupted update finishes it.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from lakecli.base.ids import RepositoryUuid
from lakecli.base.model import Branch, Commit, CommitId, MetarangeId, RefKind, RepositoryRecord, Tag
from lakecli.errors import AlreadyExists, IntegrityError, NotFound, PermissionDenied, Refused
from lakecli.kv.local_store import ReadTransaction, Table, WriteTransaction
from lakecli.kv.operations import RefChange
from lakecli.refs.graph import is_ancestor
from lakecli.refs.names import is_branch_name
from lakecli.repository.commit_attempts import initial_commit
from lakecli.repository.contract import OwnLake, Repository
from lakecli.repository.guard import claim_trees
from lakecli.repository.handle import lake as lakes
from lakecli.repository.handle import namespace
from lakecli.repository.journal import operation_log, unsent_moves
from lakecli.repository.journal.intents import check_none_sent, when_none_under_way
from lakecli.repository.lakefs import dump as dumps
from lakecli.repository.lakefs import kept_dumps
from lakecli.repository.staged.changes import unstage_unchanged
from lakecli.staging import area
from lakecli.stores.capabilities import store_time
from lakecli.stores.contract import ObjectStore
from lakecli.stores.uri import normalise

ASIDE: Final = "lakefs:"
"""The prefix of the local name of a lakeFS branch that has diverged from the branch here."""

_SHOWN: Final = 5
_KIND: Final = "refs-restore"
"""The kind of the operation that takes a dump into the repository."""


class RefState(StrEnum):
    """How a ref of a dump compares with the local ref, and whether the local ref moved."""

    NEW = "new"
    MOVED = "moved"
    DIVERGED = "diverged"
    """Both branches have commits that the other lacks; lakeFS's is named lakefs:NAME here."""
    MOVED_BACK = "moved-back"
    """lakeFS has removed commits from its branch; the branch here has them, and no others."""
    REBASED = "rebased"
    """As diverged; commits here are based on commits that lakeFS has removed from its branch."""
    DIFFERS = "differs"
    """Another ref here has this name, and stays."""


class RefOutcome(NamedTuple):
    """A ref of a dump that differed from the local ref.

    Attributes:
        kind: branch or tag.
        name: its name here; for a branch that has diverged, lakefs:NAME.
        before: its commit here before; null if it was not here.
        after: its commit in lakeFS.
        change: new, moved, diverged (created as lakefs:NAME), moved-back (lakeFS has removed
            commits from the branch; the branch here stays), rebased (as diverged; commits here are
            based on commits that lakeFS has removed) or differs (another ref with this name stays
            here).
        own: if it was rebased, the first commit here that lakeFS does not have.
    """

    kind: RefKind
    name: str
    before: CommitId | None
    after: CommitId
    change: RefState
    own: CommitId | None = None


class Restored(NamedTuple):
    """The result of restoring a refs dump, or of updating a repository from one.

    Attributes:
        repository: the repository that the dump was taken into.
        branches: number of branches.
        tags: number of tags.
        commits: number of commits; for an update, number of new commits.
        left_out: branches and tags of the dump whose names lakecli does not allow, or whose commits
            the dump lacks.
        updated: for an update, branches and tags of the dump that differed from those here;
            branches first, by name.
        is_older: nothing was taken, since a newer dump was taken before.
    """

    repository: Repository
    branches: int
    tags: int
    commits: int
    left_out: tuple[dumps.LeftOut, ...]
    updated: tuple[RefOutcome, ...] = ()
    is_older: bool = False

    @property
    def uri(self) -> str:
        """URI of the repository."""
        return self.repository.uri


def clone_from_lakefs(
    lake: OwnLake,
    storage_namespace: str,
    name: str,
    manifest: dumps.RefsManifest | None,
    *,
    default_branch: str | None = None,
    take_over: bool = False,
    range_entries: int,
) -> Restored:
    """Make a repository from a lakeFS namespace and a refs dump in it.

    Args:
        manifest: the manifest of the dump; ``None``: the manifest that a lakeFS server left in the
            namespace.
        default_branch: the default branch; ``None``: the branch that the manifest names, else
            ``main`` or the only branch.
        take_over: claim the namespace for lakecli; otherwise nothing is ever written to it.

    Raises:
        AlreadyExists: the name or the namespace is taken.
        NotFound: the namespace has no manifest, or the dump has no default branch.
        BadDump: the dump is incomplete, damaged or forged.
        Refused: the namespace is a repository of lakecli, or is being taken over.
    """
    uri = normalise(storage_namespace)
    with lake.kv.read() as txn:
        _check_free(txn, name, uri)
    store, region = lake.runtime.for_repository(name).find_store(uri)
    with lake.kv.read() as txn:
        intended = lakes.find_intention(txn, uri)
    owner = namespace.owner_of(store)
    if owner is not None and not (take_over and intended and owner == intended.uuid):
        command = f"`clone --from-lakefs {uri} lakefs://{name}`"
        hint = f"clone it, and bring what lakeFS committed since: {command}"
        raise Refused(f"{store.uri} is a repository of lakecli already", hint=hint)
    manifest = manifest or dumps.find_manifest(store)
    record = RepositoryRecord(
        name=name,
        uuid=RepositoryUuid.of_bytes(lake.runtime.new_id()) if owner is None else owner,
        storage_namespace=uri,
        default_branch="",
        created_at=lake.runtime.now(),
        range_entries=range_entries,
        region=region,
    )
    dump = _verified(lakes.LocalRepository(lake, record), manifest)
    record = record._replace(
        default_branch=_default_branch(dump, default_branch or manifest.default_branch),
        created_at=dump.created_at or record.created_at,
        is_borrowed=not take_over,
        is_from_lakefs=True,
    )
    if take_over:
        record = _claim(lake, store, record, manifest)
    lake.runtime.on_step("register")
    repository = lakes.LocalRepository(lake, record)
    with lake.kv.write() as txn:
        _check_free(txn, name, uri)
        if not take_over and lakes.find_intention(txn, uri) is not None:
            what = f"this machine is taking over {uri}, or was interrupted while it did"
            command = f"`clone --from-lakefs --take-over {uri} lakefs://{name}`"
            raise Refused(what, hint=f"wait for that command, or repeat it: {command}")
        lakes.put_repository(txn, record)
        if take_over:
            lakes.delete_intention(txn, record)
        change = RefChange(RefKind.REPOSITORY, name, before=None, after=lakes.record_fields(record))
        _put_commits(txn, repository, dump.commits.values())
        _note_dump(txn, repository, manifest)
        _TakingDump(txn, repository, [change]).run(dump, kind="clone")
    return _restored(repository, dump, len(dump.commits))


def _claim(
    lake: OwnLake, store: ObjectStore, record: RepositoryRecord, manifest: dumps.RefsManifest
) -> RepositoryRecord:
    """Claim a lakeFS namespace for lakecli; return the record with the UUID that the claim names.

    The UUID is recorded before the claim, so that a second run recognises its own claim.
    """
    uri = record.storage_namespace
    with lake.kv.write() as txn:
        _check_free(txn, record.name, uri)
        intended = lakes.find_intention(txn, uri)
        if intended is not None:
            record = record._replace(uuid=intended.uuid)
        lakes.put_intention(txn, record)
    lake.runtime.on_step("claim")
    try:
        made_at = kept_dumps.lakefs_made_at(store, manifest)
        now = store_time(store) or lake.runtime.now()
        times = kept_dumps.recorded_times(made_at, now)
        return namespace.take_over(store, record, {**times, **dumps.manifest_fields(manifest)})
    except (PermissionDenied, namespace.NamespaceTaken):
        with lake.kv.write() as txn:  # nothing was claimed: borrow the namespace, or clone it
            lakes.delete_intention(txn, record)
        raise


def restore_refs(repository: Repository, manifest: dumps.RefsManifest) -> Restored:
    """Write the commits, branches and tags of a dump into an empty repository of its namespace.

    Raises:
        Refused: the repository has commits, branches or tags, or staged changes.
        BadDump: the dump is incomplete, damaged or forged.
        NotFound: the dump has no branch with the name of the default branch.
        Gone, Swept: garbage collection deletes or has deleted a tree of the dump.
    """
    with repository.lake.kv.read() as txn:
        _check_empty(txn, repository)
    dump = _verified(repository, manifest)
    _default_branch(dump, repository.record.default_branch)
    claim_trees(repository, {commit.metarange_id for commit in dump.commits.values()})
    with repository.lake.kv.write() as txn:
        _check_empty(txn, repository)
        _put_commits(txn, repository, dump.commits.values())
        _note_dump(txn, repository, manifest)
        _TakingDump(txn, repository).run(dump, kind=_KIND)
    return _restored(repository, dump, len(dump.commits))


def update_refs(repository: Repository, manifest: dumps.RefsManifest | None) -> Restored:
    """Take the commits, branches and tags of a newer dump, which is in the repository's namespace.

    Args:
        repository: the repository; it may have commits that lakeFS lacks, and uncommitted changes.
        manifest: the manifest of the dump; ``None``: the manifest that a lakeFS server left in the
            namespace.

    Raises:
        NotFound: the namespace has no manifest.
        BadDump: the dump is incomplete, damaged or forged.
        IntegrityError: the namespace lacks the tree of a new commit.
        Gone, Swept: garbage collection deletes or has deleted a tree of the dump.
        CommitUnderWay: another process is sending a commit of a branch that has to move.
    """
    lake = repository.lake
    manifest = manifest or dumps.find_manifest(repository.store)
    with lake.kv.read() as txn:
        known = {commit.id for commit in repository.refs(txn).iter_commits()}
    dump = _verified(repository, manifest, known=known)
    new = [commit for commit in dump.commits.values() if commit.id not in known]
    if any(dumps.is_part_of(repository.trees, dump, each) for each in _seen_lists(repository)):
        return _restored(repository, dump, 0)._replace(is_older=True)
    # Claiming may renew the modification times that this reads.
    made_at = kept_dumps.lakefs_made_at(repository.store, manifest)
    with lake.kv.read() as txn:
        moved = _heads_of_moves(txn, repository, dump)
    # The lists too, since the record of the dump refers to them.
    trees = {commit.metarange_id for commit in new} | set(manifest[:3])
    claim_trees(repository, trees | {dump.commits[each].metarange_id for each in moved})
    lake.runtime.on_step("commits")
    with lake.kv.write() as writing:
        _put_commits(writing, repository, new)
    for name, there in dump.branches.items():
        with lake.kv.read() as txn:
            refs = repository.refs(txn)
            here = refs.find_branch(name)
            is_behind = here is not None and is_ancestor(refs, here.commit_id, there)
        if is_behind:
            unstage_unchanged(repository, name, there)

    def act() -> tuple[RefOutcome, ...]:
        lake.runtime.on_step("restore")
        with lake.kv.write() as txn:
            _note_dump(txn, repository, manifest)
            return _TakingDump(txn, repository).run(dump, kind=_KIND)

    updated = when_none_under_way(repository, act)
    if not repository.record.is_borrowed:
        _record(repository, manifest, made_at)
    return _restored(repository, dump, len(new), updated)


def _note_row(repository: Repository) -> bytes:
    return b"lakefs-dump/" + repository.key


def _note_dump(txn: WriteTransaction, repository: Repository, manifest: dumps.RefsManifest) -> None:
    """Record in the local store which dump was taken last."""
    txn.put(Table.META, _note_row(repository), manifest.commits.encode())


def _seen_lists(repository: Repository) -> Iterator[MetarangeId]:
    """Yield the list of commits of each dump that this clone or another clone has taken."""
    with repository.lake.kv.read() as txn:
        noted = txn.get(Table.META, _note_row(repository))
    if noted:
        yield MetarangeId(noted.decode())
    if not repository.record.is_borrowed:
        store = repository.store
        taken = kept_dumps.find_take_over(store)
        kept = kept_dumps.all_kept(store, taken, repository.lake.runtime.now())
        yield from (each.manifest.commits for each in kept if each.by_lakefs)


def _heads_of_moves(
    txn: ReadTransaction, repository: Repository, dump: dumps.Dump
) -> set[CommitId]:
    """Return the commits to which a dump may move local refs."""
    refs = repository.refs(txn)
    named = [(RefKind.BRANCH, *each) for each in dump.branches.items()]
    named += [(RefKind.TAG, *each) for each in dump.tags.items()]
    return {there for kind, name, there in named if refs.position(kind, name) != there}


def _record(repository: Repository, manifest: dumps.RefsManifest, made_at: datetime) -> None:
    """Record in the bucket that a dump of lakeFS was imported, unless that is recorded already."""
    lake = repository.lake
    lake.runtime.on_step("keep-dump")
    kept = kept_dumps.iter_kept(repository.store, lake.runtime.now())
    if all(each.manifest[:3] != manifest[:3] for each in kept if each.by_lakefs):
        record_id = lake.runtime.new_id().hex()
        kept_dumps.keep_dump(repository.store, manifest, record_id, lakefs_made_at=made_at)


def _verified(
    repository: Repository, manifest: dumps.RefsManifest, *, known: Collection[CommitId] = ()
) -> dumps.Dump:
    """Read and verify a dump, and check that the namespace has the trees of its commits.

    Args:
        known: commits that this clone has already; their trees may be missing.
    """
    dump = dumps.read_dump(repository.trees, manifest)
    trees = (each.metarange_id for each in dump.commits.values() if each.id not in known)
    missing = sorted(dumps.trees_missing(repository.store, trees))
    if missing:
        lacking = f"the trees of {len(missing)} commits of the dump"
        raise IntegrityError(
            f"{repository.store.uri} lacks {lacking}, such as {', '.join(missing[:_SHOWN])}",
            hint="the dump must be of this storage namespace; where lakeFS's garbage collection "
            "has deleted trees, dump a repository without the expired commits",
        )
    return dump


def _default_branch(dump: dumps.Dump, wanted: str | None) -> str:
    if wanted is None:
        if "main" in dump.branches:
            return "main"
        if len(dump.branches) == 1:
            return next(iter(dump.branches))
    elif wanted in dump.branches:
        return wanted
    known = ", ".join(list(dump.branches)[:_SHOWN]) or "none"
    broken = {each.name: each.commit_id for each in dump.left_out}
    if wanted in broken:
        known += f"; {wanted!r} was left out, at {broken[wanted]}"
    what = "which branch is the default one" if wanted is None else f"branch {wanted!r}"
    hint = "name the default branch: `default_branch=NAME`"
    raise NotFound(f"the refs dump does not have or say {what}; its branches: {known}", hint=hint)


def _check_free(txn: ReadTransaction, name: str, uri: str) -> None:
    lakes.check_name_free(txn, name)
    for other in lakes.iter_repositories(txn):
        if other.storage_namespace == uri:
            what = f"this machine has the repository in {uri} already, as lakefs://{other.name}"
            update = f"`refs-restore --update lakefs://{other.name} --manifest FILE`"
            raise AlreadyExists(what, hint=f"bring what is new in a dump: {update}")


def _check_empty(txn: ReadTransaction, repository: Repository) -> None:
    refs = repository.refs(txn)
    first = initial_commit(repository.record.created_at).id
    branches = list(refs.iter_branches())
    has_refs = next(refs.iter_tags(), None) is not None or len(branches) > 1
    has_commits = any(branch.commit_id != first for branch in branches)
    has_staged = not all(area.is_clean(txn, branch) for branch in branches)
    if has_refs or has_commits or has_staged:
        update = f"`refs-restore --update {repository.uri} --manifest FILE`"
        hint = f"bring what is new in the dump: {update}"
        raise Refused(f"{repository.uri} is not empty", hint=hint)


def _put_commits(txn: WriteTransaction, repository: Repository, commits: Iterable[Commit]) -> None:
    refs = repository.refs(txn)
    for commit in commits:
        refs.put_commit(commit)


def _restored(
    repository: Repository, dump: dumps.Dump, commits: int, updated: tuple[RefOutcome, ...] = ()
) -> Restored:
    branches, tags = len(dump.branches), len(dump.tags)
    return Restored(repository, branches, tags, commits, dump.left_out, updated)


class _TakingDump:
    """One transaction that moves refs to their commits in a dump."""

    def __init__(
        self, txn: WriteTransaction, repository: Repository, changes: Iterable[RefChange] = ()
    ) -> None:
        self._txn = txn
        self._repository = repository
        self._refs = repository.refs(txn)
        self._first = initial_commit(repository.record.created_at).id
        self._changes = list(changes)
        self._outcomes: list[RefOutcome] = []
        self._in_lakefs: Collection[CommitId] = ()

    def run(self, dump: dumps.Dump, *, kind: str) -> tuple[RefOutcome, ...]:
        """Move all refs that differ, in one operation; return the outcome for each of them."""
        self._in_lakefs = dump.commits.keys()
        for name, there in dump.branches.items():
            self._update_branch(name, there)
        for name, there in dump.tags.items():
            self._update_tag(Tag(name, there))
        if self._changes:
            txn, repository = self._txn, self._repository
            operation = operation_log.append(txn, repository, kind=kind, refs=self._changes)
            unsent_moves.note(txn, repository, operation)
        return tuple(self._outcomes)

    def _update_branch(self, name: str, there: CommitId) -> None:
        here = self._refs.find_branch(name)
        if here is None:
            self._move(None, RefOutcome(RefKind.BRANCH, name, None, there, RefState.NEW))
            return
        outcome = RefOutcome(RefKind.BRANCH, name, here.commit_id, there, RefState.MOVED)
        if self._leads_to(here, there):
            self._move(here, outcome)
            return
        own, base = self._split(here)
        is_taken_back = base is not None and not is_ancestor(self._refs, base, there)
        if is_taken_back and own is None:
            self._outcomes.append(outcome._replace(change=RefState.MOVED_BACK))
        elif is_taken_back:
            self._put_aside(outcome._replace(change=RefState.REBASED, own=own))
        elif not is_ancestor(self._refs, there, here.commit_id):
            self._put_aside(outcome._replace(change=RefState.DIVERGED))

    def _split(self, here: Branch) -> tuple[CommitId | None, CommitId | None]:
        """Return a branch's oldest commit that lakeFS lacks, and its parent, which lakeFS has.

        Only main parents are followed. If lakeFS has the head of the branch, return ``None`` and
        the head. If lakeFS has no commit of the branch, the parent is ``None``.
        """
        own: CommitId | None = None
        commit = self._refs.find_commit(here.commit_id)
        while commit is not None and commit.id not in self._in_lakefs:
            own = commit.id
            commit = self._refs.find_commit(commit.parents[0]) if commit.parents else None
        return own, None if commit is None else commit.id

    def _put_aside(self, outcome: RefOutcome) -> None:
        """Create or move ``lakefs:NAME``, the local name of a lakeFS branch that has diverged."""
        aside, there = ASIDE + outcome.name, outcome.after
        here = self._refs.find_branch(aside)
        outcome = outcome._replace(before=None if here is None else here.commit_id)
        if not is_branch_name(aside):
            self._differs(outcome)
        elif here is None or here.commit_id in self._in_lakefs or self._leads_to(here, there):
            self._move(here, outcome._replace(name=aside))
        elif not is_ancestor(self._refs, there, here.commit_id):
            self._differs(outcome._replace(name=aside))

    def _leads_to(self, here: Branch, there: CommitId) -> bool:
        """Return whether lakeFS's branch has all commits of a local branch, and more commits."""
        if here.commit_id == there:
            return False
        return here.commit_id == self._first or is_ancestor(self._refs, here.commit_id, there)

    def _move(self, here: Branch | None, outcome: RefOutcome) -> None:
        """Move or create a branch; report it as different if a tag has its name."""
        name, there = outcome.name, outcome.after
        if here is None:
            if self._refs.find_tag(name) is not None:
                self._differs(outcome)
                return
            after = operation_log.new_branch(self._txn, self._repository, name, there)
        else:
            after = here._replace(commit_id=there)
        self._outcomes.append(outcome)
        if after == here:
            return
        if here is not None:
            check_none_sent(self._txn, self._repository, name)
            operation_log.follow_head(self._txn, after)
        self._changes.append(operation_log.change_ref(self._txn, self._repository, here, after))

    def _update_tag(self, tag: Tag) -> None:
        here = self._refs.find_tag(tag.name)
        if here == tag:
            return
        before = None if here is None else here.commit_id
        outcome = RefOutcome(RefKind.TAG, tag.name, before, tag.commit_id, RefState.NEW)
        is_free = here is None and self._refs.find_branch(tag.name) is None
        # A tag whose deletion here was not pushed yet does not come back.
        is_noted = unsent_moves.find_unsent(self._txn, self._repository, RefKind.TAG, tag.name)
        if not is_free or is_noted is not None:
            self._differs(outcome)
            return
        self._outcomes.append(outcome)
        self._changes.append(operation_log.change_ref(self._txn, self._repository, None, tag))

    def _differs(self, outcome: RefOutcome) -> None:
        self._outcomes.append(outcome._replace(change=RefState.DIFFERS, own=None))

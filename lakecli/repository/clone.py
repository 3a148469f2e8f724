"""Clone a repository: create a repository on this machine from the one in a bucket.

Every branch and tag of the bucket becomes a branch or tag on this machine. Staged changes, commits
that were never pushed and the operation log stay on the machine that made them.

Commits are written in batches first; nothing refers to them yet. Everything else is written in one
transaction at the end. If a clone is interrupted, the same command finishes it, and reads no commit
pack twice.
"""

from typing import NamedTuple

from lakecli.base.model import Branch, RefKind, RepositoryRecord, StagingToken, Tag
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.errors import AlreadyExists, Refused
from lakecli.kv.local_store import ReadTransaction, Table, WriteTransaction
from lakecli.kv.operations import RefChange
from lakecli.remote.gc_protocol import read_state
from lakecli.remote.ref_records import InvalidRecord
from lakecli.repository.commit_attempts import initial_commit
from lakecli.repository.contract import OwnLake, Repository
from lakecli.repository.handle import lake as lakes
from lakecli.repository.handle.namespace import describe_there, hint_to_take_over, owner_of
from lakecli.repository.journal import bucket_state, operation_log, tracking
from lakecli.repository.sharing import fetch
from lakecli.repository.sharing.fetch import Change, RefsInBucket, RefUpdate, notify
from lakecli.stores.uri import normalise


class Cloned(NamedTuple):
    """A new clone, and how many refs and commits it has.

    Attributes:
        commits: the number of commits that were new on this machine.
        left_out: refs of the bucket that were not cloned, and why.
        damaged: malformed objects of the bucket, which were left out.
    """

    repository: Repository
    branches: int
    tags: int
    commits: int
    left_out: tuple[RefUpdate, ...]
    damaged: tuple[InvalidRecord, ...] = ()


_Refs = dict[tuple[RefKind, str], Branch | Tag]
"""Branches and tags by kind and name."""


def clone(lake: OwnLake, storage_namespace: str, name: str) -> Repository:
    """Clone the repository in a namespace; arguments and errors are those of `clone_counted`."""
    return clone_counted(lake, storage_namespace, name).repository


def clone_counted(
    lake: OwnLake, storage_namespace: str, name: str, *, progress: Progress = NO_PROGRESS
) -> Cloned:
    """Make a clone of the repository in a namespace.

    Args:
        lake: the lake in which the clone is made.
        storage_namespace: a URI or an absolute path.
        name: the name on this machine; other clones may have other names.
        progress: counts the refs and commits that were read.

    Raises:
        UsageError: an illegal namespace.
        AlreadyExists: the name is taken, or this machine has the repository under another name.
        NothingToDo: this machine already has the repository under this name.
        NotFound: there is no repository in that namespace.
        Refused: the namespace belongs to lakeFS, or needs a newer lakecli.
    """
    uri = normalise(storage_namespace)
    with lake.kv.read() as txn:
        lakes.check_name_free(txn, name, uri)
    lake.runtime.on_step("read")
    _, record = describe_there(lake.runtime, uri, name)
    repository = lakes.LocalRepository(lake, record)
    with lake.kv.read() as txn:
        _check_new(txn, record)
    state = read_state(repository.store)
    remote = fetch.read_remote(repository, {}, progress=progress)
    unpacked = fetch.take_packs(repository, remote.refs, progress=progress)
    lake.runtime.on_step("register")
    fetched = bucket_state.LastFetch(lake.runtime.now(), str(state.phase), state.epoch)
    with lake.kv.write() as txn:
        _check_new(txn, record)
        made, left_out = _register(txn, repository, remote)
        bucket_state.put_fetched(txn, repository, fetched)
    branches = sum(isinstance(each, Branch) for each in made)
    damaged = (*remote.damaged, *unpacked.damaged)
    notify(repository, damaged)
    return Cloned(repository, branches, len(made) - branches, unpacked.commits, left_out, damaged)


def clone_known(
    lake: OwnLake, storage_namespace: str, name: str, *, take_over: bool, progress: Progress
) -> tuple[Repository, Cloned | None] | None:
    """Return the repository into which a newer refs dump of lakeFS is imported, or ``None``.

    Args:
        storage_namespace: a URI or an absolute path.
        take_over: whether lakecli takes over the namespace from lakeFS.
        progress: counts the refs and commits that are read.

    Returns:
        The repository of this name and namespace on this machine, without a report. If only the
        bucket has the repository, a new clone with its report. ``None`` if the namespace still
        belongs to lakeFS, if another repository has the name, or if this machine has the namespace
        under another name or has begun to take over the namespace.

    Raises:
        Refused: `take_over` is set, and the repository on this machine only reads a namespace of
            lakeFS.
    """
    uri = normalise(storage_namespace)
    with lake.kv.read() as txn:
        record = lakes.find_repository(txn, name)
        places = {each.storage_namespace for each in lakes.iter_repositories(txn)}
        intended = lakes.find_intention(txn, uri)
    if record is not None and record.storage_namespace == uri:
        if take_over and record.is_borrowed:
            raise Refused(
                f"lakefs://{name} reads a namespace that belongs to lakeFS",
                hint=hint_to_take_over(f"lakefs://{name}"),
            )
        return lakes.LocalRepository(lake, record), None
    if record is not None or uri in places or intended is not None:
        return None
    store, _ = lake.runtime.for_repository(name).find_store(uri)
    if owner_of(store) is None:
        return None
    made = clone_counted(lake, storage_namespace, name, progress=progress)
    return made.repository, made


def _check_new(txn: ReadTransaction, record: RepositoryRecord) -> None:
    """Refuse a second name for one repository: both names would share refs and staging."""
    lakes.check_name_free(txn, record.name, record.storage_namespace)
    for other in lakes.iter_repositories(txn):
        if other.uuid == record.uuid:
            raise AlreadyExists(
                f"this machine has the repository in {record.storage_namespace} already, as "
                f"lakefs://{other.name}",
                hint=f"bring it up to date: `fetch lakefs://{other.name}`",
            )


def _register(
    txn: WriteTransaction, repository: Repository, remote: RefsInBucket
) -> tuple[list[Branch | Tag], tuple[RefUpdate, ...]]:
    """Write the repository and its refs; return the refs that were written and left out."""
    record = repository.record
    bucket_state.forget_all(txn, repository)
    txn.delete_owned(Table.INTENTS, repository.key)
    first = initial_commit(record.created_at)
    repository.refs(txn).put_commit(first)
    made: _Refs = {}
    left_out: list[RefUpdate] = []
    present = [(ref.kind, ref.name, ref.commit_id) for ref in remote.refs if ref.commit_id]
    for kind, name, commit_id in present:  # branches first
        if not fetch.is_whole(txn, repository, commit_id):
            left_out.append(RefUpdate(kind, name, None, commit_id, Change.INCOMPLETE))
        elif kind is RefKind.BRANCH:
            made[kind, name] = operation_log.new_branch(txn, repository, name, commit_id)
        elif (RefKind.BRANCH, name) in made:
            left_out.append(RefUpdate(kind, name, None, commit_id, Change.DIFFERS))
        else:
            made[kind, name] = Tag(name, commit_id)
    default = RefKind.BRANCH, record.default_branch
    if default not in made:  # it was never pushed, so it points to the initial commit
        made[default] = operation_log.new_branch(txn, repository, default[1], first.id)
    incomplete = {(each.kind, each.name) for each in left_out if each.change is Change.INCOMPLETE}
    for there in remote.refs:
        if (there.kind, there.name) not in incomplete:
            tracking.track(txn, repository, there)
    lakes.put_repository(txn, record)
    _replace_refs(txn, repository, made)
    return list(made.values()), tuple(left_out)


def _replace_refs(txn: WriteTransaction, repository: Repository, made: _Refs) -> None:
    """Replace the refs that a deleted clone of the same repository left, and log the clone.

    The commits and staging areas of the deleted clone are kept: undoing the new clone restores the
    refs of the deleted clone.
    """
    refs, fields = repository.refs(txn), lakes.record_fields(repository.record)
    before: _Refs = {(RefKind.BRANCH, each.name): each for each in refs.iter_branches()}
    before |= {(RefKind.TAG, each.name): each for each in refs.iter_tags()}
    changes = [RefChange(RefKind.REPOSITORY, repository.name, before=None, after=fields)]
    sealed: list[StagingToken] = []
    for kind, name in before:  # a write would keep fields that this version does not know
        (refs.delete_branch if kind is RefKind.BRANCH else refs.delete_tag)(name)
    for key in sorted(before.keys() | made.keys()):
        old = before.get(key)
        if isinstance(old, Branch):
            sealed += old.tokens
        changes.append(operation_log.change_ref(txn, repository, old, made.get(key)))
    operation_log.append(txn, repository, kind="clone", refs=changes, sealed=sealed)

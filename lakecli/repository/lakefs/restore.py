"""Making a repository of a refs dump: `clone` on a lakeFS namespace, and `refs-restore`.

A dump names commits, branches and tags; the trees of the commits lie in the namespace already.
Nothing is copied and nothing is written before the whole dump was verified; then everything becomes
visible in one transaction.

Whose namespace it is then depends:

- A *borrowed* namespace belongs to lakeFS. It is read and never written: what is committed here
  goes into a directory of this machine (`lakecli.stores.wrappers`) and cannot be pushed.
- A namespace that was *taken over* has a ``repository.json`` and works as any other. lakeFS's
  server and its garbage collection know nothing of what lakecli writes, and must be stopped.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from lakecli.base.ids import RepositoryUuid
from lakecli.base.model import Branch, CommitId, RefKind, RepositoryRecord, Tag
from lakecli.errors import AlreadyExists, IntegrityError, NotFound, PermissionDenied, Refused
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.kv.operations import RefChange
from lakecli.refs.ref_store import RefStore
from lakecli.repository import known_repositories
from lakecli.repository.contract import OwnLake, Repository
from lakecli.repository.guard import claim_trees
from lakecli.repository.handle import namespace
from lakecli.repository.journal import operation_log, staging_tokens
from lakecli.repository.lakefs.dump import (
    Dump,
    LeftOut,
    RefsManifest,
    find_manifest,
    manifest_fields,
    read_dump,
    trees_missing,
)
from lakecli.repository.moving.transaction import initial_commit
from lakecli.staging import area
from lakecli.stores.uri import normalise

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

_SHOWN = 5


class Restored(NamedTuple):
    """What came out of a dump.

    Attributes:
        branches: number of restored branches.
        tags: number of restored tags.
        commits: number of restored commits.
        left_out: refs whose names lakecli does not allow.
    """

    repository: Repository
    branches: int
    tags: int
    commits: int
    left_out: tuple[LeftOut, ...]


def clone_from_lakefs(
    lake: OwnLake,
    storage_namespace: str,
    name: str,
    manifest: RefsManifest | None,
    *,
    default_branch: str | None = None,
    take_over: bool = False,
    range_entries: int,
) -> Restored:
    """Make a repository of a lakeFS namespace and a refs dump of it.

    Args:
        lake: where its refs and staging live.
        storage_namespace: a URI or an absolute path.
        name: of the repository on this machine.
        manifest: ``None``: the one that a lakeFS server left in the namespace.
        default_branch: ``None``: the one that the manifest names, else ``main`` or the only branch.
        take_over: claim the namespace for lakecli; otherwise nothing is ever written to it.
        range_entries: the tree parameter N of commits to come.

    Raises:
        AlreadyExists: the name or the namespace is taken.
        NotFound: the namespace holds no manifest, or the dump no default branch.
        BadDump: the dump is incomplete, damaged or forged.
        Refused: the namespace is a repository of lakecli, or is being taken over.
    """
    uri = normalise(storage_namespace)
    with lake.kv.read() as txn:
        _check_free(txn, name, uri)
    store, region = lake.runtime.for_repository(name).find_store(uri)
    with lake.kv.read() as txn:
        intended = known_repositories.find_intention(txn, uri)
    owner = namespace.owner_of(store)
    if owner is not None and not (take_over and intended and owner == intended.uuid):
        raise Refused(
            f"{store.uri} is a repository of lakecli already",
            hint="clone it, and bring what lakeFS committed since: lakecli clone --from-lakefs "
            f"{uri} lakefs://{name}",
        )
    manifest = manifest or needed_manifest(store)
    record = RepositoryRecord(
        name=name,
        uuid=RepositoryUuid.of_bytes(lake.runtime.new_id()) if owner is None else owner,
        storage_namespace=uri,
        default_branch="",
        created_at=lake.now(),
        range_entries=range_entries,
        region=region,
    )
    dump = verified(lake.handle(record), manifest)
    record = record._replace(
        default_branch=_default_branch(dump, default_branch or manifest.default_branch),
        created_at=dump.created_at or record.created_at,
        is_borrowed=not take_over,
    )
    if take_over:
        record = _claim(lake, store, record, manifest)
    lake.runtime.on_step("register")
    repository = lake.handle(record)
    with lake.kv.write() as txn:
        _check_free(txn, name, uri)
        if not take_over:
            _check_not_claiming(txn, uri)
        known_repositories.put_repository(txn, record)
        if take_over:
            known_repositories.delete_intention(txn, record)
        change = RefChange(
            RefKind.REPOSITORY, name, before=None, after=known_repositories.to_json(record)
        )
        _register(txn, repository, dump, "clone", [change])
    return _restored(repository, dump)


def _claim(
    lake: OwnLake, store: ObjectStore, record: RepositoryRecord, manifest: RefsManifest
) -> RepositoryRecord:
    """Claim a namespace of lakeFS; return the record with the UUID that has it then.

    The UUID is written down before the claim, so that a second run knows its own claim.
    """
    uri = record.storage_namespace
    with lake.kv.write() as txn:
        _check_free(txn, record.name, uri)
        intended = known_repositories.find_intention(txn, uri)
        if intended is not None:
            record = record._replace(uuid=intended.uuid)
        known_repositories.put_intention(txn, record)
    lake.runtime.on_step("claim")
    try:
        namespace.take_over(store, record, manifest_fields(manifest))
    except PermissionDenied:
        with lake.kv.write() as txn:  # nothing was claimed, so the namespace can be borrowed
            known_repositories.delete_intention(txn, record)
        raise
    return record


def restore_refs(repository: Repository, manifest: RefsManifest) -> Restored:
    """Give an empty repository the commits, branches and tags of a dump in its own namespace.

    Raises:
        Refused: the repository has commits, branches or tags, or staged changes.
        BadDump: the dump is incomplete, damaged or forged.
        NotFound: the dump has no branch of the name of the default branch.
        Gone, Swept: garbage collection deletes or has deleted a tree of the dump.
    """
    with repository.lake.kv.read() as txn:
        _check_empty(txn, repository)
    dump = verified(repository, manifest)
    _default_branch(dump, repository.record.default_branch)
    claim_trees(repository, {commit.metarange_id for commit in dump.commits.values()})
    with repository.lake.kv.write() as txn:
        _check_empty(txn, repository)
        _register(txn, repository, dump, "refs-restore", [])
    return _restored(repository, dump)


def needed_manifest(store: ObjectStore) -> RefsManifest:
    """Return the manifest that a lakeFS server left in a namespace.

    Raises:
        NotFound: there is none.
        UsageError: the object there is no manifest.
    """
    manifest = find_manifest(store)
    if manifest is None:
        raise NotFound(
            f"no refs dump in {store.uri}",
            hint="save one with `lakectl refs-dump lakefs://REPOSITORY > refs.json` and give it: "
            "--refs refs.json",
        )
    return manifest


def verified(
    repository: Repository, manifest: RefsManifest, *, known: Collection[CommitId] = ()
) -> Dump:
    """Return a dump that was verified whole, and of whose commits the namespace has the trees.

    Args:
        repository: that the dump is for.
        manifest: of the dump.
        known: commits whose trees may be missing, as their loss is nothing new.

    Raises:
        BadDump: the dump is incomplete, damaged or forged.
        IntegrityError: a tree is missing.
    """
    dump = read_dump(repository.trees, manifest)
    trees = (each.metarange_id for each in dump.commits.values() if each.id not in known)
    missing = sorted(trees_missing(repository.store, trees))
    if missing:
        raise IntegrityError(
            f"{repository.store.uri} lacks the trees of {len(missing)} commits of the dump, "
            f"such as {', '.join(missing[:_SHOWN])}",
            hint="the dump must be of this storage namespace; where lakeFS's garbage collection "
            "has deleted trees, dump a repository without the expired commits",
        )
    return dump


def _default_branch(dump: Dump, wanted: str | None) -> str:
    if wanted is None:
        if "main" in dump.branches:
            return "main"
        if len(dump.branches) == 1:
            return next(iter(dump.branches))
    elif wanted in dump.branches:
        return wanted
    known = ", ".join(list(dump.branches)[:_SHOWN]) or "none"
    what = "which branch is the default one" if wanted is None else f"branch {wanted!r}"
    raise NotFound(
        f"the refs dump does not have or say {what}; its branches: {known}",
        hint="name the default branch: --default-branch NAME",
    )


def _check_free(txn: ReadTransaction, name: str, uri: str) -> None:
    known_repositories.check_free(txn, name)
    for other in known_repositories.iter_repositories(txn):
        if other.storage_namespace == uri:
            raise AlreadyExists(
                f"this machine has the repository in {uri} already, as lakefs://{other.name}",
                hint="bring what is new in a dump: lakecli refs-restore --update "
                f"lakefs://{other.name}",
            )


def _check_not_claiming(txn: ReadTransaction, uri: str) -> None:
    """Refuse to borrow what another command of this machine is taking over."""
    if known_repositories.find_intention(txn, uri) is not None:
        raise Refused(
            f"this machine is taking over {uri}, or was interrupted while it did",
            hint="wait for that command, or repeat it: lakecli clone --from-lakefs --take-over",
        )


def _check_empty(txn: ReadTransaction, repository: Repository) -> None:
    refs = RefStore(txn, repository.key)
    first = initial_commit(repository.record.created_at).id
    branches = list(refs.iter_branches())
    has_refs = next(refs.iter_tags(), None) is not None or len(branches) > 1
    has_commits = any(branch.commit_id != first for branch in branches)
    has_staged = not all(area.is_clean(txn, branch) for branch in branches)
    if has_refs or has_commits or has_staged:
        raise Refused(
            f"{repository.uri} is not empty",
            hint=f"bring what is new in the dump: lakecli refs-restore --update {repository.uri}",
        )


def _register(
    txn: WriteTransaction,
    repository: Repository,
    dump: Dump,
    kind: str,
    changes: list[RefChange],
) -> None:
    refs = RefStore(txn, repository.key)
    before = {branch.name: branch for branch in refs.iter_branches()}
    for commit in dump.commits.values():
        refs.put_commit(commit)
    for name, old in before.items():
        if name not in dump.branches:
            refs.delete_branch(name)
            changes.append(operation_log.branch_change(old, None))
    for name, commit_id in dump.branches.items():
        token = staging_tokens.start(txn, repository, name, commit_id)
        refs.put_branch(branch := Branch(name, commit_id, token))
        changes.append(operation_log.branch_change(before.get(name), branch))
    for name, commit_id in dump.tags.items():
        refs.put_tag(tag := Tag(name, commit_id))
        changes.append(operation_log.tag_change(None, tag))
    operation_log.append(txn, repository, kind=kind, refs=changes)


def _restored(repository: Repository, dump: Dump) -> Restored:
    return Restored(
        repository, len(dump.branches), len(dump.tags), len(dump.commits), dump.left_out
    )

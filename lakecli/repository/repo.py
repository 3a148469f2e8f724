"""Create and delete the repositories of this machine."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from lakecli.base import layout
from lakecli.base.model import RefKind, RepositoryRecord, RepositoryUuid
from lakecli.errors import AlreadyExists, NotFound, UsageError
from lakecli.kv.local_store import ReadTransaction
from lakecli.kv.operations import RefChange
from lakecli.refs.names import check_branch_name
from lakecli.repository.commit_attempts import initial_commit
from lakecli.repository.contract import OwnLake, Repository
from lakecli.repository.handle import lake as lakes
from lakecli.repository.handle import namespace
from lakecli.repository.journal import operation_log
from lakecli.stores.contract import ObjectStore
from lakecli.stores.uri import normalise

DEFAULT_BRANCH: Final = "main"
DEFAULT_RANGE_ENTRIES: Final = 8192
LISTED: Final = 10_000
"""Maximum number of objects that are listed before a namespace is claimed."""


def create(
    lake: OwnLake,
    name: str,
    storage_namespace: str,
    *,
    default_branch: str = DEFAULT_BRANCH,
    range_entries: int = DEFAULT_RANGE_ENTRIES,
) -> Repository:
    """Create a repository: claim its storage namespace, then make its first commit and branch.

    If a run is interrupted, the same call again finishes it. A namespace that the interrupted run
    has claimed keeps the parameters of that run.

    Args:
        lake: the lake in which the repository is created.
        name: a name that `lakecli.base.uri` accepts.
        storage_namespace: a URI or an absolute path; a missing local directory is created.
        default_branch: name of the first branch, which cannot be deleted later.
        range_entries: the tree parameter N, a power of two; ranges have about 0.7 N entries.

    Raises:
        UsageError: an illegal branch name, namespace or `range_entries`.
        AlreadyExists: the name or the namespace is in use, or there is another repository below the
            namespace.
        NotFound: the bucket does not exist.
    """
    check_branch_name(default_branch)
    _check_range_entries(range_entries)
    uri = normalise(storage_namespace)
    record = _intend(lake, name, uri, default_branch=default_branch, range_entries=range_entries)
    lake.runtime.on_step("claim")
    runtime = lake.runtime.for_repository(name)
    region = runtime.prepare_namespace(uri)
    store = runtime.open_store(uri, region)
    _check_nothing_below(store)
    try:
        record = namespace.claim(store, record)
    except namespace.NamespaceTaken:
        with lake.kv.write() as txn:  # so that a namespace of lakeFS can be borrowed
            lakes.delete_intention(txn, record)
        raise
    lake.runtime.on_step("register")
    return _register(lake, record._replace(region=region))


_OWN: Final = ("_lakecli/", layout.SSTABLES)
"""The prefixes of the objects of a new repository; objects below ``data/`` existed before it."""


def find_other_objects(repository: Repository) -> list[str]:
    """Return the keys of objects, among the first `LISTED`, that existed before the repository."""
    return [key for key in _first_keys(repository.store) if not key.startswith(_OWN)]


def _check_nothing_below(store: ObjectStore) -> None:
    """Raise an error if a namespace contains another repository, whose objects would be garbage.

    Raises:
        AlreadyExists: there is a repository below the namespace, among the first `LISTED` objects.
    """
    for key in _first_keys(store):
        if key.endswith(f"/{layout.REPOSITORY}"):
            inner = f"{store.uri.rstrip('/')}/{key.removesuffix(f'/{layout.REPOSITORY}')}"
            hint = f"use a prefix beside it, or clone it: `clone {inner} lakefs://NAME`"
            raise AlreadyExists(f"there is a repository below {store.uri}: {inner}", hint=hint)


def _first_keys(store: ObjectStore) -> Iterator[str]:
    return (found.key for found in islice(store.list(), LISTED))


def _check_range_entries(value: int) -> None:
    if not layout.MIN_RANGE_ENTRIES <= value <= layout.MAX_RANGE_ENTRIES or value & (value - 1):
        raise UsageError(
            f"range entries must be a power of two from {layout.MIN_RANGE_ENTRIES} to "
            f"{layout.MAX_RANGE_ENTRIES}, not {value}",
            hint=f"leave it at {DEFAULT_RANGE_ENTRIES} unless you have measured",
        )


def _intend(
    lake: OwnLake, name: str, uri: str, *, default_branch: str, range_entries: int
) -> RepositoryRecord:
    """Record the UUID of a new repository before its namespace is claimed.

    A second run finds this record, and recognises the claim as its own.

    Raises:
        AlreadyExists: the name or the namespace is in use on this machine.
    """
    with lake.kv.write() as txn:
        lakes.check_name_free(txn, name)
        for other in lakes.iter_repositories(txn):
            if other.storage_namespace == uri:
                raise AlreadyExists(
                    f"storage namespace {uri} is that of lakefs://{other.name} on this machine",
                    hint="use another prefix or directory; a repository owns its namespace alone",
                )
        intended, new_id = lakes.find_intention(txn, uri), lake.runtime.new_id()
        uuid = RepositoryUuid.of_bytes(new_id) if intended is None else intended.uuid
        now = lake.runtime.now()
        record = RepositoryRecord(name, uuid, uri, default_branch, now, range_entries)
        lakes.put_intention(txn, record)
        return record


def _check_intended(txn: ReadTransaction, record: RepositoryRecord) -> None:
    """Raise an error if another process has registered a repository meanwhile.

    Raises:
        AlreadyExists: the repository exists, under this name or another one, and may have commits
            by now.
    """
    lakes.check_name_free(txn, record.name)
    intended = lakes.find_intention(txn, record.storage_namespace)
    is_here = any(other.uuid == record.uuid for other in lakes.iter_repositories(txn))
    if is_here or intended is None or intended.uuid != record.uuid:
        raise AlreadyExists(
            f"another command has created or cloned the repository in {record.storage_namespace} "
            "meanwhile",
            hint="look at it: `repo list`",
        )


def _register(lake: OwnLake, record: RepositoryRecord) -> Repository:
    repository = lakes.LocalRepository(lake, record)
    first = initial_commit(record.created_at)
    with lake.kv.write() as txn:
        _check_intended(txn, record)
        branch = operation_log.new_branch(txn, repository, record.default_branch, first.id)
        lakes.put_repository(txn, record)
        lakes.delete_intention(txn, record)
        repository.refs(txn).put_commit(first)
        changes = [
            RefChange(RefKind.REPOSITORY, record.name, None, lakes.record_fields(record)),
            operation_log.change_ref(txn, repository, None, branch),
        ]
        operation_log.append(txn, repository, kind="repo create", refs=changes)
    return repository


def delete(lake: OwnLake, name: str) -> RepositoryRecord:
    """Delete a repository on this machine; nothing in its storage namespace changes.

    The operation log can restore it, with every branch and its staged changes.

    Raises:
        NotFound: no such repository.
    """
    with lake.kv.write() as txn:
        record = lakes.find_repository(txn, name)
        if record is None:
            raise NotFound(f"no repository {name!r} on this machine", hint="list them: `repo list`")
        lakes.delete_repository(txn, record)
        change = RefChange(RefKind.REPOSITORY, name, before=lakes.record_fields(record), after=None)
        repository = lakes.LocalRepository(lake, record)
        operation_log.append(txn, repository, kind="repo delete", refs=[change])
    return record

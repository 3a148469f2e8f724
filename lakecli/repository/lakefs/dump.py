"""Read a refs dump, and verify all its commits, branches and tags before any of them is used.

A refs dump has three lists: of commits, of branches and of tags. Each list is a tree whose tables
have the property ``entity``. In each record, the key is a commit's ID or a ref's name, the identity
is a commit ID, and the data is a Protobuf message in lakeFS's format.

The last part of the module reads the records of any table of a namespace, for ``cat-sst``.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, NamedTuple

from lakecli.base import layout, validation
from lakecli.base.ids import CommitId, MetarangeId
from lakecli.base.model import EMPTY_TREE, Commit, RefKind
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.committed.metaranges import decode_range_record
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.values import decode_entry
from lakecli.errors import IntegrityError, NotFound, UsageError
from lakecli.proto import messages
from lakecli.proto.varint import Malformed
from lakecli.refs.names import is_branch_name, is_ref_name
from lakecli.remote.packs import decode_commit_data
from lakecli.sstable.format import decode_value
from lakecli.sstable.reader import SSTable
from lakecli.stores.contract import ObjectNotFound, ObjectStore, exists, get_bounded

_SHOWN: Final = 64
_MOST_HEADS: Final = 16


class BadDump(IntegrityError):
    """The refs dump is incomplete, damaged or forged; nothing was taken from it."""

    def __init__(self, what: str) -> None:
        hint = "make a new one with: lakectl refs-dump lakefs://REPOSITORY"
        super().__init__(f"the refs dump cannot be used: {what}", hint=hint)


class Reason(StrEnum):
    """Why a ref of a dump is left out."""

    NAME = "illegal name"
    """lakecli does not allow the name, or a branch of the dump has the same name as the tag."""
    NO_COMMIT = "missing commit"
    """The dump lacks the ref's commit. lakeFS itself can cause this: its ``branch create`` fails if
        the commit does not exist, but leaves the branch."""


class LeftOut(NamedTuple):
    """A ref of a refs dump that lakecli cannot store.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
        commit_id: its commit.
        reason: why it is left out: illegal name or missing commit.
    """

    kind: RefKind
    name: str
    commit_id: CommitId
    reason: Reason = Reason.NAME

    @property
    def before(self) -> CommitId | None:
        """Null: the ref is not on this machine."""
        return None


class Dump(NamedTuple):
    """A dump that was read and verified.

    Attributes:
        commits: the commits by ID, parents before their children.
        branches: the head of each branch by name, in byte order.
        tags: the commit of each tag by name, in byte order.
        left_out: refs whose names lakecli does not allow, or whose commits the dump lacks.
    """

    commits: Mapping[CommitId, Commit]
    branches: Mapping[str, CommitId]
    tags: Mapping[str, CommitId]
    left_out: tuple[LeftOut, ...]

    @property
    def created_at(self) -> datetime | None:
        """The oldest valid date of a commit without parents; ``None`` if there is none."""
        roots = (commit.created_at for commit in self.commits.values() if not commit.parents)
        valid = (date for date in roots if validation.EARLIEST <= date <= validation.LATEST)
        return min(valid, default=None)


def read_dump(trees: TreeStore, manifest: "RefsManifest") -> Dump:
    """Read the three lists of a dump and verify them.

    Every commit's ID is recomputed, and every parent of a commit must be in the dump, too. A ref
    whose commit is not in the dump is left out. In a dump older than lakeFS 0.61 some generations
    are 0; then all generations are computed. The trees of the commits are not read.

    Raises:
        BadDump: a list is missing or damaged, or has records of another kind.
    """
    with _as_bad_dump():
        commits = _sorted(_read_commits(trees, manifest.commits))
        left_out: list[LeftOut] = []
        branches = dict(_read_refs(trees, manifest.branches, RefKind.BRANCH, left_out))
        tags = dict(_read_refs(trees, manifest.tags, RefKind.TAG, left_out))
        both = sorted(tags.keys() & branches.keys())
        left_out += [LeftOut(RefKind.TAG, name, tags.pop(name)) for name in both]
    for kind, refs in ((RefKind.BRANCH, branches), (RefKind.TAG, tags)):
        for name in [name for name, commit_id in refs.items() if commit_id not in commits]:
            left_out.append(LeftOut(kind, name, refs.pop(name), Reason.NO_COMMIT))
    return Dump(commits, branches, tags, tuple(left_out))


def is_part_of(trees: TreeStore, dump: Dump, commits: MetarangeId) -> bool:
    """Return whether another dump has all commits of `dump`, and further commits.

    If so, the other dump is newer: lakeFS never deletes commits, even if it moves a branch back.

    Args:
        commits: the other dump's list of commits. If it cannot be read, the result is ``False``.
    """
    try:
        with _as_bad_dump():
            if sum(each.count for each in trees.metarange(commits).records()) <= len(dump.commits):
                return False  # by far the usual case
            found = {commit.id for commit in _read_commits(trees, commits)}
    except BadDump:
        return False
    return dump.commits.keys() < found


def reach_of_dump(
    trees: TreeStore, manifest: "RefsManifest"
) -> tuple[frozenset[str], frozenset[MetarangeId]]:
    """Return the IDs of the tables of a dump, and of the trees of its commits.

    Raises:
        BadDump: a list is missing or damaged, or has records of another kind.
    """
    tables: set[str] = set()
    with _as_bad_dump():
        for tree in (manifest.commits, manifest.branches, manifest.tags):
            tables.add(tree)
            tables.update(record.id for record in trees.metarange(tree).records())
        found = {commit.metarange_id for commit in _read_commits(trees, manifest.commits)}
    return frozenset(tables), frozenset(found - {EMPTY_TREE})


@contextmanager
def _as_bad_dump() -> Iterator[None]:
    """Raise `BadDump` for any damage found in a dump."""
    try:
        yield
    except BadDump:
        raise
    except Malformed as error:
        raise BadDump(str(error)) from error
    except IntegrityError as error:
        raise BadDump(error.message) from error


def _records(
    trees: TreeStore, tree: MetarangeId, entity: str
) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield the key, identity and data of each record of one list of a dump."""
    if not tree:
        return
    _check_entity(trees.read_object(tree), tree, entity)
    for record in trees.metarange(tree).records():
        table = trees.table(record)
        _check_entity(table, record.id, entity)
        for key, value in table.records():
            yield key, *decode_value(value)


def _check_entity(table: SSTable, name: str, entity: str) -> None:
    found = table.properties.get("entity", b"")
    if found != entity.encode():
        raise BadDump(f"{name} does not list {entity} records but {found[:_SHOWN]!r}")


def _read_commits(trees: TreeStore, tree: MetarangeId) -> Iterator[Commit]:
    for key, identity, data in _records(trees, tree, "commit"):
        commit = decode_commit_data(key, data)
        if identity != key:
            raise BadDump(f"the commit at {key[:_SHOWN]!r} is recorded as another")
        yield commit


def _sorted(found: Iterator[Commit]) -> dict[CommitId, Commit]:
    """Return commits ordered so that parents precede children, after checking their generations.

    Old servers recorded generation 0, and newer servers count on from 0. If any generation is 0,
    all are computed. A commit's ID does not depend on its generation.
    """
    commits = {commit.id: commit for commit in found}
    for commit in commits.values():
        for parent in commit.parents:
            if parent not in commits:
                raise BadDump(f"it has no commit {parent}, the parent of {commit.id}")
    if not all(commit.generation for commit in commits.values()):
        return _with_generations(commits)
    for commit in commits.values():
        if any(commits[parent].generation >= commit.generation for parent in commit.parents):
            raise BadDump(f"the generation of commit {commit.id} is not above its parents'")
    return dict(sorted(commits.items(), key=lambda item: item[1].generation))


def _with_generations(commits: Mapping[CommitId, Commit]) -> dict[CommitId, Commit]:
    """Compute the generations of commits; return the commits with parents before children."""
    sorter = TopologicalSorter({commit.id: commit.parents for commit in commits.values()})
    try:
        order = list(sorter.static_order())
    except CycleError as error:
        raise BadDump("its commits are their own ancestors") from error
    done: dict[CommitId, Commit] = {}
    for commit_id in order:
        commit = commits[commit_id]
        generation = 1 + max((done[parent].generation for parent in commit.parents), default=0)
        done[commit_id] = commit._replace(generation=generation)
    return done


def _read_refs(
    trees: TreeStore, tree: MetarangeId, entity: RefKind, left_out: list[LeftOut]
) -> Iterator[tuple[str, CommitId]]:
    message = messages.BRANCH_DATA if entity is RefKind.BRANCH else messages.TAG_DATA
    for key, identity, data in _records(trees, tree, entity):
        fields = message.decode(data)
        name, commit_id = fields["id"], CommitId(fields["commit_id"])
        if name.encode() != key or commit_id.encode() != identity:
            raise BadDump(f"the {entity} at {key[:_SHOWN]!r} is recorded as another")
        if is_ref_name(entity, name):
            yield name, commit_id
        else:
            left_out.append(LeftOut(entity, name, commit_id))


def trees_missing(store: ObjectStore, trees: Iterable[MetarangeId]) -> set[MetarangeId]:
    """Return the trees among `trees` that a namespace lacks.

    Many trees are looked up by listing ``_lakefs/``, with one LIST request per thousand objects; a
    few trees by one HEAD request each.
    """
    wanted = set(trees) - {EMPTY_TREE}
    if len(wanted) > _MOST_HEADS:
        for info in store.list(layout.SSTABLES):
            name = info.key.removeprefix(layout.SSTABLES)
            if MetarangeId.is_valid(name):
                wanted.discard(MetarangeId(name))
        return wanted
    return {tree for tree in wanted if not exists(store, layout.sstable_key(tree))}


MANIFEST_KEY: Final = "_lakefs/refs_manifest.json"
MAX_SIZE: Final = 64 << 10

_HINT: Final = "make one with: lakectl refs-dump lakefs://REPOSITORY"

_branch = validation.text_that(is_branch_name, "a name that a branch can have")
_LISTS: Final = {
    "commits": "commits_meta_range_id",
    "tags": "tags_meta_range_id",
    "branches": "branches_meta_range_id",
}
"""Maps each field of `RefsManifest` to its name in the JSON manifest, in lakeFS's order."""

_FIELDS: Final = validation.Record(
    {name: validation.identifier(MetarangeId) for name in _LISTS.values()}
)
_REPOSITORY: Final = validation.Record(
    {"default_branch": validation.optional(validation.nullable(_branch), None)}
)


class RefsManifest(NamedTuple):
    """The manifest of a refs dump: the metarange IDs of its three lists.

    Attributes:
        commits: ID of the list of commits.
        branches: ID of the list of branches.
        tags: ID of the list of tags.
        default_branch: the default branch, if the manifest names it.
    """

    commits: MetarangeId
    branches: MetarangeId
    tags: MetarangeId
    default_branch: str | None = None


def parse_manifest(data: bytes) -> RefsManifest:
    """Parse a refs manifest, which may be part of a JSON document with further fields.

    Raises:
        UsageError: the data is not a manifest.
    """
    try:
        found = parse_json_object(data, max_size=MAX_SIZE)
        default_branch = None
        if "refs" in found:
            default_branch = _REPOSITORY.read(found.get("repository", {}))["default_branch"]
            found = found["refs"]
        manifest = read_lists(found)
    except (Unparsable, validation.Invalid) as error:
        raise UsageError(f"not the manifest of a refs dump: {error}", hint=_HINT) from None
    return manifest._replace(default_branch=default_branch)


def read_lists(fields: Mapping[str, object]) -> RefsManifest:
    """Return the refs manifest that the fields of a JSON document contain.

    Raises:
        Invalid: the ID of one of the three lists is missing or not valid.
    """
    found = _FIELDS.read(fields)
    return RefsManifest(**{of: found[name] for of, name in _LISTS.items()})


def manifest_fields(manifest: RefsManifest) -> dict[str, str]:
    """Return the fields of a refs manifest as lakeFS writes them."""
    return {name: getattr(manifest, of) for of, name in _LISTS.items()}


def format_manifest(manifest: RefsManifest) -> bytes:
    """Return a refs manifest as a JSON document."""
    return json.dumps(manifest_fields(manifest), indent=2).encode() + b"\n"


def find_manifest(store: ObjectStore) -> RefsManifest:
    """Return the refs manifest that a lakeFS server left in a namespace.

    Raises:
        NotFound: the namespace has no manifest.
    """
    try:
        return parse_manifest(get_bounded(store, MANIFEST_KEY, MAX_SIZE))
    except ObjectNotFound:
        save = "save one with `lakectl refs-dump lakefs://REPOSITORY > refs.json`"
        hint = f"{save} and give it: `refs=refs.json`"
        raise NotFound(f"no refs dump in {store.uri}", hint=hint) from None


COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "range": ("range_id", "min_key", "max_key", "count", "estimated_size"),
    "entry": (
        "path",
        "identity",
        "size",
        "checksum",
        "modified_at",
        "physical_address",
        "metadata",
    ),
    "commit": (
        "commit_id",
        "committer",
        "message",
        "created_at",
        "metadata",
        "parents",
        "metarange_id",
        "version",
        "generation",
    ),
    "branch": ("branch", "commit_id"),
    "tag": ("tag", "commit_id"),
}
"""For each kind of record, the names of its fields in the order that lakectl shows."""


def kind_of(table: SSTable) -> str:
    """Return the kind of records in a table, one of `COLUMNS`, by the table's properties.

    Raises:
        IntegrityError: neither lakecli nor lakeFS writes tables of this kind.
    """
    kind, entity = table.properties.get("type", b""), table.properties.get("entity", b"")
    if kind == b"metaranges":
        return "range"
    if entity in {b"branch", b"commit", b"tag"}:
        return entity.decode()
    if kind == b"ranges":
        return "entry"
    hint = "give a file of _lakefs/, or a commit pack of _lakecli/commits/"
    raise IntegrityError(
        f"{table.name} is neither a range nor a metarange nor a list of refs", hint=hint
    )


def iter_records(table: SSTable) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of each record of a table in key order; `COLUMNS` has the fields' names.

    Raises:
        IntegrityError: a block or a record is damaged, or the table is of no known kind.
    """
    kind = kind_of(table)
    for key, value in table.records():
        try:
            yield _fields_of(kind, key, value)
        except Malformed as error:
            raise IntegrityError(f"{table.name}: the record at {key!r} is malformed") from error


def _fields_of(kind: str, key: bytes, value: bytes) -> tuple[Any, ...]:
    identity, data = decode_value(value)
    if kind == "range":
        record = decode_range_record(value)
        return record.id, record.min_key, record.max_key, record.count, record.size
    if kind == "entry":
        entry = decode_entry(value)
        return key, identity.hex(), *(getattr(entry, name) for name in COLUMNS[kind][2:])
    if kind == "commit":
        commit = decode_commit_data(key, data)
        fields = {**commit._asdict(), "commit_id": commit.id, "parents": commit.recorded_parents}
        return tuple(fields[name] for name in COLUMNS[kind])
    ref = (messages.BRANCH_DATA if kind == "branch" else messages.TAG_DATA).decode(data)
    return ref["id"], ref["commit_id"]

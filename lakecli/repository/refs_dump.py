"""Write a refs dump, from which lakeFS restores commits, branches and tags of a repository.

lakeFS cannot represent everything that lakecli can, and a dump contains less than a repository. The
dump is refused if data would be lost, unless the caller accepts each kind of loss by name. The
error or the result lists the lost data.

The tables are in lakeFS's format, with the properties ``type``, ``entity`` and the schema of the
messages, and in addition ``writer``. They are written create-only below ``_lakefs/``. Their names
follow lakecli's rule, which lakeFS does not check.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any, Final, NamedTuple

from lakecli.base.ids import MetarangeId, RangeId
from lakecli.base.model import Branch, Commit, CommitId, RefKind
from lakecli.committed import metaranges
from lakecli.committed.tree_store import TableBatch, TreeStore
from lakecli.errors import Refused
from lakecli.kv.local_store import ReadTransaction
from lakecli.proto.messages import BRANCH_DATA, TAG_DATA, Message
from lakecli.refs.graph import iter_reached
from lakecli.refs.ref_store import RefStore
from lakecli.remote.packs import encode_commit
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_commit, claim_trees
from lakecli.repository.handle.namespace import hint_to_take_over
from lakecli.repository.lakefs.dump import RefsManifest, trees_missing
from lakecli.repository.lakefs.kept_dumps import confirm_stopped, find_take_over, keep_dump
from lakecli.sstable.format import encode_value
from lakecli.sstable.writer import TableWriter
from lakecli.staging import area
from lakecli.stores.streams import batches

MAX_LISTED: Final = 100
"""Maximum number of listed problems of one kind."""


class Loss(StrEnum):
    """Kinds of data that a dump or lakeFS cannot represent."""

    NAMES = "names"
    PATHS = "paths"
    UNCOMMITTED = "uncommitted"
    UNPUSHED = "unpushed"


class LostItem(NamedTuple):
    """One item that the dump lacks, or contains in another state than this machine.

    Attributes:
        what: the ref; for a path, the ref and the path.
    """

    loss: Loss
    what: str


class Dumped(NamedTuple):
    """A dump that was written, and what it contains.

    Attributes:
        lost: the items that are missing in the dump; the caller has accepted their loss.
        kept_until: the time, by the bucket's clock, until which garbage collection keeps the dump.
    """

    manifest: RefsManifest
    branches: int
    tags: int
    commits: int
    lost: tuple[LostItem, ...]
    kept_until: datetime


class NotDumped(Refused):
    """A dump would lose data whose loss the caller has not accepted; nothing was written."""

    def __init__(self, lost: Sequence[LostItem]) -> None:
        kinds = sorted({each.loss for each in lost})
        shown = ", ".join(f"{each.loss}: {each.what}" for each in lost[:5])
        shown += ", …" if lost[5:] else ""
        hint = f"to dump anyway, leave out {', '.join(kinds)}" if kinds[1:] else _HINTS[kinds[0]]
        super().__init__(f"a refs dump would lose {len(lost)} things: {shown}", hint=hint)
        self.lost = tuple(lost)


_HINTS: Final = {
    Loss.NAMES: "lakeFS allows no ':' in names: create the ref under another name, or leave these "
    "refs out: `leave_out=names`",
    Loss.PATHS: "lakeFS holds UTF-8 paths only: move the objects, or dump the paths as they are "
    "with `leave_out=paths`",
    Loss.UNCOMMITTED: "commit or reset the changes, or leave them out: `leave_out=uncommitted`",
    Loss.UNPUSHED: "push them: `push --all REPOSITORY`; or leave them out: `leave_out=unpushed`",
}


def refs_dump(repository: Repository, *, leave_out: Collection[Loss] = ()) -> Dumped:
    """Write a refs dump of a repository into its storage namespace.

    The dump has every branch and tag, and every commit of this clone whose tree is in the
    namespace. Only new objects are written; the same refs give the same dump. Garbage collection
    keeps the dump, and everything to which it refers, for `KEPT_FOR`. If the namespace was taken
    over from lakeFS, the confirmation that lakeFS has stopped is withdrawn.

    Args:
        leave_out: kinds of data that may be missing in the dump.

    Raises:
        NotDumped: the dump would lose data of a kind that is not in `leave_out`.
        Refused: the namespace belongs to lakeFS.
        NotText: a commit contains bytes that are not text.
        Gone: garbage collection has deleted the tree of a branch or tag.
        Swept: garbage collection deleted a tree just now.
        SweepRunning: a sweep is still running.
    """
    if repository.record.is_borrowed:
        raise Refused(
            f"{repository.uri} reads a namespace that belongs to lakeFS",
            hint=hint_to_take_over(repository.uri),
        )
    with repository.lake.kv.read() as txn:
        refs = repository.refs(txn)
        heads = {branch.name: branch.commit_id for branch in refs.iter_branches()}
        tags = {tag.name: tag.commit_id for tag in refs.iter_tags()}
        lost = [*_odd_names(heads, RefKind.BRANCH), *_odd_names(tags, RefKind.TAG)]
        lost += _uncommitted(txn, refs.iter_branches())
        lost += _unpushed(txn, repository, heads, RefKind.BRANCH)
        lost += _unpushed(txn, repository, tags, RefKind.TAG)
        odd = _odd_paths(repository, refs, [*heads.items(), *tags.items()])
        lost += islice(odd, MAX_LISTED)
        refused = [each for each in lost if each.loss not in leave_out]
        if refused:
            raise NotDumped(refused)
        starts = {*heads.values(), *tags.values()}
        for commit_id in sorted(starts):
            claim_commit(txn, repository, refs.get_commit(commit_id))
        commits, others = _commits(repository, refs, starts)
    claim_trees(repository, others)
    manifest = write_dump(
        repository.trees,
        commits=sorted(commits, key=lambda commit: commit.id),
        branches=heads,
        tags=tags,
        default_branch=repository.record.default_branch,
    )
    taken = find_take_over(repository.store)
    if taken is not None and taken.stopped_at is not None:
        # lakeFS may work here again once it has restored the dump.
        confirm_stopped(repository.store, stopped=False)
    repository.lake.runtime.on_step("keep-dump")
    kept = keep_dump(repository.store, manifest, repository.lake.runtime.new_id().hex())
    return Dumped(manifest, len(heads), len(tags), len(commits), tuple(lost), kept.until)


def _odd_names(refs: dict[str, CommitId], kind: RefKind) -> list[LostItem]:
    """Remove the refs whose names lakeFS does not allow, and return them."""
    names = [name for name in refs if ":" in name]
    for name in names:
        del refs[name]
    return [LostItem(Loss.NAMES, f"{kind} {name}") for name in names]


def _uncommitted(txn: ReadTransaction, branches: Iterable[Branch]) -> Iterator[LostItem]:
    for branch in branches:
        if not area.is_clean(txn, branch):
            yield LostItem(Loss.UNCOMMITTED, f"branch {branch.name}")


def _unpushed(
    txn: ReadTransaction, repository: Repository, refs: dict[str, CommitId], kind: RefKind
) -> list[LostItem]:
    """Replace each ref's commit by its commit in the bucket; return the refs that differed.

    Refs that are not in the bucket are removed from `refs`.
    """
    tracking = repository.tracking(txn)
    there = {name: tracking.position(kind, name) for name in refs}
    lost = [LostItem(Loss.UNPUSHED, f"{kind} {name}") for name in refs if refs[name] != there[name]]
    present = {name: commit_id for name, commit_id in there.items() if commit_id is not None}
    refs.clear()
    refs.update(present)
    return lost


def _odd_paths(
    repository: Repository, refs: RefStore, heads: Iterable[tuple[str, CommitId]]
) -> Iterator[LostItem]:
    """Yield paths of branches and tags that are not UTF-8; each range is read once."""
    done = set()
    for name, commit_id in heads:
        tree = refs.get_commit(commit_id).metarange_id
        for record in repository.trees.metarange(tree).records():
            if record.id in done:
                continue
            done.add(record.id)
            table = repository.trees.table(record)
            for number in range(table.block_count):
                odd = (key for key in table.block(number).keys if not _is_utf8(key))
                yield from (LostItem(Loss.PATHS, f"{name}: {key!r}") for key in odd)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _commits(
    repository: Repository, refs: RefStore, starts: set[CommitId]
) -> tuple[list[Commit], set[MetarangeId]]:
    """Return the commits of a dump, and the trees of the commits that no ref reaches.

    The dump has all commits that refs reach. A commit that no ref reaches is in the dump, too, if
    the trees of the commit and of its ancestors are in the namespace.
    """
    reached = {commit_id: commit for commit_id, commit in iter_reached(refs, starts) if commit}
    others = {commit.id: commit for commit in refs.iter_commits() if commit.id not in reached}
    missing = trees_missing(repository.store, (each.metarange_id for each in others.values()))
    trees: set[MetarangeId] = set()
    for commit in sorted(others.values(), key=lambda commit: commit.generation):
        if commit.metarange_id not in missing and all(map(reached.__contains__, commit.parents)):
            reached[commit.id] = commit
            trees.add(commit.metarange_id)
    return list(reached.values()), trees


_RANGE_RECORDS: Final = 20_000
"""Maximum number of records of a dump in one range."""

_PACKAGE: Final = "io.treeverse.lakefs.graveler"


_COMMIT: Final = (
    "id committer message creation_date:.google.protobuf.Timestamp meta_range_id "
    f"metadata*:.{_PACKAGE}.CommitData.MetadataEntry parents* version:INT32 generation:INT32"
)
_SCHEMAS: Final = {
    "branch": ("BranchData", "id commit_id staging_token sealed_tokens* hidden:BOOL"),
    "commit": ("CommitData", _COMMIT),
    "tag": ("TagData", "id commit_id"),
}
"""For each list, the name and the fields of its message. A star marks a repeated field. The type of
a field is STRING, or follows the colon. The name of a message begins with a dot."""


def write_dump(
    trees: TreeStore,
    *,
    commits: Iterable[Commit],
    branches: Mapping[str, CommitId],
    tags: Mapping[str, CommitId],
    default_branch: str,
) -> RefsManifest:
    """Write the lists of a dump: commits, branches and tags; the same refs give the same dump.

    Args:
        commits: the commits in ascending order of their IDs, each once.

    Raises:
        NotText: a commit contains bytes that are not text.
    """
    batch = trees.begin()
    lists = {
        "commit": ((each.id.encode(), encode_commit(each)) for each in commits),
        "branch": _refs(branches, BRANCH_DATA),
        "tag": _refs(tags, TAG_DATA),
    }
    written = {entity: _write(trees, batch, entity, found) for entity, found in lists.items()}
    trees.flush(batch)
    return RefsManifest(written["commit"], written["branch"], written["tag"], default_branch)


def _refs(refs: Mapping[str, CommitId], message: Message) -> Iterable[tuple[bytes, bytes]]:
    for name, commit_id in sorted((name.encode(), commit_id) for name, commit_id in refs.items()):
        data = message.encode({"id": name.decode(), "commit_id": commit_id})
        yield name, encode_value(commit_id.encode(), data)


def _write(
    trees: TreeStore, batch: TableBatch, entity: str, records: Iterable[tuple[bytes, bytes]]
) -> MetarangeId:
    """Write one list and return its metarange; for an empty list, a metarange without records."""
    name, fields = _SCHEMAS[entity]
    properties = {
        "entity": entity.encode(),
        "schema_name": f"{_PACKAGE}.{name}".encode(),
        "schema_definition": _schema_definition(name, fields),
        metaranges.WRITER_PROPERTY: metaranges.WRITER,
    }
    ranges: list[tuple[bytes, bytes]] = []
    for part in batches(records, _RANGE_RECORDS):
        table = TableWriter(properties=properties | {"type": b"ranges"})
        keys, values = zip(*part, strict=True)
        table.add_many(keys, values)
        range_id = RangeId(metaranges.name_of_records(keys, values))
        size = trees.write(batch, range_id, table.finish())
        record = metaranges.RangeRecord(range_id, table.min_key, table.max_key, size, table.count)
        ranges.append((table.max_key, metaranges.encode_range_record(record)))
    metarange = TableWriter(properties=properties | {"type": b"metaranges"})
    last_keys, described = [key for key, _ in ranges], [value for _, value in ranges]
    metarange.add_many(last_keys, described)
    tree = MetarangeId(metaranges.name_of_records(last_keys, described))
    trees.write(batch, tree, metarange.finish())
    return tree


def _schema_definition(name: str, fields: str) -> bytes:
    """Return the descriptor of a message as JSON, in the form that protobuf writes."""
    descriptor: dict[str, Any] = {"name": name, "field": list(_describe(fields))}
    if "metadata" in fields:
        pair = list(_describe("key value"))
        entry = {"name": "MetadataEntry", "field": pair, "options": {"mapEntry": True}}
        descriptor["nestedType"] = [entry]
    return json.dumps(descriptor).encode()


def _describe(fields: str) -> Iterator[dict[str, object]]:
    for number, field in enumerate(fields.split(), 1):
        written, _, type_ = field.partition(":")
        name = written.removesuffix("*")
        is_message = type_.startswith(".")
        words = name.title().replace("_", "")
        yield {
            "name": name,
            "number": number,
            "label": "LABEL_OPTIONAL" if written == name else "LABEL_REPEATED",
            "type": "TYPE_MESSAGE" if is_message else f"TYPE_{type_ or 'STRING'}",
            **({"typeName": type_} if is_message else {}),
            "jsonName": words[0].lower() + words[1:],
        }

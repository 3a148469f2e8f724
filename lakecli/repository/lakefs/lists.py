"""Writing a refs dump, from which a lakeFS server restores the commits, branches and tags.

The tables are lakeFS's own: properties ``type``, ``entity`` and the schema of the messages, besides
``writer``. They are written create-only below ``_lakefs/`` and named by lakecli's rule, which
lakeFS does not check.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from lakecli.base.ids import MetarangeId, RangeId
from lakecli.base.model import Commit, CommitId
from lakecli.committed.metaranges import (
    WRITER,
    WRITER_PROPERTY,
    RangeRecord,
    encode_range_record,
    name_of_records,
)
from lakecli.committed.tree_store import TableBatch, TreeStore
from lakecli.proto.messages import BRANCH_DATA, TAG_DATA, Message
from lakecli.remote.commit_data import encode_commit
from lakecli.repository.lakefs.manifest import RefsManifest
from lakecli.sstable.format import encode_value
from lakecli.sstable.writer import TableWriter

_RANGE_RECORDS: Final = 20_000
"""Records of a dump in one range, at most."""

_PACKAGE: Final = "io.treeverse.lakefs.graveler"


class _Field(NamedTuple):
    """A field of a message, in the words of protobuf's descriptors."""

    name: str
    type: str = "STRING"
    repeated: bool = False
    of: str = ""


_PAIR: Final = (_Field("key"), _Field("value"))
_SCHEMAS: Final[Mapping[str, tuple[str, tuple[_Field, ...]]]] = {
    "branch": (
        "BranchData",
        (
            _Field("id"),
            _Field("commit_id"),
            _Field("staging_token"),
            _Field("sealed_tokens", repeated=True),
            _Field("hidden", "BOOL"),
        ),
    ),
    "commit": (
        "CommitData",
        (
            _Field("id"),
            _Field("committer"),
            _Field("message"),
            _Field("creation_date", "MESSAGE", of=".google.protobuf.Timestamp"),
            _Field("meta_range_id"),
            _Field(
                "metadata", "MESSAGE", repeated=True, of=f".{_PACKAGE}.CommitData.MetadataEntry"
            ),
            _Field("parents", repeated=True),
            _Field("version", "INT32"),
            _Field("generation", "INT32"),
        ),
    ),
    "tag": ("TagData", (_Field("id"), _Field("commit_id"))),
}


def write_dump(
    trees: TreeStore,
    *,
    commits: Iterable[Commit],
    branches: Mapping[str, CommitId],
    tags: Mapping[str, CommitId],
    default_branch: str,
) -> RefsManifest:
    """Write the three lists of a dump; repeating it with the same refs changes nothing.

    Args:
        trees: of the namespace.
        commits: ascending by ID, each once.
        branches: the heads by name.
        tags: the commits by name.
        default_branch: what the manifest names.

    Raises:
        NotText: a commit holds bytes that are no text.
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
    """Write one list and return its metarange; an empty list is one without records."""
    name, fields = _SCHEMAS[entity]
    properties = {
        "entity": entity.encode(),
        "schema_name": f"{_PACKAGE}.{name}".encode(),
        "schema_definition": _schema_definition(name, fields),
        WRITER_PROPERTY: WRITER,
    }
    ranges: list[tuple[bytes, bytes]] = []
    remaining = iter(records)
    while part := list(islice(remaining, _RANGE_RECORDS)):
        table = TableWriter(properties=properties | {"type": b"ranges"})
        keys, values = zip(*part, strict=True)
        table.add_many(keys, values)
        range_id = RangeId(name_of_records(keys, values))
        size = trees.write(batch, range_id, table.finish())
        record = RangeRecord(range_id, table.min_key, table.max_key, size, table.count)
        ranges.append((table.max_key, encode_range_record(record)))
    metarange = TableWriter(properties=properties | {"type": b"metaranges"})
    last_keys, described = [key for key, _ in ranges], [value for _, value in ranges]
    metarange.add_many(last_keys, described)
    tree = MetarangeId(name_of_records(last_keys, described))
    trees.write(batch, tree, metarange.finish())
    return tree


def _schema_definition(name: str, fields: tuple[_Field, ...]) -> bytes:
    """Return the JSON of a message's descriptor, as protobuf writes it."""
    descriptor: dict[str, Any] = {"name": name, "field": _describe(fields)}
    if any(field.of.endswith(".MetadataEntry") for field in fields):
        entry = {"name": "MetadataEntry", "field": _describe(_PAIR), "options": {"mapEntry": True}}
        descriptor["nestedType"] = [entry]
    return json.dumps(descriptor).encode()


def _describe(fields: tuple[_Field, ...]) -> list[dict[str, object]]:
    return [
        {
            "name": field.name,
            "number": number,
            "label": "LABEL_REPEATED" if field.repeated else "LABEL_OPTIONAL",
            "type": f"TYPE_{field.type}",
            **({"typeName": field.of} if field.of else {}),
            "jsonName": field.name.split("_")[0]
            + "".join(word.title() for word in field.name.split("_")[1:]),
        }
        for number, field in enumerate(fields, 1)
    ]

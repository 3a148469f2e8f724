"""JSON answers: the records that several commands have, and how a command names its own.

A record is a class that ends in ``Json``, beside its command. `answers` names it at the command,
and `lakecli.cli.out.schemas` derives the documentation of its fields from it: ``ListedBranchJson``
is documented as "listed branch". mypy compares records with what the commands answer. Fields are
snake_case. Times stay datetimes and paths bytes here; `to_json` writes them.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from json import JSONEncoder
from typing import TYPE_CHECKING, TypedDict, TypeVar, cast

from lakecli.base import model
from lakecli.base.model import CommitId
from lakecli.cli.out.text import rfc3339

if TYPE_CHECKING:
    from lakecli.repository.reading.outside_counts import CountedPlace

T = TypeVar("T")


class Answer:
    """A JSON answer of a command.

    Args:
        record: the class of its objects.
        each: any number of objects, one a line; else exactly one.
        option: the option that selects this answer; ``""`` for the usual one.
        also: a class whose fields some of the objects have, too.
    """

    def __init__(self, record: type, *, each: bool, option: str, also: type | None) -> None:
        self.record = record
        self.each = each
        self.option = option
        self.also = also

    @property
    def name(self) -> str:
        """The documented name of the record."""
        return record_name(self.record)


def record_name(record: type) -> str:
    """Return the documented name: "listed branch" for ``ListedBranchJson``."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", record.__name__.removesuffix("Json"))
    return words.lower()


def answers(
    record: type, *, each: bool = False, option: str = "", also: type | None = None
) -> Callable[[T], T]:
    """Name a JSON answer of the command below; see `Answer`."""

    def name(command: T) -> T:
        named = (
            Answer(record, each=each, option=option, also=also),
            *vars(command).get("answers", ()),
        )
        vars(command)["answers"] = named
        return command

    return name


def pick(answer: type[T], /, *sources: object, **given: object) -> T:
    """Return an answer whose fields are `given`, and otherwise attributes of the `sources`.

    Args:
        answer: the class of the record.
        sources: the first one that has an attribute of a field's name gives the field.
        given: fields that the sources lack or hold in another form.
    """
    picked = {}
    for name in answer.__annotations__:
        holder = next((source for source in sources if hasattr(source, name)), None)
        picked[name] = given[name] if name in given else getattr(holder, name)
    return cast("T", picked)


def to_json(record: Mapping[str, object]) -> str:
    """Return one line of JSON: times as RFC 3339, bytes as text with surrogate escapes."""
    return _ENCODER.encode(record)


_rfc3339 = lru_cache(maxsize=256)(rfc3339)
"""What was written together has few dates."""


def _json_default(value: object) -> object:
    if isinstance(value, bytes):
        return os.fsdecode(value)
    if isinstance(value, datetime):
        return _rfc3339(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"no JSON for {value!r}")


_ENCODER = JSONEncoder(default=_json_default)


class RepositoryJson(TypedDict):
    """A repository of this machine.

    Attributes:
        name: name on this machine.
        storage_namespace: URI of the storage namespace.
        default_branch: the branch that cannot be deleted.
        created_at: time of its creation.
        range_entries: average number of paths in a range.
        uuid: 32 hex digits, the same in every clone.
    """

    name: str
    storage_namespace: str
    default_branch: str
    created_at: datetime
    range_entries: int
    uuid: str


class RefJson(TypedDict):
    """A branch or tag.

    Attributes:
        name: name of the branch or tag.
        commit_id: the commit it points to.
    """

    name: str
    commit_id: CommitId


class BranchStatusJson(TypedDict):
    """A branch, its distance from the bucket, and its uncommitted changes.

    Attributes:
        name: name of the branch.
        commit_id: its head.
        upstream: its commit in the bucket at the last fetch; null if it is not there.
        ahead: commits that are only on this machine; 0 without an upstream.
        behind: commits that are only in the bucket.
        added: new uncommitted objects.
        changed: changed uncommitted objects.
        removed: uncommitted removals.
    """

    name: str
    commit_id: CommitId
    upstream: CommitId | None
    ahead: int
    behind: int
    added: int
    changed: int
    removed: int


class LocalChangeJson(TypedDict):
    """A path of a working directory that differs from the commit it was last synced with.

    Attributes:
        source: local, remote, or both.
        change: added, removed, changed, or conflict: changed on both sides to different contents.
        path: path of the file, relative to the working directory.
        here: how the file differs: added, removed or changed; null if it does not.
        there: how the ref differs: added, removed or changed; null if it does not.
    """

    source: str
    change: str
    path: bytes | str
    here: str | None
    there: str | None


class CommitJson(TypedDict):
    """A commit.

    Attributes:
        id: ID as lakeFS computes it.
        parents: parents, the first parent first.
        committer: name and e-mail; may be empty.
        metarange_id: ID of the list of all paths; empty for no paths.
        generation: 1, or one more than the largest of its parents.
    """

    id: CommitId
    parents: Sequence[CommitId]
    message: str
    committer: str
    created_at: datetime
    metadata: Mapping[str, str]
    metarange_id: str
    generation: int


class EntryJson(TypedDict):
    """An object.

    Attributes:
        size: size in bytes.
        checksum: BLAKE3 in 64 hex digits if lakecli uploaded it, else an ETag.
        modified_at: time of the upload.
        metadata: metadata; ::lakefs::client-mtime is the modification time of the file, in unix
            seconds.
        physical_address: URI of its bytes.
    """

    path: bytes | str
    size: int
    checksum: str
    modified_at: datetime
    content_type: str
    metadata: Mapping[str, str]
    physical_address: str


class FailureJson(TypedDict):
    """An object that failed.

    Attributes:
        path: path of the object; for an upload, of the file.
        error: the reason.
    """

    path: bytes | str
    error: str


class OutsidePlaceJson(TypedDict):
    """A place outside the storage namespace where objects are.

    Attributes:
        place: bucket or directory.
        objects: number of objects there, as far as counted.
        allowed: whether this machine may read them.
    """

    place: str
    objects: int
    allowed: bool


def repository_record(record: model.RepositoryRecord) -> RepositoryJson:
    """Return the JSON answer about a repository."""
    return pick(RepositoryJson, record)


def commit_record(commit: model.Commit) -> CommitJson:
    """Return the JSON answer about a commit."""
    return pick(CommitJson, commit)


def ref_record(ref: model.Branch | model.Tag) -> RefJson:
    """Return the JSON answer about a branch or a tag."""
    return pick(RefJson, ref)


def entry_record(path: bytes, entry: model.Entry, *, physical_address: str) -> EntryJson:
    """Return the JSON answer about an object; the address is the full URI."""
    # Not by `pick`: a listing has one for each object.
    return {
        "path": path,
        "size": entry.size,
        "checksum": entry.checksum,
        "modified_at": entry.modified_at,
        "content_type": entry.content_type,
        "metadata": entry.metadata,
        "physical_address": physical_address,
    }


def place_records(places: "Iterable[CountedPlace]") -> list[OutsidePlaceJson]:
    """Return the JSON answer about places."""
    return [pick(OutsidePlaceJson, place, place=place.uri) for place in places]

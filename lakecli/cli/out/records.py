"""The JSON output of commands, called answers: library records, or classes named ``…Json``.

The decorator `answers` declares the record that a command writes as JSON. If this is a record of
the library (a named tuple or a dataclass), the answer has all its fields, or the fields that
`VIEWS` lists. If the library has no such record, the module of the command has a class whose name
ends in ``Json``; mypy compares the class with the dictionary that the command creates.
`lakecli.cli.out.schemas` derives the documentation from all these classes: ``BranchStatus`` is
documented as "branch status", and ``ListedBranchJson`` as "listed branch". Names of fields are
snake_case. Times are datetimes and paths are bytes here; `to_json` converts both to text.
"""

import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from json import JSONEncoder
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypedDict, TypeVar, cast

from lakecli.cli.out.text import rfc3339
from lakecli.errors import LakeError

T = TypeVar("T")

VIEWS: Final[Mapping[str, str]] = {
    "Annotation": "type path commit",
    "Arrival": "id path size arrived_at state reason",
    "Branch": "name commit_id",
    "BranchStatus": "name commit_id distance.upstream distance.ahead distance.behind "
    "added changed removed",
    "Check": "name verdict seen fix=known_fix kind details",
    "Commit": "id parents message committer created_at metadata metarange_id generation",
    "ChangedPath": "source change path here there",
    "CountedPlace": "place=uri objects allowed",
    "EndpointAddress": "url access_key secret_key region",
    "FinishedMove": "intent.kind intent.name intent.before intent.after state",
    "FetchReport": "refs commits packs updated damaged",
    "FsckCounts": "refs commits metaranges ranges entries objects bytes_hashed external "
    "external_asked external_archived expired unverified collected findings damaged_refs outside",
    "GarbageTotal": "kind prefix why objects size",
    "GcReport": "action status.phase status.epoch status.grace_seconds status.since "
    "status.sweep_at status.resume_at spared garbage commits ranges entries lost summary accepted",
    "GcStatus": "phase epoch grace_seconds since sweep_at resume_at dumps lakefs_stopped summary",
    "KeptDump": "commits_meta_range_id=manifest.commits tags_meta_range_id=manifest.tags "
    "branches_meta_range_id=manifest.branches since until",
    "LeftOut": "kind name before after=commit_id change=reason",
    "LinkedDirectory": "directory uri commit_id",
    "LinkFinding": "path state expired=is_expired expires_at seconds_left",
    "LoggedOperation": "id=operation.hex_id operation.at operation.kind operation.command "
    "operation.refs operation.staged undone operation.metadata",
    "LoggedMove": "commit_id=after before_commit_id=before at what=why who shared",
    "ObjectLink": "path size checksum url expires_at",
    "PullReport": "name before after state fetched.updated fetched.damaged",
    "PushReport": "refs=pushed failed",
    "RefChange": "kind name before=position_before after=position_after",
    "RefOutcome": "kind name before after change",
    "RepositoryRecord": "name storage_namespace default_branch created_at range_entries uuid",
    "Resolved": "commit_id=commit.id kind base=name base_commit_id=base_id staging steps",
    "Restored": "repository=uri branches tags commits left_out updated",
    "Undone": "operation=operation.hex_id operation.kind operation.command "
    "appended=appended.hex_id appended.refs appended.staged remote=moved_back",
    "UploadLink": "id signed.url signed.expires_at signed.headers signed.fields physical_address",
}
"""The fields of answers, in order, by the class of the library record that they come from.

A record that is not listed here is shown with all its fields. A field is written as a dotted
attribute of the record, whose last part is the name of the field, or as ``field=attribute``."""


class Answer(NamedTuple):
    """A JSON answer of a command.

    Attributes:
        record: the class of the answer: a record of the library, or a class named ``…Json``.
        each: whether the answer is any number of objects, one per line; otherwise exactly one.
        option: the option that selects this answer; ``""`` for the default answer.
        also: a class with further fields, which only some of the objects have.
    """

    record: type
    each: bool
    option: str
    also: type | None

    @property
    def name(self) -> str:
        """The documented name of the record."""
        return record_name(self.record)


def record_name(record: type) -> str:
    """Return the documented name of a record: "listed branch" for ``ListedBranchJson``."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", record.__name__.removesuffix("Json"))
    return words.lower()


def answers(
    record: type, *, each: bool = False, option: str = "", also: type | None = None
) -> Callable[[T], T]:
    """Return a decorator that declares a JSON answer of a command; see `Answer`.

    Args:
        option: the option that selects the answer; several options are separated by ``|``.
    """

    def name(command: T) -> T:
        found = [Answer(record, each, one, also) for one in option.split("|")]
        vars(command)["answers"] = (*found, *vars(command).get("answers", ()))
        return command

    return name


def fields_of(record: Any) -> dict[str, object]:  # noqa: ANN401 - a record of any class
    """Return the fields of a library record that an answer contains, by name."""
    view = view_of(type(record))  # type: ignore[arg-type]  # every class can be hashed
    assert view is not None, record
    return {name: attrgetter(path)(record) for name, path in view.items()}


def pick(answer: type[T], /, *sources: object, **given: object) -> T:
    """Return an answer whose fields come from `given`, or else from attributes of the `sources`.

    Args:
        answer: the class of the answer.
        sources: objects; a field is taken from the first object with an attribute of its name.
        given: fields that the sources lack or have in another form.
    """
    picked = {}
    for name in answer.__annotations__:
        holder = next((source for source in sources if hasattr(source, name)), None)
        picked[name] = given[name] if name in given else getattr(holder, name)
    return cast("T", picked)


def docstring_entries(section: str) -> dict[str, str]:
    """Return the entries of a section ``Args:`` or ``Attributes:`` by name, without final periods.

    Args:
        section: the section without its title and its indentation.
    """
    found = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()).removesuffix(".") for name, text in found}


@cache
def view_of(record: type) -> Mapping[str, str] | None:
    """Return which fields of a record of the library an answer contains.

    Returns:
        For each field, by name, the dotted attribute of the record with the field's value; ``None``
        if the class is not a record of the library.
    """
    if record.__name__ in VIEWS:
        listed = VIEWS[record.__name__].split()
    elif hasattr(record, "__dataclass_fields__"):  # `dataclasses` itself takes long to import
        listed = list(record.__dataclass_fields__)
    elif hasattr(record, "_fields"):
        listed = list(record._fields)
    else:
        return None
    named = (each.partition("=") for each in listed)
    return {name.rpartition(".")[2]: attribute or name for name, _, attribute in named}


def to_json(record: object) -> str:
    """Return one line of JSON, with times in RFC 3339 and bytes as text with surrogate escapes."""
    return _ENCODER.encode(_plain(record))


def _plain(value: Any) -> object:  # noqa: ANN401 - as above
    """Return a value in which each record of the library is replaced by a dictionary."""
    if isinstance(value, str | int | bytes | None):
        return value
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if view_of(type(value)) is not None:  # type: ignore[arg-type]  # as above
        return _plain(fields_of(value))
    return list(map(_plain, value)) if isinstance(value, list | tuple) else value


def _json_default(value: object) -> object:
    if isinstance(value, bytes):
        return os.fsdecode(value)
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, LakeError):
        return value.message
    raise TypeError(f"no JSON for {value!r}")


_ENCODER = JSONEncoder(default=_json_default)


class EntryJson(TypedDict):
    """An object.

    Attributes:
        size: size in bytes.
        checksum: BLAKE3 in 64 hex digits if lakecli uploaded the object, else an ETag.
        modified_at: time of the upload.
        metadata: metadata; ::lakefs::client-mtime is the modification time of the uploaded file, in
            Unix seconds.
        physical_address: URI of the object's bytes.
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
        path: path of the object or, for an upload, of the file.
        error: the reason of the failure.
    """

    path: bytes | str
    error: str

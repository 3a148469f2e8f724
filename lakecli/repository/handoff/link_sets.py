"""Sets of PUT links: a partner's page or script sends files to the links of a set.

A command then stages all files of the set together. The set is recorded in the namespace beside the
objects that are sent to it, so every clone can stage the objects. `_lakecli/incoming/<set>.links`
names the branch, the directory and the links. The page or script also has a link to `<set>.sent`,
to which it writes a list of the files that it sends, one line for each file::

    ID SIZE DIGEST STATE NAME

The page or script writes the list before it sends the first file, from time to time, and at the
end. So after an interruption it can read from the list which files it was sending.

DIGEST is ``-`` (none), ``sha256:`` with the SHA-256, or ``sha256/8M:`` with the SHA-256 of the
concatenated SHA-256 of each 8 MiB, which browsers can compute for a large file. STATE is ``+`` for
a file that was sent, the number of sent parts for a file of which only some parts were sent, ``*``
for a file that replaces a file sent before, and ``.`` otherwise.

If the store supports it, a large file is sent in parts, by URLs of a multipart upload that begins
when the links are made. All parts but the first have the same size; if the store can check the size
of a part, the signed URLs require this size. The first part has the remaining bytes. The sender
cannot join the parts: lakecli joins them when it stages the file. A file that replaces another one
is not sent in parts, since the multipart upload of the first file may have been completed.

The sender can write anything into the list and the objects. So a name from the list is used only if
it is valid for a file below the directory, and if no other file of the set arrived with the same
name. If the links were made for given names, the given names are used. Sizes and digests are
compared before anything is staged.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from hashlib import sha256
from shlex import quote
from typing import Any, Final, NamedTuple, TypeVar

from lakecli import errors
from lakecli.base import validation
from lakecli.base.identity import blake3_of
from lakecli.base.ids import IncomingId
from lakecli.base.layout import INCOMING, LINKS, SENT, incoming_key
from lakecli.base.model import MAX_PATH_SIZE, Entry
from lakecli.base.parsing import Unparsable, parse_json
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.base.uri import as_directory, check_path
from lakecli.committed.values import decode_entry, encode_entry
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_values
from lakecli.repository.handoff import incoming
from lakecli.repository.handoff.links import THREADS, problem_of
from lakecli.repository.reading.lakefs_digests import PartedHasher
from lakecli.repository.reading.recorded import Hasher
from lakecli.repository.reading.view import check_branch
from lakecli.repository.staged.stager import UNCHANGED, NewAttributes, Stager, new_on, values_on
from lakecli.stores import contract
from lakecli.stores.capabilities import UploadId, UploadNotFound, uploads_of
from lakecli.stores.presigned_urls import LARGEST_PUT, PresignedUrl, PresignRequest

MAX_LINKS: Final = 1_000
"""The largest number of links in one set."""

CHUNK: Final = 8 << 20
"""The chunk size, in bytes, of a ``sha256/8M:`` digest."""

SMALLEST_PART: Final = 64 << 20
MAX_PART_LINKS: Final = 8_000
"""The largest number of URLs for parts in one set; a set of larger files has larger parts."""

_VERSION: Final = 1
_STEM: Final = 16
_MAX_LINE: Final = MAX_PATH_SIZE + 256
_MAX_RECORD: Final = MAX_LINKS * (6 * MAX_PATH_SIZE + 1_024)
_SET: Final = re.compile(rf"[0-9a-f]{{{_STEM}}}")
_LINE: Final = re.compile(
    rb"([0-9a-f]{32}) ([0-9]{1,15}) (?:-|(sha256|sha256/8M):([0-9a-f]{64})) "
    rb"([.+*]|[0-9]{1,4}) ([^\n]+)"
)

S = TypeVar("S")
T = TypeVar("T")


class LinkSet(NamedTuple):
    """A set of links to which a page or script sends files.

    Attributes:
        links: one link for each object.
        names: the name of each object, if the links were made for given names.
        sent: the PUT URL of the list of sent files.
        was_sent: the GET URL of the same list.
        created_at: when the links were signed.
        expires_at: the earliest expiry of the links.
        max_size: the largest size of an object, in bytes.
        part_size: if an object is sent in parts, the size in bytes of each part except the first;
            0: every object is sent by one request.
    """

    links: Sequence[incoming.UploadLink]
    names: Sequence[bytes] | None
    sent: PresignedUrl
    was_sent: PresignedUrl
    created_at: datetime
    expires_at: datetime
    max_size: int
    part_size: int


def new_set(
    repository: Repository,
    branch: str,
    prefix: bytes,
    *,
    count: int,
    names: Sequence[bytes] | None,
    expires_in: timedelta,
    max_size: int = LARGEST_PUT,
) -> LinkSet:
    """Sign a set of links, and record the set in the namespace.

    Args:
        repository: the repository of the objects.
        branch: the branch on which the objects will be staged.
        prefix: the directory of the objects; a missing trailing slash is added.
        count: the number of links, if no names are given.
        names: the names of the objects below the directory, if they are known.
        expires_in: the lifetime of the links.
        max_size: the largest size of an object, in bytes.

    Raises:
        NotFound: no such branch.
        UsageError: there are too many links, or a name is not a valid file name.
        Unsupported: the store has no presigned URLs, or cannot limit the size of uploads.
    """
    below = as_directory(prefix)
    count = count if names is None else len(names)
    if not 0 < count <= MAX_LINKS:
        hint = f"1 to {MAX_LINKS:,} are possible"
        raise errors.UsageError(f"{count:,} links of one page or script", hint=hint)
    for name in names or ():
        problem = _problem_of(below, name)
        if problem:
            raise errors.UsageError(f"no file can be sent as {os.fsdecode(name)!r}: {problem}")
    runtime, store = repository.lake.runtime, repository.store
    stem = _destination(branch, below) + runtime.new_id().hex()[: _STEM // 2]
    now = runtime.clock()
    made = partial(incoming.new_links, repository, branch, count=count, stem=stem)
    links = list(made(expires_in=expires_in, max_size=max_size))
    requests = (PresignRequest(method, expires_in) for method in ("PUT", "GET"))
    key = f"{INCOMING}{stem}{SENT}"
    sent, was_sent = (store.presign(key, request, now=now) for request in requests)
    part_size = _part_size(max_size, count)
    if part_size:
        begin = partial(incoming.with_parts, repository, expires_in=expires_in)
        begin = partial(begin, part_size=part_size, count=max_size // part_size)
        try:
            links = _each(begin, links)
        except (errors.PermissionDenied, errors.Unsupported):
            part_size = 0
    record = {
        "links": _VERSION,
        "branch": branch,
        "prefix": os.fsdecode(below),
        "max_size": max_size,
        "ids": [link.id for link in links],
        "names": None if names is None else [os.fsdecode(name) for name in names],
        "part_size": part_size,
        "uploads": [link.upload for link in links],
    }
    body = json.dumps(record).encode()
    store.put(f"{INCOMING}{stem}{LINKS}", body, contract.ABSENT, contract.JSON)
    ends = (signed.expires_at for signed in (sent, was_sent, *(link.signed for link in links)))
    return LinkSet(links, names, sent, was_sent, now, min(ends), max_size, part_size)


def _part_size(max_size: int, count: int) -> int:
    """Return the size of the parts of a set's objects, in bytes; 0 if parts are not needed."""
    size = max(SMALLEST_PART, -(-max_size * count // (MAX_PART_LINKS << 20)) << 20)
    return size if size < max_size else 0


def _destination(branch: str, below: bytes) -> str:
    """Return the hex digits at the beginning of the IDs of a directory's link sets.

    Several directories may have the same digits.
    """
    return blake3_of(f"{branch}/".encode() + below).hex()[: _STEM // 2]


def _problem_of(below: bytes, name: bytes) -> str:
    """Return why a sender's name is not valid for an object below a directory; ``""`` if it is."""
    if b"\n" in name:
        return "it has a line break"
    try:
        check_path(below + name)
    except errors.UsageError as error:
        return error.message
    return problem_of(name, size=1) or ""


class Listed(NamedTuple):
    """One line of the sender's list; `is_sent` says whether the sender reports the file as sent."""

    size: int
    algorithm: str
    digest: str
    is_sent: bool
    name: bytes


class ArrivalState(StrEnum):
    """The state of the object that one link of a set is for."""

    ARRIVED = "arrived"
    STAGED = "staged"
    STAGED_BEFORE = "staged-before"
    AWAITED = "awaited"
    REFUSED = "refused"


@dataclass(slots=True)
class Arrival:
    """The object that was sent, or is to be sent, to one link of a set.

    Attributes:
        id: ID of the link for uploading the object, for --incoming.
        path: path at which the object is staged; ``None`` if the object has no valid name.
        size: size in bytes; ``None`` if the object has not arrived.
        arrived_at: time when the object arrived, by the store's clock; ``None`` if it has not
            arrived or was staged before.
        state: staged, staged-before, awaited (not uploaded yet) or refused; in a dry run, arrived
            instead of staged.
        listed: the object's line in the sender's list, if the list has arrived.
        version: the version of the object, if it is in the store.
        reason: why the object is refused, or a remark.
    """

    id: str
    path: bytes | None
    size: int | None
    arrived_at: datetime | None
    state: ArrivalState
    listed: Listed | None
    version: contract.Version | None = None
    reason: str = ""


@dataclass(slots=True)
class _Set:
    """A set of links, with the objects and the list that were sent to it."""

    max_size: int
    part_size: int
    uploads: Mapping[str, str]
    names: Mapping[str, bytes | None]
    came: dict[str, contract.ObjectInfo]
    listed: Mapping[str, Listed]
    damage: str = ""


def _is_plain(upload: str) -> bool:
    return upload.isascii() and upload.isprintable()


_LINKS: Final = validation.Record(
    {
        "links": validation.whole(_VERSION, _VERSION),
        "branch": validation.text(4096),
        "prefix": validation.text(MAX_PATH_SIZE, has_nul=True),
        "max_size": validation.whole(1, validation.MAX_COUNT),
        "ids": validation.list_of(validation.identifier(IncomingId), MAX_LINKS),
        "names": validation.nullable(validation.list_of(validation.text(MAX_PATH_SIZE), MAX_LINKS)),
        "part_size": validation.optional(validation.whole(0, LARGEST_PUT), 0),
        "uploads": validation.optional(
            validation.list_of(validation.text_that(_is_plain, "the ID of an upload"), MAX_LINKS),
            (),
        ),
    }
)


def stage_arrived(
    repository: Repository,
    branch: str,
    prefix: bytes,
    *,
    attributes: NewAttributes = UNCHANGED,
    dry_run: bool = False,
    progress: Progress = NO_PROGRESS,
) -> list[Arrival]:
    """Stage all objects that were sent to the links of a directory, as one operation.

    After an interruption, the next call stages the remaining objects. Objects that cannot be staged
    are kept in the bucket.

    Args:
        repository: the repository of the links.
        branch: the branch that the links were made for.
        prefix: the directory that the links were made for; a missing trailing slash is added.
        attributes: user metadata, and a content type that replaces the types implied by suffixes.
        dry_run: list the objects without staging them.
        progress: receives the progress.

    Returns:
        Every object that was sent, or that the sender's list names, ordered by path.

    Raises:
        NotFound: no such branch, or no links were made for the directory.
    """
    check_branch(repository, branch)
    below = as_directory(prefix)
    sets = _sets(repository, branch, below)
    if not sets:
        place = repository.at(branch, os.fsdecode(below))
        hint = f"make one: `fs presign --put {quote(place)} -n 20 --page put.html`"
        raise errors.NotFound(f"no page or script sends to {place}", hint=hint)
    for links in sets:
        _find_parts(repository, links, may_join=not dry_run)
    found = [arrival for links in sets for arrival in _look(links, below)]
    ready = [each for each in found if each.state is ArrivalState.ARRIVED]
    named = Counter(each.path for each in ready)
    for each in ready:
        if named[each.path] > 1:
            _refuse(each, "several files of this name have arrived")
    _mark_staged(repository, branch, found)
    ready = [each for each in ready if each.state is ArrivalState.ARRIVED]
    if not dry_run:
        _stage(repository, branch, ready, attributes, progress)
    return sorted(found, key=lambda each: (each.path is None, each.path or b"", each.id))


def _refuse(arrival: Arrival, reason: str) -> None:
    arrival.state, arrival.reason = ArrivalState.REFUSED, reason


def _sets(repository: Repository, branch: str, below: bytes) -> list[_Set]:
    """Return the sets of links of a directory, with the objects that were sent to them."""
    store = repository.store
    sets: dict[str, _Set] = {}
    for info in store.list(INCOMING + _destination(branch, below)):
        name = info.key.removeprefix(INCOMING)
        stem, rest = name[:_STEM], name[_STEM:]
        if rest == LINKS and _SET.fullmatch(stem):
            record = _read_links(contract.get_bounded(store, info.key, _MAX_RECORD), info.key)
            if (record["branch"], os.fsencode(record["prefix"])) == (branch, below):
                names = record["names"] or [None] * len(record["ids"])
                given = (None if each is None else os.fsencode(each) for each in names)
                by_id = dict(zip(record["ids"], given, strict=False))
                uploads = dict(zip(record["ids"], record["uploads"], strict=False))
                sets[stem] = _Set(record["max_size"], record["part_size"], uploads, by_id, {}, {})
        elif stem in sets and rest == SENT:
            each = sets[stem]
            try:
                lines = contract.get_bounded(store, info.key, len(each.names) * _MAX_LINE)
                each.listed = _read_sent(lines, each.names)
            except errors.LakeError as error:
                each.damage = error.message
        elif stem in sets and name in sets[stem].names:
            sets[stem].came[name] = info
    return list(sets.values())


def _find_parts(repository: Repository, links: _Set, *, may_join: bool) -> None:
    """Find the objects of a set whose parts have all arrived; join the parts if `may_join`."""
    store, uploads = repository.store, uploads_of(repository.store)
    if uploads is None or not links.part_size:
        return  # nothing is sent in parts

    def find(link: str) -> contract.ObjectInfo | None:
        key, upload = incoming_key(link), UploadId(links.uploads[link])
        size = links.listed[link].size
        count = size // links.part_size
        sizes = dict.fromkeys(range(1, count + 1), links.part_size)
        sizes[1] += size % links.part_size
        try:
            parts = [each for each in uploads.parts(key, upload) if each.number in sizes]
            arrived_at = uploads.changed_at(key, upload)
            if arrived_at is None or {each.number: each.size for each in parts} != sizes:
                return None
            if not may_join:
                return contract.ObjectInfo(key, size, arrived_at, contract.Version(""))
            uploads.complete(key, upload, parts)
            return store.head(key)
        except (UploadNotFound, contract.ObjectNotFound):
            return None

    sent = [
        link
        for link, each in links.listed.items()
        if each.is_sent and links.part_size < each.size <= links.max_size
        if each.size // links.part_size <= MAX_PART_LINKS  # the sender's list may state any size
        if links.uploads.get(link) and link not in links.came
    ]
    found = zip(sent, _each(find, sent), strict=True)
    links.came |= {link: info for link, info in found if info is not None}


def _read_links(data: bytes, key: str) -> dict[str, Any]:
    try:
        return _LINKS.read(parse_json(data, max_size=_MAX_RECORD))
    except (Unparsable, validation.Invalid) as error:
        hint = "something else writes into this namespace: delete the record"
        raise errors.IntegrityError(f"damaged record of links: {key}: {error}", hint=hint) from None


def _read_sent(data: bytes, names: Mapping[str, bytes | None]) -> dict[str, Listed]:
    """Parse the sender's list; return its line for each link.

    Raises:
        IntegrityError: the data is not a list of the links of this set.
    """
    listed: dict[str, Listed] = {}
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
        found = _LINE.fullmatch(line)
        link = found[1].decode() if found else ""
        if found is None or link not in names or link in listed:
            raise errors.IntegrityError(f"line {number} is none of a list of sent files")
        algorithm, digest = (each.decode() if each else "" for each in found.group(3, 4))
        listed[link] = Listed(int(found[2]), algorithm, digest, found[5] == b"+", found[6])
    return listed


def _look(links: _Set, below: bytes) -> Iterator[Arrival]:
    """Yield the objects that were sent to a set, or that its list names, without reading them."""
    for link, given in links.names.items():
        came, line = links.came.get(link), links.listed.get(link)
        name = given if given is not None or line is None else line.name
        if came is None and name is None:
            continue  # the link was not used
        problem = "its name has not arrived: the page or script that sends it did not end"
        if links.damage:
            problem = f"the sender's list of files is not valid: {links.damage}"
        elif name is not None:
            problem = _problem_of(below, name)
        path = None if problem or name is None else below + name
        arrival = Arrival(link, path, None, None, ArrivalState.AWAITED, line)
        if came is not None:
            arrival.size, arrival.arrived_at = came.size, came.modified_at
            arrival.state, arrival.version = ArrivalState.ARRIVED, came.version
            if not problem and came.size > links.max_size:
                problem = f"it has more than {links.max_size:,} bytes"
            if not problem and line is not None and line.size != came.size:
                problem = f"it has {came.size:,} bytes, and the sender's file {line.size:,}"
        if problem:
            _refuse(arrival, problem)
        yield arrival


def _mark_staged(repository: Repository, branch: str, found: Sequence[Arrival]) -> None:
    """Mark the objects that are absent because an earlier command has staged and deleted them."""
    awaited = [each for each in found if each.state is ArrivalState.AWAITED and each.path]
    values = values_on(repository, branch, [each.path or b"" for each in awaited])
    for each, value in zip(awaited, values, strict=True):
        entry = None if value is None else decode_entry(value)
        if entry is not None and entry.metadata.get(incoming.CLIENT_INCOMING) == each.id:
            each.state, each.size = ArrivalState.STAGED_BEFORE, entry.size
        elif each.listed is not None and each.listed.is_sent:
            cause = "its path has changed since, or the store has dropped its parts"
            each.reason = f"it was sent, and taken from here: {cause}"


def _stage(
    repository: Repository,
    branch: str,
    arrivals: Sequence[Arrival],
    attributes: NewAttributes,
    progress: Progress,
) -> None:
    """Copy, verify and stage objects, and then delete the objects that were sent."""
    progress.expect(items=len(arrivals), size=sum(each.size or 0 for each in arrivals))

    def bring(arrival: Arrival) -> Entry | None:
        line, path = arrival.listed, arrival.path or b""
        digest = None if line is None or not line.algorithm else (_hasher(line), line.digest)
        try:
            given = (repository, path, arrival.id, attributes)
            entry = incoming.bring_in(*given, size=arrival.size, digest=digest)
        except errors.IntegrityError as error:
            _refuse(arrival, error.message)
            return None
        except contract.ObjectNotFound:
            _refuse(arrival, "it is gone: another command has staged it meanwhile")
            return None
        if digest is None:
            arrival.reason = "not compared with a checksum of the sender"
        progress.advance(items=1, size=entry.size)
        return entry

    brought = _each(bring, arrivals)
    pairs = zip(arrivals, brought, strict=True)
    values = [(each.path or b"", encode_entry(entry)) for each, entry in pairs if entry is not None]
    changes = new_on(repository, branch, claim_values(repository, sorted(values)))
    repository.lake.runtime.on_step("incoming:stage")
    if changes:
        Stager(repository, branch).write(changes, kind="stage")
    staged = [each for each in arrivals if each.state is ArrivalState.ARRIVED]
    again = _each(lambda each: incoming.clear(repository, each.id, each.version), staged)
    for each, has_more in zip(staged, again, strict=True):
        each.state = ArrivalState.STAGED
        if has_more:
            each.reason = "another object was sent to the same link meanwhile; it is kept"


def _each(function: Callable[[S], T], items: Sequence[S]) -> list[T]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(function, items))


def _hasher(line: Listed) -> Hasher:
    return sha256() if line.algorithm == "sha256" else PartedHasher(CHUNK, sha256)

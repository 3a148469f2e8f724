"""Statements about trees in the bucket: checks that passed, and approvals.

::

    _lakecli/attest/<subject>/<id>
    {"format": 1, "kind": "check", "name": "schema", "subject": "6a…", "tree": "6a…",
     "prefix": "", "who": "Name <email>", "at": "2026-11-20T15:00:00Z"}

The subject is the metarange ID of a tree. An equal tree has an equal ID, so a statement holds for
every commit that has the tree. For a statement about the entries below a prefix the subject is a
digest of these entries, and ``tree`` is the tree that they were read from.

An object is created once and never changed. Statements are not signed, so ``who`` is only a claim:
anyone who may write below ``_lakecli/attest/`` can make any statement. Statements that are not
valid are ignored.
"""

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NamedTuple

from lakecli.base import layout
from lakecli.base.ids import MetarangeId
from lakecli.base.model import MAX_PATH_SIZE
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.validation import Invalid, Record, choice, identifier, moment, text, whole
from lakecli.errors import UsageError
from lakecli.remote.ref_records import MAX_WHO_SIZE
from lakecli.stores.contract import ObjectInfo, ObjectNotFound, ObjectStore, TooLarge, get_bounded

FORMAT: Final = 1

MAX_NAME_SIZE: Final = 1024
"""Largest size of the name of a check, or of the ref of an approval, in bytes."""

MAX_ATTESTATIONS: Final = 1024
"""Largest number of statements that are read about one subject, in the order of their keys."""

_RECORD: Final = Record(
    {
        "format": whole(1, FORMAT),
        "kind": choice("check", "approve"),
        "name": text(MAX_NAME_SIZE, min_size=1),
        "subject": identifier(MetarangeId),
        "tree": identifier(MetarangeId),
        "prefix": text(MAX_PATH_SIZE, has_nul=True),
        "who": text(MAX_WHO_SIZE, min_size=1),
        "at": moment,
    }
)


class Attestation(NamedTuple):
    """A statement about a tree, or about the entries below a prefix.

    Attributes:
        kind: ``check``: a check passed; ``approve``: a person approved.
        name: the name of the check, or of the branch or tag that the tree is approved for.
        subject: the tree's metarange ID, or with `prefix` the digest of the entries below it.
        tree: the tree that was checked or approved.
        prefix: the prefix of the paths that were checked; ``""`` if all paths were checked.
        who: the committer who made the statement, ``Name <email>``.
        at: the time of the statement by the clock of the committer's machine, in whole seconds.
    """

    kind: str
    name: str
    subject: str
    tree: MetarangeId
    prefix: str
    who: str
    at: datetime


def write_attestation(store: ObjectStore, attestation: Attestation, *, id: str) -> None:
    """Write a statement by one create-only PUT.

    Args:
        id: the ID of the statement, 32 random hex digits.

    Raises:
        UsageError: the statement is not valid; for example, its name is too long.
    """
    at = attestation.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    fields = attestation._asdict() | {"format": FORMAT, "at": at}
    body = json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"
    try:
        _parse(attestation.subject, body)
    except (Invalid, Unparsable) as error:
        raise UsageError(f"cannot record this {attestation.kind}: {error}") from error
    store.put_new(layout.attestation_key(attestation.subject, id), body)


def iter_attestations(store: ObjectStore, subject: str) -> Iterator[Attestation]:
    """Yield the valid statements about a subject, ordered by key.

    At most `MAX_ATTESTATIONS` objects are read.

    Args:
        subject: a metarange ID, or a digest of entries.
    """
    for info in islice(store.list(layout.attestation_prefix(subject)), MAX_ATTESTATIONS):
        with suppress(Invalid, Unparsable, TooLarge, ObjectNotFound):
            yield _parse(subject, get_bounded(store, info.key, layout.MAX_ATTESTATION_SIZE))


def iter_ended(
    store: ObjectStore, trees: Collection[str], *, before: datetime
) -> Iterator[ObjectInfo]:
    """Yield the objects of statements about other trees than `trees`, for garbage collection.

    Statements that are not valid are kept, since a later version may have written them.

    Args:
        before: yield only objects that were written before this time.
    """
    for info in store.list(layout.ATTESTATIONS):
        subject = info.key.removeprefix(layout.ATTESTATIONS).partition("/")[0]
        if info.modified_at >= before or subject in trees:
            continue
        with suppress(Invalid, Unparsable, TooLarge, ObjectNotFound):
            found = _parse(subject, get_bounded(store, info.key, layout.MAX_ATTESTATION_SIZE))
            if found.tree and found.tree not in trees:
                yield info


def _parse(subject: str, data: bytes) -> Attestation:
    """Parse a statement about a subject; raise `Invalid` or `Unparsable` if it is not valid."""
    fields = _RECORD.read(parse_json_object(data, max_size=layout.MAX_ATTESTATION_SIZE))
    del fields["format"]
    found = Attestation(**fields)
    if found.subject != subject:
        raise Invalid("subject: not that of its key")
    if not found.prefix and found.subject != found.tree:
        raise Invalid("subject: not its tree, though it has no prefix")
    return found

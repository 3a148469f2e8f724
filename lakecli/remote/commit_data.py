"""Commits as lakeFS's dumps hold them: ``CommitData`` messages, framed behind the commit's ID.

A record's key and its identity are the 64 hex digits of the ID. Version 1 says that the main parent
is the first one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from lakecli.errors import Refused
from lakecli.identity import commit_id
from lakecli.ids import CommitId, MalformedId, MetarangeId
from lakecli.layout import MAX_COMMIT_SIZE, MAX_MESSAGE_SIZE
from lakecli.model import Commit
from lakecli.proto.messages import COMMIT_DATA, map_of, pairs_of, seconds_of
from lakecli.proto.varint import Malformed
from lakecli.sstable.framing import MalformedValue, decode_value, encode_value

_VERSION: Final = 1
_SHOWN: Final = 64


class TooLong(Refused):
    """A commit that others would not read because it is too large."""


class NotText(Refused):
    """A commit with bytes that are no text, which the format cannot hold."""


def encode_commit(commit: Commit) -> bytes:
    """Return the value that records a commit under its ID.

    Raises:
        TooLong: its message, or all of it, exceeds what is read.
        NotText: its message, committer or metadata are not UTF-8.
    """
    size = len(commit.message.encode("utf-8", "surrogateescape"))
    if size > MAX_MESSAGE_SIZE:
        raise TooLong(
            f"commit {commit.id} cannot be shared, its message has {size:,} bytes",
            hint=f"commit anew with a message of {MAX_MESSAGE_SIZE:,} bytes at most",
        )
    try:
        data = COMMIT_DATA.encode(
            {
                "id": commit.id,
                "committer": commit.committer,
                "message": commit.message,
                "creation_date": {"seconds": int(commit.created_at.timestamp())},
                "meta_range_id": commit.metarange_id,
                "metadata": pairs_of(commit.metadata),
                "parents": commit.parents,
                "version": _VERSION,
                "generation": commit.generation,
            }
        )
    except UnicodeEncodeError as error:
        raise NotText(
            f"commit {commit.id} cannot be shared, it holds bytes that are no text: "
            f"{error.object!r}",
            hint="commit anew with a message, committer and metadata in UTF-8",
        ) from None
    if len(data) > MAX_COMMIT_SIZE:
        raise TooLong(
            f"commit {commit.id} cannot be shared, it has {len(data):,} bytes",
            hint=f"commit anew with metadata of less than {MAX_COMMIT_SIZE:,} bytes",
        )
    return encode_value(commit.id.encode("ascii"), data)


def decode_commit(key: bytes, value: bytes) -> Commit:
    """Return the commit that a record holds, its ID computed anew.

    Raises:
        MalformedValue: there is none, its ID is another, or a field of it is no such field.
    """
    identity, data = decode_value(value)
    if len(data) > MAX_COMMIT_SIZE:
        raise MalformedValue(f"the commit at {key[:_SHOWN]!r} has {len(data):,} bytes")
    try:
        commit = _commit(COMMIT_DATA.decode(data))
    except MalformedId as error:
        raise MalformedValue(f"the commit at {key[:_SHOWN]!r} names {error.message}") from None
    except (Malformed, ValueError, OverflowError, OSError):
        raise MalformedValue(f"no commit at {key[:_SHOWN]!r}") from None
    if not commit.id.encode("ascii") == key == identity:
        raise MalformedValue(f"the commit at {key[:_SHOWN]!r} is {commit.id}")
    return commit


def _commit(fields: dict[str, Any]) -> Commit:
    metadata = map_of(fields["metadata"])
    seconds = seconds_of(fields["creation_date"])
    message, generation = fields["message"], fields["generation"]
    if generation < 1:
        raise ValueError(f"generation {generation}")
    # Checked before anything is computed of them, or believed.
    if len(message.encode()) > MAX_MESSAGE_SIZE:
        raise ValueError("a message that is too long")
    parents = tuple([CommitId(parent) for parent in fields["parents"]])
    metarange_id = MetarangeId(fields["meta_range_id"])
    return Commit(
        id=CommitId(
            commit_id(
                committer=fields["committer"],
                message=message,
                metarange_id=metarange_id,
                created_at=seconds,
                metadata=metadata,
                parents=parents,
            )
        ),
        parents=parents,
        metarange_id=metarange_id,
        message=message,
        committer=fields["committer"],
        created_at=datetime.fromtimestamp(seconds, UTC),
        metadata=metadata,
        generation=generation,
    )

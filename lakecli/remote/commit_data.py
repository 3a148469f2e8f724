"""Commits as in lakeFS's dumps: ``CommitData`` messages, with the commit's ID as the identity.

A record's key and its identity are the 64 hex digits of the ID. Version 1 means that the main
parent is the first one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from lakecli.base.ids import CommitId, MalformedId, MetarangeId
from lakecli.base.layout import MAX_COMMIT_SIZE, MAX_MESSAGE_SIZE
from lakecli.base.model import Commit
from lakecli.errors import Refused
from lakecli.proto.messages import COMMIT_DATA, map_of, pairs_of
from lakecli.proto.varint import Malformed
from lakecli.sstable.format import MalformedValue, decode_value, encode_value

_PICKED: Final = ("cherry-pick-origin", "cherry-pick-committer")
_SECOND: Final = 1_000_000_000
_SHOWN: Final = 64


class TooLong(Refused):
    """A commit that exceeds the limits of what lakecli reads."""


class NotText(Refused):
    """A commit with text that is not UTF-8, which the format cannot hold."""


def encode_commit(commit: Commit) -> bytes:
    """Return the value that records a commit under its ID.

    Raises:
        TooLong: its message, or the whole commit, exceeds the limit.
        NotText: its message, committer or metadata are not UTF-8.
    """
    size = len(commit.message.encode("utf-8", "surrogateescape"))
    if size > MAX_MESSAGE_SIZE:
        raise TooLong(
            f"commit {commit.id} cannot be shared, its message has {size:,} bytes",
            hint=f"commit again with a message of at most {MAX_MESSAGE_SIZE:,} bytes",
        )
    try:
        data = COMMIT_DATA.encode(
            {
                "id": commit.id,
                "committer": commit.committer,
                "message": commit.message,
                "creation_date": {
                    "seconds": int(commit.created_at.timestamp()),
                    "nanos": commit.nanoseconds,
                },
                "meta_range_id": commit.metarange_id,
                "metadata": pairs_of(commit.metadata),
                "parents": commit.recorded_parents,
                "version": commit.version,
                "generation": commit.generation,
            }
        )
    except UnicodeEncodeError as error:
        raise NotText(
            f"commit {commit.id} cannot be shared, it has text that is not UTF-8: {error.object!r}",
            hint="commit again with a message, committer and metadata in UTF-8",
        ) from None
    if len(data) > MAX_COMMIT_SIZE:
        raise TooLong(
            f"commit {commit.id} cannot be shared, it has {len(data):,} bytes",
            hint=f"commit again with metadata of less than {MAX_COMMIT_SIZE:,} bytes",
        )
    return encode_value(commit.id.encode("ascii"), data)


def decode_commit(key: bytes, value: bytes) -> Commit:
    """Return the commit that a record holds, with its ID recomputed.

    Raises:
        MalformedValue: it is not a commit, its ID does not match, or a field is not valid.
    """
    identity, data = decode_value(value)
    commit = decode_commit_data(key, data)
    if identity != key:
        raise MalformedValue(f"the commit at {key[:_SHOWN]!r} is recorded as another")
    if commit.generation < 1:
        raise MalformedValue(f"no commit at {key[:_SHOWN]!r}: generation {commit.generation}")
    return commit


def decode_commit_data(key: bytes, data: bytes) -> Commit:
    """Return the commit that a message describes, its ID computed anew and compared with the key.

    The generation may be 0, as in the commits of old lakeFS servers.

    Raises:
        MalformedValue: the message is malformed, or its fields make another ID.
    """
    if len(data) > MAX_COMMIT_SIZE:
        raise MalformedValue(f"the commit at {key[:_SHOWN]!r} has {len(data):,} bytes")
    try:
        commit = _commit(COMMIT_DATA.decode(data))
    except MalformedId as error:
        raise MalformedValue(f"the commit at {key[:_SHOWN]!r} names {error.message}") from None
    except (Malformed, ValueError, OverflowError, OSError):
        raise MalformedValue(f"no commit at {key[:_SHOWN]!r}") from None
    if (actual := commit.compute_id()) != commit.id:
        # A lakeFS server adds what a cherry-pick records to the commit that was picked, too.
        plain = {name: text for name, text in commit.metadata.items() if name not in _PICKED}
        if commit._replace(metadata=plain).compute_id() != commit.id:
            raise MalformedValue(f"the commit at {key[:_SHOWN]!r} is {actual}")
    if commit.id.encode("ascii") != key:
        raise MalformedValue(f"the commit at {key[:_SHOWN]!r} is {commit.id}")
    return commit


def _commit(fields: dict[str, Any]) -> Commit:
    date = fields["creation_date"] or {"seconds": 0, "nanos": 0}
    generation, version, nanos = fields["generation"], fields["version"], date["nanos"]
    if generation < 0 or version not in (0, 1) or not 0 <= nanos < _SECOND:
        raise ValueError(f"generation {generation}, version {version}, {nanos} nanoseconds")
    # Checked before anything is computed from them.
    if len(fields["message"].encode()) > MAX_MESSAGE_SIZE:
        raise ValueError("a message that is too long")
    parents = tuple([CommitId(parent) for parent in fields["parents"]])
    return Commit(
        id=CommitId(fields["id"]),
        parents=parents if version else parents[::-1],
        metarange_id=MetarangeId(fields["meta_range_id"]),
        message=fields["message"],
        committer=fields["committer"],
        created_at=datetime.fromtimestamp(date["seconds"], UTC),
        metadata=map_of(fields["metadata"]),
        generation=generation,
        nanoseconds=nanos,
        version=version,
    )

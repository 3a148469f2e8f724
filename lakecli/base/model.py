"""The immutable records that every layer uses.

Keys and identities are ``bytes``; names that people type are ``str``. Times are aware UTC datetimes
of whole seconds; sizes are in bytes.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple, NewType

from lakecli.base.ids import CommitId, MetarangeId, RangeId, RepositoryUuid
from lakecli.errors import IntegrityError

__all__ = ["CommitId", "MetarangeId", "RangeId", "RepositoryUuid"]  # types of fields


class Demand(StrEnum):
    """A requirement that a bucket may have for requests; each value is the name of a setting."""

    S3_SSE = "s3.sse"
    S3_KMS_KEY = "s3.sse-kms-key-id"
    S3_BUCKET_KEY = "s3.bucket-key"
    S3_PAYER = "s3.requester-pays"
    S3_ANONYMOUS = "s3.anonymous"
    GS_KMS_KEY = "gs.kms-key"
    GS_PROJECT = "gs.user-project"
    GS_ANONYMOUS = "gs.anonymous"
    AZ_SCOPE = "az.encryption-scope"
    AZ_ANONYMOUS = "az.anonymous"


YES: Final = "true"
"""The value that turns on a `Demand` that can only be on or off."""


class Account(NamedTuple):
    """How the buckets of one repository are accessed.

    `profile`, `endpoint` and `region` are for S3 and override the configuration of AWS's tools. The
    other attributes are for every cloud.

    Attributes:
        profile: a profile of ``~/.aws/config``; ``""``: the environment's variables, or the default
            profile.
        endpoint: URL of an S3 server; ``""``: the URL in the profile or the environment.
        region: region of the buckets; ``""``: each bucket's own region.
        timeout: longest wait, in seconds, for the start of a response body or for its next piece.
        min_rate: lowest rate at which the body of a response may arrive, in bytes per second; see
            `lakecli.stores.answer_limits`.
        demands: one tuple for each requirement of a bucket: the name of a `Demand`, the URI of the
            bucket (``""``: every bucket), and the value.
    """

    profile: str = ""
    endpoint: str = ""
    region: str = ""
    timeout: float = 60.0
    min_rate: int = 1 << 10
    demands: tuple[tuple[str, str, str], ...] = ()

    def by_bucket(self, name: Demand) -> dict[str, str]:
        """Return the values of `name` by bucket; the key ``""`` stands for every bucket."""
        return {place: value for each, place, value in self.demands if each == name}

    def demand(self, name: Demand, bucket: str) -> str:
        """Return the value of `name` for `bucket`, else the value for every bucket, else ``""``."""
        values = self.by_bucket(name)
        return values.get(bucket, values.get("", ""))


NO_ACCOUNT: Final = Account()

StagingToken = NewType("StagingToken", bytes)
"""16 random bytes that name one staging area."""

EMPTY_TREE = MetarangeId("")

MAX_PATH_SIZE = 1024
"""Largest size of a path, in bytes; the minimum is one."""

CLIENT_METADATA_PREFIX = "::lakefs::"
"""Prefix of metadata keys that clients set; they are not part of an entry's identity."""

MAX_FILE_TIME = (2**63 - 1) // 1_000_000_000
"""The latest time of a file, in seconds since 1970; the earliest time is as long before 1970.

In nanoseconds, the time must fit in a signed number of 64 bits.
"""

_MAX_TIME_DIGITS = 20

CLIENT_MTIME = "::lakefs::client-mtime"
"""The uploaded file's own modification time, in unix seconds as a decimal string."""

CONTENT_ENCODING = "content-encoding"
"""The metadata key of the Content-Encoding with which an object is served."""

CONTENT_CODINGS: Final = re.compile(r"[A-Za-z0-9.+-]{1,32}(, ?[A-Za-z0-9.+-]{1,32}){0,3}", re.ASCII)
"""The values of the Content-Encoding header that lakecli accepts."""


_NAME_SIZES = range(3, 64)
_OF_NAMES = "abcdefghijklmnopqrstuvwxyz0123456789-"


def is_repository_name(text: str) -> bool:
    """Return whether `text` is a legal name of a repository."""
    return len(text) in _NAME_SIZES and not text.startswith("-") and not text.strip(_OF_NAMES)


NO_METADATA: Final[Mapping[str, str]] = {}
"""An empty mapping that is never changed; unlike a `MappingProxyType` it can be pickled."""


class Entry(NamedTuple):
    """The record of the object at a path.

    Attributes:
        physical_address: relative to the storage namespace (``data/…``), or a full URI.
        size: size of the object in bytes.
        checksum: BLAKE3 in 64 hex digits for objects that lakecli uploaded, else the store's ETag.
        modified_at: the time of the upload, in whole seconds.
        content_type: MIME type; may be empty.
        metadata: user metadata, ``::lakefs::`` keys included.
    """

    physical_address: str
    size: int
    checksum: str
    modified_at: datetime
    content_type: str = ""
    metadata: Mapping[str, str] = NO_METADATA

    @property
    def content_encoding(self) -> str:
        """The Content-Encoding of the stored bytes, such as gzip; ``""``: none.

        If the recorded value is not legal in this header, it is ordinary metadata, and the result
        is ``""``.
        """
        recorded = self.metadata.get(CONTENT_ENCODING, "")
        return recorded if CONTENT_CODINGS.fullmatch(recorded) else ""

    @property
    def file_mtime(self) -> int:
        """The modification time of the uploaded file, else the time of the upload; unix seconds.

        Raises:
            IntegrityError: the recorded time is out of range for a file.
        """
        recorded = self.metadata.get(CLIENT_MTIME, "")
        digits = recorded.removeprefix("-")
        if digits.isascii() and digits.isdecimal():
            seconds = int(recorded) if len(recorded) <= _MAX_TIME_DIGITS else MAX_FILE_TIME + 1
        else:
            seconds = int(self.modified_at.timestamp())
        if abs(seconds) > MAX_FILE_TIME:
            raise IntegrityError(
                "the recorded modification time is out of the range of file times",
                hint="read the object, and upload it again: `fs cat PATH`",
            )
        return seconds


class Commit(NamedTuple):
    """One snapshot of a repository, and its parents.

    Attributes:
        id: the ID that lakeFS computes from the other fields except `generation`, `nanoseconds` and
            `version`.
        parents: IDs of the parents, the first parent first; empty for the initial commit.
        metarange_id: ID of the metarange that lists all paths; empty if there are no paths.
        committer: name and e-mail address of the committer; may be empty.
        created_at: time of the commit, in whole seconds.
        generation: one more than the largest generation of the parents; 1 without parents.
        nanoseconds: the nanoseconds after `created_at`, in commits that lakeFS made; the order of
            the log depends on them.
        version: 1; 0 in commits of old lakeFS servers, which recorded the first parent last.
    """

    id: CommitId
    parents: tuple[CommitId, ...]
    metarange_id: MetarangeId
    message: str
    committer: str
    created_at: datetime
    metadata: Mapping[str, str]
    generation: int
    nanoseconds: int = 0
    version: int = 1

    @property
    def recorded_parents(self) -> tuple[CommitId, ...]:
        """The parents in the order in which they are recorded and hashed."""
        return self.parents if self.version else self.parents[::-1]

    def compute_id(self) -> CommitId:
        """Return the ID computed from the fields; it equals `id` unless the record is damaged."""
        from lakecli.base.identity import commit_id  # `branch list` computes none

        return CommitId(
            commit_id(
                committer=self.committer,
                message=self.message,
                metarange_id=self.metarange_id,
                created_at=int(self.created_at.timestamp()),
                metadata=self.metadata,
                parents=self.recorded_parents,
            )
        )


class Branch(NamedTuple):
    """A movable name for a commit.

    Attributes:
        commit_id: the commit that the branch points to.
        staging_token: the staging area for new writes.
        sealed_tokens: staging areas closed for writing that wait to be committed, newest first.
    """

    name: str
    commit_id: CommitId
    staging_token: StagingToken
    sealed_tokens: tuple[StagingToken, ...] = ()

    @property
    def tokens(self) -> tuple[StagingToken, ...]:
        """The tokens of all staging areas, newest first."""
        return (self.staging_token, *self.sealed_tokens)


class RefKind(StrEnum):
    """Kinds of refs, and of other records that are handled in the same way."""

    BRANCH = "branch"
    TAG = "tag"
    COMMIT = "commit"
    """A commit, named by its ID at the start of a ref expression."""
    REPOSITORY = "repository"
    """A repository, whose record is changed by some operations of the operation log."""


NAMED_KINDS: Final = (RefKind.BRANCH, RefKind.TAG)
"""The kinds of refs that have names and can move; the branch wins if a tag has the same name."""


class Tag(NamedTuple):
    """A fixed name for a commit.

    Attributes:
        commit_id: the commit that the tag points to.
    """

    name: str
    commit_id: CommitId


class RepositoryRecord(NamedTuple):
    """A clone's record of a repository.

    Attributes:
        name: name of the repository on this machine.
        uuid: 32 hex digits, the same in every clone.
        storage_namespace: normalised URI of the storage namespace, without a trailing slash.
        default_branch: the default branch, which cannot be deleted.
        range_entries: average number of paths in a range, a power of two.
        region: region of the bucket; ``""`` if the store has no regions.
        is_borrowed: whether the namespace belongs to a lakeFS server; lakecli never writes to it.
        is_from_lakefs: whether lakeFS uses the namespace, or once used it. Old versions of lakecli
            did not record this; clones that they created have ``False``.
    """

    name: str
    uuid: RepositoryUuid
    storage_namespace: str
    default_branch: str
    created_at: datetime
    range_entries: int
    region: str = ""
    is_borrowed: bool = False
    is_from_lakefs: bool = False


class ChangeType(StrEnum):
    """How a path differs between two trees."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    CONFLICT = "conflict"


class MergeStrategy(StrEnum):
    """How a merge resolves conflicts; paths without a conflict are not affected."""

    FAIL = "default"
    SOURCE_WINS = "source-wins"
    DEST_WINS = "dest-wins"


class Difference(NamedTuple):
    """A path that differs on two sides, with both encoded values (``None`` if absent).

    Attributes:
        unlike_checksums: whether both sides may have the same bytes after all: their sizes are
            equal, but one records an MD5 and the other a BLAKE3, which cannot be compared.
    """

    type: ChangeType
    path: bytes
    left: bytes | None
    right: bytes | None
    unlike_checksums: bool = False

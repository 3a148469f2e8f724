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

__all__ = [
    "CLIENT_METADATA_PREFIX",
    "CLIENT_MTIME",
    "CONTENT_CODINGS",
    "CONTENT_ENCODING",
    "EMPTY_TREE",
    "MAX_PATH_SIZE",
    "NAMED_KINDS",
    "Branch",
    "ChangeType",
    "Commit",
    "CommitId",
    "Difference",
    "Entry",
    "MergeStrategy",
    "MetarangeId",
    "RangeId",
    "RefKind",
    "RepositoryRecord",
    "RepositoryUuid",
    "StagingToken",
    "Tag",
    "is_repository_name",
]


class Demand(StrEnum):
    """What a bucket may demand of requests: the names of the settings that say so."""

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
"""The value of a demand that is one or none."""


class Account(NamedTuple):
    """How the buckets of one repository are accessed.

    The first three are about S3, in place of what AWS's tools would use; the others about any
    cloud.

    Attributes:
        profile: of ``~/.aws/config``; ``""``: the environment's variables, or the default profile.
        endpoint: URL of a server; ``""``: that of the profile or of the environment.
        region: of the buckets; ``""``: the one that each bucket has.
        timeout: seconds for what comes before the body of an answer, and for each silence.
        min_rate: bytes of a body in a second, at least; see `lakecli.stores.answer_limits`.
        demands: what buckets demand: the name of each `Demand`, the URI of the bucket (``""``: of
            all), and the value.
    """

    profile: str = ""
    endpoint: str = ""
    region: str = ""
    timeout: float = 60.0
    min_rate: int = 1 << 10
    demands: tuple[tuple[str, str, str], ...] = ()

    def demand(self, name: Demand, bucket: str) -> str:
        """Return the demand of a bucket, or ``""``; its own value counts before that of all."""
        values = {place: value for each, place, value in self.demands if each == name}
        return values.get(bucket, values.get("", ""))


NO_ACCOUNT: Final = Account()

StagingToken = NewType("StagingToken", bytes)
"""16 random bytes that name one staging area."""

EMPTY_TREE = MetarangeId("")

MAX_PATH_SIZE = 1024
"""Bytes in a path, at most; the minimum is one."""

CLIENT_METADATA_PREFIX = "::lakefs::"
"""Prefix of metadata keys that clients set; they are not part of an entry's identity."""

MAX_FILE_TIME = (2**63 - 1) // 1_000_000_000
"""The largest time of a file, in unix seconds before or after 1970: 64 bits of nanoseconds."""

_MAX_TIME_DIGITS = 20

CLIENT_MTIME = "::lakefs::client-mtime"
"""The uploaded file's own modification time, in unix seconds as a decimal string."""

CONTENT_ENCODING = "content-encoding"
"""The metadata key with the Content-Encoding that an object is served with."""

CONTENT_CODINGS: Final = re.compile(r"[A-Za-z0-9.+-]{1,32}(, ?[A-Za-z0-9.+-]{1,32}){0,3}", re.ASCII)
"""The values of that header."""


_NAME_SIZES = range(3, 64)
_NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789-"


def is_repository_name(text: str) -> bool:
    """Return whether a repository may be called `text`."""
    return (
        len(text) in _NAME_SIZES and not text.startswith("-") and not text.strip(_NAME_CHARACTERS)
    )


NO_METADATA: Final[Mapping[str, str]] = {}
"""Never changed; unlike a `MappingProxyType` it can be pickled."""


class Entry(NamedTuple):
    """What is recorded at a path.

    Attributes:
        physical_address: relative to the storage namespace (``data/…``), or a full URI.
        size: of the object, in bytes.
        checksum: BLAKE3 in 64 hex digits for objects that lakecli uploaded, else the store's ETag.
        modified_at: the time of the upload, whole seconds.
        content_type: may be empty.
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
        """The Content-Encoding of the bytes as they are stored, such as gzip; ``""``: none.

        A value that no such header can have is metadata like any other.
        """
        recorded = self.metadata.get(CONTENT_ENCODING, "")
        return recorded if CONTENT_CODINGS.fullmatch(recorded) else ""

    @property
    def file_mtime(self) -> int:
        """The modification time of the uploaded file, else the time of the upload; unix seconds.

        Raises:
            IntegrityError: no file can have this time.
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
        id: ID as lakeFS computes it: of all other fields but the generation, nanoseconds and
            version.
        parents: parents, the first parent first; none of the initial commit.
        metarange_id: ID of the list of all paths; empty for no paths.
        committer: name and e-mail; may be empty.
        created_at: time, in whole seconds.
        generation: 1, or one more than the largest of its parents.
        nanoseconds: the rest of the time in commits that lakeFS made; they order the log.
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
        """Return the ID that the fields make, which is `id` unless the record is damaged."""
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
    """A movable name.

    Attributes:
        commit_id: the commit it points to.
        staging_token: the staging area for new writes.
        sealed_tokens: staging areas closed for writing that wait to be committed, newest first.
    """

    name: str
    commit_id: CommitId
    staging_token: StagingToken
    sealed_tokens: tuple[StagingToken, ...] = ()


class RefKind(StrEnum):
    """The kind of a ref, or of another thing that has a place beside refs."""

    BRANCH = "branch"
    TAG = "tag"
    COMMIT = "commit"
    """An ID, with which a ref expression may begin."""
    REPOSITORY = "repository"
    """The record of a repository, whose changes the operation log has beside those of refs."""


NAMED_KINDS: Final = (RefKind.BRANCH, RefKind.TAG)
"""The kinds of refs that have names and move; where either will do, a branch comes first."""


class Tag(NamedTuple):
    """A fixed name for a commit.

    Attributes:
        commit_id: the commit it points to.
    """

    name: str
    commit_id: CommitId


class RepositoryRecord(NamedTuple):
    """A clone's record of a repository.

    Attributes:
        name: name on this machine.
        uuid: 32 hex digits, the same in every clone.
        storage_namespace: normalised URI of the storage namespace, without a slash at its end.
        default_branch: the branch that cannot be deleted.
        range_entries: average number of paths in a range, a power of two.
        region: of the bucket, if the store has regions; else ``""``.
        is_borrowed: the namespace belongs to a lakeFS, and nothing is written to it.
        is_from_lakefs: lakeFS works in the namespace, or did; unknown of clones by old versions.
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
    """How a path differs."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    CONFLICT = "conflict"


class MergeStrategy(StrEnum):
    """How conflicts are resolved; other paths are not affected."""

    FAIL = "default"
    SOURCE_WINS = "source-wins"
    DEST_WINS = "dest-wins"


class Difference(NamedTuple):
    """One path that differs, with the encoded values of both sides (``None`` if absent).

    Attributes:
        unlike_checksums: whether it is a conflict that may be none: entries have one size, but
            one has an MD5 and the other a BLAKE3.
    """

    type: ChangeType
    path: bytes
    left: bytes | None
    right: bytes | None
    unlike_checksums: bool = False

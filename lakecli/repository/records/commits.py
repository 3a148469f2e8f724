"""Commit records: their IDs, their generations, and the texts that lakecli writes itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from lakecli.base.identity import commit_id
from lakecli.base.layout import MAX_MESSAGE_SIZE, MAX_METADATA_SIZE
from lakecli.base.model import EMPTY_TREE, Commit, CommitId, MetarangeId
from lakecli.errors import UsageError
from lakecli.refs.ref_store import RefStore

INITIAL_MESSAGE = "Repository created"
MERGE_STRATEGY = ".lakefs.merge.strategy"
CHERRY_PICK_ORIGIN = "cherry-pick-origin"
CHERRY_PICK_COMMITTER = "cherry-pick-committer"


def describe_commit(
    *,
    parents: Sequence[Commit],
    also_counts: Sequence[Commit] = (),
    metarange_id: MetarangeId,
    message: str,
    committer: str,
    created_at: datetime,
    metadata: Mapping[str, str],
) -> Commit:
    """Return the record of a commit with its ID and generation, to make or to verify one.

    Args:
        parents: first parent first.
        also_counts: commits that count for the generation without being parents: a squash merge
            counts its source.
        metarange_id: the tree.
        message: stored as given.
        committer: stored as given.
        created_at: whole seconds.
        metadata: stored as given.
    """
    ids = tuple(parent.id for parent in parents)
    counted = (*parents, *also_counts)
    return Commit(
        id=CommitId(
            commit_id(
                committer=committer,
                message=message,
                metarange_id=metarange_id,
                created_at=int(created_at.timestamp()),
                metadata=metadata,
                parents=ids,
            )
        ),
        parents=ids,
        metarange_id=metarange_id,
        message=message,
        committer=committer,
        created_at=created_at,
        metadata=dict(metadata),
        generation=1 + max((parent.generation for parent in counted), default=0),
    )


def check_texts(*, message: str, committer: str, metadata: Mapping[str, str]) -> None:
    """Refuse texts of a new commit that other clones would not read.

    Raises:
        UsageError: they are not UTF-8, or too long.
    """
    pairs = [text for pair in metadata.items() for text in pair]
    size = _size("message", [message])
    if size > MAX_MESSAGE_SIZE:
        raise UsageError(
            f"a commit message of {size:,} bytes",
            hint=f"a message has {MAX_MESSAGE_SIZE:,} bytes at most: put the rest into an object",
        )
    size = _size("committer", [committer]) + _size("metadata", pairs)
    if size > MAX_METADATA_SIZE:
        raise UsageError(
            f"a committer and metadata of {size:,} bytes",
            hint=f"they have {MAX_METADATA_SIZE:,} bytes at most: put the rest into an object",
        )


def _size(what: str, texts: Sequence[str]) -> int:
    try:
        return sum(len(text.encode("utf-8")) for text in texts)
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the {what} of a commit has to be UTF-8: {error.object!r}",
            hint="set user.name and user.email: lakecli config set user.name NAME"
            if what == "committer"
            else "write it in UTF-8, as a terminal with a UTF-8 locale does",
        ) from None


def initial_commit(created_at: datetime) -> Commit:
    """Return the commit every repository starts with: lakeFS's, with the empty tree."""
    return describe_commit(
        parents=(),
        metarange_id=EMPTY_TREE,
        message=INITIAL_MESSAGE,
        committer="",
        created_at=created_at,
        metadata={},
    )


def problems_of_commit(refs: RefStore, commit: Commit) -> Iterator[str]:
    """Yield the defects of a commit's record."""
    for parent_id in commit.parents:
        parent = refs.find_commit(parent_id)
        if parent is None:
            yield f"its parent is missing: {parent_id}"
        elif parent.generation >= commit.generation:
            yield f"its generation {commit.generation} is not above its parents'"
    if (actual := commit.compute_id()) != commit.id:
        yield f"its fields make another ID: {actual}"

"""Commit graphs from a line of text, and a reader of refs that records its reads.

``graph("a-b-c, b-d, c+d-e")``: b is the child of a, c and d are children of b, and e merges c with
d, c being its first parent. Commits are a minute apart in the order of their first mention, unless
``minutes`` says otherwise. The ID of a commit is its name in hex, padded with zeros, so that names
sort as IDs do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from lakecli.base.model import Branch, Commit, CommitId, MetarangeId, StagingToken, Tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)


def id_of(name: str) -> CommitId:
    """Return the ID of the commit called `name` in a graph's text."""
    return CommitId(name.encode().hex().ljust(64, "0"))


def name_of(commit_id: CommitId) -> str:
    """Return the name whose ID this is."""
    return bytes.fromhex(commit_id).rstrip(b"\0").decode()


def names_of(commits: Iterable[Commit]) -> str:
    """Return the names of commits, separated by spaces."""
    return " ".join(name_of(commit.id) for commit in commits)


@dataclass
class FakeRefs:
    """A `RefReader` over dicts; `reads` lists the commits it was asked for, repeats included."""

    commits: dict[CommitId, Commit] = field(default_factory=dict)
    branches: dict[str, Branch] = field(default_factory=dict)
    tags: dict[str, Tag] = field(default_factory=dict)
    reads: list[CommitId] = field(default_factory=list)

    def find_commit(self, id: CommitId) -> Commit | None:
        self.reads.append(id)
        return self.commits.get(id)

    def find_branch(self, name: str) -> Branch | None:
        return self.branches.get(name)

    def find_tag(self, name: str) -> Tag | None:
        return self.tags.get(name)

    def iter_commit_ids(self, prefix: str) -> Iterator[CommitId]:
        return iter(sorted(found for found in self.commits if found.startswith(prefix)))

    def add_branch(self, name: str, commit_id: CommitId) -> None:
        self.branches[name] = Branch(name, commit_id, StagingToken(b"\0" * 16))

    def add_tag(self, name: str, commit_id: CommitId) -> None:
        self.tags[name] = Tag(name, commit_id)


def build(
    parents: Mapping[CommitId, Sequence[CommitId]],
    times: Mapping[CommitId, datetime],
    messages: Mapping[CommitId, str] | None = None,
) -> FakeRefs:
    """Make commits of the given shape, with correct generations, parents before children."""
    refs = FakeRefs()
    for commit_id, parent_ids in parents.items():
        generations = [refs.commits[parent].generation for parent in parent_ids]
        refs.commits[commit_id] = Commit(
            id=commit_id,
            parents=tuple(parent_ids),
            metarange_id=MetarangeId(""),
            message=(messages or {}).get(commit_id, ""),
            committer="",
            created_at=times[commit_id],
            metadata={},
            generation=1 + max(generations, default=0),
        )
    return refs


def graph(text: str, *, minutes: Mapping[str, int] | None = None) -> FakeRefs:
    """Make the commits that `text` describes."""
    parents: dict[str, list[str]] = {}
    for chain in text.replace(",", " ").split():
        previous: list[str] = []
        for step in chain.split("-"):
            names = step.split("+")
            for name in names:
                parents.setdefault(name, [])
            if previous:
                (child,) = names
                assert not parents[child], f"parents of {child} given twice"
                parents[child] = previous
            previous = names
    offsets = {name: number for number, name in enumerate(parents)} | dict(minutes or {})
    order = TopologicalSorter(parents).static_order()
    return build(
        {id_of(name): [id_of(parent) for parent in parents[name]] for name in order},
        {id_of(name): EPOCH + timedelta(minutes=offsets[name]) for name in parents},
        {id_of(name): name for name in parents},
    )

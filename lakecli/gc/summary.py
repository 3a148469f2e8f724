"""What a collection is about to delete, by branch and tag, so that a person notices nonsense.

::

    _lakecli/gc/marks/<epoch>-<id>/summary    written with the lists, read by `gc status` anywhere

A metarange that is garbage is the tree of a commit. It counts for the first ref that reaches the
commit, as retention rules let go its tree, or else for the first ref that reached it before it was
deleted or moved elsewhere. The default branch comes first and is always there, then the other
branches, then tags. Anybody who can write to the bucket can write a summary; nothing is deleted or
kept because of one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lakecli.base.model import CommitId, RefKind
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.validation import Invalid, Record, boolean, choice, list_of, text, whole
from lakecli.gc.rules import Known
from lakecli.refs.names import is_branch_name, is_tag_name
from lakecli.remote.ref_records import RemoteRef

MAX_SUMMARY_SIZE: Final = 1 << 20
"""Bytes of a summary, at most."""

_MOST_REFS: Final = 1_000
_MOST: Final = 1 << 60
_NAMED: Final = 5


class RefGarbage(NamedTuple):
    """The garbage of one branch or tag.

    Attributes:
        kind: a branch or a tag.
        name: the name of the ref.
        deleted: whether the ref is deleted.
        trees: number of trees of commits that the ref reaches, and that retention rules let go.
        former_trees: number of trees of commits that the ref reached before it was deleted or moved
            elsewhere.
    """

    kind: RefKind
    name: str
    deleted: bool
    trees: int
    former_trees: int

    def __str__(self) -> str:
        """Return the counts in words."""
        said = []
        if self.trees or not self.former_trees:
            said.append(_count(self.trees, "old tree") if self.trees else "0")
        if self.former_trees:
            said.append(_count(self.former_trees, "former tree"))
        name = self.name if self.kind is RefKind.BRANCH else f"tag {self.name}"
        return f"{name}{' (deleted)' if self.deleted else ''}: {', '.join(said)}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


class Summary(NamedTuple):
    """What is about to be deleted.

    Attributes:
        refs: the default branch, and the branches and tags that have garbage.
        other_trees: number of trees that no branch or tag reached.
        objects: number of data objects that nothing in use refers to.
    """

    refs: tuple[RefGarbage, ...] = ()
    other_trees: int = 0
    objects: int = 0

    def __str__(self) -> str:
        """Return one line: "main: 0; dev: 12 old trees; 3,400 objects that no ref reaches"."""
        said = [str(each) for each in self.refs[:_NAMED]]
        if self.refs[_NAMED:]:
            said.append(_count(len(self.refs) - _NAMED, "more ref"))
        if self.other_trees:
            said.append(f"{_count(self.other_trees, 'tree')} that no ref had")
        said.append(f"{_count(self.objects, 'object')} that no ref reaches")
        return "; ".join(said)


def summarise(
    commits: Mapping[CommitId, Known],
    refs: Sequence[RemoteRef],
    trees: Collection[str],
    *,
    default_branch: str,
    objects: int,
) -> Summary:
    """Return what is about to be deleted.

    Args:
        commits: all commits that are known.
        refs: all refs in the bucket, deleted ones too.
        trees: the metaranges that are garbage.
        default_branch: the name of the default branch.
        objects: number of data objects that are garbage.
    """
    default = (RefKind.BRANCH, default_branch)
    ordered = sorted(refs, key=lambda ref: ((ref.kind, ref.name) != default, ref.kind, ref.name))
    seen: set[CommitId] = set()
    left = set(trees)

    def take(starts: Iterable[CommitId | None]) -> int:
        before = len(left)
        waiting = [each for each in starts if each is not None]
        while waiting:
            commit_id = waiting.pop()
            commit = commits.get(commit_id)
            if commit is not None and commit_id not in seen:
                seen.add(commit_id)
                left.discard(commit.tree)
                waiting += commit.parents
        return before - len(left)

    if left:
        heads = [take([ref.commit_id]) for ref in ordered]
        former = [take(_former(ref)) for ref in ordered]
    else:
        heads = former = [0] * len(ordered)
    found = [
        RefGarbage(ref.kind, ref.name, ref.commit_id is None, old, gone)
        for ref, old, gone in zip(ordered, heads, former, strict=True)
        if old or gone or (ref.kind, ref.name) == default
    ]
    return Summary(tuple(found[:_MOST_REFS]), len(left), objects)


def _former(ref: RemoteRef) -> Iterator[CommitId | None]:
    for move in ref.moves:
        yield move.after
        yield move.before


_REF: Final = Record(
    {
        "kind": choice(*RefKind),
        "name": text(1 << 10),
        "deleted": boolean,
        "trees": whole(0, _MOST),
        "former_trees": whole(0, _MOST),
    }
)


def _read_ref(value: Any) -> RefGarbage:  # noqa: ANN401 - whatever JSON can be
    if not isinstance(value, dict):
        raise Invalid("not an object")
    fields = _REF.read(value)
    kind, name = RefKind(fields["kind"]), fields["name"]
    if not (is_branch_name(name) if kind is RefKind.BRANCH else is_tag_name(name)):
        raise Invalid(f"not the name of a {kind}: {name!r}")
    return RefGarbage(**{**fields, "kind": kind})


_SUMMARY: Final = Record(
    {
        "refs": list_of(_read_ref, _MOST_REFS),
        "other_trees": whole(0, _MOST),
        "objects": whole(0, _MOST),
    }
)


def fields_of(summary: Summary) -> dict[str, Any]:
    """Return a summary as JSON has it."""
    return {**summary._asdict(), "refs": [each._asdict() for each in summary.refs]}


def dump_summary(summary: Summary) -> bytes:
    """Return the bytes of a summary."""
    return json.dumps(fields_of(summary)).encode("ascii") + b"\n"


def parse_summary(data: bytes) -> Summary | None:
    """Return a summary; ``None`` if it is not valid."""
    try:
        fields = _SUMMARY.read(parse_json_object(data, max_size=MAX_SUMMARY_SIZE))
    except (Invalid, Unparsable):
        return None
    return Summary(**{**fields, "refs": tuple(fields["refs"])})

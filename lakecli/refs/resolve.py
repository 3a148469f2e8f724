"""Resolve a ref expression to a commit.

The base is the first of these that matches: 64 hex digits, which are always a commit; a branch; a
tag; up to 63 hex digits that are the beginning of exactly one commit ID. Hex digits may be of
either case, as in Git; names of branches and tags are case-sensitive.

If a modifier with braces follows, the base is a branch or a tag, possibly one that only the bucket
has. `lakecli.repository.reading.reflog` finds the commits that this ref pointed to before.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from lakecli.base.model import Branch, Commit, CommitId, RefKind, Tag
from lakecli.base.visibility import escape_hidden
from lakecli.errors import NotFound, UsageError
from lakecli.refs.expression import Modifier, RefExpression
from lakecli.refs.names import is_branch_name, is_commit_prefix, is_full_commit_id, is_tag_name
from lakecli.refs.ref_store import CommitReader, get_commit, get_parent

MAX_CANDIDATES = 10
"""Maximum number of commits listed for an ambiguous prefix."""

_MESSAGE_WIDTH = 50


class RefReader(CommitReader, Protocol):
    """A reader of the commits, branches and tags of one repository, as of one moment."""

    def find_branch(self, name: str) -> Branch | None:
        """Return the branch, or ``None`` if it does not exist."""

    def find_tag(self, name: str) -> Tag | None:
        """Return the tag, or ``None`` if it does not exist."""

    def iter_commit_ids(self, prefix: str) -> Iterator[CommitId]:
        """Yield the commit IDs that start with `prefix` (lowercase hex digits), ascending."""


class PastRef(NamedTuple):
    """A branch or tag with a time or a number in braces, such as ``main@{yesterday}``.

    `lakecli.repository.reading.reflog` resolves it.

    Attributes:
        branch: the branch, if this clone has it.
        commit: the commit to which the ref pointed then.
        base_id: the commit to which the ref points now in this clone; if only the bucket has the
            ref, the ID of `commit`.
    """

    kind: RefKind
    name: str
    branch: Branch | None
    base_id: CommitId
    commit: Commit


class ResolvedModifier(NamedTuple):
    """The commit that one modifier leads to.

    Attributes:
        modifier: modifier such as ~2.
        commit_id: the commit that the expression names up to and including this modifier.
    """

    modifier: str
    commit_id: CommitId


class Resolved(NamedTuple):
    """The result of resolving a ref expression.

    Attributes:
        commit: the commit after all modifiers; for a branch that is read with staging, its head.
        kind: kind of the ref before any modifier: branch, tag or commit.
        name: the ref before any modifier: name of a branch or tag, or ID of a commit.
        base_id: the commit of the base, before any modifier; for a base that only the bucket has,
            the commit that the base with its braces names.
        branch: the branch if the base is a branch, with or without modifiers.
        staging: whether reading the ref includes uncommitted changes.
        steps: the commits after each modifier, in order.
    """

    commit: Commit
    kind: RefKind
    name: str
    base_id: CommitId
    branch: Branch | None
    staging: bool
    steps: tuple[ResolvedModifier, ...]


class AmbiguousRef(NotFound):
    """Several commit IDs begin with the given prefix.

    Attributes:
        candidates: some of these commits, by ID; `MAX_CANDIDATES` at most.
    """

    def __init__(self, message: str, *, hint: str, candidates: Sequence[Commit]) -> None:
        super().__init__(message, hint=hint)
        self.candidates = tuple(candidates)


def resolve(expression: RefExpression, reader: RefReader, past: PastRef | None = None) -> Resolved:
    """Resolve an expression to the commit, and perhaps the staging area, to read.

    Args:
        past: the base with its braces, already resolved; ``None`` if there are no braces.

    Raises:
        NotFound: the base does not exist, or a modifier goes past the first commit or the last
            parent. For a missing base, the caller adds the hint, which names the repository.
        UsageError: ``@`` or ``$`` follows a base that is not a branch.
        DamagedHistory: a commit on the way is missing.
    """
    assert expression.asks_for_moves == (past is not None), expression
    if past is not None:
        kind, name, branch, base_id, commit = past
        staging = False
        steps = [ResolvedModifier(expression.modifiers[0].text, commit.id)]
    else:
        kind, name, branch, base_id = resolve_base(expression, reader)
        commit = get_commit(reader, base_id)
        staging = branch is not None
        steps = []
    for modifier in expression.modifiers[len(steps) :]:
        walk = WALKS.get(modifier.symbol)
        if walk is not None:
            commit = walk(reader, commit, modifier, str(expression))
            staging = False
        elif branch is None:
            raise UsageError(
                f"{str(expression)!r}: {modifier.symbol!r} is for branches, and "
                f"{expression.base!r} is a {kind.value}",
                hint=f"leave it out: {expression.base}",
            )
        else:
            staging = STAGING[modifier.symbol]
        steps.append(ResolvedModifier(modifier.text, commit.id))
    return Resolved(commit, kind, name, base_id, branch, staging, tuple(steps))


def commit_of(resolved: Resolved, expression: str) -> Commit:
    """Return the commit that an expression names; a plain branch means its head.

    Raises:
        UsageError: the expression names a staging area (``$``), which is not a commit.
    """
    if resolved.staging and resolved.steps:
        raise UsageError(
            f"{expression!r} is a branch with its staging area, not a commit",
            hint=f"commit first, or name the branch's head: {resolved.name}",
        )
    return resolved.commit


def resolve_base(
    expression: RefExpression, reader: RefReader
) -> tuple[RefKind, str, Branch | None, CommitId]:
    """Return the base's kind, name, branch (``None`` if it is not a branch) and commit ID."""
    base = expression.base
    if is_full_commit_id(base):
        commit_id = CommitId(base.lower())
        if reader.find_commit(commit_id) is None:
            raise NotFound(f"no commit {commit_id}")
        return RefKind.COMMIT, commit_id, None, commit_id
    # Look up only valid names in the store.
    branch = reader.find_branch(base) if is_branch_name(base) else None
    if branch is not None:
        return RefKind.BRANCH, branch.name, branch, branch.commit_id
    tag = reader.find_tag(base) if is_tag_name(base) else None
    if tag is not None:
        return RefKind.TAG, tag.name, None, tag.commit_id
    if is_commit_prefix(base):
        commit_id = _find_by_prefix(reader, base)
        return RefKind.COMMIT, commit_id, None, commit_id
    raise NotFound(f"no branch or tag {base!r}")


def _find_by_prefix(reader: RefReader, prefix: str) -> CommitId:
    """Return the only commit ID that starts with `prefix`."""
    found = list(islice(reader.iter_commit_ids(prefix.lower()), MAX_CANDIDATES + 1))
    if not found:
        raise NotFound(f"no branch, tag or commit {prefix!r}")
    if len(found) == 1:
        return found[0]
    candidates = [get_commit(reader, commit_id) for commit_id in found[:MAX_CANDIDATES]]
    count = str(len(found)) if len(found) <= MAX_CANDIDATES else f"more than {MAX_CANDIDATES}"
    lines = "\n".join(f"  {commit.id}  {_shorten(commit.message)}" for commit in candidates)
    raise AmbiguousRef(
        f"ambiguous commit ID {prefix!r}: {count} commits begin with it",
        hint=f"type more of one of them:\n{lines}",
        candidates=candidates,
    )


def _shorten(message: str) -> str:
    """Return the first line of a message, cut to `_MESSAGE_WIDTH`, with hidden characters as ?."""
    line = message.partition("\n")[0]
    if len(line) > _MESSAGE_WIDTH:
        line = line[: _MESSAGE_WIDTH - 1] + "…"
    return escape_hidden(line, lambda _hidden: "?")


def _walk_ancestors(reader: RefReader, commit: Commit, modifier: Modifier, shown: str) -> Commit:
    for gone in range(modifier.number):
        if not commit.parents:
            raise NotFound(
                f"{shown!r} goes past the first commit: {modifier.text!r} is applied to "
                f"a commit with {gone or 'no'} ancestor{'s' * (gone != 1)}, by first parents"
            )
        commit = get_parent(reader, commit, commit.parents[0])
    return commit


def _walk_to_parent(reader: RefReader, commit: Commit, modifier: Modifier, shown: str) -> Commit:
    if modifier.number == 0:
        return commit
    if modifier.number > len(commit.parents):
        count = len(commit.parents)
        raise NotFound(
            f"{shown!r} names a missing parent: {modifier.text!r} is applied "
            f"to a commit with {count} parent{'s' * (count != 1)}"
        )
    return get_parent(reader, commit, commit.parents[modifier.number - 1])


WALKS: dict[str, Callable[[RefReader, Commit, Modifier, str], Commit]] = {
    "~": _walk_ancestors,
    "^": _walk_to_parent,
}
"""Modifiers that lead from one commit to another; the result has no staging area."""

STAGING = {"@": False, "$": True}
"""Modifiers that say whether a branch is read with its staging area."""

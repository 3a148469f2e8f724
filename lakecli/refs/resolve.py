"""From a ref expression to a commit.

The base is the first of these that matches: 64 hex digits, which are always a commit; a branch; a
tag; up to 63 hex digits that begin exactly one commit ID. Hex digits may be of either case, as in
Git; names of branches and tags are compared exactly.

Where braces follow, the base is a branch or a tag, and may be one that only the bucket has.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple, Protocol

from lakecli.base.model import Branch, Commit, CommitId, RefKind, Tag
from lakecli.errors import NotFound, UsageError
from lakecli.refs.expression import Modifier, RefExpression, parse_when
from lakecli.refs.names import is_branch_name, is_commit_prefix, is_full_commit_id, is_tag_name
from lakecli.refs.ref_store import CommitReader, get_commit, get_parent

MAX_CANDIDATES = 10
"""Commits listed for an ambiguous prefix, at most."""

_MESSAGE_WIDTH = 50


class RefReader(CommitReader, Protocol):
    """Commits, branches and tags of one repository, as of one moment."""

    def find_branch(self, name: str) -> Branch | None:
        """Return the branch, or ``None``."""

    def find_tag(self, name: str) -> Tag | None:
        """Return the tag, or ``None``."""

    def iter_commit_ids(self, prefix: str) -> Iterator[CommitId]:
        """Yield the IDs that start with `prefix` (lowercase hex digits), ascending."""


class Move(Protocol):
    """One move of a ref; ``None`` means that the ref is absent."""

    @property
    def before(self) -> CommitId | None:
        """The old commit."""

    @property
    def after(self) -> CommitId | None:
        """The new commit."""

    @property
    def at(self) -> datetime:
        """The time of the move."""


class PastReader(Protocol):
    """How branches and tags moved; used only for expressions with braces."""

    @property
    def now(self) -> datetime:
        """The present, as an aware UTC datetime."""

    def find_kind(self, name: str) -> RefKind | None:
        """Return the kind of a ref that this clone lacks but saw in the bucket, or ``None``."""

    def iter_moves(self, kind: RefKind, name: str) -> Iterator[Move]:
        """Yield the moves of a ref, newest first."""

    def find_upstream(self, kind: RefKind, name: str) -> CommitId | None:
        """Return the last commit of a ref that was seen in the bucket, or ``None``."""


class Step(NamedTuple):
    """The result of one modifier.

    Attributes:
        modifier: as typed, ``~2``.
        commit_id: the commit that the expression up to here names.
    """

    modifier: str
    commit_id: CommitId


class Resolved(NamedTuple):
    """The result of resolving a ref expression.

    Attributes:
        commit: the commit after all modifiers; for a branch that is read with staging, its head.
        kind: of the base.
        name: of the branch or tag, or the full commit ID of the base.
        base_id: the commit of the base, before any modifier; for a base that only the bucket has,
            the commit that the braces name.
        branch: the branch, if the base is one, whatever the modifiers.
        staging: whether reads include the branch's staging area: a plain branch, or ``$``.
        steps: one per modifier, in order.
    """

    commit: Commit
    kind: RefKind
    name: str
    base_id: CommitId
    branch: Branch | None
    staging: bool
    steps: tuple[Step, ...]


class AmbiguousRef(NotFound):
    """A prefix that several commit IDs share.

    Attributes:
        candidates: some of those commits, by ID; `MAX_CANDIDATES` at most.
    """

    def __init__(self, message: str, *, hint: str, candidates: Sequence[Commit]) -> None:
        super().__init__(message, hint=hint)
        self.candidates = tuple(candidates)


def resolve(
    expression: RefExpression, reader: RefReader, past: PastReader | None = None
) -> Resolved:
    """Resolve an expression for reading.

    Args:
        expression: the parsed expression.
        reader: gives branches, tags and commits.
        past: gives the moves of refs; required if the expression has braces.

    Raises:
        NotFound: the base names nothing (without a hint: the caller knows the repository to list),
            or a modifier goes past the first commit, the last parent or the first move.
        AmbiguousRef: the base is a prefix of several commit IDs.
        UsageError: ``@`` or ``$`` follows something other than a branch, braces follow a commit, or
            the date in them is malformed.
        DamagedHistory: a commit on the way is missing.
    """
    if expression.asks_for_moves:
        assert past is not None, expression
        kind, name, branch, commit_id, commit = _resolve_past(expression, reader, past)
        base = commit if commit_id is None else get_commit(reader, commit_id)
        staging = False
        steps = [Step(expression.modifiers[0].text, commit.id)]
    else:
        kind, name, branch, commit_id = _resolve_base(expression, reader)
        commit = base = get_commit(reader, commit_id)
        staging = branch is not None
        steps = []
    for modifier in expression.modifiers[len(steps) :]:
        walk = WALKS.get(modifier.symbol)
        if walk is not None:
            commit = walk(reader, commit, modifier, expression)
            staging = False
        elif branch is None:
            raise UsageError(
                f"{str(expression)!r}: {modifier.symbol!r} is for branches, and "
                f"{expression.base!r} is a {kind.value}",
                hint=f"leave it out: {expression.base}",
            )
        else:
            staging = STAGING[modifier.symbol]
        steps.append(Step(modifier.text, commit.id))
    return Resolved(
        commit=commit,
        kind=kind,
        name=name,
        base_id=base.id,
        branch=branch,
        staging=staging,
        steps=tuple(steps),
    )


def commit_of(resolved: Resolved, expression: str) -> Commit:
    """Return what an expression names where a commit is needed; a plain branch means its head.

    Raises:
        UsageError: it asks for a staging area (``$``), which is no commit.
    """
    if resolved.staging and resolved.steps:
        raise UsageError(
            f"{expression!r} is a branch with its staging area, not a commit",
            hint=f"commit first, or name the branch's head: {resolved.name}",
        )
    return resolved.commit


def _resolve_base(
    expression: RefExpression, reader: RefReader
) -> tuple[RefKind, str, Branch | None, CommitId]:
    base = expression.base
    if is_full_commit_id(base):
        commit_id = CommitId(base.lower())
        if reader.find_commit(commit_id) is None:
            raise NotFound(f"no commit {commit_id}")
        return RefKind.COMMIT, commit_id, None, commit_id
    # The store is only asked for valid names.
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


def _resolve_past(
    expression: RefExpression, reader: RefReader, past: PastReader
) -> tuple[RefKind, str, Branch | None, CommitId | None, Commit]:
    """Resolve the base and its braces; the commit ID is that of the base, if this clone has it.

    Raises:
        NotFound: no such branch or tag, or it did not stand anywhere then.
        UsageError: the base is a commit.
    """
    branch, commit_id = None, None
    seen = past.find_kind(expression.base)
    try:
        found, name, branch, commit_id = _resolve_base(expression, reader)
    except NotFound:
        if seen is None:
            raise
        found, name = seen, expression.base
    if found is RefKind.COMMIT and seen is not None:
        found, name, commit_id = seen, expression.base, None
    modifier = expression.modifiers[0]
    if found is RefKind.COMMIT:
        raise UsageError(
            f"{str(expression)!r}: {modifier.text!r} is for branches and tags, which move, and "
            f"{expression.base!r} is a commit",
            hint=f"leave it out: {expression.base}",
        )
    stood = PAST[modifier.symbol](past, _Ref(found, name, str(expression)), modifier)
    commit = reader.find_commit(stood)
    if commit is None:
        raise NotFound(
            f"{str(expression)!r} is commit {stood}, which this clone does not have",
            hint="get what the bucket has: lakecli fetch",
        )
    return found, name, branch, commit_id, commit


class _Ref(NamedTuple):
    """The ref before braces; shown as ``branch main``."""

    kind: RefKind
    name: str
    expression: str

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}"


def _stood_at(past: PastReader, ref: _Ref, modifier: Modifier) -> CommitId:
    """Return the commit of a ref at a time."""
    when = parse_when(modifier.within, past.now)
    earliest = None
    for move in past.iter_moves(ref.kind, ref.name):
        if move.at <= when:
            if move.after is None:
                raise NotFound(
                    f"{ref.expression!r}: {ref} was not there at {_shown(when)}, deleted at "
                    f"{_shown(move.at)}"
                )
            return move.after
        earliest = move
    if earliest is None:
        raise _never_moved(ref)
    raise NotFound(
        f"{ref.expression!r}: {ref} goes back to {_shown(earliest.at)}, and not to {_shown(when)}",
        hint=f"where it stood first: {ref.name}@{{{_shown(earliest.at)}}}",
    )


def _stood_before(past: PastReader, ref: _Ref, modifier: Modifier) -> CommitId:
    """Return the commit of a ref before its last moves."""
    count, stood = 0, None
    for count, move in enumerate(past.iter_moves(ref.kind, ref.name), 1):
        if count > modifier.number:
            stood = move.after
            break
        stood = move.before  # of the oldest move: nothing earlier is known
    if not count:
        raise _never_moved(ref)
    if count < modifier.number or (count == modifier.number and stood is None):
        raise NotFound(
            f"{ref.expression!r}: {ref} has moved {count} time{'s' * (count != 1)}, as far as "
            "is known"
        )
    if stood is None:
        raise NotFound(f"{ref.expression!r}: {ref} was not there, it had been deleted")
    return stood


def _upstream(past: PastReader, ref: _Ref, _modifier: Modifier) -> CommitId:
    """Return the last known commit of a ref in the bucket."""
    commit_id = past.find_upstream(ref.kind, ref.name)
    if commit_id is None:
        raise NotFound(
            f"{ref.expression!r}: {ref} is not in the bucket, as far as this clone knows",
            hint="lakecli fetch looks, lakecli push brings it there",
        )
    return commit_id


def _never_moved(ref: _Ref) -> NotFound:
    return NotFound(f"{ref.expression!r}: nothing is known of how {ref} moved")


def _shown(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"


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
    """Return the first line of a message, cut to a width, safe for a terminal."""
    line = message.partition("\n")[0]
    if len(line) > _MESSAGE_WIDTH:
        line = line[: _MESSAGE_WIDTH - 1] + "…"
    return "".join(char if char.isprintable() else "?" for char in line)


def _walk_ancestors(
    reader: RefReader, commit: Commit, modifier: Modifier, expression: RefExpression
) -> Commit:
    for gone in range(modifier.number):
        if not commit.parents:
            raise NotFound(
                f"{str(expression)!r} goes past the first commit: {modifier.text!r} is applied to "
                f"a commit with {gone or 'no'} ancestor{'s' * (gone != 1)}, by first parents"
            )
        commit = get_parent(reader, commit, commit.parents[0])
    return commit


def _walk_to_parent(
    reader: RefReader, commit: Commit, modifier: Modifier, expression: RefExpression
) -> Commit:
    if modifier.number == 0:
        return commit
    if modifier.number > len(commit.parents):
        count = len(commit.parents)
        raise NotFound(
            f"{str(expression)!r} names a missing parent: {modifier.text!r} is applied "
            f"to a commit with {count} parent{'s' * (count != 1)}"
        )
    return get_parent(reader, commit, commit.parents[modifier.number - 1])


WALKS: dict[str, Callable[[RefReader, Commit, Modifier, RefExpression], Commit]] = {
    "~": _walk_ancestors,
    "^": _walk_to_parent,
}
"""Modifiers that lead from a commit to another commit, which has no staging area."""

STAGING = {"@": False, "$": True}
"""Modifiers that say whether a branch is read with its staging area."""

PAST: dict[str, Callable[[PastReader, _Ref, Modifier], CommitId]] = {
    "@{upstream}": _upstream,
    "@{n}": _stood_before,
    "@{date}": _stood_at,
}
"""Modifiers that lead from a branch or tag to one of its former commits."""

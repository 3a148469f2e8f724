"""Show how a branch or tag moved."""

from collections.abc import Iterator

from lakecli.base.model import NAMED_KINDS, RefKind
from lakecli.errors import NotFound
from lakecli.kv.local_store import ReadTransaction
from lakecli.kv.operations import iter_operations
from lakecli.refs.names import is_ref_name
from lakecli.repository.readable import Refs
from lakecli.repository.reading.reflog import LoggedMove, Past


def iter_reflog(repository: Refs, name: str) -> Iterator[LoggedMove]:
    """Yield the moves of a branch or a tag, newest first; deleted refs have moves, too.

    Raises:
        NotFound: there never was such a branch or tag, as far as this clone knows.
    """
    with repository.lake.kv.read() as txn:
        past = Past(repository, txn)
        kind = _kind_of(repository, txn, past, name)
        moves = past.iter_moves(kind, name)
        first = next(moves, None)
        if first is None:
            hint = f"list them: `branch list {repository.uri}`, `tag list {repository.uri}`"
            raise NotFound(f"no branch or tag {name!r} in {repository.uri}", hint=hint)
        yield first
        yield from moves


def is_shared(repository: Refs, name: str) -> bool:
    """Return whether this clone has ever seen a branch or tag of this name in the bucket."""
    with repository.lake.kv.read() as txn:
        return Past(repository, txn).find_kind(name) is not None


def _kind_of(repository: Refs, txn: ReadTransaction, past: Past, name: str) -> RefKind:
    """Return whether a name belongs, or belonged, to a branch or a tag.

    Refs on this machine are looked up first, then present and former refs in the bucket, then
    former refs on this machine.
    """
    refs = repository.refs(txn)
    for kind in NAMED_KINDS:
        if is_ref_name(kind, name) and refs.position(kind, name) is not None:
            return kind
    seen = past.find_kind(name)
    if seen is not None:
        return seen
    for operation in iter_operations(txn, repository.key):
        for change in operation.refs:
            if change.name == name and change.kind in NAMED_KINDS:
                return change.kind
    return RefKind.BRANCH

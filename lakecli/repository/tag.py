"""Create, list, show and delete tags."""

from collections.abc import Iterator

from lakecli.base.model import Tag
from lakecli.errors import AlreadyExists, NotFound
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.names import check_tag_name
from lakecli.repository.branch import check_free, claim_ref
from lakecli.repository.contract import Repository
from lakecli.repository.journal import operation_log


def create(repository: Repository, name: str, ref: str, *, force: bool = False) -> Tag:
    """Create a tag at the commit of a ref expression.

    Args:
        name: a legal name, which is not in use unless `force` is set.
        force: move the tag if it exists, in one step.

    Raises:
        UsageError: the name or the expression is illegal.
        NotFound: `ref` does not name a commit.
        Gone: the tree of that commit is no longer in the bucket.
        AlreadyExists: the name is in use.
    """
    from lakecli.repository.journal.unsent_moves import move_ref  # listing tags skips this

    check_tag_name(name)
    commit = claim_ref(repository, ref)
    with repository.lake.kv.write() as txn:
        refs = repository.refs(txn)
        before = refs.find_tag(name)
        if before is None:
            check_free(refs, name)
        elif not force:
            hint = "a tag stays where it is; to move it: `force=True`"
            raise AlreadyExists(f"tag {name} exists already, at {before.commit_id}", hint=hint)
        tag = Tag(name, commit.id)
        if tag != before:
            move_ref(txn, repository, "tag create", before, tag)
    return tag


def iter_tags(repository: Repository, *, prefix: str = "", after: str = "") -> Iterator[Tag]:
    """Yield tags ordered by name, starting with the first name after `after`."""
    with repository.lake.kv.read() as txn:
        yield from repository.refs(txn).iter_tags(prefix=prefix, after=after)


def show(repository: Repository, name: str) -> Tag:
    """Return a tag by name.

    Raises:
        NotFound: no such tag.
    """
    with repository.lake.kv.read() as txn:
        return _tag_at(repository, txn, name)


def delete(repository: Repository, name: str) -> Tag:
    """Delete a tag; the operation log can restore it.

    Raises:
        NotFound: no such tag.
        LostRace: sharing is automatic, and the tag is at another commit in the bucket.
    """
    from lakecli.repository.journal.unsent_moves import move_ref

    with repository.lake.kv.write() as txn:
        tag = _tag_at(repository, txn, name)
        move_ref(txn, repository, "tag delete", tag, None)
    return tag


def check_delete(repository: Repository, name: str) -> None:
    """Raise an error if `delete` would not delete the tag.

    Raises:
        NotFound, LostRace: as raised by `delete`.
    """
    with repository.lake.kv.read() as txn:
        tag = _tag_at(repository, txn, name)
        if repository.syncs:
            from lakecli.repository.journal.unsent_moves import check_deletion

            check_deletion(txn, repository, operation_log.ref_change(tag, None))


def _tag_at(repository: Repository, txn: ReadTransaction, name: str) -> Tag:
    refs, uri = repository.refs(txn), repository.uri
    tag = refs.find_tag(name)
    if tag is None:
        hint = f"list them: `tag list {uri}`"
        if refs.find_branch(name) is not None:
            hint = f"it is a branch: `branch show {uri}/{name}`"
        raise NotFound(f"no tag {name!r} in {uri}", hint=hint)
    return tag

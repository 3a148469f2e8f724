"""Copy objects, and replace their metadata or content type; no data is read or copied.

A copy is the same entry, staged at another path.
"""

from collections.abc import Iterable

from lakecli.base.model import Entry
from lakecli.base.uri import as_directory, check_path
from lakecli.committed.values import decode_entry, is_same
from lakecli.errors import UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_values
from lakecli.repository.reading.view import View, check_branch, no_such_path, open_view
from lakecli.repository.staged import stager as stagers
from lakecli.repository.staged.stager import UNCHANGED, NewAttributes, Stager


def cp(
    repository: Repository,
    *,
    source_ref: str,
    source: bytes,
    branch: str,
    path: bytes,
    attributes: NewAttributes = UNCHANGED,
) -> Entry:
    """Stage at `path` the entry that a ref has at `source`, with new attributes if given.

    If the branch already has the same entry at `path`, nothing is staged.

    Raises:
        NotFound: no such ref, branch or source.
        UsageError: source and destination are the same path.
        Gone: the object of the source is no longer in the bucket.
    """
    check_path(path)
    if (source_ref, source) == (branch, path):
        raise _same()
    with open_view(repository, source_ref) as view:
        value = view.value(source)
    copies = claim_values(repository, [(path, attributes.apply(value))])
    Stager(repository, branch).write(stagers.new_on(repository, branch, copies), kind="cp")
    return decode_entry(value)


def cp_tree(
    repository: Repository,
    *,
    source_ref: str,
    source: bytes,
    branch: str,
    path: bytes,
    attributes: NewAttributes = UNCHANGED,
    delete: bool = False,
) -> int:
    """Stage below `path` everything that a ref has below `source`; return the number of objects.

    Args:
        source: the source directory; a missing trailing slash is added.
        path: the destination directory; a missing trailing slash is added.
        attributes: content type and metadata of the copies, if they are to be changed.
        delete: remove objects below `path` that have no counterpart below `source`.

    Raises:
        NotFound: no such ref or branch, or nothing below the source.
        UsageError: source and destination are the same path, or a resulting path is too long;
            nothing is staged.
    """
    below, target = as_directory(source), as_directory(path)
    if (source_ref, below) == (branch, target):
        raise _same()
    stager = Stager(repository, branch)
    count = 0
    with open_view(repository, source_ref) as view:
        for batch in stagers.claimed_batches(view, below, target):
            copies = [(target + old[len(below) :], value) for old, value in batch]
            if attributes != UNCHANGED:
                changed = [(new, attributes.apply(value)) for new, value in copies]
                copies = claim_values(repository, changed)
            stager.write(stagers.new_on(repository, branch, copies), kind="cp")
            count += len(batch)
        if count and delete:
            with open_view(repository, branch) as there:
                for found in stagers.batches_of(there, target):
                    more = [each for each in found if not view.find(below + each[0][len(target) :])]
                    stagers.remove_unchanged(stager, there, branch, more, "cp")
    if not count:
        raise no_such_path(repository, source_ref, below)
    return count


def _same() -> UsageError:
    hint = "to change metadata in place: `fs update-metadata PATH --meta KEY=VALUE`"
    return UsageError("source and destination are the same path", hint=hint)


def update_metadata(
    repository: Repository, branch: str, paths: Iterable[bytes], attributes: NewAttributes
) -> None:
    """Stage new attributes for all given objects, or for none; skip objects that would not change.

    Raises:
        NotFound: no such branch or object.
        Gone: an object is no longer in the bucket.
        LostRace: other processes kept changing the objects.
    """
    check_branch(repository, branch)
    ordered = sorted(set(paths))

    def plan(view: View) -> tuple[stagers.Parts, None]:
        changes = []
        for path in ordered:
            value = view.find(path)
            if value is None:
                raise no_such_path(repository, branch, path)
            changed = attributes.apply(value)
            if not is_same(value, changed):
                changes.append((path, changed))
        return [(branch, claim_values(repository, changes))], None

    Stager(repository, branch).write_planned(branch, ordered, plan, kind="update-metadata")

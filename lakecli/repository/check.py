"""Check trees, approve them, and list the statements about them in the bucket.

A check is a callable that reads a commit, and raises an error if the commit must not be published.
When a named check passes, a statement in the bucket records it (`lakecli.remote.attestations`), so
every clone can evaluate a policy rule that requires the check. The statement is about the tree, or
about its entries below a prefix. It does not name the commit, so it holds for every commit with
the same tree or entries.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lakecli.base.identity import record_id, tree_id
from lakecli.base.model import Commit, MetarangeId
from lakecli.committed.scan import scan
from lakecli.committed.values import identity_of
from lakecli.errors import CheckFailed, NothingToDo
from lakecli.remote.attestations import Attestation, iter_attestations, write_attestation
from lakecli.repository.contract import Repository
from lakecli.repository.handle.namespace import check_writable
from lakecli.repository.log import show_commit
from lakecli.repository.readable import Readable
from lakecli.repository.reading.merge_points import find_merge_base
from lakecli.stores.contract import NotAllowed


class CheckedCommit(NamedTuple):
    """A commit to check: the argument of a check.

    Attributes:
        commit: the commit; it may not be on a branch yet.
        destination: the branch that will move to the commit if it passes; ``""``: none.
        prefix: the prefix of the paths to check; ``""``: all paths.
    """

    repository: Repository
    commit: Commit
    destination: str = ""
    prefix: str = ""

    @property
    def uri(self) -> str:
        """The URI of the commit, such as ``lakefs://demo/4bd9…``."""
        return f"{self.repository.uri}/{self.commit.id}"


class TreeCheck(NamedTuple):
    """A check, and the name under which the bucket records that it passed.

    Attributes:
        run: checks a commit; raises an error or returns ``False`` if the check fails.
        name: the name of the check in the bucket; ``""``: the bucket does not record the check.
    """

    run: Callable[[CheckedCommit], object]
    name: str = ""


def run_check(check: TreeCheck, candidate: CheckedCommit, *, who: str) -> Attestation | None:
    """Run a check on a commit; if it passes and has a name, write a statement to the bucket.

    If this user may not write the statement, a publication adds a notice and continues: the
    statement is needed only if a rule requires the check.

    Args:
        who: the committer, as recorded in the statement.

    Raises:
        CheckFailed: the check returned ``False`` or raised `NothingToDo`; other errors of the check
            are raised as they are.
        CannotShare, NewerRepository, Refused, …: the repository must not be written to.
    """
    try:
        verdict = check.run(candidate)
    except NothingToDo as error:  # callers would take it for "nothing to publish"
        raise CheckFailed(error.message, hint=error.hint) from error
    if verdict is False:
        raise CheckFailed(f"check {check.name or check.run!r} failed on {candidate.uri}")
    if not check.name:
        return None
    repository, commit, prefix = candidate.repository, candidate.commit, candidate.prefix
    try:
        return _state(repository, commit, "check", check.name, who=who, prefix=prefix)
    except NotAllowed as error:
        if not candidate.destination:
            raise
        repository.notify(f"that check {check.name} passed is not stated: {error.message}")
        return None


def check_ref(
    repository: Repository, ref: str, check: TreeCheck, *, who: str, prefix: str = ""
) -> Attestation | None:
    """Run a check on the commit of a ref expression, as `run_check` does.

    Uncommitted changes are not checked.

    Raises:
        NotFound: the ref names nothing.
    """
    candidate = CheckedCommit(repository, show_commit(repository, ref), prefix=prefix)
    return run_check(check, candidate, who=who)


def reviewer(
    repository: Repository, destination: str, checks: Sequence[TreeCheck], *, who: str
) -> Callable[[Commit], None]:
    """Return a function that runs checks on a commit, once for each tree."""
    passed: set[MetarangeId] = set()

    def review(commit: Commit) -> None:
        if commit.metarange_id in passed:
            return
        for check in checks:
            run_check(check, CheckedCommit(repository, commit, destination), who=who)
        passed.add(commit.metarange_id)

    return review


def approve(repository: Repository, ref: str, destination: str, *, who: str) -> Attestation:
    """State in the bucket that a committer approves the tree of a ref for a branch or tag.

    If merging the ref would give the branch a different tree, a notice says that this tree is not
    approved.

    Raises:
        NotFound: the ref names nothing.
        CannotShare, NewerRepository, Refused, …: the repository must not be written to.
    """
    commit = show_commit(repository, ref)
    with repository.lake.kv.read() as txn:
        is_branch = repository.refs(txn).find_branch(destination) is not None
    if is_branch:
        points = find_merge_base(repository, ref, destination)
        if points.base.only_tree != points.destination.metarange_id:
            there = f"{repository.uri}/{destination}"
            repository.notify(
                f"{destination} has changes that {ref} lacks, so a merge gives another tree, "
                "which is not approved",
                hint=f"merge them first: `merge {there} {repository.uri}/{ref}`",
            )
    return _state(repository, commit, "approve", destination, who=who)


def iter_statements(repository: Repository, ref: str, *, prefix: str = "") -> Iterator[Attestation]:
    """Yield the checks and approvals of the tree of a ref, or of its entries below a prefix.

    Raises:
        NotFound: the ref names nothing.
    """
    tree = show_commit(repository, ref).metarange_id
    found = iter_attestations(repository.store, _subject(repository, tree, prefix))
    return (each for each in found if each.prefix == prefix)


def _subject(repository: Readable, tree: MetarangeId, prefix: str) -> str:
    """Return the ID of a tree, or the digest of its entries below a prefix, which are all read."""
    if not prefix:
        return tree
    entries = scan(repository.trees, tree, prefix=os.fsencode(prefix))
    return tree_id(record_id(path, identity_of(value)) for path, value in entries)


def _state(
    repository: Repository, commit: Commit, kind: str, name: str, *, who: str, prefix: str = ""
) -> Attestation:
    check_writable(repository)
    tree, runtime = commit.metarange_id, repository.lake.runtime
    subject = _subject(repository, tree, prefix)
    made = Attestation(kind, name, subject, tree, prefix, who, runtime.now())
    write_attestation(repository.store, made, id=runtime.new_id().hex())
    return made

"""Copy objects to another repository: bring their bytes there, then stage their entries."""

from __future__ import annotations

from itertools import islice
from typing import Final, NamedTuple

from lakecli.base.model import Entry
from lakecli.base.uri import as_directory, check_path
from lakecli.repository.across import Across, AcrossOptions, AcrossReport
from lakecli.repository.core.attributes import UNCHANGED, Attributes
from lakecli.repository.core.gate import claim_uploaded
from lakecli.repository.core.lake import Repository
from lakecli.repository.core.stager import Stager
from lakecli.repository.core.view import View, check_branch, no_such_path, open_view

BATCH: Final = 1_024
"""Objects that become durable, and are staged, together."""


class Place(NamedTuple):
    """An object or a directory of a repository.

    Attributes:
        repository: the repository.
        ref: a ref expression; of a destination, a branch.
        path: of the object, or of the directory.
    """

    repository: Repository
    ref: str
    path: bytes


def cp_across(
    source: Place,
    target: Place,
    *,
    attributes: Attributes = UNCHANGED,
    options: AcrossOptions = AcrossOptions(),  # noqa: B008 - immutable
    kind: str = "cp",
) -> tuple[Entry, AcrossReport]:
    """Copy one object to another repository, with other attributes if given.

    Args:
        source: the object.
        target: where the copy is staged.
        attributes: of the copy.
        options: how to copy.
        kind: of the operation in the log.

    Returns:
        The entry of the source, and a report.

    Raises:
        NotFound: no such ref, branch or source, or its bytes are missing.
        IntegrityError: the object is damaged; nothing is staged.
    """
    check_path(target.path)
    check_branch(target.repository, target.ref)
    with open_view(source.repository, source.ref) as view:
        entry, value = view.entry(source.path), view.find(source.path)
    assert value is not None
    across = Across(source.repository, target.repository, options)
    options.progress.expect(items=1, size=entry.size)
    own, ingested = across.bring_one(value)
    across.flush()
    changes = [(target.path, attributes.apply(own))]
    brought = [] if ingested is None else [ingested]
    claimed = claim_uploaded(across.ingest, changes, brought)
    Stager(target.repository, target.ref, kind=kind).write(claimed)
    across.report.objects, across.report.size = 1, entry.size
    return entry, across.report


def cp_tree_across(
    source: Place,
    target: Place,
    *,
    attributes: Attributes = UNCHANGED,
    options: AcrossOptions = AcrossOptions(),  # noqa: B008 - immutable
) -> AcrossReport:
    """Copy everything below a directory to another repository; report the objects that fail.

    Both are directories: a missing trailing slash is added.

    Raises:
        NotFound: no such ref or branch, or nothing below the source.
        UsageError: a resulting path is too long; nothing is staged.
    """
    with open_view(source.repository, source.ref) as view:
        return copy_view(view, source, target, attributes=attributes, options=options, kind="cp")


def copy_view(
    view: View,
    source: Place,
    target: Place,
    *,
    attributes: Attributes,
    options: AcrossOptions,
    kind: str,
) -> AcrossReport:
    """Copy what a view has below a directory, as `cp_tree_across` does.

    Args:
        view: of the source.
        source: the directory.
        target: the directory that replaces it in the resulting paths.
        attributes: of the copies.
        options: how to copy.
        kind: of the operation in the log.
    """
    below, to = as_directory(source.path), as_directory(target.path)
    check_branch(target.repository, target.ref)
    for old, _ in view.scan(prefix=below):
        check_path(to + old[len(below) :])
    across = Across(source.repository, target.repository, options)
    stager = Stager(target.repository, target.ref, kind=kind)
    report = across.report
    records = view.scan(prefix=below)
    while batch := list(islice(records, BATCH)):
        done, brought = across.bring(batch)
        changes = [(to + old[len(below) :], attributes.apply(own)) for old, own in done]
        stager.write(claim_uploaded(across.ingest, changes, brought))
        report.objects += len(done)
    if not report.objects and not report.failures:
        raise no_such_path(source.repository, source.ref, below)
    report.failures.sort()
    return report

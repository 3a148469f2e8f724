"""Move objects to another repository: copy them there, then stage their removal here.

The copies are staged, and their bytes durable, before anything is removed: a crash in between
leaves both. The repositories have logs of their own, so each takes back its own part.
"""

from __future__ import annotations

from itertools import islice

from lakecli.base.model import Entry
from lakecli.base.uri import as_directory
from lakecli.repository.across import AcrossOptions, AcrossReport
from lakecli.repository.core.attributes import UNCHANGED
from lakecli.repository.core.stager import Stager
from lakecli.repository.core.subtree import BATCH, remove_unchanged
from lakecli.repository.core.view import check_branch, open_view
from lakecli.repository.cp_across import Place, copy_view, cp_across


def mv_across(
    source: Place,
    target: Place,
    *,
    options: AcrossOptions = AcrossOptions(),  # noqa: B008 - immutable
) -> tuple[Entry, AcrossReport]:
    """Move one object to another repository.

    What is uploaded to the source while this runs stays there.

    Returns:
        The entry of the source, and a report.

    Raises:
        NotFound: no such branch or source, or its bytes are missing.
        IntegrityError: the object is damaged; nothing is staged.
        LostRace: the source kept changing; it was copied.
    """
    check_branch(source.repository, source.ref)
    stager = Stager(source.repository, source.ref, kind="mv")
    with open_view(source.repository, source.ref) as view:
        view.entry(source.path)  # raises if there is none
        value = view.find(source.path)
        assert value is not None
        moved = cp_across(source, target, options=options, kind="mv")
        remove_unchanged(stager, view, source.ref, [(source.path, value)])
    return moved


def mv_tree_across(
    source: Place,
    target: Place,
    *,
    options: AcrossOptions = AcrossOptions(),  # noqa: B008 - immutable
) -> AcrossReport:
    """Move everything below a directory to another repository.

    If an object fails, the others are copied, and nothing is removed. What is uploaded below the
    source while this runs stays there.

    Raises:
        NotFound: no such branch, or nothing below the source.
        UsageError: a resulting path is too long; nothing is staged.
        LostRace: the objects kept changing; all are copied, some of them not removed.
    """
    below = as_directory(source.path)
    check_branch(source.repository, source.ref)
    stager = Stager(source.repository, source.ref, kind="mv")
    with open_view(source.repository, source.ref) as view:
        report = copy_view(view, source, target, attributes=UNCHANGED, options=options, kind="mv")
        records = view.scan(prefix=below) if not report.failures else iter(())
        while batch := list(islice(records, BATCH)):
            remove_unchanged(stager, view, source.ref, batch)
    return report

"""Replace the metadata or the content type of objects; no data is read or copied."""

from __future__ import annotations

from collections.abc import Iterable

from lakecli.committed.values import is_same
from lakecli.repository.contract import Repository
from lakecli.repository.guard.claims import claim_values
from lakecli.repository.reading.view import check_branch, no_such_path, open_view
from lakecli.repository.staged.stager import MAX_ATTEMPTS, Attributes, Seen, Stager, kept_changing


def update_metadata(
    repository: Repository, branch: str, paths: Iterable[bytes], attributes: Attributes
) -> None:
    """Stage objects with other attributes, all of them or none; the same ones change nothing.

    Raises:
        NotFound: no such branch or object.
        Gone: an object is no longer in the bucket.
        LostRace: the objects kept changing.
    """
    check_branch(repository, branch)
    ordered = sorted(set(paths))
    stager = Stager(repository, branch, kind="update-metadata")
    for _ in range(MAX_ATTEMPTS):
        with open_view(repository, branch) as view:
            changes = []
            for path in ordered:
                value = view.find(path)
                if value is None:
                    raise no_such_path(repository, branch, path)
                changed = attributes.apply(value)
                if not is_same(value, changed):
                    changes.append((path, changed))
            seen = Seen.of(view, branch, ordered)
        claimed = claim_values(repository, changes)
        if not claimed or stager.write_unless_changed([(branch, claimed)], seen):
            return
    raise kept_changing(repository, branch)

"""Show one object."""

from lakecli.base.model import Entry
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import open_view


def stat(repository: Repository, ref: str, path: bytes) -> Entry:
    """Return the entry at a path; a plain branch includes its staged changes.

    Raises:
        NotFound: no such ref or path.
    """
    with open_view(repository, ref) as view:
        return view.entry(path)

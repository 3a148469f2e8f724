"""When a listing finds so much less than before that it is done twice.

A store or a file system that fails to list something says nothing about it. What would be deleted
because it is not listed is therefore listed again, if more than a tenth is missing.
"""

from __future__ import annotations


def is_much_less(found: int, before: int) -> bool:
    """Return whether more than a tenth of what was there before was not found."""
    return found * 10 < before * 9

"""Temporary files that killed processes left in a namespace."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from lakecli.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.objectstore.base import ObjectStore

LEFT_OVER: Final = timedelta(days=1)
"""How long a temporary file is let alone although nobody holds it."""


def clear_temporaries(store: ObjectStore, *, older_than: timedelta = LEFT_OVER) -> int:
    """Remove temporary files that nobody has used for a day; return how many.

    Only directories have them: what was sent to a bucket in parts is looked after by
    `lakecli.repository.transfer.leftovers`. Whatever goes wrong is nothing to fail for.
    """
    clear: Callable[..., int] | None = getattr(store, "clear_temporaries", None)
    if clear is None:
        return 0
    try:
        return clear(older_than=older_than)
    except LakeError:
        return 0

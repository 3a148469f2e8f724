"""Who asks a store, by which credentials; what adapters can tell, and nothing secret.

An adapter that knows has a method ``access() -> Access``. It may read files and variables, and ask
a server only where the credentials come from one (single sign-on, roles of a machine).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lakecli.objectstore.base import ObjectStore

_SHOWN: Final = 4


@dataclass(frozen=True, slots=True)
class Access:
    """The credentials in use, and where they are shown.

    Attributes:
        kind: of credentials: ``access key``, ``service account``, ….
        identity: whose they are: an account, a role, the beginning of a key's name.
        source: where they were found: a variable, a profile, a file.
        endpoint: host that is asked; ``""`` for this machine.
        region: of the bucket, where the store has regions.
        expires_at: when they end, if that is known.
    """

    kind: str
    identity: str
    source: str
    endpoint: str = ""
    region: str = ""
    expires_at: datetime | None = None


def access_of(store: ObjectStore) -> Access | None:
    """Return how a store is accessed, or ``None`` where its adapter does not tell.

    Raises:
        PermissionDenied: there are no credentials, or they have ended.
        UsageError: the configuration makes no sense.
    """
    tell: Callable[[], Access] | None = getattr(store, "access", None)
    return None if tell is None else tell()


def beginning_of(name: str) -> str:
    """Return the first four letters of a key's name: enough to tell two keys apart."""
    return f"{name[:_SHOWN]}…" if len(name) > _SHOWN else "…"

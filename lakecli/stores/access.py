"""Which credentials a store is accessed with; nothing in here is secret."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from lakecli.stores.capabilities import ReportsAccess

if TYPE_CHECKING:
    from lakecli.stores.base import ObjectStore

_SHOWN: Final = 4


@dataclass(frozen=True, slots=True)
class Access:
    """The credentials in use.

    Attributes:
        kind: of credentials: ``access key``, ``service account``, ….
        identity: of an account or a role, or the beginning of a key's name.
        source: where they were found: a variable, a profile, a file.
        endpoint: host that receives the requests; ``""`` for this machine.
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
    """Return how a store is accessed, or ``None`` if it has no credentials.

    Raises:
        PermissionDenied: there are no credentials, or they have expired.
        UsageError: the configuration is invalid.
    """
    return store.access() if isinstance(store, ReportsAccess) else None


def beginning_of(name: str) -> str:
    """Return the first four letters of a key's name: enough to tell two keys apart."""
    return f"{name[:_SHOWN]}…" if len(name) > _SHOWN else "…"

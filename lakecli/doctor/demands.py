"""What a bucket demands that refuses: tried by a request, as no refusal of S3 names it.

Google names a payer or a key that it demands, and Azure an encryption scope; there the hint of the
error says which setting to change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from lakecli.base.model import YES, Demand
from lakecli.errors import LakeError
from lakecli.stores.contract import ObjectStore


class Remedy(NamedTuple):
    """A setting with which the bucket does what it refused."""

    demand: Demand
    value: str


_READING: Final = (
    Remedy(Demand.S3_PAYER, YES),
    Remedy(Demand.S3_ANONYMOUS, YES),
    Remedy(Demand.GS_ANONYMOUS, YES),
    Remedy(Demand.AZ_ANONYMOUS, YES),
)
REMEDIES: Final[Mapping[str, tuple[Remedy, ...]]] = {
    "credentials": _READING,
    "list": _READING,
    "write": (Remedy(Demand.S3_SSE, "aws:kms"), Remedy(Demand.S3_SSE, "AES256")),
}
"""What is tried if a check is refused."""


def find_remedy(
    check: str,
    scheme: str,
    reopen: Callable[[Remedy], ObjectStore],
    attempt: Callable[[ObjectStore], object],
) -> Remedy | None:
    """Return the first setting with which an attempt succeeds.

    Args:
        check: the name of the check that was refused.
        scheme: of the bucket's URI.
        reopen: opens the store with a setting.
        attempt: what was refused.
    """
    for remedy in REMEDIES.get(check, ()):
        if remedy.demand.startswith(f"{scheme}."):
            with suppress(LakeError):
                attempt(reopen(remedy))
                return remedy
    return None

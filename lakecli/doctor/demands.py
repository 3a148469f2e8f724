"""Find the setting that a bucket demands, by trying it: S3's refusals do not name it.

Google's name a payer or a key, and Azure's an encryption scope; there the hint of the error says
which setting to change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from shlex import quote
from typing import Final, NamedTuple

from lakecli.base.model import YES, Account, Demand
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


@dataclass(frozen=True, slots=True)
class Remedies:
    """What may be tried with one bucket.

    Attributes:
        reopen: opens the store with another account.
    """

    bucket: str
    account: Account
    reopen: Callable[[Account], ObjectStore]

    def find(self, check: str, attempt: Callable[[ObjectStore], object]) -> Remedy | None:
        """Return the first setting with which an attempt succeeds.

        Args:
            check: the name of the check that was refused.
        """
        for remedy in REMEDIES.get(check, ()):
            if self.bucket.startswith(f"{remedy.demand.partition('.')[0]}://"):
                demands = (*self.account.demands, (remedy.demand, self.bucket, remedy.value))
                with suppress(LakeError):
                    attempt(self.reopen(self.account._replace(demands=demands)))
                    return remedy
        return None

    def command(self, remedy: Remedy) -> str:
        """Return the command that changes a setting, and keeps its values for other buckets."""
        values = {
            place: value for name, place, value in self.account.demands if name == remedy.demand
        }
        values[self.bucket] = remedy.value
        text = " ".join(f"{place}={value}" if place else value for place, value in values.items())
        return f"`config set {remedy.demand} {quote(text)}`"

"""Find the setting that a bucket requires by trying settings, because S3's errors do not name it.

Google's errors name the missing payer or key, and Azure's errors name the encryption scope. The
hints of those errors name the setting to change, so no settings are tried.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from shlex import quote
from typing import Final, NamedTuple

from lakecli.base.model import YES, Account, Demand
from lakecli.errors import LakeError
from lakecli.stores.contract import ObjectStore


class Remedy(NamedTuple):
    """A setting that makes a bucket accept a request that it refused."""

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
"""For each check by name, the settings to try if the store refuses the check's request."""


@dataclass(frozen=True, slots=True)
class Remedies:
    """The settings that can be tried on one bucket.

    Attributes:
        account: the current settings for access to the bucket.
        reopen: a function that opens the store with other settings.
    """

    bucket: str
    account: Account
    reopen: Callable[[Account], ObjectStore]

    def find(
        self, check: str, attempt: Callable[[ObjectStore], object]
    ) -> tuple[Demand, str] | None:
        """Return the first setting with which a request succeeds, or ``None``.

        Args:
            check: the name of the check that was refused.
            attempt: a function that sends the request to a store.

        Returns:
            The setting, and the command that changes it for this bucket only.
        """
        for remedy in REMEDIES.get(check, ()):
            if self.bucket.startswith(f"{remedy.demand.partition('.')[0]}://"):
                demands = (*self.account.demands, (remedy.demand, self.bucket, remedy.value))
                with suppress(LakeError):
                    attempt(self.reopen(self.account._replace(demands=demands)))
                    return remedy.demand, self._command(remedy)
        return None

    def _command(self, remedy: Remedy) -> str:
        values = self.account.by_bucket(remedy.demand) | {self.bucket: remedy.value}
        text = " ".join(f"{place}={value}" if place else value for place, value in values.items())
        return f"`config set {remedy.demand} {quote(text)}`"

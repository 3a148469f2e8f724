"""A storage namespace that signs URLs without a server."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from lakecli.stores.presigned_urls import PresignedUrl
from tests.support.lakes import serve, through

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.repository.contract import Repository
    from lakecli.stores.contract import ObjectStore
    from lakecli.stores.presigned_urls import PresignRequest


class SigningStore:
    """A store that signs URLs for the objects of another one.

    Attributes:
        base: what URLs begin with.
        longest: how long they live at most.
        requests: what was signed, in its order.
        refuse: raised instead, where it is set.
    """

    def __init__(self, store: ObjectStore, base: str = "https://signed.example") -> None:
        self._store = store
        self.base = base
        self.longest = timedelta(days=7)
        self.requests: list[tuple[str, PresignRequest]] = []
        self.refuse: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        if self.refuse is not None:
            raise self.refuse
        self.requests.append((key, request))
        end = now.astimezone(UTC) + min(request.expires_in, self.longest)
        url = f"{self.base}/{quote(key)}?X-Signature={len(self.requests)}"
        return PresignedUrl(url, end)


def let_sign(repository: Repository) -> SigningStore:
    """Give the namespace of a repository URLs."""
    store = SigningStore(through(repository).store)
    serve(repository, cast("Any", store))
    return store

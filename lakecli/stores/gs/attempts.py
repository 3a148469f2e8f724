"""Retries of the SDK of Google Cloud Storage, limited to a number of attempts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import requests
import urllib3
from google.api_core.exceptions import GoogleAPICallError
from google.api_core.retry import Retry
from google.auth.exceptions import TransportError

from lakecli.base.retry import REQUESTS
from lakecli.stores.gs.errors import TRANSIENT_STATUS


class Attempts(Retry):
    """Repeats a request after a transient failure, a limited number of times.

    Args:
        count: of all attempts, the first included.
        may_repeat: called before each further one.
    """

    def __init__(self, count: int, *, may_repeat: Callable[[], bool] = lambda: True) -> None:
        super().__init__(
            predicate=lambda error: _is_transient(error) and may_repeat(),
            initial=REQUESTS.first_delay,
            maximum=REQUESTS.longest_delay,
            timeout=None,
        )
        self.count = count

    def __call__(
        self, func: Callable[..., Any], on_error: Callable[[Exception], Any] | None = None
    ) -> Callable[..., Any]:
        """Return `func`, repeating itself."""
        del on_error  # unused
        repeat = super().__call__

        def repeated(*arguments: object, **options: object) -> object:
            left = self.count

            def spend(error: Exception) -> None:
                nonlocal left
                left -= 1
                if left <= 0:
                    raise error
                response = getattr(error, "response", None)
                if response is not None:  # a download leaves its response open
                    response.close()

            return repeat(func, spend)(*arguments, **options)

        return repeated


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, GoogleAPICallError):
        return error.code in TRANSIENT_STATUS
    response = getattr(error, "response", None)
    if response is not None:  # what the SDK's uploads and downloads raise
        return getattr(response, "status_code", 0) in TRANSIENT_STATUS
    return isinstance(
        error,
        (
            ConnectionError,
            requests.ConnectionError,
            requests.Timeout,
            requests.exceptions.ChunkedEncodingError,
            urllib3.exceptions.HTTPError,
            TransportError,
        ),
    )

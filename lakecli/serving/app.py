"""The application: refuses strangers, and gives each request to the surface that answers it.

- signed as AWS signs requests: `s3`
- below ``/api/v1`` and ``/_health``: `api`
- ``/`` for a browser, and below ``/-/``: `page`

Everything else gets the error that S3 gives to unsigned requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.serving.context import Context, Options

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["Context", "Options", "make_app"]


def make_app(context: Context) -> ASGIApp:
    """Return the application, with the surfaces that the context serves."""
    raise NotImplementedError

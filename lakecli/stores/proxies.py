"""Connections of `urllib3` by the proxy that the environment names, which `urllib3` ignores."""

from __future__ import annotations

from ssl import SSLContext
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import PoolManager, ProxyManager, make_headers


def proxy_of(url: str) -> str:
    """Return the URL of the proxy for requests to a server, as the SDKs find it, or ``""``."""
    parts = urlsplit(url)
    return "" if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme, "")


def open_connections(proxy: str, context: SSLContext | None = None, **options: Any) -> PoolManager:  # noqa: ANN401 - those of urllib3
    """Return connections to servers, by a proxy unless it is ``""``.

    Args:
        proxy: see `proxy_of`.
        context: the certificates to trust, also of the proxy; ``None``: those of the system.
        options: of `urllib3.PoolManager`.
    """
    options["ssl_context"] = context
    if not proxy:
        return PoolManager(**options)
    user = unquote(urlsplit(proxy).netloc.rpartition("@")[0])
    headers = make_headers(proxy_basic_auth=user) if ":" in user else None
    return ProxyManager(proxy, proxy_headers=headers, proxy_ssl_context=context, **options)

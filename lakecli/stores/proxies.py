"""Finds the proxy that the environment names, and opens `urllib3` connections through it.

`urllib3` itself ignores the proxy variables of the environment.
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

if TYPE_CHECKING:
    from urllib3 import PoolManager

    from lakecli.stores.answer_limits import AnswerLimits


def proxy_of(url: str) -> str:
    """Return the URL of the proxy for requests to a server, as the SDKs choose it, or ``""``."""
    parts = urlsplit(url)
    return "" if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme, "")


def open_connections(
    proxy: str,
    limits: "AnswerLimits",
    **options: Any,  # noqa: ANN401 - those of urllib3
) -> "PoolManager":
    """Return pools of connections to servers, through a proxy unless `proxy` is ``""``.

    Args:
        proxy: URL of a proxy, as `proxy_of` returns it.
    """
    from urllib3 import PoolManager, ProxyManager, Timeout, make_headers

    from lakecli.stores.answer_limits import bounded_pools

    options["timeout"] = Timeout(*limits.timeouts)
    if proxy:
        user = unquote(urlsplit(proxy).netloc.rpartition("@")[0])
        headers = make_headers(proxy_basic_auth=user) if ":" in user else None
        made: PoolManager = ProxyManager(proxy, proxy_headers=headers, **options)
    else:
        made = PoolManager(**options)
    made.pool_classes_by_scheme = bounded_pools(made.pool_classes_by_scheme, limits)
    return made

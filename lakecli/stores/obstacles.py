"""Recognises errors about a certificate or a proxy that prevents all requests to a server.

Repeating the command does not help. Such an error is recognised by the causes of an SDK's error,
whose classes are compared by name, so that no library has to be imported.
"""

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from lakecli.errors import LakeError, Unreachable, UsageError

_NO_BUNDLE = re.compile("TLS CA certificate bundle, invalid path|NO_CERTIFICATE_OR_CRL_FOUND")
_BAD_PROXY = re.compile("check proxy URL|dependencies for SOCKS")
_OF_PROXIES = frozenset({"ProxyError", "ProxyConnectionError"})
_FOR_PROXIES = "correct or unset HTTPS_PROXY and HTTP_PROXY; NO_PROXY names hosts that need none"


def obstacle_of(
    error: BaseException, server: Callable[[], str], *, bundle: str = "REQUESTS_CA_BUNDLE"
) -> LakeError | None:
    """Return the error for a connection that a certificate or a proxy prevented, or ``None``.

    Args:
        server: a function that returns the name of the unreachable server; called if the error does
            not name it.
        bundle: the variable that names the file of trusted certificates.
    """
    chain = list(causes_of(error))
    if any(base.__name__ in _OF_PROXIES for each in chain for base in type(each).__mro__):
        text = f"the proxy{_proxy_in(chain)} does not connect to {server()}: {_said(chain)}"
        return Unreachable(text, hint=_FOR_PROXIES)
    if any(_BAD_PROXY.search(str(each)) for each in chain):
        return UsageError("the proxy is not http://HOST[:PORT]", hint=_FOR_PROXIES)
    if any(getattr(each, "reason", None) == "WRONG_VERSION_NUMBER" for each in chain):
        return Unreachable(
            f"{server()} does not speak TLS", hint="use http:// in its URL, or another port"
        )
    if any(_NO_BUNDLE.search(str(each)) for each in chain):
        return UsageError(
            "the file of trusted certificates cannot be read", hint=f"correct or unset {bundle}"
        )
    untrusted = next(filter(None, (getattr(each, "verify_message", "") for each in chain)), "")
    if not untrusted:
        return None
    return Unreachable(
        f"the certificate of {_server_in(chain) or server()} is not trusted: {untrusted}",
        hint=f"set {bundle} to the file with the certificates of your authorities, or correct the "
        "endpoint, or the clock of this machine",
    )


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all its causes, as Python and the libraries record them."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        found = waiting.pop(0)
        if isinstance(found, BaseException) and id(found) not in seen:
            seen.add(id(found))
            yield found
            waiting += [found.__cause__, found.__context__, *found.args]
            waiting += [getattr(found, name, None) for name in ("reason", "inner_exception")]
            waiting.append(getattr(found, "kwargs", {}).get("error"))


def _said(chain: list[BaseException]) -> str:
    """Return the operating system's message in the last cause; other causes may contain URLs."""
    for each in reversed(chain):
        if isinstance(each, OSError) and type(each).__module__ in {"builtins", "socket", "ssl"}:
            return str(each.strerror or each).partition(" (_ssl.c")[0]
    return "the connection failed"


def _server_in(chain: list[BaseException]) -> str:
    """Return the host and port of the failed connection (store or login server), or ``""``."""
    pools = (getattr(each, "pool", None) for each in chain)
    return next((f"{pool.host}:{pool.port}" for pool in pools if pool is not None), "")


def _proxy_in(chain: list[BaseException]) -> str:
    """Return the host and the port of the proxy, without user name and password, or ``""``."""
    for each in chain:
        pool = getattr(each, "pool", None)
        url = getattr(each, "kwargs", {}).get("proxy_url") or getattr(pool, "proxy", None)
        if url:
            return " " + urlsplit(str(url)).netloc.rpartition("@")[2]
    return ""

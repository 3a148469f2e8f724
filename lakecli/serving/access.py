"""Who may use the endpoint: its key pair, and the sessions of browsers.

Programs sign each request with the key pair, or send it by HTTP's basic authentication. A browser
gets a link with a token that works once, and from then on a session. Comparisons take constant
time, so that their duration reveals nothing about a secret.
"""

import base64
from hmac import compare_digest
from secrets import token_hex, token_urlsafe
from threading import Lock
from typing import Final

MOST_SESSIONS: Final = 64
"""The maximum number of browser sessions; when it is reached, a new session ends the oldest."""

COOKIE: Final = "lakecli_session"
"""The name of the session cookie, which is set with ``HttpOnly`` and ``SameSite=Strict``."""


class EndpointAccess:
    """The key pair of an endpoint, and its sessions. Safe to share between threads.

    Attributes:
        access_key: the public half of the key pair.
        secret: the secret half of the key pair.
    """

    def __init__(self, access_key: str, secret: str) -> None:
        self.access_key = access_key
        self.secret = secret
        self._lock = Lock()
        self._token = ""
        self._sessions: list[str] = []

    def secret_of(self, access_key: str) -> str | None:
        """Return the secret of an access key, or ``None`` if the key is unknown."""
        return self.secret if _is_equal(access_key, self.access_key) else None

    def allows_basic(self, authorization: str) -> bool:
        """Return whether the value of an ``Authorization: Basic …`` header has the key pair."""
        scheme, _, encoded = authorization.partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
        except ValueError:  # no base64, or no UTF-8
            return False
        name, _, secret = text.partition(":")
        is_key = _is_equal(name, self.access_key)
        return _is_equal(secret, self.secret) and is_key

    def new_link_token(self) -> str:
        """Return a new token that can begin one session; the previous token stops working."""
        with self._lock:
            self._token = token_urlsafe()
            return self._token

    def begin_session(self, token: str) -> str | None:
        """Begin a session with a link token; return the cookie's value, or ``None`` if refused.

        The token does not work a second time.
        """
        with self._lock:
            if not self._token or not _is_equal(token, self._token):
                return None
            self._token = ""
            session = token_urlsafe()
            self._sessions = [*self._sessions, session][-MOST_SESSIONS:]
            return session

    def allows_session(self, cookie: str | None) -> bool:
        """Return whether the value of a cookie belongs to a session."""
        if not cookie:
            return False
        found = [_is_equal(cookie, each) for each in list(self._sessions)]
        return any(found)


def new_key_pair() -> tuple[str, str]:
    """Return a random access key and secret; both consist of letters and digits only."""
    return f"LAKECLI{token_hex(7)[:13].upper()}", token_hex(20)


def _is_equal(left: str, right: str) -> bool:
    # `compare_digest` refuses text that is not ASCII.
    return compare_digest(left.encode("utf-8", "replace"), right.encode("utf-8", "replace"))

"""The key of this machine that signs URLs, found before anything is loaded that makes them."""

from __future__ import annotations

from lakecli.objectstore.uri import parse
from lakecli.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from lakecli.objectstore.rsa import PrivateKey


def signing_key(namespace: str) -> PrivateKey | None:
    """Return the key that signs the URLs of a storage namespace, most likely.

    Returns:
        ``None`` if they are signed otherwise: with a secret, or by Google's IAM.
    """
    if parse(namespace).scheme != "gs":
        return None
    from lakecli.objectstore.gs.key_file import key_of_this_machine

    account = key_of_this_machine()
    return None if account is None else account.key

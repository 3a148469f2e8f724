"""The key of a service account, read from its file without the SDK, which takes 170 ms to load."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.parsing import Unparsable, parse_json
from lakecli.base.validation import Invalid, Record, text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

VARIABLE: Final = "GOOGLE_APPLICATION_CREDENTIALS"

_MAX_SIZE: Final = 1 << 20
_PEM: Final = "-----BEGIN "
_FILE: Final = Record(
    {
        "type": text(64),
        "client_email": text(1_024),
        "token_uri": text(4_096),
        "private_key": text(64 << 10),
    }
)


class PrivateKey:
    """An RSA key, loaded when it first signs. Its text is never shown, and threads may share it.

    Args:
        pem: the key as PEM, not encrypted.
    """

    def __init__(self, pem: str) -> None:
        self._pem = pem

    @cached_property
    def _key(self) -> RSAPrivateKey:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(self._pem.encode(), None)
        except (TypeError, UnsupportedAlgorithm) as error:
            raise ValueError("a damaged key, or one with a password") from error
        if not isinstance(key, RSAPrivateKey):
            raise ValueError("not an RSA key")  # noqa: TRY004 - it comes from a file
        return key

    def sign(self, text: bytes) -> bytes:
        """Return the signature of a text, by PKCS #1 v1.5 and SHA-256.

        Raises:
            ValueError: not an RSA key, or a damaged one.
        """
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.hashes import SHA256

        return self._key.sign(text, PKCS1v15(), SHA256())


class ServiceKey(NamedTuple):
    """A service account that signs with a key of this machine.

    Attributes:
        email: of the account.
        domain: of the cloud that it belongs to; ``""``: Google's own.
        key: its private key.
    """

    email: str
    domain: str
    key: PrivateKey


def key_of_this_machine() -> ServiceKey | None:
    """Return the key in the file that the environment names; ``None`` as `read_key` does."""
    name = os.environ.get(VARIABLE, "")
    return read_key(name) if name else None


def read_key(name: str) -> ServiceKey | None:
    """Return the key in a file.

    Returns:
        ``None`` if there is anything else, or no such file; the SDK then uses it, or says why not.
    """
    try:
        with open(name, encoding="utf-8") as file:  # noqa: PTH123 - as given
            fields = parse_json(file.read(_MAX_SIZE + 1), max_size=_MAX_SIZE)
        found = _FILE.read(fields)
    except (OSError, UnicodeDecodeError, Unparsable, Invalid):
        return None
    domain = fields.get("universe_domain", "")
    if found["type"] != "service_account" or not isinstance(domain, str):
        return None
    if not found["private_key"].startswith(_PEM):
        return None
    return ServiceKey(found["client_email"], domain, PrivateKey(found["private_key"]))

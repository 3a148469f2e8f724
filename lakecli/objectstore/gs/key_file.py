"""The key of a service account, read from its file without the SDK, which takes 170 ms to load.

Nor does it load what makes URLs, since processes that sign are started before that.
"""

from __future__ import annotations

import os

from lakecli.named_tuple import NamedTuple
from lakecli.objectstore.rsa import PrivateKey
from lakecli.parsing import Unparsable, parse_json
from lakecli.typed import Final
from lakecli.validation import Invalid, Record, text

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

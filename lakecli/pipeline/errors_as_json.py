"""Errors of lakecli as JSON, for the way from an executor to the driver.

An error is data on its way: the name of its class, looked up among the classes of lakecli that
this process has loaded, a message, a hint and paths. Nothing is imported, called or built because
a text says so. Where no result can carry an error, the text of an exception does, behind a marker
with a nonce of the job: Spark quotes rows in its errors, and rows are anybody's.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from lakecli import errors
from lakecli.errors import ErrorKind, LakeError

MAX_TEXT: Final = 8_192
"""Characters of a message or a hint that travel."""

MAX_PATHS: Final = 1_000
"""Paths that travel."""

MAX_SIZE: Final = 8 << 20
"""Characters of JSON that are read; a longer text is not an error that was sent."""

_FAMILIES: Final[dict[str, type[LakeError]]] = {
    found.kind: found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, LakeError) and "kind" in vars(found)
}


def new_nonce() -> str:
    """Return a marker that only the executors of one job know."""
    return secrets.token_hex(16)


def dump_error(error: LakeError) -> str:
    """Return an error as JSON of bounded size."""
    paths = [os.fsdecode(path) for path in error.paths[:MAX_PATHS]]
    return json.dumps(
        {
            "class": _name(type(error)),
            "kind": error.kind,
            "message": error.message[:MAX_TEXT],
            "hint": error.hint[:MAX_TEXT] if error.hint else None,
            "paths": [path[:MAX_TEXT] for path in paths],
        }
    )


def load_error(text: str) -> LakeError | None:
    """Return the error that JSON describes; ``None`` for anything else.

    A class that this process does not know becomes its family.
    """
    if len(text) > MAX_SIZE:
        return None
    try:
        record = json.loads(text)
        message, hint, paths = record["message"], record["hint"], record["paths"]
        names = [os.fsencode(path) for path in paths]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    family = _FAMILIES.get(str(record.get("kind")), LakeError)
    found = _members().get(str(record.get("class")), family)
    sound = isinstance(message, str) and isinstance(hint, str | None) and isinstance(paths, list)
    if not sound or found.kind != family.kind:
        return None
    # Members take arguments of their own: they are filled in as `LakeError` is.
    error = found.__new__(found)
    LakeError.__init__(error, message, hint=hint, paths=names)
    return error


def carried(error: LakeError, nonce: str) -> Exception:
    """Return an exception whose text brings an error through Spark, where no result can."""
    packed = urlsafe_b64encode(dump_error(error).encode()).decode()
    return RuntimeError(f"lakecli:{nonce}:{packed}:")


def find_carried(text: str, nonce: str) -> LakeError | None:
    """Return the error that `carried` put into a text with this nonce, if there is one."""
    if not nonce:
        return None
    found = re.search(rf"lakecli:{re.escape(nonce)}:([A-Za-z0-9_-]+=*):", text)
    if found is None or len(found[1]) > 2 * MAX_SIZE:
        return None
    try:
        return load_error(urlsafe_b64decode(found[1]).decode())
    except ValueError:
        return None


def _name(kind: type[LakeError]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _members() -> dict[str, type[LakeError]]:
    """Return the classes of errors that lakecli's own modules declare, as far as loaded."""
    found: dict[str, type[LakeError]] = {}
    waiting: list[type[LakeError]] = [LakeError]
    while waiting:
        kind = waiting.pop()
        if kind.__module__.startswith("lakecli."):
            found[_name(kind)] = kind
        waiting += kind.__subclasses__()
    return found


assert set(_FAMILIES) == set(ErrorKind)

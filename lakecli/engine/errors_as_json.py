"""lakecli's errors as JSON, sent from an executor to the driver.

The JSON has the name of the error's class, a message, a hint and paths. The class is looked up
among the lakecli classes that this process has loaded. A name in the JSON never causes an import or
a call. If a task cannot return an error as its result, it raises an exception whose text has the
JSON after a marker with the job's nonce. The nonce is needed because Spark quotes rows in its
errors, and rows are untrusted.
"""

import json
import os
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lakecli import errors
from lakecli.errors import ErrorKind, LakeError

MAX_TEXT: Final = 8_192
"""Maximum number of characters sent of a message, a hint or a path."""

MAX_PATHS: Final = 1_000
"""Maximum number of paths sent with an error."""

MAX_SIZE: Final = 8 << 20
"""Maximum number of characters of an error's JSON; longer texts are not parsed."""

_FAMILIES: Final[dict[str, type[LakeError]]] = {
    found.kind: found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, LakeError) and "kind" in vars(found)
}


def new_nonce() -> str:
    """Return a random marker that only the executors of one job know."""
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
    """Return the error that a JSON text describes; ``None`` if it does not describe an error.

    If this process does not know the error's class, the result has the base class of its kind.
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
    # Subclasses have constructors with other arguments, so `LakeError` is initialised directly.
    error = found.__new__(found)
    LakeError.__init__(error, message, hint=hint, paths=names)
    return error


def carried(error: LakeError, nonce: str) -> Exception:
    """Return an exception whose text has an error as JSON, so that Spark sends it to the driver."""
    packed = urlsafe_b64encode(dump_error(error).encode()).decode()
    return RuntimeError(f"lakecli:{nonce}:{packed}:")


@contextmanager
def carrying_errors(nonce: str) -> Iterator[None]:
    """Replace a `LakeError` raised in a block by an exception that Spark sends to the driver.

    The driver finds the error with `find_carried`.
    """
    try:
        yield
    except LakeError as error:
        raise carried(error, nonce) from error


def find_carried(text: str, nonce: str) -> LakeError | None:
    """Return the error that `carried` put into a text with this nonce, or ``None``."""
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
    """Return the error classes of all loaded lakecli modules, by the name of module and class."""
    found: dict[str, type[LakeError]] = {}
    waiting: list[type[LakeError]] = [LakeError]
    while waiting:
        kind = waiting.pop()
        if kind.__module__.startswith("lakecli."):
            found[_name(kind)] = kind
        waiting += kind.__subclasses__()
    return found


assert set(_FAMILIES) == set(ErrorKind)

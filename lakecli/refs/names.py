"""The names that branches and tags may have.

A name must be usable in ref expressions, in a URI (so it has no ``/``), and as one object key. In
the key, ``[a-z0-9._-]`` are written as they are and every other byte takes three characters. For a
name that is not allowed, `UsageError` is raised; its hint has the rule.
"""

from collections.abc import Iterator

from lakecli.base.model import RefKind
from lakecli.errors import UsageError

MAX_KEY_SIZE = 255
"""Maximum size of an escaped name in a key, in bytes: the limit of file names."""

_LOWER = "abcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"
_HEX_DIGITS = _DIGITS + "abcdefABCDEF"
_FIRST_IN_BRANCHES = frozenset(_LOWER + _LOWER.upper() + _DIGITS + "_")
_LATER_IN_BRANCHES = _FIRST_IN_BRANCHES | frozenset("-:")
_LITERAL_IN_KEYS = (_LOWER + _DIGITS + "._-").encode()
_ID_SIZE = 64
_GRAMMAR_MARKS = "~^@$"
_RESERVED_IN_TAGS = "/?*[\\"

_MARKS_HINT = (
    f"a tag has no {' '.join(_GRAMMAR_MARKS)}: v1~1, v1^2, v1@ and v1$ are ref expressions"
)
_BRANCH_HINT = "letters, digits, '_', '-' and ':' of ASCII, starting with a letter, a digit or '_'"


def is_full_commit_id(text: str) -> bool:
    """Return whether `text` is 64 hex digits of either case; such a text always means a commit."""
    return len(text) == _ID_SIZE and is_commit_prefix(text)


def is_commit_prefix(text: str) -> bool:
    """Return whether `text` can be the beginning of a commit ID, in either case."""
    return 0 < len(text) <= _ID_SIZE and not text.strip(_HEX_DIGITS)


def is_branch_name(text: str) -> bool:
    """Return whether a branch may be called `text`."""
    return next(_branch_faults(text), None) is None


def is_tag_name(text: str) -> bool:
    """Return whether a tag may be called `text`."""
    return next(_tag_faults(text), None) is None


def is_ref_name(kind: RefKind, text: str) -> bool:
    """Return whether a branch or a tag may be called `text`."""
    return is_branch_name(text) if kind is RefKind.BRANCH else is_tag_name(text)


def check_branch_name(name: str) -> None:
    r"""Raise `UsageError` unless a branch may have this name: ``\w[-\w:]*`` in ASCII.

    64 hex digits are refused too: in a ref expression they always mean a commit.
    """
    for fault, hint in _branch_faults(name):
        raise UsageError(f"illegal branch name {name!r}: {fault}", hint=hint)


def check_tag_name(name: str) -> None:
    r"""Raise `UsageError` unless a tag may have this name.

    The rules are Git's as lakeFS applies them, with ``:`` allowed: not empty, no ``/``, ``?``,
    ``*``, ``[``, ``\`` or ``..``, no white space or control characters, no ``.`` or ``.lock`` at
    the end. In addition, ``~``, ``^``, ``@`` and ``$`` are refused. lakeFS accepts most of these
    characters in a tag, but they have a meaning in its ref expressions, so no expression could name
    such a tag. 64 hex digits are refused for the same reason: they always mean a commit.
    """
    for fault, hint in _tag_faults(name):
        raise UsageError(f"illegal tag name {name!r}: {fault}", hint=hint)


def _branch_faults(name: str) -> Iterator[tuple[str, str]]:
    """Yield each fault of a branch name, with the violated rule."""
    if not name:
        yield "it is empty", _BRANCH_HINT
    for position, char in enumerate(name):
        if char not in (_LATER_IN_BRANCHES if position else _FIRST_IN_BRANCHES):
            yield f"{char!r} cannot {'be in it' if position else 'start it'}", _BRANCH_HINT
    yield from _common_faults(name)


def _tag_faults(name: str) -> Iterator[tuple[str, str]]:
    """Yield each fault of a tag name, with the violated rule."""
    if not name:
        yield "it is empty", "a tag has at least one character"
    for char in name:
        if char in _GRAMMAR_MARKS:
            yield f"{char!r} is a mark of ref expressions", _MARKS_HINT
        elif char in _RESERVED_IN_TAGS:
            yield f"{char!r} cannot be in it", f"no {' '.join(_RESERVED_IN_TAGS)} in a tag"
        elif _is_unprintable(char):
            rule = "no white space, control characters or undecodable bytes in a tag"
            yield f"{char!r} cannot be in it", rule
    if ".." in name:
        yield "'..' cannot be in it", "single dots only, and none at the end"
    for end in (".", ".lock"):
        if name.endswith(end):
            yield f"it ends with {end!r}", "no '.' or '.lock' at the end of a tag"
    yield from _common_faults(name)


def _common_faults(name: str) -> Iterator[tuple[str, str]]:
    if is_full_commit_id(name):
        yield "64 hex digits always mean a commit", "use fewer or other characters"
    data = name.encode("utf-8", "surrogatepass")  # only for its size
    key_size = len(data) + 2 * len(data.translate(None, _LITERAL_IN_KEYS))
    if key_size > MAX_KEY_SIZE:
        yield (
            f"it is too long: {key_size} bytes as a key of the bucket",
            f"at most {MAX_KEY_SIZE}; every byte other than a-z, 0-9, '.', '_' and '-' takes 3",
        )


def _is_unprintable(char: str) -> bool:
    """Return whether a character is white space, a control character or a surrogate.

    The result does not depend on the version of Unicode.
    """
    return char.isspace() or char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff"

"""Put the code of a mutant into functions of a module that is imported already.

That is possible where a mutant differs inside functions and methods only. Whatever a module runs
when it is imported (constants, defaults of parameters, fields of classes) needs a new import.
"""

from __future__ import annotations

import gc
from inspect import CO_OPTIMIZED
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Key = tuple[str, int]
"""The qualified name of a function, and its first line."""


def replacements(path: str, before: str, after: str) -> dict[Key, CodeType] | None:
    """Return the code of the functions that differ; ``None`` if anything outside them does.

    Raises:
        SyntaxError: one of the texts is not Python.
    """
    old, new = (compile(text, path, "exec", dont_inherit=True) for text in (before, after))
    found = list(_pairs(old, new))
    if any(pair is None for pair in found):
        return None
    return {_key(mine): theirs for mine, theirs in filter(None, found) if mine != theirs}


def loaded_functions(directory: str) -> dict[str, list[FunctionType]]:
    """Return the functions that are loaded from files below a directory, by file."""
    found: dict[str, list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename.startswith(directory):
            found.setdefault(each.__code__.co_filename, []).append(each)
    return found


def put_in(functions: list[FunctionType], codes: dict[Key, CodeType]) -> None:
    """Replace the code of those of the functions that differ."""
    missing = set(codes)
    for each in functions:
        code = codes.get(_key(each.__code__))
        if code is not None and code.co_freevars == each.__code__.co_freevars:
            missing.discard(_key(each.__code__))
            each.__code__ = code
    missing = {each for each in missing if "<locals>" not in each[0]}
    assert not missing, f"not loaded: {missing}"


def _key(code: CodeType) -> Key:
    return code.co_qualname, code.co_firstlineno


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType] | None]:
    """Yield the functions of two bodies side by side; ``None`` where the bodies differ.

    Functions inside functions come as well: those that an import has made are there to stay.
    """
    same = old.co_code == new.co_code and old.co_names == new.co_names
    if not same or len(old.co_consts) != len(new.co_consts):
        yield None
        return
    for mine, theirs in zip(old.co_consts, new.co_consts, strict=True):
        if not isinstance(mine, CodeType) or not isinstance(theirs, CodeType):
            if (type(mine), mine) != (type(theirs), theirs):
                yield None
        elif mine.co_flags & CO_OPTIMIZED:
            yield mine, theirs
            yield from _inner_pairs(mine, theirs)
        else:  # the body of a class
            yield from _pairs(mine, theirs)


def _inner_pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    mine, theirs = (
        [each for each in code.co_consts if isinstance(each, CodeType)] for code in (old, new)
    )
    if len(mine) == len(theirs):
        for pair in zip(mine, theirs, strict=True):
            yield pair
            yield from _inner_pairs(*pair)

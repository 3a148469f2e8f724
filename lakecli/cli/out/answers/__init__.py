"""The JSON answers of commands: one class for each kind of object, with the meaning of its fields.

::

    history      commits, branches and tags
    changes      differences, annotations, and searches for a commit
    sharing      clone, fetch, push and pull
    objects      objects, and moving them in and out; plans: dry runs of that
    handoff      presigned URLs
    checks       fsck and doctor
    operations   the operation log
    collection   garbage collection
    program      settings, completion, plugins, quickstart, version
    worktree     working directories

`lakecli.cli.out.schemas` derives the documentation of the fields from these classes, and mypy
compares them with what the commands answer. A class named ``ListedBranch`` is documented as "listed
branch". Fields are snake_case. Times stay datetimes and paths bytes here; `json_lines` writes them.
"""

from __future__ import annotations

from typing import TypeVar, cast

T = TypeVar("T")


def pick(answer: type[T], /, *sources: object, **given: object) -> T:
    """Return an answer whose fields are `given`, and otherwise attributes of the `sources`.

    Args:
        answer: a class of this package.
        sources: the first one that has an attribute of a field's name gives the field.
        given: fields that the sources lack or hold in another form.
    """
    picked = {}
    for name in answer.__annotations__:
        holder = next((source for source in sources if hasattr(source, name)), None)
        picked[name] = given[name] if name in given else getattr(holder, name)
    return cast("T", picked)

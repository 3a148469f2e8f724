"""Operations of the log as text and JSON: one line each in a list, or one in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from lakecli.base.model import RefKind
from lakecli.cli.out.text import age, local_date, one_line
from lakecli.kv.operations import Operation, RefChange
from lakecli.repository.undo.log import SHORT_ID
from lakecli.repository.undo.undo import Undone

COLUMNS: Final = ("Operation", "Time", "Kind", "Changes", "Command")

_SHORT_ID: Final = SHORT_ID
_SHOWN_CHANGES: Final = 3


def operation_record(operation: Operation, *, undone: bool) -> dict[str, object]:
    """Return the JSON answer about an operation."""
    return {
        "id": operation.id.hex(),
        "at": operation.at,
        "kind": operation.kind,
        "command": operation.command,
        "refs": _records(operation.refs),
        "staged": sorted({change.branch for change in operation.staging}),
        "undone": undone,
        "metadata": dict(operation.metadata),
    }


def position(change: RefChange, fields: Mapping[str, Any] | None) -> str | None:
    """Return the commit ID of a ref, or the UUID of a repository; ``None`` if it did not exist."""
    if fields is None:
        return None
    return str(fields["uuid" if change.kind is RefKind.REPOSITORY else "commit_id"])


def operation_row(
    operation: Operation, *, undone: bool, now: datetime | None = None
) -> tuple[str, ...]:
    """Return the cells of an operation for `COLUMNS`.

    With the present, the row is for people: it tells the age in place of the time.
    """
    return (
        operation.id.hex()[:_SHORT_ID],
        local_date(operation.at) if now is None else age(operation.at, now),
        operation.kind + (" (undone)" if undone else ""),
        changes_line(operation),
        one_line(operation.command),
    )


def changes_line(operation: Operation) -> str:
    """Return the changes of an operation in one line."""
    said = [_change_text(change) for change in operation.refs]
    # The staging area of a working directory is where its overwritten files are kept.
    said += [
        f"{'files' if ' ' in change.branch else 'staging'} of {change.branch}"
        for change in operation.staging
    ]
    said = list(dict.fromkeys(said))
    if not said:
        ref = operation.metadata.get("ref")
        return "none here" if ref is None else f"none here ({one_line(ref)})"
    more = len(said) - _SHOWN_CHANGES
    return "; ".join(said[:_SHOWN_CHANGES]) + (f"; and {more} more" if more > 0 else "")


def _change_text(change: RefChange) -> str:
    before, after = position(change, change.before), position(change, change.after)
    named = f"{change.kind} {change.name}"
    if before is None or after is None:
        return f"+ {named}" if before is None else f"- {named}"
    if before == after:
        return f"staging of {change.name}"
    return f"{named} {before[:_SHORT_ID]} → {after[:_SHORT_ID]}"


def operation_lines(operation: Operation, *, undone: bool) -> Iterator[str]:
    """Yield one operation as ``op show`` prints it, without its staged paths."""
    yield f"Operation: {operation.id.hex()}"
    yield f"Time:      {local_date(operation.at)}"
    yield f"Kind:      {operation.kind}"
    if operation.command:
        yield f"Command:   {one_line(operation.command)}"
    if undone:
        yield "Undone:    yes"
    metadata = dict(operation.metadata)
    if "ref" in metadata:  # a move in the bucket
        yield f"Ref:       {metadata.pop('kind', '')} {one_line(metadata.pop('ref'))}"
        for name in ("before", "after"):
            yield f"{name.capitalize() + ':':<10} {metadata.pop(name, '') or '-'}"
    for name in sorted(metadata):
        yield f"{name.capitalize() + ':':<10} {one_line(metadata[name])}"
    for change in operation.refs:
        before, after = position(change, change.before), position(change, change.after)
        yield ""
        yield f"{change.kind.capitalize()} {change.name}"
        yield f"  before: {before or '-'}"
        yield f"  after:  {after or '-'}"
        if change.kind is RefKind.BRANCH and before == after:
            yield "  only its uncommitted changes changed"


def undone_record(done: Undone) -> dict[str, object]:
    """Return the JSON answer about an undo or redo."""
    return {
        "operation": done.operation.id.hex(),
        "kind": done.operation.kind,
        "command": done.operation.command,
        "appended": done.appended.id.hex(),
        "refs": _records(done.appended.refs),
        "staged": sorted({change.branch for change in done.appended.staging}),
        "remote": [each.name for each in done.remote],
    }


def _records(changes: Sequence[RefChange]) -> list[dict[str, object]]:
    return [
        {
            "kind": change.kind,
            "name": change.name,
            "before": position(change, change.before),
            "after": position(change, change.after),
        }
        for change in changes
    ]


def undone_lines(word: str, done: Undone) -> Iterator[str]:
    """Yield the lines about an undo or redo; `word` is "Undone" or "Redone"."""
    operation = done.operation
    yield f"{word} operation {operation.id.hex()[:_SHORT_ID]}: {operation.kind}"
    if operation.command:
        yield f"Command: {one_line(operation.command)}"
    yield f"Changed: {changes_line(done.appended)}"
    for each in done.remote:
        yield f"Moved back in the bucket: {each.kind} {each.name}"

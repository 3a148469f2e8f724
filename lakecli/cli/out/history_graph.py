"""A log as a graph: drawn in text beside one line for each commit, or for Graphviz."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lakecli.cli.out.text import cut, one_line, quote_path

if TYPE_CHECKING:
    from lakecli.base.model import Branch, Commit, CommitId, Tag
    from lakecli.refs.graph_lines import GraphLine

ID_WIDTH = 12
"""Digits of a commit ID in a drawing; enough for a ref."""

_LANES = ("red", "green", "yellow", "cyan")
"""The colours of the columns of a drawing, from the left; one branch keeps its column."""

_MOMENT = "2026-11-24 12:00"
_SHORTEST = 10
"""Characters of a subject that are shown however narrow the terminal is."""

DOT_START = ("digraph {", '\trankdir="BT"')
DOT_END = ("", "}")


class Drawn(NamedTuple):
    """A commit and its lines; lines between commits belong to the commit below."""

    commit: Commit
    text: str


def ref_names(branches: Iterable[Branch], tags: Iterable[Tag]) -> dict[CommitId, list[str]]:
    """Return the names of commits: branches by name, tags as Git shows them."""
    names: dict[CommitId, list[str]] = {}
    for branch in branches:
        names.setdefault(branch.commit_id, []).append(branch.name)
    for tag in tags:
        names.setdefault(tag.commit_id, []).append(f"tag: {tag.name}")
    return names


def draw(
    lines: Iterable[GraphLine],
    names: Mapping[CommitId, Sequence[str]],
    style: Callable[[str, str], str],
    width: int | None = None,
) -> Iterator[Drawn]:
    """Yield each commit with its part of the drawing, which ends with the last commit.

    Args:
        lines: the drawing.
        names: the names of commits, from `ref_names`.
        style: colours a text.
        width: columns that a line may take; subjects are cut. ``None``: as many as it needs.
    """
    between: list[str] = []
    for line in lines:
        commit = line.commit
        if commit is None:
            between.append(_in_colours(line.drawing, style))
            continue
        called = names.get(commit.id, ())
        subject = one_line(commit.message.partition("\n")[0])
        if width is not None:
            used = len(line.drawing) + ID_WIDTH + len(_MOMENT) + 3
            used += sum(len(quote_path(name)) + 2 for name in called) + 1 if called else 0
            subject = cut(subject, max(_SHORTEST, width - used))
        parts = [
            _in_colours(line.drawing, style),
            style(commit.id[:ID_WIDTH], "yellow"),
            f"{commit.created_at.astimezone():%Y-%m-%d %H:%M}",
            style(f"({', '.join(map(quote_path, called))})", "green") if called else "",
            subject,
        ]
        yield Drawn(commit, "\n".join([*between, " ".join(filter(None, parts))]))
        between.clear()


def _in_colours(drawing: str, style: Callable[[str, str], str]) -> str:
    """Colour each column of a drawing; a column is a line and the space beside it."""
    return "".join(
        mark if mark.isspace() else style(mark, _LANES[place // 2 % len(_LANES)])
        for place, mark in enumerate(drawing)
    )


def dot_text(commit: Commit) -> str:
    """Return a commit as a node of Graphviz, and the edges to its parents."""
    from html import escape

    message = "<br/>".join(escape(one_line(line)) for line in commit.message.split("\n"))
    label = f"{commit.id[:8]}<br/> {message}"
    if len(commit.parents) > 1:
        label = f"<b>{label}</b>"
    node = f'\n\t"{commit.id}" [shape=note label=< {label} >]'
    return "\n".join([node, *(f'\t"{parent}" -> "{commit.id}";' for parent in commit.parents)])

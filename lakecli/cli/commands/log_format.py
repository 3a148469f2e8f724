"""The formats of ``log``: ``--format`` with Git's placeholders, ``--graph`` and ``--dot``.

Text from a commit is escaped, as in all output. Text of the format string itself, such as ``%x00``,
is written unchanged.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from email.utils import format_datetime
from html import escape
from typing import Final, NamedTuple

from lakecli.base.model import Commit, CommitId
from lakecli.cli.out.output import STYLES
from lakecli.cli.out.text import age, cut, harmless, local_date, one_line, quote_path, subject
from lakecli.errors import UsageError
from lakecli.refs.history import GraphLine
from lakecli.repository.branch import iter_branches
from lakecli.repository.contract import Repository
from lakecli.repository.tag import iter_tags

ID_WIDTH = 12
"""The number of digits of a commit ID that are shown; enough for a ref."""

_LANES = ("red", "green", "yellow", "cyan")
"""The colours of the columns of a graph, from the left."""

_MOMENT = "2026-11-24 12:00"
_SHORTEST = 10
"""The number of characters of a subject that are shown even if the terminal is too narrow."""

DOT_START = ("digraph {", '\trankdir="BT"')
DOT_END = ("", "}")
_NAMED: Final = {"oneline": "%C(yellow)%h%C(reset) %s", "reference": "%h (%s, %as)"}
"""Formats that have a name, as in Git's ``--pretty``."""

_TOKEN: Final = re.compile(
    r"%(?:x(?P<byte>[0-9a-fA-F]{2})|C\((?P<color>[a-z ]+)\)|C(?P<word>red|green|yellow|blue|reset)"
    r"|(?P<name>[ac][nedDrtiIs]|[HhTtPpdDsbBn%])|(?P<unknown>.{0,2}))",
    re.DOTALL,
)
_COLORS: Final = {
    **{name: STYLES[name] for name in ("red", "green", "yellow", "bold", "dim")},
    "blue": "\033[34m",
    "reset": "\033[m",
}
_PERSON: Final = re.compile(r"(.*?)\s*<([^<>]*)>\s*")


class Drawn(NamedTuple):
    """A commit with its lines in the graph, including the lines after the previous commit."""

    commit: Commit
    text: str


def ref_names(repository: Repository) -> dict[CommitId, list[str]]:
    """Return the names of branches, and of tags as ``tag: NAME``, by the commit they point to."""
    names: dict[CommitId, list[str]] = {}
    for branch in iter_branches(repository):
        names.setdefault(branch.commit_id, []).append(branch.name)
    for tag in iter_tags(repository):
        names.setdefault(tag.commit_id, []).append(f"tag: {tag.name}")
    return names


def draw(
    lines: Iterable[GraphLine],
    names: Mapping[CommitId, Sequence[str]],
    style: Callable[[str, str], str],
    width: int | None = None,
) -> Iterator[Drawn]:
    """Yield each commit with its lines in the graph; lines after the last commit are dropped.

    Args:
        names: the names of branches and tags by commit, from `ref_names`.
        width: the maximum number of columns in a line; longer subjects are cut. ``None``: no
            maximum.
    """
    between: list[str] = []
    for line in lines:
        commit = line.commit
        if commit is None:
            between.append(_in_colours(line.drawing, style))
            continue
        called = names.get(commit.id, ())
        shown = subject(commit)
        if width is not None:
            used = len(line.drawing) + ID_WIDTH + len(_MOMENT) + 3
            used += sum(len(quote_path(name)) + 2 for name in called) + 1 if called else 0
            shown = cut(shown, max(_SHORTEST, width - used))
        parts = [
            _in_colours(line.drawing, style),
            style(commit.id[:ID_WIDTH], "yellow"),
            f"{commit.created_at.astimezone():%Y-%m-%d %H:%M}",
            style(f"({', '.join(map(quote_path, called))})", "green") if called else "",
            shown,
        ]
        yield Drawn(commit, "\n".join([*between, " ".join(filter(None, parts))]))
        between.clear()


def _in_colours(drawing: str, style: Callable[[str, str], str]) -> str:
    """Color each column of the graph; a column is two characters wide: a line and a space."""
    return "".join(
        mark if mark.isspace() else style(mark, _LANES[place // 2 % len(_LANES)])
        for place, mark in enumerate(drawing)
    )


def dot_text(commit: Commit) -> str:
    """Return the Graphviz node of a commit, and the edges to its parents."""
    message = "<br/>".join(escape(one_line(line)) for line in commit.message.split("\n"))
    label = f"{commit.id[:8]}<br/> {message}"
    if len(commit.parents) > 1:
        label = f"<b>{label}</b>"
    node = f'\n\t"{commit.id}" [shape=note label=< {label} >]'
    return "\n".join([node, *(f'\t"{parent}" -> "{commit.id}";' for parent in commit.parents)])


class Surroundings(NamedTuple):
    """The data that a format needs in addition to the commit.

    Attributes:
        now: the current time, for ages such as ``3 hours ago``.
        names: the names of branches and tags by commit, from `ref_names`.
        is_colored: whether colors are written.
    """

    now: datetime
    names: Mapping[CommitId, Sequence[str]]
    is_colored: bool


def needs_names(text: str) -> bool:
    """Return whether a format shows branches and tags."""
    return any(found["name"] in {"d", "D"} for found in _TOKEN.finditer(text))


def compile_format(text: str) -> Callable[[Commit, Surroundings], str]:
    """Return the function that formats a commit; the result ends with a newline.

    Raises:
        UsageError: the format has a placeholder that is not supported.
    """
    text = _NAMED.get(text) or re.sub(r"\At?format:", "", text)
    for found in _TOKEN.finditer(text):
        if not _is_known(found):
            raise UsageError(
                f"unknown placeholder {found[0]!r} in --format",
                hint="those of Git that are known: %H %h %T %t %P %p %an %ae %ad %aD %aI %ai %as "
                "%at %ar (also with c for a), %d %D %s %b %B %n %% %x00 %C(yellow)",
            )

    def line(commit: Commit, around: Surroundings) -> str:
        return _TOKEN.sub(lambda found: _shown(found, commit, around), text) + "\n"

    return line


def _is_known(found: re.Match[str]) -> bool:
    if found["byte"] is not None:
        return int(found["byte"], 16) < 0x80  # noqa: PLR2004 - beyond it, one character is several bytes
    return found["unknown"] is None and all(word in _COLORS for word in _colors_of(found))


def _colors_of(found: re.Match[str]) -> list[str]:
    return (found["color"] or found["word"] or "").split()


def _shown(found: re.Match[str], commit: Commit, around: Surroundings) -> str:
    """Return the text of a placeholder for a commit."""
    if found["byte"] is not None:
        return chr(int(found["byte"], 16))
    if found["name"] is not None:
        return _value(found["name"], commit, around)
    return "".join(_COLORS[word] for word in _colors_of(found)) if around.is_colored else ""


def _value(name: str, commit: Commit, around: Surroundings) -> str:
    if name in _FIELDS:
        return _FIELDS[name](commit)
    if name in {"d", "D"}:
        names = ", ".join(map(quote_path, around.names.get(commit.id, ())))
        return f" ({names})" if names and name == "d" else names
    if name[1] in "ne":
        person = _PERSON.fullmatch(commit.committer)
        return one_line(commit.committer if person is None else person[1 if name[1] == "n" else 2])
    if name[1] == "r":
        return _age(commit.created_at, around.now)
    return _DATES[name[1]](commit.created_at.astimezone())


def _split(message: str) -> tuple[str, str]:
    """Return the subject of a message (its first paragraph), and the rest of the message."""
    subject, *rest = re.split(r"\n[ \t]*\n+", message.lstrip("\n"), maxsplit=1)
    return subject.rstrip("\n"), "".join(rest)


def _age(when: datetime, now: datetime) -> str:
    if int((now - when).total_seconds()) < 0:
        return "in the future"
    return age(when, now).replace("just now", "0 seconds ago")


_FIELDS: Final[Mapping[str, Callable[[Commit], str]]] = {
    "H": lambda commit: commit.id,
    "h": lambda commit: commit.id[:ID_WIDTH],
    "T": lambda commit: commit.metarange_id,
    "t": lambda commit: commit.metarange_id[:ID_WIDTH],
    "P": lambda commit: " ".join(commit.parents),
    "p": lambda commit: " ".join(parent[:ID_WIDTH] for parent in commit.parents),
    "s": lambda commit: one_line(" ".join(_split(commit.message)[0].split("\n"))),
    "b": lambda commit: harmless(_split(commit.message)[1]),
    "B": lambda commit: harmless(commit.message),
    "n": lambda _commit: "\n",
    "%": lambda _commit: "%",
}

_DATES: Final[Mapping[str, Callable[[datetime], str]]] = {
    "d": local_date,
    # As in e-mails, but, as in Git, without a leading zero in the day.
    "D": lambda when: format_datetime(when).replace(", 0", ", "),
    "t": lambda when: str(int(when.timestamp())),
    "I": lambda when: when.isoformat(timespec="seconds"),
    "i": lambda when: when.strftime("%Y-%m-%d %H:%M:%S %z"),
    "s": lambda when: when.strftime("%Y-%m-%d"),
}

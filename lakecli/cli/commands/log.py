"""``lakecli log``: show the history of a ref."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TypeVar

from lakecli.base.model import Commit
from lakecli.base.uri import LakeUri, as_directory, ref_of
from lakecli.cli.context import Context
from lakecli.cli.line import Kind, argument, flag, option
from lakecli.cli.out.records import answers
from lakecli.cli.out.text import log_lines
from lakecli.cli.params import AtOp, ShowMetarangeId, refuse_several
from lakecli.cli.parsers import read_list, read_patterns, read_ref_or_file, read_time, ref_here
from lakecli.errors import UsageError
from lakecli.repository import log as library
from lakecli.repository.contract import Repository

T = TypeVar("T")

Time = datetime | None
Patterns = Sequence[re.Pattern[str]]
Texts = Sequence[str]


@answers(Commit, each=True)
def log(
    context: Context,
    ref: LakeUri | None = argument(
        "REF", default=None, read=read_ref_or_file, kind=Kind.REF_OR_FILE
    ),
    *,
    amount: int = option("N", "--amount", "-n", default=0, min=-1),
    limit: bool = flag(),
    after: str = option("REF", kind=Kind.NOTHING),
    since: Time = option("TIME", read=read_time),
    until: Time = option("TIME", read=read_time),
    author: Patterns = option("REGEX", read=read_patterns),
    grep: Patterns = option("REGEX", read=read_patterns),
    stop_at: str = option("REF", kind=Kind.NOTHING),
    first_parent: bool = flag(),
    no_merges: bool = flag(),
    objects: Texts = option("PATH", read=read_list, kind=Kind.NOTHING),
    prefixes: Texts = option("TEXT", read=read_list),
    show_meta_range_id: ShowMetarangeId = False,
    format: str = option("TEXT"),
    oneline: bool = flag(),
    graph: bool = flag(),
    dot: bool = flag(),
    at_op: AtOp = "",
) -> None:
    """Show the history of a ref, newest commit first.

    lakefs://REPOSITORY/A..B shows the commits of B that A does not have.

    In a directory linked by `lakecli local`, REF defaults to the ref of the directory, and the name
    of a file in it stands for the URI of that file.

    Each commit comes before its parents, whatever their dates are. The whole history is shown
    unless an option limits it. With a path in the URI, only commits that changed that object, or
    something below it, are shown. With a path, --objects or --prefixes, merge commits and the first
    commit are never shown. Separate several paths by commas; quote a path that contains a comma.

    TIME is 2026-11-01, "2026-11-01 10:00", now, today, yesterday or "3 days ago". Times are UTC
    unless they have an offset; a date without a time, and today, mean the first moment of the day.
    REGEX is a regular expression of Python. If --author or --grep is repeated, one match is enough.

    --format takes these placeholders of Git: %H %h %T %t %P %p for IDs of the commit, its tree (the
    metarange) and its parents; %an %ae %ad %aD %aI %ai %as %at %ar for the committer and the date,
    also with c for a; %s %b %B for the message; %d %D for branches and tags; %n %% %x09 %x00,
    %C(yellow) and %C(reset). `oneline` and `reference` are formats too.

    Args:
        ref: lakefs://REPOSITORY/REF[/PATH]; or a file of a linked directory.
        amount: Show at most N; 0 or -1 for all.
        limit: With --amount, do not report that there are more commits.
        after: Start after this commit.
        since: Only commits since this time.
        until: Only commits until this time.
        author: Only commits of committers that match.
        grep: Only commits whose message matches.
        stop_at: Stop at this commit.
        first_parent: Follow only the first parent of merge commits.
        no_merges: Leave out merge commits.
        objects: Only commits that changed these paths.
        prefixes: Only commits that changed paths with these prefixes.
        format: Show each commit as Git's --format does.
        oneline: Show the short ID and the subject of each commit.
        graph: Draw the graph of commits, one line each.
        dot: Write the history as a graph for Graphviz.

    Examples:
        lakecli log
        lakecli log lakefs://demo/main
        lakecli log lakefs://demo/main --amount 10 --graph
        lakecli log lakefs://demo/v2.0 --stop-at v1.0 --no-merges
        lakecli log lakefs://demo/main..experiment
        lakecli log lakefs://demo/main/raw/orders.csv --oneline
        lakecli log lakefs://demo/main --prefixes raw/,models/ --since yesterday
        lakecli log lakefs://demo/main --format "%h %as %an %s" --author Ada
        lakecli log lakefs://demo/main --dot | dot -Tsvg -o history.svg
        lakecli log s3://my-bucket/demo@main
    """
    ref = ref_here(ref, context)
    _check_forms(
        {"--json": context.out.json, "--graph": graph, "--dot": dot, "--format": bool(format)},
        oneline=oneline,
        metarange=show_meta_range_id,
    )
    write = _formatted(context, "oneline" if oneline else format)
    options = library.LogOptions(
        first_parent=first_parent,
        no_merges=no_merges,
        since=since,
        until=until,
        authors=author,
        messages=grep,
        after=after or None,
        stop_at=stop_at or None,
        objects=[*_paths("--objects", objects), *filter(None, [ref.path])],
        prefixes=[*_paths("--prefixes", prefixes), *filter(None, [as_directory(ref.path or b"")])],
    )
    repository = context.synced_repository(ref, at_op=at_op)

    def cut(items: Iterable[T], id_of: Callable[[T], str]) -> Iterable[T]:
        if limit and amount > 0:
            return islice(items, amount)
        return context.out.page(items, amount=amount, name=id_of)

    if graph:
        from lakecli.cli.commands.log_format import draw, ref_names

        width = context.out.width if context.out.terminal and not context.out.whole else None
        with library.log_graph(repository, ref_of(ref), options) as lines:
            drawn = draw(lines, ref_names(repository), context.out.style, width)
            for item in cut(drawn, lambda item: item.commit.id):
                context.out.say(item.text)
        return
    # As in lakectl, the line with a tab after metadata replaces the empty line before the next
    # commit.
    follows_metadata = False

    def text(commit: Commit) -> str:
        nonlocal follows_metadata
        lines = list(log_lines(commit, show_metarange=show_meta_range_id))
        shown, follows_metadata = lines[follows_metadata:], bool(commit.metadata)
        return "\n".join(shown)

    with library.log(repository, ref_of(ref), options) as commits:
        shown = cut(commits, lambda commit: commit.id)
        if dot:
            from lakecli.cli.commands.log_format import DOT_END, DOT_START, dot_text

            context.out.say(*DOT_START)
            for commit in shown:
                context.out.say(dot_text(commit))
            context.out.say(*DOT_END)
            return
        if write is not None and not context.out.json:
            write(repository, shown)
            return
        context.out.stream(shown, text=text)
    if not follows_metadata:
        context.out.say("")


def _check_forms(forms: Mapping[str, bool], *, oneline: bool, metarange: bool) -> None:
    """Refuse options that select two formats of a log, or details that the format does not show."""
    given = [flag for flag, wanted in forms.items() if wanted]
    if metarange and given != ["--json"]:
        given += ["--show-meta-range-id", *["--oneline"] * oneline]
    elif oneline and given != ["--graph"]:  # a drawing has one line for each commit
        given.append("--oneline")
    refuse_several(dict.fromkeys(given, True))


def _formatted(
    context: Context, text: str
) -> Callable[[Repository, Iterable[Commit]], None] | None:
    """Return a function that writes commits in the format `text`; ``None`` if `text` is empty."""
    if not text:
        return None
    from lakecli.cli.commands.log_format import Surroundings, compile_format, needs_names, ref_names

    line = compile_format(text)

    def write(repository: Repository, commits: Iterable[Commit]) -> None:
        names = ref_names(repository) if needs_names(text) else {}
        around = Surroundings(context.now(), names, is_colored=context.out.color)
        for commit in commits:
            context.out.plain(line(commit, around))

    return write


def _paths(option: str, texts: Sequence[str]) -> list[bytes]:
    if "" in texts:
        raise UsageError(f"{option} has an empty path", hint=f"{option} a,b")
    return [os.fsencode(text) for text in texts]

"""``lakecli rev-parse``: the commit that a ref expression names."""

import os
from collections.abc import Iterator
from typing import TypedDict

from lakecli.base.uri import LakeUri, ref_of
from lakecli.cli.commands.names_from_file import answer, bytes_of, check_found, iter_questions
from lakecli.cli.context import Context
from lakecli.cli.line import flag
from lakecli.cli.out.records import answers, fields_of
from lakecli.cli.params import AtOp, RefUris
from lakecli.cli.parsers import read_ref
from lakecli.errors import NotFound, UsageError
from lakecli.refs.resolve import Resolved
from lakecli.repository import log as library
from lakecli.repository.contract import Repository


class ResolvedJson(TypedDict):
    """The commit that a ref expression names.

    The other fields are those of `Resolved`.

    Attributes:
        uri: the URI as given.
    """

    uri: str


class AskedRefJson(TypedDict):
    """The commit of one requested ref; if the ref names no commit, only ``uri`` and ``missing``.

    Attributes:
        uri: the URI as given.
        missing: true if the URI names no commit.
    """

    uri: str
    missing: bool


@answers(ResolvedJson, each=True)
@answers(AskedRefJson, each=True, option="--stdin", also=ResolvedJson)
def rev_parse(
    context: Context,
    refs: RefUris = (),  # type: ignore[assignment]  # no list, which could be changed
    *,
    stdin: bool = flag(),
    at_op: AtOp = "",
) -> None:
    """Show the commit ID that a ref expression names.

    One line is printed for each ref. With --json, one object for each ref also shows the branch,
    tag or commit that the expression starts from, and the commit after each modifier.

    With --stdin, one command resolves many refs. Each result is written at once, so a program can
    write a ref, read the result and write the next ref. For a ref that names no commit, the result
    is "missing" and the ref; the exit code is then 3. Empty lines are skipped; a malformed ref ends
    the command. A repeated ref is resolved again, unless the repository is read without a clone.

    Args:
        stdin: Read refs from standard input, one a line.

    Examples:
        lakecli rev-parse lakefs://demo/main
        lakecli rev-parse lakefs://demo/main~2^2 lakefs://demo/v1.0
        lakecli rev-parse --json lakefs://demo/8d7c~1
        lakecli rev-parse --stdin < refs.txt
    """
    if stdin and refs:
        raise UsageError("REF and --stdin exclude each other", hint="lakecli rev-parse --stdin")
    if not (stdin or refs):
        raise UsageError("missing argument 'REF'", hint="lakecli rev-parse --help")
    if stdin:
        for text, resolved in check_found(_resolve_each(context, at_op=at_op)):
            if resolved is None:
                answer(context, AskedRefJson(uri=text, missing=True), [f"missing {text}"])
            else:
                record = {**_record(*resolved), "missing": False}
                answer(context, record, [resolved[1].commit.id])
        return

    found = [
        (uri, library.rev_parse(context.synced_repository(uri, at_op=at_op), ref_of(uri)))
        for uri in refs
    ]
    context.out.stream(
        found, record=lambda item: _record(*item), text=lambda item: item[1].commit.id
    )


def _resolve_each(
    context: Context, *, at_op: str
) -> Iterator[tuple[str, tuple[LakeUri, Resolved] | None]]:
    """Yield each ref from standard input with its commit, or ``None`` if it names no commit."""
    opened: dict[str, Repository] = {}
    for question in iter_questions(bytes_of(context), null=False):
        text = os.fsdecode(question)
        uri = read_ref(text, context)
        try:
            repository = opened.get(uri.repository)
            if repository is None or not (at_op or uri.namespace or repository.is_here()):
                repository = context.synced_repository(uri, at_op=at_op)
                opened[uri.repository] = repository
            found = uri, library.rev_parse(repository, ref_of(uri))
        except NotFound:
            yield text, None
        else:
            yield text, found


def _record(uri: LakeUri, resolved: Resolved) -> dict[str, object]:
    return {"uri": str(uri)} | fields_of(resolved)

"""``lakecli refs-dump``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

from lakecli.cli.context import Context
from lakecli.cli.files import check_writable, write_whole
from lakecli.cli.lakefs import next_steps, parse_losses
from lakecli.cli.line.declare import Option
from lakecli.cli.out.answers.sharing import RefsManifest
from lakecli.cli.out.text import local_date, one_line
from lakecli.cli.params import RepositoryUri
from lakecli.cli.reading import Completion, Kind, Parser, read_texts
from lakecli.repository.lakefs.dump import format_manifest, manifest_fields
from lakecli.repository.push import PushOptions, push_all
from lakecli.repository.refs_dump import NotDumped
from lakecli.repository.refs_dump import refs_dump as dump


def refs_dump(
    context: Context,
    repository: RepositoryUri,
    *,
    output: Annotated[
        str,
        Option(
            "--output", "-o", metavar="FILE", help="Write the manifest there; - is standard output"
        ),
        Completion(Kind.FILE),
    ] = "-",
    push_first: Annotated[
        bool, Option("--push-first", help="Push all branches and tags before dumping")
    ] = False,
    leave_out: Annotated[
        list[str],
        Option(
            "--leave-out",
            metavar="KIND",
            help="Dump although this is lost: names, paths, uncommitted or unpushed; repeatable",
        ),
        Parser(read_texts, repeatable=True),
        Completion(Kind.NOTHING),
    ] = [],  # noqa: B006 - never changed
) -> None:
    """Dump the refs of a repository for lakeFS.

    Commits, branches and tags are written into the storage namespace as lakeFS writes them, and the
    manifest is printed as lakectl refs-dump prints it. A lakeFS server restores the repository from
    it, with the same commit IDs and without copying data.

    What the dump or lakeFS cannot hold is listed, and nothing is written: names with a colon, paths
    that are not UTF-8, uncommitted changes, and commits that were not pushed. Paths are checked in
    the trees of all branches and tags.

    Garbage collection keeps a dump, and all that it refers to, for 30 days. `lakecli gc status`
    lists the dumps that are kept.

    Examples:
        lakecli refs-dump lakefs://demo -o refs.json
        lakecli refs-dump lakefs://demo --push-first --leave-out uncommitted
    """
    losses = parse_losses(leave_out)
    is_file = output not in ("", "-")
    if is_file:
        check_writable(Path(output))
    opened = context.repository(repository)
    if push_first:
        push_all(opened, PushOptions(who=context.committer()))
    try:
        dumped = dump(opened, leave_out=losses)
    except NotDumped as error:
        for each in error.lost:
            context.out.warn(f"{each.loss}: {each.what}")
        kinds = sorted({each.loss for each in error.lost})
        if len(kinds) > 1:
            error.hint = "to dump anyway: " + " ".join(f"--leave-out {kind}" for kind in kinds)
        raise
    for each in dumped.lost:
        context.out.warn(f"not in the dump: {each.loss}: {each.what}")
    if is_file:
        context.out.say(f"Writing refs to {one_line(output)}")
        write_whole(Path(output), format_manifest(dumped.manifest))
    context.out.emit(
        cast("RefsManifest", manifest_fields(dumped.manifest)),
        text=lambda: [] if is_file else format_manifest(dumped.manifest).decode().splitlines(),
    )
    for line in next_steps(opened.record, output or "-"):
        context.out.note(line)
    context.out.note(f"garbage collection keeps the dump until {local_date(dumped.kept_until)}")

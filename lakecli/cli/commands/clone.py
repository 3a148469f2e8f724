"""``lakecli clone``."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecli.cli.context import Context
from lakecli.cli.outside import ask_about_outside, place_records
from lakecli.cli.params import Completion, Kind, RepositoryUri
from lakecli.cli.text import one_line


def clone(
    context: Context,
    storage_namespace: Annotated[
        str,
        typer.Argument(
            metavar="NAMESPACE",
            help="s3://BUCKET/PREFIX, gs://…, az://…, local:///DIRECTORY or an absolute path",
        ),
        Completion(Kind.DIRECTORY),
    ],
    repository: RepositoryUri,
) -> None:
    """Make a repository of this machine out of what lies in a storage namespace.

    Every branch and every tag of the bucket becomes one here, at once usable; no data is copied.
    The name is this machine's own. A clone that was interrupted is finished by the same command.

    What only other machines have does not come along: what is staged there, commits that were never
    pushed, and their operation logs.

    Objects may lie outside the storage namespace. They are read with your credentials only if you
    allow their places: clone reads up to 16 ranges of the default branch, lists the places with
    counts, and asks in a terminal; otherwise it prints the command that allows them (see
    trust.addresses in config list). fsck counts all of them.

    Examples:
        lakecli clone s3://my-bucket/sales lakefs://sales
        lakecli clone /mnt/lake/demo lakefs://demo
    """
    from lakecli.cli.sharing import (
        damage_record,
        update_lines,
        update_record,
    )
    from lakecli.repository.clone import clone_counted

    with context.out.progress("clone") as progress:
        made = clone_counted(
            context.lake(),
            storage_namespace,
            repository.repository,
            progress=progress,
        )
    record = made.repository.record
    outside = ask_about_outside(context, made.repository)
    for line in update_lines(made.left_out):
        context.out.warn(f"left out: {line}")
    context.show_notices_of(made.repository)
    context.out.emit(
        {
            "repository": made.repository.uri,
            "storage_namespace": record.storage_namespace,
            "default_branch": record.default_branch,
            "branches": made.branches,
            "tags": made.tags,
            "commits": made.commits,
            "left_out": [update_record(update) for update in made.left_out],
            "damaged": [damage_record(each) for each in made.damaged],
            "outside": place_records(outside),
        },
        text=lambda: [
            f"Repository: {repository}",
            f"Cloned from {one_line(record.storage_namespace)}:",
            f"branches: {made.branches}",
            f"tags: {made.tags}",
            f"commits: {made.commits}",
            f"default branch: {record.default_branch}",
        ],
    )
    context.out.note(
        "not among it: staged changes, commits that were never pushed and the operation log of "
        "other clones"
    )

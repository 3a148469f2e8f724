"""``lakecli clone``."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecli.cli.answers import pick
from lakecli.cli.answers.sharing import Cloned, Damage, RefUpdate
from lakecli.cli.context import Context
from lakecli.cli.outside import ask_about_outside, place_records
from lakecli.cli.params import RepositoryUri
from lakecli.cli.reading import Completion, Kind
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
    """Clone a repository from its storage namespace onto this machine.

    Every branch and tag in the bucket is created on this machine; no data is copied. REPOSITORY is
    the name on this machine only. If a clone is interrupted, run the same command again to finish
    it.

    Other machines' uncommitted changes, unpushed commits and operation logs are not in the bucket,
    so they are not cloned.

    A repository may refer to objects outside its storage namespace. lakecli reads them with your
    credentials only if you allow their places. clone looks for such objects in up to 16 ranges of
    the default branch (a range lists some thousand paths), lists their places with counts, and asks
    whether to allow them; without a terminal it prints the command that allows them (setting
    trust.addresses). `lakecli fsck` counts all of them.

    Examples:
        lakecli clone s3://my-bucket/sales lakefs://sales
        lakecli clone /mnt/lake/demo lakefs://demo
    """
    from lakecli.cli.sharing import update_lines
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
        pick(
            Cloned,
            made,
            record,
            repository=made.repository.uri,
            left_out=[pick(RefUpdate, each) for each in made.left_out],
            damaged=[pick(Damage, each) for each in made.damaged],
            outside=place_records(outside),
        ),
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
        "not cloned: uncommitted changes, unpushed commits and the operation logs of other clones"
    )

"""``lakecli repo create``."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecli.cli.context import Context
from lakecli.cli.params import Completion, Kind, RepositoryUri
from lakecli.cli.records import repository_record
from lakecli.cli.text import one_line


def repo_create(
    context: Context,
    repository: RepositoryUri,
    storage_namespace: Annotated[
        str,
        typer.Argument(
            metavar="NAMESPACE",
            help="s3://BUCKET/PREFIX, gs://…, az://…, local:///DIRECTORY or an absolute path",
        ),
        Completion(Kind.DIRECTORY),
    ],
    *,
    default_branch: Annotated[
        str, typer.Option("--default-branch", "-d", metavar="NAME", help="The first branch")
    ] = "main",
    range_entries: Annotated[
        int,
        typer.Option(
            "--range-entries",
            metavar="N",
            help="Entries in a range, about: a power of two from 16 on; cannot be changed later",
        ),
    ] = 8192,
) -> None:
    """Create a repository in a storage namespace.

    The namespace is claimed for this repository alone, and gets a first commit on the default
    branch. A directory is made where there is none; a bucket has to exist. If it was interrupted,
    the same command again finishes it.

    Examples:
        lakecli repo create lakefs://demo local:///var/lake/demo
        lakecli repo create lakefs://demo s3://my-bucket/demo -d trunk
    """
    from lakecli.repository import repo

    context.out.say(f"Repository: {repository}")
    record = repo.create(
        context.lake(),
        repository.repository,
        storage_namespace,
        default_branch=default_branch,
        range_entries=range_entries,
    ).record
    context.out.emit(
        repository_record(record),
        text=lambda: [
            f"Repository '{record.name}' created:",
            f"storage namespace: {one_line(record.storage_namespace)}",
            f"default branch: {record.default_branch}",
            f"timestamp: {int(record.created_at.timestamp())}",
        ],
    )

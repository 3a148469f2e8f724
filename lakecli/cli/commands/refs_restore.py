"""``lakecli refs-restore``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.lakefs import (
    NOT_IN_A_DUMP,
    left_out_lines,
    left_out_record,
    read_manifest,
    show_updates,
)
from lakecli.cli.line.declare import Option
from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers.sharing import RestoredRefs
from lakecli.cli.params import RepositoryUri
from lakecli.cli.reading import Completion, Kind
from lakecli.repository.lakefs.restore import restore_refs
from lakecli.repository.lakefs.update import update_refs


def refs_restore(
    context: Context,
    repository: RepositoryUri,
    *,
    manifest: Annotated[
        str,
        Option(
            "--manifest",
            "-m",
            metavar="FILE",
            help="The manifest that refs-dump printed; - reads standard input",
        ),
        Completion(Kind.FILE),
    ] = "-",
    update: Annotated[
        bool,
        Option("--update", help="Bring what is new in the dump into a repository that has commits"),
    ] = False,
) -> None:
    """Fill a repository with the refs of a lakeFS dump.

    The dump must lie in the repository's own storage namespace. Commits, branches and tags are
    verified before anything is written. To make a repository of a lakeFS namespace, use
    lakecli clone --from-lakefs instead.

    Without --update the repository must be empty. With it, the newer commits of lakeFS come in. A
    branch without commits of its own is fast-forwarded; its uncommitted changes stay. If lakeFS and
    lakecli both have committed to branch NAME, it stays, and that of lakeFS becomes lakefs:NAME:
    merge it and delete it. New branches and tags are made; a tag that differs is reported and
    stays. What lakeFS has deleted stays.

    Examples:
        lakecli refs-restore lakefs://demo --manifest refs.json
        lakectl refs-dump lakefs://demo | lakecli refs-restore --update lakefs://demo
    """
    context.out.say(f"Repository: {repository}")
    if update:
        _update(context, repository, manifest)
        return
    restored = restore_refs(context.repository(repository), read_manifest(context, manifest))
    for line in left_out_lines(restored.left_out):
        context.out.warn(f"left out: {line}")
    context.out.emit(
        pick(
            RestoredRefs,
            restored,
            repository=restored.repository.uri,
            left_out=[left_out_record(each) for each in restored.left_out],
            updated=[],
        ),
        text=lambda: ["", "All references restored successfully!"],
    )
    context.out.note(
        f"branches: {restored.branches}, tags: {restored.tags}, commits: {restored.commits}"
    )
    context.out.note(NOT_IN_A_DUMP)


def _update(context: Context, uri: RepositoryUri, source: str) -> None:

    manifest = read_manifest(context, source)
    updated = update_refs(context.synced_repository(uri), manifest)
    shown = show_updates(context, updated)
    context.out.emit(
        pick(
            RestoredRefs,
            updated,
            repository=updated.repository.uri,
            left_out=[left_out_record(each) for each in updated.left_out],
            updated=shown,
        ),
        text=lambda: ["", f"New commits: {updated.commits}"],
    )
    context.out.note(NOT_IN_A_DUMP)

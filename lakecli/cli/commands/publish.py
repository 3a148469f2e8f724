"""``lakecli publish``: merge and push a branch after checks."""

from lakecli.base.model import NO_METADATA, Commit
from lakecli.base.uri import ref_of
from lakecli.cli import params
from lakecli.cli.commands.moved_refs import bring_along
from lakecli.cli.commands.named_checks import checks_of
from lakecli.cli.context import Context
from lakecli.cli.line import flag
from lakecli.cli.out.records import answers
from lakecli.cli.parsers import ref_here
from lakecli.repository import merge as merging


@answers(Commit)
def publish(
    context: Context,
    source: params.SourceUri,
    destination: params.HereBranchUri = None,
    *,
    check: params.Checks = (),
    message: params.Message = "",
    metadata: params.Metadata = NO_METADATA,
    strategy: params.Winner = None,
    decide: params.DecisionOptions,
    allow_empty: bool = flag(),
    no_verify: params.NoVerify = False,
) -> None:
    """Merge a ref into a branch and push the branch, if every check passes on the merged tree.

    The merge commit is created before the branch moves, and the checks read this commit. If all
    checks pass, the branch moves in the bucket and here. If somebody else moves the branch in the
    bucket meanwhile, the merge is repeated on top of the new head, and checked again unless the
    same tree has passed. If a check fails, the exit code is 15 and no branch has moved.

    The value of --check is the NAME of a setting checks.NAME of this machine, or a command. If a
    named check passes, a statement of this is written to the bucket; `lakecli check run --help`
    describes it, and the variables that a check gets. For a command, nothing is written. Checks run
    in the order in which they are given.

    With sync = manual, only BRANCH is fetched and pushed. The merge works as in `lakecli merge`.

    Args:
        allow_empty: Merge even if the source has no new changes.

    Examples:
        lakecli config set checks.schema "python check_schema.py"
        lakecli publish lakefs://demo/load lakefs://demo/main --check schema
        lakecli publish lakefs://demo/load lakefs://demo/main --check "sh -c 'lakecli fs ls raw/'"
    """
    from lakecli.repository.publish import publish as publish_merge

    context.skips_hooks = no_verify
    destination = ref_here(destination, context)
    context.out.say(f"Source: {source}", f"Destination: {destination}")
    checks = checks_of(context, check)
    repository = context.synced_repository(source, destination)
    from_, into = ref_of(source), ref_of(destination)
    options = merging.MergeOptions(
        committer=context.committer(),
        message=message or None,
        metadata=metadata,
        decisions=decide.decisions(strategy),
        allow_empty=allow_empty,
    )
    made = publish_merge(repository, from_, into, options, checks)
    context.out.emit(made, text=lambda: [f'Published "{from_}" on "{into}" as "{made.id}".'])
    bring_along(context, repository, into)

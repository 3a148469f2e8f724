"""Functions shared by the commands that read a refs dump of lakeFS."""

from collections.abc import Iterator

from lakecli.cli.commands.moved_refs import UP_TO_DATE, short
from lakecli.cli.commands.names_from_file import read_input
from lakecli.cli.context import Context
from lakecli.repository.branch import is_shared
from lakecli.repository.lakefs.dump import MAX_SIZE, LeftOut, Reason, RefsManifest, parse_manifest
from lakecli.repository.lakefs.restore import ASIDE, RefState, Restored


def read_manifest(context: Context, source: str) -> RefsManifest:
    """Read the manifest of a refs dump from a file, or from standard input for ``-``.

    Raises:
        NotFound: there is no such file.
        PermissionDenied: the file cannot be read.
        UsageError: the text is not the manifest of a refs dump.
    """
    return parse_manifest(read_input(context, source, MAX_SIZE))


def left_out_lines(left_out: tuple[LeftOut, ...]) -> Iterator[str]:
    """Yield one line for each ref of a refs dump that lakecli left out, with the reason."""
    told = {
        Reason.NAME: "an illegal name, or that of a branch",
        Reason.NO_COMMIT: "the dump has no such commit",
    }
    for each in left_out:
        yield f"{each.kind} {each.name!r} at {each.commit_id}: {told[each.reason]}"


def show_updates(context: Context, updated: Restored) -> None:
    """Print which refs were moved when a newer refs dump was restored."""
    uri = updated.repository.uri
    for each in updated.updated:
        before, after, ref = short(each.before), short(each.after), f"{each.kind} {each.name}"
        if each.change is RefState.NEW:
            context.out.note(f"{ref}: new, at {after}")
        elif each.change is RefState.MOVED:
            context.out.note(f"{ref}: {before} -> {after}")
        elif each.change is RefState.DIFFERS:
            context.out.warn(f"{ref}: at {after} in lakeFS; a different one of this name stays")
        elif each.change is RefState.MOVED_BACK:
            context.out.warn(
                f"{ref}: lakeFS has moved it back or elsewhere, to {after}; here it stays at "
                f"{before}. All of its commits came from lakeFS, so no commit of lakecli's is lost "
                "by following"
            )
            lease = " --force-with-lease" if is_shared(updated.repository) else ""
            context.out.hint(
                f"follow lakeFS: lakecli branch reset {uri}/{each.name} --to {after}{lease}"
            )
        elif each.change is RefState.REBASED:
            name = each.name.removeprefix(ASIDE)
            context.out.warn(
                f"branch {name} has commits of its own, made on commits that lakeFS has taken "
                f"back; that of lakeFS is {each.name}, at {after}. A merge would bring them back"
            )
            context.out.hint(
                "carry your commits over one by one, the oldest first: lakecli cherry-pick "
                f"{uri}/{short(each.own)} {uri}/{each.name}"
            )
        else:
            name = each.name.removeprefix(ASIDE)
            context.out.warn(
                f"branch {name} has commits of its own; that of lakeFS is {each.name}, at {after}"
            )
            context.out.hint(f"merge it: lakecli merge {uri}/{each.name} {uri}/{name}")
    if updated.is_older:
        context.out.note("a newer dump came in before this one: there is nothing to take")
    elif not updated.updated:
        context.out.note(UP_TO_DATE)
    for line in left_out_lines(updated.left_out):
        context.out.warn(f"left out: {line}")


NOT_IN_A_DUMP = (
    "not in a refs dump: uncommitted changes, branch protection rules, hidden flags of branches, "
    "and the default branch unless the file names it"
)

"""``lakecli tag``: create, list, show and delete tags."""

from lakecli.base.model import Tag
from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.line import argument, flag
from lakecli.cli.out.records import answers
from lakecli.cli.params import AtOp, HereRepositoryUri, PageOptions, TagUri, TagUris, Yes
from lakecli.cli.parsers import read_ref_of, repository_here
from lakecli.repository import tag as library


@answers(Tag)
def tag_create(
    context: Context,
    tag: TagUri,
    ref: str = argument("REF"),
    *,
    force: bool = flag("--force", "-f"),
) -> None:
    """Create a tag: a name for a commit.

    Args:
        ref: REF or lakefs://REPOSITORY/REF to name.
        force: Move the tag if it exists.

    Examples:
        lakecli tag create lakefs://demo/v1.0 main
        lakecli tag create lakefs://demo/latest lakefs://demo/main~1 -f
    """
    start = read_ref_of(tag, ref, context)
    made = library.create(
        context.synced_repository(tag, start), ref_of(tag), ref_of(start), force=force
    )
    context.out.emit(made, text=lambda: [f"Created tag '{made.name}' ({made.commit_id})"])


@answers(Tag, each=True)
def tag_list(
    context: Context, repository: HereRepositoryUri = None, *, page: PageOptions, at_op: AtOp = ""
) -> None:
    """List the tags of a repository, ordered by name.

    REPOSITORY defaults to that of the linked directory, or else to the default set by `lakecli
    use`.

    Examples:
        lakecli tag list lakefs://demo
        lakecli tag list
        lakecli tag list lakefs://demo --prefix v1. --amount 0
    """
    opened = context.synced_repository(repository_here(repository, context), at_op=at_op)
    found = library.iter_tags(opened, prefix=page.prefix, after=page.after)
    context.out.table(
        ("Tag", "Commit ID"),
        context.out.page(found, amount=page.amount, name=lambda item: item.name),
        row=lambda item: (item.name, item.commit_id),
    )
    context.out.say("")


@answers(Tag)
def tag_show(context: Context, tag: TagUri, *, at_op: AtOp = "") -> None:
    """Show the commit a tag points to.

    Examples:
        lakecli tag show lakefs://demo/v1.0
    """
    found = library.show(context.synced_repository(tag, at_op=at_op), ref_of(tag))
    context.out.emit(found, text=lambda: [f"{found.name} {found.commit_id}"])


@answers(Tag, each=True)
def tag_delete(context: Context, tags: TagUris, *, yes: Yes = False) -> None:
    """Delete tags of a repository; their commits stay.

    If one of several tags does not exist, none is deleted. With automatic sync, a tag is deleted in
    the bucket, too; if it is at another commit there, none is deleted, and the exit code is 5.

    Examples:
        lakecli tag delete lakefs://demo/v1.0
        lakecli tag delete lakefs://demo/v1.0 lakefs://demo/v1.1 -y
    """
    unique = list(dict.fromkeys(tags))
    repository = context.synced_repository(*unique)
    names = [ref_of(tag) for tag in unique]
    for name in names:
        library.check_delete(repository, name)
    listed = ", ".join(f"'{name}'" for name in names)
    context.confirm(f"delete tag{'s' if len(names) > 1 else ''} {listed}", yes=yes)
    for name in names:
        context.out.emit(library.delete(repository, name))

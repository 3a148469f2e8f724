"""``lakecli check`` and ``lakecli approve``."""

from lakecli.base.uri import LakeUri, ref_of
from lakecli.cli.commands.named_checks import check_named
from lakecli.cli.context import Context
from lakecli.cli.line import REQUIRED, Kind, option
from lakecli.cli.out.records import answers
from lakecli.cli.out.text import one_line
from lakecli.cli.params import CheckName, RefUri
from lakecli.cli.parsers import read_ref
from lakecli.remote.attestations import Attestation


@answers(Attestation)
def check_run(
    context: Context, name: CheckName, ref: RefUri, *, prefix: str = option("PREFIX")
) -> None:
    """Run a check on a ref, and state in the bucket that it passed.

    The check is the command in the setting checks.NAME, which is run without a shell. It fails if
    its exit code is not 0, or if it takes longer than timeouts.check. Its output goes to standard
    error. Its environment has the variables LAKECLI_REF (such as lakefs://demo/4bd9…),
    LAKECLI_BASE_URI (so that paths without a URI are paths of the commit), LAKECLI_CHECK and
    LAKECLI_PREFIX; if `lakecli publish` runs it, also LAKECLI_DESTINATION, the branch. Uncommitted
    changes are not checked.

    The statement is about the tree, not the commit: it is valid for every commit with the same
    tree. With --prefix it is about the entries below the prefix, and is valid as long as these do
    not change. It names the committer, but the name is only a claim: nothing is signed. It expires
    when garbage collection deletes the tree.

    Args:
        prefix: Check only what is below this prefix.

    Examples:
        lakecli config set checks.schema "python check_schema.py"
        lakecli check run schema lakefs://demo/main
        lakecli check run schema lakefs://demo/main --prefix raw/
    """
    from lakecli.repository.check import check_ref

    repository = context.synced_repository(ref)
    check = check_named(context, name)
    made = check_ref(repository, ref_of(ref), check, who=context.committer(), prefix=prefix)
    context.out.emit(made, text=lambda: [f"check {name} passed on {ref}"])


@answers(Attestation, each=True)
def check_list(context: Context, ref: RefUri, *, prefix: str = option("PREFIX")) -> None:
    """List the checks that passed on the tree of a ref, and its approvals.

    Names are claims: nothing is signed, and anyone who may write below _lakecli/attest/ in the
    bucket can state anything.

    Args:
        prefix: List what was stated below this prefix.

    Examples:
        lakecli check list lakefs://demo/main
        lakecli check list lakefs://demo/main --prefix raw/
    """
    from lakecli.repository.check import iter_statements

    repository = context.synced_repository(ref)
    context.out.table(
        ("Kind", "Name", "Date", "Who"),
        iter_statements(repository, ref_of(ref), prefix=prefix),
        row=lambda each: (each.kind, each.name, context.out.date(each.at), one_line(each.who)),
    )


@answers(Attestation)
def approve(
    context: Context,
    ref: RefUri,
    *,
    destination: LakeUri = option("DEST", "--for", default=REQUIRED, read=read_ref, kind=Kind.REF),
) -> None:
    """Approve the tree of a ref for a branch or tag, as a rule may require.

    The approval is recorded in the bucket, with the name of the committer. It is valid for every
    commit with the same tree, and for no other commit. If the branch has changes that the ref
    lacks, merging the ref produces another tree; a warning says so.

    The name is only a claim, because nothing is signed. Approvals protect honest people from
    mistakes.

    Args:
        destination: Branch or tag for which the tree is approved.

    Examples:
        lakecli approve lakefs://demo/release-7 --for lakefs://demo/main
    """
    from lakecli.repository.check import approve as library_approve

    repository = context.synced_repository(ref, destination)
    made = library_approve(repository, ref_of(ref), ref_of(destination), who=context.committer())
    context.out.emit(made, text=lambda: [f"approved {ref} for {ref_of(destination)}"])

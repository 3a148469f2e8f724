"""``lakecli policy`` and ``lakecli branch-protect``: rules about refs, for all clones."""

import json
import shlex
import subprocess
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, TypedDict

from lakecli.cli.commands.names_from_file import read_document
from lakecli.cli.context import Context
from lakecli.cli.line import argument, option
from lakecli.cli.out.records import answers, pick
from lakecli.cli.out.text import local_date
from lakecli.cli.params import Amount, RepositoryUri, Yes
from lakecli.errors import LakeError, NothingToDo, Refused, UsageError
from lakecli.remote.policy import PolicyRecord, iter_policies, read_policy
from lakecli.repository import branch_protect
from lakecli.repository.contract import Repository
from lakecli.repository.policy.bucket_policy import Cloud, bucket_policy
from lakecli.repository.policy.rules import rules_of
from lakecli.stores.uri import parse

_NOTHING: Final = "# see: lakecli help policy\n"


class PolicyJson(TypedDict):
    """The rules about branches and tags.

    Attributes:
        number: number of the version; 0 if there never were rules.
        who: name of the committer who set the rules; empty without rules.
        at: time when the rules were set, by the clock of that machine; null without rules.
        document: the rules as a TOML document.
        refused: number of the last 100 moves of the matching branches and tags that these rules
            would have refused; null except in the answer of policy set and policy edit.
        iam: the document of --print-iam, as a JSON text; null without this option.
    """

    number: int
    who: str
    at: datetime | None
    document: str
    refused: int | None
    iam: str | None


class PatternJson(TypedDict):
    """A pattern of protected branches.

    Attributes:
        pattern: a pattern of names, such as release-*.
    """

    pattern: str


@answers(PolicyJson)
def policy_show(
    context: Context,
    repository: RepositoryUri,
    *,
    print_iam: Cloud | None = option("CLOUD"),
    person: str = option("EMAIL|ROLE", "--for"),
) -> None:
    """Show the rules about branches and tags, which hold for all clones.

    The text is the TOML document that `lakecli policy set` reads; `lakecli help policy` explains
    it. Without rules, everything is allowed, and nothing is printed.

    --print-iam prints a JSON document with the permissions that the rules imply for the person or
    role that --for names, or else for a person without a role: which branches and tags the person
    cannot move, and that only the role "collectors" (without such a role, the owners) can delete
    objects. The cloud enforces these permissions for every program. For aws, the document is an IAM
    policy that only denies; `lakecli help clouds` has a policy that allows. For gcs, it has role
    bindings for the bucket; for azure, a role assignment. Replace PERSON and other words in
    capitals.

    Args:
        print_iam: Print what the bucket's permissions can enforce, for this cloud.
        person: Print it for this person or role.

    Examples:
        lakecli policy show lakefs://demo
        lakecli policy show lakefs://demo --print-iam aws --for bob@example.com
        lakecli policy show lakefs://demo > policy.toml
    """
    if person and print_iam is None:
        raise UsageError("--for goes with --print-iam", hint="add --print-iam aws, gcs or azure")
    opened = context.repository(repository)
    found = read_policy(opened.store)
    if print_iam is not None:
        rules = rules_of(found)
        namespace = parse(opened.store.uri)
        document = bucket_policy(rules.policy, namespace, print_iam, person)
        iam = json.dumps(document, indent=2)
        if print_iam is not Cloud.AWS:
            context.out.note("this document was not tested on the cloud: try what it refuses")
        context.out.emit({**_record(found), "iam": iam}, text=iam.splitlines)
        return
    if found is None:
        context.out.note("there are no rules: everything is allowed")
    else:
        context.out.note(f"policy {found.number}, set by {found.who} on {local_date(found.at)}")
    context.out.emit(
        _record(found), text=lambda: [] if found is None else found.document.splitlines()
    )


@answers(PolicyJson, each=True)
def policy_log(context: Context, repository: RepositoryUri, *, amount: Amount = 100) -> None:
    """List the versions of the rules, newest first: their number, when and by whom they were set.

    Examples:
        lakecli policy log lakefs://demo
        lakecli policy log lakefs://demo --json
    """
    found = iter_policies(context.repository(repository).store)
    context.out.table(
        ("Number", "Date", "Who"),
        context.out.page(found, amount=amount),
        row=lambda item: (str(item.number), local_date(item.at), item.who),
        record=_record,
    )


@answers(PolicyJson)
def policy_set(
    context: Context, repository: RepositoryUri, file: str = argument("FILE"), *, yes: Yes = False
) -> None:
    """Replace the rules about branches and tags, for all clones.

    First it lists which of the last 100 moves of the matching branches and tags the new rules would
    have refused, and asks for confirmation. Every version is kept, and `lakecli undo --remote`
    restores the previous one. Only the owners that the present rules name may replace them. Clones
    with a lakecli that is too old to know rules can no longer push.

        owners = ["alice@example.com"]      # who may set rules; else everybody
        [roles]
        leads = ["carol@example.com"]       # e-mail addresses, or other roles
        [[rules]]
        refs = ["main", "release-*"]        # branches and tags
        who = ["leads"]                     # only these may move them
        forbid = ["direct", "rewind", "delete", "recreate"]
        require = ["check:schema", "approve:1:leads"]
        data = { append-only = ["raw/**"], max-delete = "1%", only-below = ["ingest/**"] }

    Only lakecli follows these rules; other programs that write into the bucket do not. See `lakecli
    help policy` for what only the permissions of the bucket can enforce.

    Args:
        file: The rules as TOML; - for standard input.

    Examples:
        lakecli policy set lakefs://demo policy.toml
        lakecli policy show lakefs://demo | lakecli policy set lakefs://other - --yes
    """
    opened = context.synced_repository(repository)
    present = read_policy(opened.store)
    _set(context, opened, present, read_document(context, file), yes=yes)


@answers(PolicyJson)
def policy_edit(context: Context, repository: RepositoryUri, *, yes: Yes = False) -> None:
    """Edit the rules about branches and tags in an editor, and set them.

    The variable VISUAL or EDITOR names the editor. The rules are then set as by `lakecli policy
    set`.

    Examples:
        lakecli policy edit lakefs://demo
    """
    opened = context.synced_repository(repository)
    present = read_policy(opened.store)
    before = ("" if present is None else present.document) or _NOTHING
    with NamedTemporaryFile(suffix=".toml", delete=False) as file:
        file.write(before.encode("utf-8", "surrogateescape"))
    is_set = False
    try:
        _run_editor(context, file.name)
        document = read_document(context, file.name)
        if document == before:
            raise NothingToDo("the rules were not changed")
        _set(context, opened, present, document, yes=yes)
        is_set = True
    finally:
        with suppress(LakeError):  # the editor may have deleted the file
            if is_set or read_document(context, file.name) == before:
                Path(file.name).unlink(missing_ok=True)
            else:
                context.out.note(f"what you wrote is kept: {file.name}")


def _run_editor(context: Context, name: str) -> None:
    chosen = context.environ.get("VISUAL") or context.environ.get("EDITOR") or "vi"
    context.out.flush()
    try:
        done = subprocess.run([*shlex.split(chosen), name], env=context.environ, check=False)
        failed = f"exited with {done.returncode}" if done.returncode else ""
        if not (failed or Path(name).exists()):
            failed = "has deleted the file with the rules"
    except (OSError, ValueError) as error:
        failed = f"cannot be run: {error}"
    if failed:
        raise Refused(
            f"the editor {chosen!r} {failed}",
            hint="set the variable EDITOR, or write a file: `policy set REPOSITORY FILE`",
        )


def _set(
    context: Context, opened: Repository, present: PolicyRecord | None, text: str, *, yes: bool
) -> None:
    """Show what new rules would have refused, ask, and set them."""
    from lakecli.repository.sharing.set_policy import MOST_MOVES, iter_refused, set_by_command

    refused = list(iter_refused(opened, text))
    if refused:
        context.out.note(f"it would have refused {len(refused)} of the last {MOST_MOVES} moves:")
    for each in islice(refused, 10):
        when = local_date(each.move.at)
        context.out.note(f"  {each.kind} {each.name}, {when}, {each.move.who}: {each.why}")
    context.confirm(f"set these rules for all clones of {opened.uri}", yes=yes)
    number = 0 if present is None else present.number
    made = set_by_command(opened, text, who=context.committer(), expected=number)
    context.out.emit(
        {**_record(made), "refused": len(refused)}, text=lambda: [f"Set policy {made.number}"]
    )


def _record(found: PolicyRecord | None) -> PolicyJson:
    if found is None:
        return PolicyJson(number=0, who="", at=None, document="", refused=None, iam=None)
    return pick(PolicyJson, found, refused=None, iam=None)


@answers(PatternJson, each=True)
def branch_protect_list(
    context: Context, repository: RepositoryUri, *, amount: Amount = 100
) -> None:
    """List the patterns of the branches that accept only merges.

    Examples:
        lakecli branch-protect list lakefs://demo
    """
    context.out.table(
        ("Branch Name Pattern",),
        context.out.page(
            iter(branch_protect.patterns(context.repository(repository))), amount=amount
        ),
        row=lambda item: (item,),
        record=lambda item: PatternJson(pattern=item),
    )


@answers(PatternJson)
def branch_protect_add(
    context: Context, repository: RepositoryUri, pattern: str = argument("PATTERN")
) -> None:
    """Let branches accept only merges: no direct commits, and no staged changes.

    This adds a rule to the policy of the repository, which applies to all clones; see `lakecli help
    policy`.

    lakeFS keeps such rules in its own database, not in the bucket or in a refs dump. Copy them with
    lakectl:

        lakectl branch-protect list lakefs://demo |
            xargs -n 1 lakecli branch-protect add lakefs://demo

    Args:
        pattern: Names of branches, with *, ? and [a-z].

    Examples:
        lakecli branch-protect add lakefs://demo main
        lakecli branch-protect add lakefs://demo 'stable_*'
    """
    branch_protect.add(context.synced_repository(repository), pattern, who=context.committer())
    context.out.emit(PatternJson(pattern=pattern), text=list)


@answers(PatternJson)
def branch_protect_delete(
    context: Context, repository: RepositoryUri, pattern: str = argument("PATTERN")
) -> None:
    """Remove a pattern that branch-protect add has added.

    Args:
        pattern: The pattern, as it was added.

    Examples:
        lakecli branch-protect delete lakefs://demo stable_*
    """
    branch_protect.delete(context.synced_repository(repository), pattern, who=context.committer())
    context.out.emit(PatternJson(pattern=pattern), text=list)

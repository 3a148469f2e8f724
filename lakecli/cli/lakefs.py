"""What the commands for lakeFS share: reading manifests, and reporting what came out of a dump."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from lakecli.base.layout import MAX_TABLE_SIZE
from lakecli.base.model import RepositoryRecord
from lakecli.base.parsing import read_bytes
from lakecli.cli.context import Context
from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers.sharing import RefUpdate
from lakecli.cli.sharing import UP_TO_DATE, short, show_clone
from lakecli.errors import NotFound, PermissionDenied, UsageError
from lakecli.repository.lakefs.dump import MAX_SIZE, LeftOut, RefsManifest, parse_manifest
from lakecli.repository.lakefs.restore import Restored
from lakecli.repository.lakefs.update import ASIDE, RefState, Updated
from lakecli.repository.refs_dump import Loss
from lakecli.sstable.reader import BytesSource, Table
from lakecli.stores.contract import get_bounded
from lakecli.stores.uri import as_url


def read_manifest(context: Context, source: str) -> RefsManifest:
    """Read a manifest from a file, or from standard input for ``-``.

    Raises:
        NotFound: there is no such file.
        PermissionDenied: the file cannot be read.
        UsageError: the text is no manifest.
    """
    if source == "-":
        return parse_manifest(context.stdin.buffer.read(MAX_SIZE + 1))
    return parse_manifest(_read_file(source, MAX_SIZE))


def _read_file(source: str, max_size: int) -> bytes:
    """Read a file, and no more than one byte beyond what it may have."""
    try:
        return read_bytes(source, max_size)
    except FileNotFoundError:
        raise NotFound(f"no file {source}", hint="give the file, or - for standard input") from None
    except IsADirectoryError:
        raise UsageError(f"{source} is a directory", hint="give a file in it") from None
    except OSError as error:
        raise PermissionDenied(f"cannot read {source}: {error.strerror}") from error


def left_out_record(left_out: LeftOut) -> RefUpdate:
    """Return a ref that was left out, for ``--json``."""
    kind, name, commit_id = left_out
    return RefUpdate(kind=kind, name=name, before=None, after=commit_id, change="illegal name")


def left_out_lines(left_out: tuple[LeftOut, ...]) -> Iterator[str]:
    """Yield one line for each ref of a dump that lakecli cannot hold."""
    for each in left_out:
        why = "an illegal name, or that of a branch"
        yield f"{each.kind} {each.name!r} at {each.commit_id}: {why}"


def show_updates(context: Context, updated: Updated) -> list[RefUpdate]:
    """Tell which refs a newer dump moved, and return them for ``--json``."""
    uri = updated.repository.uri
    for each in updated.updated:
        before, after, ref = short(each.before), short(each.after), f"{each.kind} {each.name}"
        if each.change is RefState.NEW:
            context.out.note(f"{ref}: new, at {after}")
        elif each.change is RefState.MOVED:
            context.out.note(f"{ref}: {before} -> {after}")
        elif each.change is RefState.DIFFERS:
            context.out.warn(f"{ref}: at {after} in lakeFS; a different one of this name stays")
        else:
            name = each.name.removeprefix(ASIDE)
            context.out.warn(
                f"branch {name} has commits of its own; that of lakeFS is {each.name}, at {after}"
            )
            context.out.hint(f"merge it: lakecli merge {uri}/{each.name} {uri}/{name}")
    if not updated.updated:
        context.out.note(UP_TO_DATE)
    for line in left_out_lines(updated.left_out):
        context.out.warn(f"left out: {line}")
    return [pick(RefUpdate, each) for each in updated.updated]


def show_restored(context: Context, made: Restored, *, taken_over: bool) -> None:
    """Report a clone that was made of a refs dump, and whose namespace it reads."""
    show_clone(
        context,
        made,
        source="lakeFS in ",
        left_out=[left_out_record(each) for each in made.left_out],
        warnings=left_out_lines(made.left_out),
    )
    context.out.note(NOT_IN_A_DUMP)
    if taken_over:
        context.out.note(
            f"publish the refs to other clones: lakecli push --all {made.repository.uri}"
        )
    context.out.note(_TAKEN_OVER if taken_over else _BORROWED)


NOT_IN_A_DUMP = (
    "not in a refs dump: uncommitted changes, branch protection rules, hidden flags of branches, "
    "and the default branch unless the file names it"
)
_CACHED = 10
"""Seconds after which lakeFS has forgotten a deleted repository; its cache keeps them for 5."""

_BORROWED = (
    "the namespace still belongs to lakeFS: nothing is written to it, and commits made here stay "
    "on this machine; --take-over claims it for lakecli"
)
_TAKEN_OVER = (
    "lakeFS's server and its garbage collection do not know what lakecli writes and may delete it: "
    "make the repository read-only in lakeFS or delete it there (`lakectl repo delete` keeps the "
    "objects), and stop lakeFS's garbage collection job"
)


def parse_losses(words: list[str]) -> set[Loss]:
    """Return what ``--leave-out`` names.

    Raises:
        UsageError: a word that names nothing.
    """
    known = {loss.value: loss for loss in Loss}
    for word in words:
        if word not in known:
            raise UsageError(
                f"--leave-out {word}: no such kind", hint=f"one of: {', '.join(known)}"
            )
    return {known[word] for word in words}


def next_steps(record: RepositoryRecord, manifest: str) -> list[str]:
    """Return how to restore a dump with lakectl, line by line."""
    name, namespace = record.name, shlex.quote(as_url(record.storage_namespace))
    create = f"lakectl repo create-bare lakefs://{name} {namespace}"
    why = "without the wait, its cache would restore into the deleted one"
    source = "FILE" if manifest == "-" else shlex.quote(manifest)
    return [
        "to restore it in lakeFS:",
        f"lakectl repo delete lakefs://{name} --yes && sleep {_CACHED}",
        f"{create} --default-branch {record.default_branch}",
        f"lakectl refs-restore lakefs://{name} --manifest {source}",
        f"(the first line only if lakeFS has the repository; {why})",
    ]


def read_table(context: Context, source: str) -> Table:
    """Read an SSTable from a file, a storage namespace or, for ``-``, standard input.

    Raises:
        NotFound: there is no such file or object.
        PermissionDenied: it cannot be read.
        UsageError: a directory, or a malformed URI.
        IntegrityError: it is damaged, or no SSTable.
    """
    if source == "-":
        data = context.stdin.buffer.read(MAX_TABLE_SIZE + 1)
    elif "://" in source:
        folder, _, key = source.rpartition("/")
        store, _ = context.runtime.find_store(folder)
        data = get_bounded(store, key, MAX_TABLE_SIZE)
    else:
        data = _read_file(source, MAX_TABLE_SIZE)
    return Table(BytesSource(source, data))

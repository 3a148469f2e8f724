"""``lakecli refs-dump``, ``refs-restore`` and ``cat-sst``: exchange with lakeFS."""

import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import NotRequired, TypedDict

from lakecli.base.layout import MAX_TABLE_SIZE
from lakecli.base.model import CommitId, RepositoryRecord
from lakecli.base.pipes import is_stdout
from lakecli.cli.commands import refs_manifest
from lakecli.cli.commands.names_from_file import read_input
from lakecli.cli.commands.output_file import check_writable, replacing
from lakecli.cli.context import Context
from lakecli.cli.line import REQUIRED, Kind, flag, option
from lakecli.cli.out.records import answers
from lakecli.cli.out.text import local_date, one_line, rfc3339
from lakecli.cli.params import RepositoryUri
from lakecli.errors import UsageError
from lakecli.repository import refs_dump as refs_dumping
from lakecli.repository.lakefs import dump as lakefs_dump
from lakecli.repository.lakefs.restore import Restored, restore_refs, update_refs
from lakecli.repository.push import PushOptions, push_all
from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.stores.contract import get_bounded
from lakecli.stores.uri import as_url, is_local


class RefsManifestJson(TypedDict):
    """The three lists of a refs dump, in the form in which lakectl prints them.

    Attributes:
        commits_meta_range_id: ID of the list of commits.
        tags_meta_range_id: ID of the list of tags.
        branches_meta_range_id: ID of the list of branches.
    """

    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str


class StoredRecordJson(TypedDict):
    """A record of a range, a metarange, a list of a refs dump, or a commit pack.

    Attributes:
        path: path of an entry.
        identity: identity of an entry in hex digits.
        size: size of an object in bytes.
        checksum: BLAKE3 in 64 hex digits if lakecli uploaded the object, else an ETag.
        modified_at: time of the upload.
        physical_address: address of the bytes of an object.
        metadata: metadata of an entry or a commit.
        range_id: ID of a range.
        min_key: first path of a range.
        max_key: last path of a range.
        count: number of entries of a range.
        estimated_size: size of a range in bytes; exact if lakecli wrote it.
        branch: name of a branch.
        tag: name of a tag.
        commit_id: ID of a commit.
        committer: name and e-mail address of a commit's committer.
        message: message of a commit.
        created_at: time of a commit.
        parents: IDs of the parents in the order in which they are recorded.
        metarange_id: ID of the tree of a commit.
        version: 1; 0 if a commit records its first parent last.
        generation: generation of a commit.
    """

    path: NotRequired[bytes]
    identity: NotRequired[str]
    size: NotRequired[int]
    checksum: NotRequired[str]
    modified_at: NotRequired[datetime]
    physical_address: NotRequired[str]
    metadata: NotRequired[Mapping[str, str]]
    range_id: NotRequired[str]
    min_key: NotRequired[bytes]
    max_key: NotRequired[bytes]
    count: NotRequired[int]
    estimated_size: NotRequired[int]
    branch: NotRequired[str]
    tag: NotRequired[str]
    commit_id: NotRequired[CommitId]
    committer: NotRequired[str]
    message: NotRequired[str]
    created_at: NotRequired[datetime]
    parents: NotRequired[Sequence[CommitId]]
    metarange_id: NotRequired[str]
    version: NotRequired[int]
    generation: NotRequired[int]


@answers(RefsManifestJson)
def refs_dump(
    context: Context,
    repository: RepositoryUri,
    *,
    output: str = option("FILE", "--output", "-o", default="-"),
    push_first: bool = flag(),
    leave_out: list[str] = option("KIND", kind=Kind.NOTHING),
) -> None:
    """Dump the refs of a repository for lakeFS.

    Commits, branches and tags are written into the storage namespace as lakeFS writes them, and the
    manifest is printed as lakectl refs-dump prints it. A lakeFS server restores the repository from
    it, with the same commit IDs and without copying data.

    If the dump or lakeFS cannot contain something, it is listed and nothing is written: names with
    a colon, paths that are not UTF-8, uncommitted changes, and commits that were not pushed. Paths
    are checked in the trees of all branches and tags.

    Garbage collection keeps a dump, and all that it refers to, for 30 days. `lakecli gc status`
    lists the dumps that are kept.

    Args:
        output: Write the manifest there; - is standard output.
        push_first: Push all branches and tags before dumping.
        leave_out: Accept this loss: names, paths, uncommitted or unpushed; repeatable.

    Examples:
        lakecli refs-dump lakefs://demo -o refs.json
        lakecli refs-dump lakefs://demo --push-first --leave-out uncommitted
    """
    losses = _parse_losses(leave_out)
    is_file = output not in ("", "-") and not is_stdout(output)
    if is_file:
        check_writable(Path(output))
    opened = context.repository(repository)
    if push_first:
        for failed in push_all(opened, PushOptions(who=context.committer())).failed:
            context.out.warn(f"{failed.kind} {failed.name}: {failed.error.message}")
    try:
        dumped = refs_dumping.refs_dump(opened, leave_out=losses)
    except refs_dumping.NotDumped as error:
        for each in error.lost:
            context.out.warn(f"{each.loss}: {each.what}")
        kinds = sorted({each.loss for each in error.lost})
        if len(kinds) > 1:
            error.hint = "to dump anyway: " + " ".join(f"--leave-out {kind}" for kind in kinds)
        raise
    written = lakefs_dump.format_manifest(dumped.manifest)
    for each in dumped.lost:
        context.out.warn(f"not in the dump: {each.loss}: {each.what}")
    if is_file:
        context.out.say(f"Writing refs to {one_line(output)}")
        with replacing(Path(output)) as file:
            file.write(written)
    context.out.emit(
        lakefs_dump.manifest_fields(dumped.manifest),
        text=lambda: [] if is_file else written.decode().splitlines(),
    )
    for line in _next_steps(opened.record, output or "-"):
        context.out.note(line)
    context.out.note(f"garbage collection keeps the dump until {local_date(dumped.kept_until)}")


@answers(Restored)
def refs_restore(
    context: Context,
    repository: RepositoryUri,
    *,
    manifest: str = option("FILE", "--manifest", "-m", default="-"),
    update: bool = flag(),
) -> None:
    """Fill a repository with the refs of a lakeFS dump.

    The dump must be in the repository's own storage namespace. Commits, branches and tags are
    verified before anything is written. To create a repository from a lakeFS namespace, use lakecli
    clone --from-lakefs instead.

    Without --update, the repository must be empty. With --update, the newer commits of lakeFS are
    added. A branch without commits of its own is fast-forwarded; its uncommitted changes stay. If
    both lakeFS and lakecli have committed to a branch NAME, it stays, and the branch of lakeFS
    becomes lakefs:NAME: merge lakefs:NAME and delete it. If lakeFS has moved a branch back, the
    branch stays here, and the command to follow lakeFS is printed. New branches and tags are
    created; a tag that differs is reported and stays. Refs that lakeFS has deleted stay. A dump
    that is older than an earlier restored one is ignored.

    Args:
        manifest: The manifest that refs-dump printed; - reads standard input.
        update: Add what is new in the dump to a repository that has commits.

    Examples:
        lakecli refs-restore lakefs://demo --manifest refs.json
        lakectl refs-dump lakefs://demo | lakecli refs-restore --update lakefs://demo
    """
    context.out.say(f"Repository: {repository}")
    opened = context.synced_repository(repository) if update else context.repository(repository)
    source = refs_manifest.read_manifest(context, manifest)
    if update:
        restored = update_refs(opened, source)
        refs_manifest.show_updates(context, restored)
        done = f"New commits: {restored.commits}"
    else:
        restored = restore_refs(opened, source)
        done = "All references restored successfully!"
        for line in refs_manifest.left_out_lines(restored.left_out):
            context.out.warn(f"left out: {line}")
    context.out.emit(restored, text=lambda: ["", done])
    if not update:
        context.out.note(
            f"branches: {restored.branches}, tags: {restored.tags}, commits: {restored.commits}"
        )
    context.out.note(refs_manifest.NOT_IN_A_DUMP)


@answers(StoredRecordJson, each=True)
def cat_sst(
    context: Context,
    file: str = option("FILE", "--file", "-f", default=REQUIRED),
    *,
    amount: int = option("N", default=-1),
) -> None:
    """Show the records of a range, a metarange or a list of a refs dump.

    These are the SSTables below _lakefs/ in a storage namespace, whether lakecli or lakeFS wrote
    them, and the commit packs below _lakecli/commits/. Checksums of blocks are verified.

    Args:
        file: A file, the URI of an object in a storage namespace, or - for standard input.
        amount: Show at most N records; -1 shows all.

    Examples:
        lakecli cat-sst -f /var/lake/demo/_lakefs/RANGE_ID --amount 10
        lakecli cat-sst -f s3://my-bucket/demo/_lakefs/METARANGE_ID --json
    """
    table = _read_table(context, file)
    columns = lakefs_dump.COLUMNS[lakefs_dump.kind_of(table)]
    records = lakefs_dump.iter_records(table)
    context.out.table(
        tuple(name.upper() for name in columns),
        records if amount < 0 else islice(records, amount),
        row=lambda values: tuple(map(_shown, values)),
        record=lambda values: dict(zip(columns, values, strict=True)),
    )


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return one_line(value.decode("utf-8", "surrogateescape"))
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, str | int):
        return one_line(str(value))
    return json.dumps(value, ensure_ascii=False)


def _parse_losses(words: list[str]) -> set[refs_dumping.Loss]:
    """Parse the values of ``--leave-out``.

    Raises:
        UsageError: a value is unknown.
    """
    known = {loss.value: loss for loss in refs_dumping.Loss}
    for word in words:
        if word not in known:
            raise UsageError(
                f"--leave-out {word}: no such kind", hint=f"one of: {', '.join(known)}"
            )
    return {known[word] for word in words}


_CACHED = 10
"""Seconds after which lakeFS has forgotten a deleted repository, which its cache keeps for 5 s."""


def _next_steps(record: RepositoryRecord, manifest: str) -> list[str]:
    """Return the lines that show how to restore a refs dump with lakectl."""
    name, namespace = record.name, shlex.quote(as_url(record.storage_namespace))
    create = f"lakectl repo create-bare lakefs://{name} {namespace}"
    why = "without the wait, its cache would restore into the deleted one"
    source = "FILE" if manifest == "-" else shlex.quote(manifest)
    below = "the path in local:// is below lakeFS's own blockstore.local.path: leave that part out"
    return [
        "to restore it in lakeFS:",
        f"lakectl repo delete lakefs://{name} --yes && sleep {_CACHED}",
        f"{create} --default-branch {record.default_branch}",
        f"lakectl refs-restore lakefs://{name} --manifest {source}",
        f"(the first line only if lakeFS has the repository; {why})",
        *([f"({below})"] if is_local(record.storage_namespace) else []),
    ]


def _read_table(context: Context, source: str) -> SSTable:
    """Read an SSTable from a file, a storage namespace or, for ``-``, standard input.

    Raises:
        NotFound: there is no such file or object.
        PermissionDenied: the file or object cannot be read.
        UsageError: `source` is a directory or a malformed URI.
        IntegrityError: the data is damaged or not an SSTable.
    """
    if "://" in source:
        folder, _, key = source.rpartition("/")
        store, _ = context.runtime.find_store(folder)
        data = get_bounded(store, key, MAX_TABLE_SIZE)
    else:
        data = read_input(context, source, MAX_TABLE_SIZE)
    return SSTable(BytesSource(source, data))

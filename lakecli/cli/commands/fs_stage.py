"""``lakecli fs stage`` and ``fs update-metadata``: entries without an upload."""

import os
from collections import Counter
from collections.abc import Mapping

from lakecli.base.model import NO_METADATA
from lakecli.base.uri import LakeUri, path_of, ref_of
from lakecli.cli.commands.entries import emit_entry, entry_record
from lakecli.cli.commands.transfers import raise_failures
from lakecli.cli.context import Context
from lakecli.cli.line import flag, option
from lakecli.cli.out.records import EntryJson, answers
from lakecli.cli.out.text import human_size, local_date, quote_path
from lakecli.cli.params import BranchPathUris, ContentType, Metadata, NewPathUri
from lakecli.cli.parsers import moment, read_new_metadata
from lakecli.errors import UsageError
from lakecli.repository.cp import update_metadata
from lakecli.repository.handoff.incoming import record_object, take_in
from lakecli.repository.handoff.link_sets import Arrival, ArrivalState, stage_arrived
from lakecli.repository.staged.stager import NewAttributes
from lakecli.repository.stat import stat


@answers(EntryJson)
@answers(Arrival, each=True, option="--arrived")
def fs_stage(
    context: Context,
    path: NewPathUri,
    *,
    incoming: str | None = option("ID"),
    arrived: bool = flag(),
    dry_run: bool = flag(),
    location: str | None = option("URI"),
    size: int | None = option("BYTES", min=0),
    checksum: str | None = option("TEXT"),
    mtime: int | None = option("SECONDS"),
    content_type: ContentType = None,
    metadata: Metadata = NO_METADATA,
) -> None:
    """Add objects whose bytes are already in a bucket to a branch.

    With --incoming, the object that was sent to a URL of `lakecli fs presign --put` becomes the
    object at PATH. It is read once to compute its checksum, and then copied inside the store to the
    place of the repository's data. After an interruption, run the same command again.

    With --arrived, all objects that were sent to the pages and scripts of `lakecli fs presign --put
    PATH` are staged below PATH, in one operation. Their sizes and checksums are compared with those
    that the sender recorded. The output lists all objects, including those that were staged before
    or have not arrived. A refused object stays where it is, all others are staged, and the exit
    code is 3.

    With --location, the branch refers to an object outside the repository's storage namespace. If
    PATH ends in a slash, the object keeps its name below PATH. Nothing is read or copied; if the
    object is changed or deleted there, it is lost here too.

    Args:
        incoming: Stage the object that was sent to this fs presign --put link.
        arrived: Stage what was sent to the pages and scripts of fs presign --put PATH.
        dry_run: With --arrived, show what has arrived, but stage nothing.
        location: Stage an object outside the storage namespace.
        size: With --location, the size of the object.
        checksum: With --location, the BLAKE3 or ETag of the object.
        mtime: With --location, its modification time in unix seconds; default: now.

    Examples:
        lakecli fs stage lakefs://demo/main/inbox/orders.csv --incoming ID
        lakecli fs stage lakefs://demo/main/inbox/ --arrived
        lakecli fs stage lakefs://demo/main/a.csv --location s3://other/a.csv --size 12 --checksum E
    """
    of_location = {"--size": size, "--checksum": checksum, "--mtime": mtime}
    if (incoming is not None) + (location is not None) + arrived != 1:
        raise UsageError("give either --incoming, --arrived or --location")
    if dry_run and not arrived:
        raise UsageError("--dry-run needs --arrived")
    surplus = [option for option, value in of_location.items() if value is not None]
    if surplus and location is None:
        raise UsageError(f"{surplus[0]} needs --location")
    attributes = NewAttributes(content_type, metadata)
    if arrived:
        _stage_arrived(context, path, attributes, dry_run=dry_run)
        return

    name = _path_for(path, location, size=size)
    repository, branch = context.synced_repository(path), ref_of(path)
    if incoming is not None:
        entry, has_more = take_in(repository, branch, name, incoming, attributes)
        if has_more:
            context.out.warn("another object was sent to the same link meanwhile; it is kept there")
    else:
        assert location is not None
        if size is None or checksum is None or not checksum.strip():
            raise UsageError("--location needs --size and --checksum")

        entry = record_object(
            repository,
            branch,
            name,
            location=location,
            size=size,
            checksum=checksum.strip(),
            modified_at=None if mtime is None else moment(mtime),
            content_type=content_type,
            metadata=metadata,
        )
    emit_entry(context, repository, name, entry)


def _stage_arrived(
    context: Context, uri: LakeUri, attributes: NewAttributes, *, dry_run: bool
) -> None:
    where = (context.synced_repository(uri), ref_of(uri), uri.path or b"")
    with context.out.progress("stage") as shown:
        found = stage_arrived(*where, attributes=attributes, dry_run=dry_run, progress=shown)
    context.out.table(
        ("State", "Arrived", "Size", "Path", "Note"), found, row=_arrival_row, kept=("Path",)
    )
    counts = Counter(each.state.value for each in found)
    listed = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    context.out.note(listed or "nothing was sent yet")
    refused = [each for each in found if each.state is ArrivalState.REFUSED]
    raise_failures(
        context,
        [(each.path or each.id.encode(), each.reason) for each in refused],
        verb="stage",
        hint="to stage one under a name of yours: lakecli fs stage PATH --incoming ID",
    )


def _arrival_row(arrival: Arrival) -> tuple[str, str, str, str, str]:
    return (
        arrival.state.value,
        "-" if arrival.arrived_at is None else local_date(arrival.arrived_at),
        "-" if arrival.size is None else human_size(arrival.size),
        arrival.id if arrival.path is None else quote_path(arrival.path),
        arrival.reason,
    )


def _path_for(path: LakeUri, location: str | None, *, size: int | None) -> bytes:
    """Return the path at which to stage an object.

    If the path is a directory, append the last component of the object's address.

    Raises:
        UsageError: the path is a directory, and the address has no last component.
    """
    below = path.path or b""
    own = "" if location is None else location.rpartition("/")[2]
    if not below.endswith(b"/") or (location is not None and size == 0 and not own):
        return below  # an empty object with a slash at its end stands for a directory
    if not own:
        raise UsageError(
            f"{path} is a directory, and the object has no name of its own",
            hint=f"give the whole path: {path}NAME",
        )
    return below + os.fsencode(own)


@answers(EntryJson, each=True)
def fs_update_metadata(
    context: Context,
    paths: BranchPathUris,
    *,
    metadata: Mapping[str, str] | None = option(
        "KEY=VALUE", "--metadata", "--meta", read=read_new_metadata
    ),
    content_type: str | None = option("TYPE"),
) -> None:
    """Replace the metadata or the content type of objects.

    The contents of the objects do not change; no bytes are read or copied. The change is an
    uncommitted change of the branch. All user metadata is replaced; metadata that clients recorded,
    such as the modification time of the file, is kept. If one of several objects does not exist,
    nothing is changed.

    Args:
        metadata: The new metadata; '' for none.
        content_type: The new content type.

    Examples:
        lakecli fs update-metadata lakefs://demo/main/a.csv --metadata owner=ada,stage=raw
        lakecli fs update-metadata lakefs://demo/main/a.csv --content-type text/csv
    """
    if metadata is None and content_type is None:
        raise UsageError("there is nothing to change", hint="give --metadata or --content-type")
    first, *others = paths
    if any(ref_of(other) != ref_of(first) for other in others):
        raise UsageError("the paths are not of the same branch", hint="run one command for each")

    repository, branch = context.synced_repository(*paths), ref_of(first)
    names = list(dict.fromkeys(map(path_of, paths)))
    update_metadata(repository, branch, names, NewAttributes(content_type, metadata))
    if context.out.json:
        for name in names:
            context.out.emit(entry_record(repository, name, stat(repository, branch, name)))

"""Presigned URLs: for one object, for many objects (written to files), and for uploads."""

import os
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, TypedDict

from lakecli.base.model import CommitId, Entry
from lakecli.base.pipes import is_stdout
from lakecli.base.uri import LakeUri, as_directory, check_path, parse_repository, ref_of
from lakecli.base.visibility import is_visible
from lakecli.cli.commands.names_from_file import open_file
from lakecli.cli.commands.output_file import PRIVATE, check_writable, replacing
from lakecli.cli.commands.transfers import raise_failures
from lakecli.cli.context import Context
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.out.records import pick
from lakecli.cli.out.text import human_size, local_date, quote_path
from lakecli.cli.parsers import check_local
from lakecli.errors import UsageError
from lakecli.refs.names import check_branch_name
from lakecli.repository.contract import Repository
from lakecli.repository.handoff import manifest as manifests
from lakecli.repository.handoff.download_script import ShellScript
from lakecli.repository.handoff.incoming import UploadLink, new_links
from lakecli.repository.handoff.link_sets import new_set
from lakecli.repository.handoff.links import ObjectLink, ObjectLinks, open_handoff, presign_entry
from lakecli.repository.handoff.upload_documents import upload_page, upload_script
from lakecli.repository.reading.addresses import may_change
from lakecli.stores.presigned_urls import PresignedUrl

_SLACK: Final = timedelta(seconds=2)
"""The tolerance when comparing expiry times, because signatures have whole seconds."""
_SHOWN_AT_ONCE: Final = 32
"""The number of signed objects after which the progress is updated."""

_OF_FILES: Final = timedelta(days=1)
"""The default lifetime of URLs that are written to files, because such files are mailed."""

_SCRIPT_MODE: Final = 0o700
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


class HandoffJson(TypedDict):
    """The files that were written with presigned URLs.

    Attributes:
        repository: URI of the repository.
        ref: the ref as given.
        commit_id: commit of the ref when the URLs were signed.
        uncommitted: whether uncommitted changes are included.
        prefix: prefix that all paths have in common.
        created_at: time when the URLs were signed.
        expires_at: time when the first URL expires.
        count: number of objects.
        size: total size of all objects in bytes.
        manifest: path of the manifest; null if none was written.
        script: path of the shell script; null if none was written.
        page: path of the web page; null if none was written.
    """

    repository: str
    ref: str
    commit_id: CommitId
    uncommitted: bool
    prefix: str
    created_at: datetime
    expires_at: datetime | None
    count: int
    size: int
    manifest: Path | None
    script: Path | None
    page: Path | None


class LinkSetJson(TypedDict):
    """The files with which a partner uploads objects.

    Attributes:
        repository: URI of the repository.
        branch: branch on which the objects are to be staged.
        prefix: prefix of the objects' paths.
        count: number of objects that can be uploaded.
        created_at: time when the URLs were signed.
        expires_at: time when the first URL expires.
        script: path of the shell script; null if none was written.
        page: path of the web page; null if none was written.
    """

    repository: str
    branch: str
    prefix: str
    count: int
    created_at: datetime
    expires_at: datetime
    script: Path | None
    page: Path | None


class OutputFiles(NamedTuple):
    """The files to which presigned URLs are written; ``None`` for a file that is not written.

    Attributes:
        manifest: a JSON, CSV or HTML file with all URLs.
        script: a shell script.
        page: a web page.
        title: the title of pages; ``""`` for the default title.
        sender: the sender that pages name; ``""`` for nobody.
    """

    manifest: Path | None
    script: Path | None
    page: Path | None
    title: str
    sender: str

    @property
    def by_name(self) -> dict[str, Path | None]:
        """The files by the name of the option that requests them."""
        return {"manifest": self.manifest, "script": self.script, "page": self.page}

    def check(self) -> None:
        """Refuse files that cannot be written.

        Raises:
            LakeError: see `check_local` and `check_writable`.
            UsageError: two of the files are the same file.
        """
        wanted = list(filter(None, self.by_name.values()))
        if len(set(map(os.path.realpath, wanted))) < len(wanted):
            raise UsageError("two options name the same file", hint="name a file for each")
        for file in wanted:
            check_local(file, hint="write the file to this machine")
            check_writable(file)

    def show(self, context: Context, record: Mapping[str, object], *more: str) -> None:
        """Print the names of the files and further lines, unless a file is standard output."""
        written = {what: file for what, file in self.by_name.items() if file is not None}
        if not any(map(is_stdout, written.values())):
            lines = [
                f"{what.capitalize()}: {quote_path(str(file))}" for what, file in written.items()
            ]
            context.out.emit(record, text=lambda: [*lines, *more])


def lifetime(context: Context, asked: timedelta | None, *, in_file: bool = False) -> timedelta:
    """Return the lifetime of a URL: `asked`, else the setting ``presign.expires``, else a default.

    The default is longer for URLs that are written to a file (`in_file`): one day.
    """
    if asked is not None:
        return asked
    is_set = context.settings.find("presign.expires").origin != "default"
    return context.settings.presign_expires if is_set or not in_file else _OF_FILES


def warn_of_early_end(context: Context, wanted: datetime, end: datetime, *, what: str) -> None:
    """Warn if a URL expires earlier than requested.

    Args:
        what: the beginning of the message, such as ``the URL expires``.
    """
    if end < wanted - _SLACK:
        context.out.warn(
            f"{what} earlier than asked for, at {local_date(end)}: the store's signatures or the "
            "credentials expire then"
        )


def warn_of_outside(context: Context, count: int, repository: str) -> None:
    """Warn that objects outside the namespace may change before they are read."""
    context.out.warn(
        f"{count} of the objects lie{'s' if count == 1 else ''} outside the storage namespace, and "
        f"may be changed or deleted there; to check them: lakecli fsck {repository} --external"
    )


def presigned(
    context: Context,
    repository: Repository,
    entry: Entry,
    path: bytes,
    asked: timedelta | None,
    *,
    inline: bool = False,
) -> PresignedUrl:
    """Return a URL of an object, and warn if it expires earlier than requested.

    Raises:
        Unsupported: the storage namespace does not support URLs.
    """
    wanted = lifetime(context, asked)
    start = context.now()
    signed = presign_entry(repository, entry, path, expires_in=wanted, inline=inline)
    warn_of_early_end(context, start + wanted, signed.expires_at, what="the URL expires")
    if may_change(entry):
        warn_of_outside(context, 1, repository.uri)
    return signed


def presign_tree(
    context: Context,
    uri: LakeUri,
    asked: timedelta | None,
    files: OutputFiles,
    *,
    format_name: str | None,
    inline: bool,
    names: list[bytes] | None,
) -> None:
    """Sign a URL for each object below a path; print the URLs, or write them to files."""
    repository = context.synced_repository(uri)
    wanted = lifetime(context, asked, in_file=any(files.by_name.values()))
    signing = open_handoff(
        repository, ref_of(uri), uri.path or b"", expires_in=wanted, inline=inline, names=names
    )
    with ExitStack() as stack, signing as handoff:
        documents = _documents(context, stack, format_name, files)
        links = _counted(context, handoff)
        if documents:
            for link in links:
                for _, document in documents:
                    document.add(link)
        else:
            context.out.stream(links, text=lambda link: link.url)
        header = handoff.header._replace(title=files.title, sender=files.sender)
        for file, document in documents:
            mode = _SCRIPT_MODE if file == files.script else PRIVATE
            opened = context.out.document() if file is None else replacing(file, mode=mode)
            with opened as target:
                document.write(target, header, handoff.totals)
        if any(files.by_name.values()):
            totals = handoff.totals
            files.show(
                context,
                pick(HandoffJson, totals, handoff.header, **files.by_name),
                f"Commit ID: {handoff.header.commit_id}",
                f"Objects: {totals.count}",
                f"Size: {human_size(totals.size)}",
            )
        if handoff.totals.outside:
            warn_of_outside(context, handoff.totals.outside, handoff.header.repository)
        _tell_end(context, handoff, wanted)
        left_out = {path: why for _, document in documents for path, why in document.left_out}
        failures = sorted([*handoff.failures, *left_out.items()])
        raise_failures(context, failures, verb="hand over", hint="all others were handed over")


def _documents(
    context: Context, stack: ExitStack, format_name: str | None, files: OutputFiles
) -> list[tuple[Path | None, manifests.Document]]:
    """Return the documents to write, each with the path of its file; ``None`` is standard output.

    All files are first checked to be writable.
    """
    files.check()
    targets: list[tuple[Path | None, type[manifests.Document]]] = []
    if files.manifest is not None:
        format_ = (
            manifests.FORMATS[format_name] if format_name else manifests.format_of(files.manifest)
        )
        targets.append((files.manifest, format_))
    elif format_name is not None:
        if context.out.json:
            raise UsageError("--format and --json exclude each other", hint="give one of them")
        targets.append((None, manifests.FORMATS[format_name]))
    if files.script is not None:
        targets.append((files.script, ShellScript))
    if files.page is not None:
        targets.append((files.page, manifests.HtmlManifest))
    return [(file, stack.enter_context(format_())) for file, format_ in targets]


def _counted(context: Context, handoff: ObjectLinks) -> Iterator[ObjectLink]:
    with context.out.progress("presign") as shown:
        items = size = 0
        for link in handoff:
            yield link
            items, size = items + 1, size + link.size
            if items == _SHOWN_AT_ONCE:
                shown.advance(items=items, size=size)
                items = size = 0
        shown.advance(items=items, size=size)


def _tell_end(context: Context, handoff: ObjectLinks, wanted: timedelta) -> None:
    header, end = handoff.header, handoff.totals.expires_at
    if header.uncommitted:
        context.out.warn(
            f"some of these are uncommitted changes of {header.ref}; "
            f"{header.ref}@ names the committed state"
        )
    if end is None:
        return
    warn_of_early_end(context, header.created_at + wanted, end, what="the first URL expires")
    if not context.out.json:
        count = handoff.totals.count
        objects = f"{count} object{'s' * (count != 1)}"
        context.out.note(f"{objects}, all URLs valid until {local_date(end)}")


def check_manifest(context: Context, file: Path) -> ExitCode:
    """Print which URLs of a manifest have expired, and which objects changed after the signing."""
    counts: Counter[str] = Counter()
    now = context.now()
    first_end: timedelta | None = None
    with TextIOWrapper(open_file(file), "utf-8", "surrogateescape", newline="") as opened:
        source, items = manifests.read_manifest(opened)
        repository = context.lake().repository(parse_repository(source.repository).repository)
        for checked in manifests.check(repository, source, items, now=now):
            words = _words(checked)
            counts.update(words or ["fine"])
            first_end = checked.left if first_end is None else min(first_end, checked.left)
            if context.out.json or words:
                context.out.stream([checked], text=_checked_text)
    fine, total = counts.pop("fine", 0), counts.total()
    context.out.say(
        f"{fine} as in {source.repository}/{source.ref}"
        + "".join(f", {count} {word}" for word, count in sorted(counts.items()))
    )
    if first_end is not None:
        context.out.say(f"First expiry: {local_date(now + first_end)}, {_duration(first_end)}")
    return ExitCode.DIFFERENCES if total else ExitCode.OK


def _words(checked: manifests.LinkFinding) -> list[str]:
    words = [] if checked.state is manifests.LinkState.SAME else [checked.state.value]
    return [*words, "expired"] if checked.is_expired else words


def _checked_text(checked: manifests.LinkFinding) -> str:
    return f"{', '.join(_words(checked))}\t{quote_path(checked.path)}"


def _duration(left: timedelta) -> str:
    """Return a duration in its two largest units: "in …" or, if negative, "… ago"."""
    seconds = abs(int(left.total_seconds()))
    parts: list[str] = []
    for size, unit in _UNITS:
        amount, seconds = divmod(seconds, size)
        if amount or parts or unit == "s":
            parts.append(f"{amount}{unit}")
    text = " ".join(parts[:2])
    return f"in {text}" if left.total_seconds() > 0 else f"{text} ago"


def presign_put(
    context: Context, uri: LakeUri, asked: timedelta | None, *, count: int, max_size: int
) -> None:
    """Print URLs for uploads, and the commands that upload and stage an object."""
    branch, path = ref_of(uri), uri.path or b""
    check_branch_name(branch)
    check_path(path)
    if path.endswith(b"/") and count == 1:
        raise UsageError(
            f"{uri} is a directory; the URL is for one object", hint=f"give its path: {uri}NAME"
        )
    wanted = lifetime(context, asked)
    start = context.now()
    repository = context.synced_repository(uri)
    links = new_links(repository, branch, count=count, expires_in=wanted, max_size=max_size)
    link = next(links)
    numbered = enumerate(chain([link], links))
    context.out.stream(
        numbered,
        record=lambda item: item[1],
        text=lambda item: "\n" * (item[0] > 0) + _incoming_text(item[1]),
    )
    warn_of_early_end(context, start + wanted, link.signed.expires_at, what="the URL expires")
    if not context.out.json:
        whole = f"{uri}NAME" if path.endswith(b"/") else str(uri)
        place = shlex.quote(whole) if is_visible(whole) else "PATH"
        context.out.note(f"to send a file: {_sending(link.signed)}")
        context.out.note(f"then, to stage it: lakecli fs stage {place} --incoming ID")


def presign_set(
    context: Context,
    uri: LakeUri,
    asked: timedelta | None,
    files: OutputFiles,
    *,
    count: int,
    names: list[bytes] | None,
    max_size: int,
) -> None:
    """Write a page and a script with which a partner uploads files."""
    branch, below = ref_of(uri), as_directory(uri.path or b"")
    check_branch_name(branch)
    check_path(below)
    files.check()
    wanted = lifetime(context, asked, in_file=True)
    repository = context.synced_repository(uri)
    links = new_set(
        repository, branch, below, count=count, names=names, expires_in=wanted, max_size=max_size
    )
    if files.page is not None:
        with replacing(files.page, mode=PRIVATE) as opened:
            opened.write(upload_page(links, title=files.title, sender=files.sender))
    if files.script is not None:
        with replacing(files.script, mode=_SCRIPT_MODE) as opened:
            opened.write(upload_script(links))
    record = pick(
        LinkSetJson,
        links,
        repository=repository.uri,
        branch=branch,
        prefix=os.fsdecode(below),
        count=len(links.links),
        **files.by_name,
    )
    expires = f"Expires: {local_date(links.expires_at)}"
    files.show(context, record, f"Files: {len(links.links)}", expires)
    end = links.created_at + wanted
    warn_of_early_end(context, end, links.expires_at, what="the first URL expires")
    if not context.out.json:
        place = f"{repository.uri}/{branch}/{os.fsdecode(below)}"
        shown = shlex.quote(place) if is_visible(place) else "PATH"
        context.out.note(f"to stage what has arrived: lakecli fs stage {shown} --arrived")


def _sending(signed: PresignedUrl) -> str:
    """Return an instruction for uploading an object, which does not show the secret URL."""
    if signed.fields:
        return "the command behind Send, with a name in place of FILE"
    headers = "".join(f" -H {shlex.quote(': '.join(each))}" for each in signed.headers.items())
    return f"curl -f -T FILE{headers} 'URL'"


def _form_command(signed: PresignedUrl) -> str:
    """Return the curl command that uploads an object by a form, whose last field is the file."""
    fields = [("--form-string", f"{name}={value}") for name, value in signed.fields.items()]
    return shlex.join(["curl", "-f", *chain(*fields), "-F", "file=@FILE", signed.url])


def _incoming_text(link: UploadLink) -> str:
    lines = [
        f"ID: {link.id}",
        f"URL: {link.signed.url}",
        *(f"Header: {name}: {value}" for name, value in link.signed.headers.items()),
        *([f"Send: {_form_command(link.signed)}"] if link.signed.fields else ()),
        f"Expires: {local_date(link.signed.expires_at)}",
        f"Physical Address: {link.physical_address}",
    ]
    return "\n".join(lines)

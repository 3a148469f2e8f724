"""``lakecli fs presign``."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lakecli.cli.context import Context
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.params import Completion, Expires, Kind, Parser, Recursive, read_prefix
from lakecli.cli.text import local_date
from lakecli.errors import UsageError
from lakecli.uri import LakeUri, ref_of

_PROGRAM = "lakecli fs presign"


class FormatName(StrEnum):
    """How a manifest is written."""

    JSON = "json"
    CSV = "csv"
    CURL = "curl"
    ARIA2 = "aria2"
    HTML = "html"


def fs_presign(
    context: Context,
    path: Annotated[
        LakeUri | None,
        typer.Argument(metavar="PATH", help="lakefs://REPOSITORY/REF/PATH"),
        Parser(read_prefix),
        Completion(Kind.PATH),
    ] = None,
    *,
    recursive: Recursive = False,
    expires: Expires = None,
    format_: Annotated[
        FormatName | None,
        typer.Option("--format", help="With -r, how to write the manifest; by its suffix"),
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option("--manifest", metavar="FILE", help="With -r, write all URLs to a file"),
        Completion(Kind.FILE),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(
            "--script",
            metavar="FILE",
            help="With -r, write a script that downloads all: Python's if FILE ends in .py",
        ),
        Completion(Kind.FILE),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            "--check", metavar="MANIFEST", help="Tell what has ended or changed since a manifest"
        ),
        Completion(Kind.FILE),
    ] = None,
    put: Annotated[
        bool, typer.Option("--put", help="Print a URL that takes an object, see fs stage")
    ] = False,
    inline: Annotated[
        bool,
        typer.Option("--inline", help="Let browsers show every object, even HTML and scripts"),
    ] = False,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, metavar="N", help="With --put, how many")
    ] = 1,
) -> ExitCode | None:
    """Print URLs that read objects without credentials, for a while.

    Everybody who has a URL can read its object until it ends: at the time asked for, or earlier
    where the store's signatures (seven days at most) or the credentials end. It is signed on this
    machine; nothing is sent.

    A browser shows text, CSV, JSON, PDF, images, sound and video. Of any other type, which it might
    run (HTML, SVG, XML, scripts) or does not know, it saves the object; --inline shows these too.

    With -r there is one for every object below PATH. They can be written to files that only you
    can read: a manifest with sizes, checksums and ends (--manifest FILE, or --format alone to
    print it), which may be a page for people who click, and a script that downloads and verifies
    everything by sh and curl, or by Python alone (--script FILE). What fails is listed, the rest
    is done, and the exit code is 3.

    With --check, a manifest (JSON or CSV) is compared with what its ref has now. The exit code is
    13 if any of its URLs has ended, or leads to something else than the ref does.

    With --put, the URL is one that somebody can send an object to, with curl -T FILE URL for
    example. What came is taken in by fs stage.

    Examples:
        lakecli fs presign lakefs://demo/main/reports/2026.csv --expires 12h
        curl -O -J "$(lakecli fs presign -q lakefs://demo/v1.0/reports/2026.csv)"
        lakecli fs presign -r lakefs://demo/v1.0/reports/ --manifest links.html --script get.sh
        lakecli fs presign -r lakefs://demo/v1.0/reports/ --expires 7d --manifest links.json
        lakecli fs presign --check links.json
        lakecli fs presign --put lakefs://demo/main/inbox/orders.csv --expires 1d
    """
    _check_options(
        path,
        recursive=recursive,
        check=check is not None,
        put=put,
        files=bool(format_ or manifest or script),
        count=count,
        inline=inline,
    )
    if check is not None:
        if expires is not None:
            raise UsageError("--expires and --check exclude each other")
        from lakecli.cli.handoff import check_manifest

        return check_manifest(context, check)
    if path is None:
        raise UsageError("no PATH to sign URLs for", hint=f"{_PROGRAM} PATH")
    if put:
        from lakecli.cli.handoff import presign_put

        presign_put(context, path, expires, count=count)
    elif recursive:
        from lakecli.cli.handoff import presign_tree

        name = None if format_ is None else format_.value
        presign_tree(
            context,
            path,
            expires,
            format_name=name,
            manifest=manifest,
            script=script,
            inline=inline,
        )
    else:
        _presign_one(context, path, expires, inline=inline)
    return None


def _check_options(
    path: LakeUri | None,
    *,
    recursive: bool,
    check: bool,
    put: bool,
    files: bool,
    count: int,
    inline: bool,
) -> None:
    """Refuse options that say nothing together."""
    if check + put + recursive > 1:
        raise UsageError("-r, --check and --put exclude each other", hint="give one of them")
    if check and path is not None:
        raise UsageError(
            "--check needs no PATH: the manifest says what it is of",
            hint=f"{_PROGRAM} --check MANIFEST",
        )
    if files and not recursive:
        raise UsageError("--format, --manifest and --script need -r")
    if inline and (check or put):
        raise UsageError("--inline is about URLs that read objects")
    if count != 1 and not put:
        raise UsageError("--count needs --put")


def _presign_one(
    context: Context, path: LakeUri, expires: timedelta | None, *, inline: bool
) -> None:
    from lakecli.cli.presigned import presigned
    from lakecli.repository.stat import stat

    name = path.path
    if not name:
        raise UsageError(f"no object in {path}", hint=f"for all there are: {_PROGRAM} -r {path}")
    repository = context.synced_repository(path)
    entry = stat(repository, ref_of(path), name)
    signed = presigned(context, repository, entry, name, expires, inline=inline)
    context.out.emit(
        {"path": name, "url": signed.url, "expires_at": signed.expires_at},
        text=lambda: [signed.url],
    )
    if not context.out.json:
        context.out.note(f"works until {local_date(signed.expires_at)}")

"""``lakecli fs presign``: print presigned URLs, or write them to files."""

from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TypedDict

from lakecli.base.uri import LakeUri, path_of, ref_of
from lakecli.cli.commands import presigned_links
from lakecli.cli.commands.names_from_file import NamesOptions, read_names
from lakecli.cli.context import Context
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.line import Kind, argument, flag, option
from lakecli.cli.out.records import answers, pick
from lakecli.cli.out.text import local_date
from lakecli.cli.params import Expires, Recursive, refuse_first
from lakecli.cli.parsers import each, read_prefix, read_size
from lakecli.repository.handoff.incoming import UploadLink
from lakecli.repository.handoff.links import ObjectLink
from lakecli.repository.handoff.manifest import LinkFinding
from lakecli.repository.stat import stat
from lakecli.stores.presigned_urls import LARGEST_PUT

_PROGRAM = "lakecli fs presign"
_CHECK = f"{_PROGRAM} --check"
_ONE = "give one of them"


class PresignedJson(TypedDict):
    """A presigned URL.

    Attributes:
        url: URL that reads the object; keep it secret.
        expires_at: time when the URL expires.
    """

    path: bytes | str
    url: str
    expires_at: datetime


class FormatName(StrEnum):
    """The format of a manifest."""

    JSON = "json"
    CSV = "csv"
    HTML = "html"


@answers(PresignedJson, each=True)
@answers(ObjectLink, each=True, option="-r|--files-from")
@answers(presigned_links.HandoffJson, option="--manifest|--script|--page")
@answers(LinkFinding, each=True, option="--check")
@answers(UploadLink, each=True, option="--put")
@answers(presigned_links.LinkSetJson, option="--put --page|--put --script")
def fs_presign(
    context: Context,
    paths: list[LakeUri] = argument("PATH", default=[], read=each(read_prefix)),
    *,
    recursive: Recursive = False,
    names: NamesOptions,
    expires: Expires = None,
    format_: FormatName | None = option(None),
    manifest: Path | None = option("FILE"),
    script: Path | None = option("FILE"),
    page: Path | None = option("FILE"),
    title: str = option("TEXT"),
    signed_by: bool = flag(),
    check: Path | None = option("MANIFEST", kind=Kind.FILE),
    put: bool = flag(),
    inline: bool = flag(),
    count: int = option("N", "--count", "-n", default=1, min=1),
    max_size: int | None = option("SIZE", read=read_size),
) -> ExitCode | None:
    """Print presigned URLs: temporary access without credentials.

    Anyone who has the URL can read the object until the URL expires: at the time asked for, or
    earlier if the store limits signatures (seven days at most) or the credentials expire. URLs are
    signed on this machine, without a request. Only Google credentials without a key file and Azure
    logins need a request (`lakecli help handoff`).

    The response has the content type of the object. If the object's metadata has content-encoding,
    such as gzip, the response has it as Content-Encoding.

    Browsers display text, CSV, JSON, PDF, images, sound and video, and save all other types.
    --inline lets them display HTML, SVG, XML and scripts, too. A browser may run the scripts in
    them.

    For several PATHs, one URL is printed for each. If one of the objects does not exist, no URL is
    printed.

    With -r, one URL is printed for each object below PATH. --manifest FILE writes the URLs with
    sizes, checksums and expiry times to a file: JSON, CSV, or a web page, by the suffix of FILE or
    by --format; --format alone prints the manifest. --page FILE writes a web page with links, which
    can also download everything as one ZIP archive. --script FILE writes a shell script that
    downloads and verifies everything; it needs curl. URLs in files work for one day, unless
    --expires or presign.expires says otherwise. The files are created with mode 0600, because
    anyone who has a URL can read the object. If some objects fail, the URLs of the others are
    written, the failures are listed, and the exit code is 3. --files-from FILE does the same for
    the objects that FILE names.

    --check MANIFEST compares a JSON or CSV manifest with the current state of its ref. The exit
    code is 13 if a URL has expired, or if the ref has changed or removed its object.

    With --put, the URL accepts an upload of one object, for example by `curl -T FILE URL`. `lakecli
    fs stage --incoming` then adds the object to the branch. The object may have up to 5 GiB, the
    limit of S3; on Google Cloud Storage a header, which is printed, sets this limit. With
    --max-size SIZE, the upload to S3 is a form (POST) instead of a PUT, because S3 has no other
    limit for a PUT. Azure always accepts 5,000 MiB.

    With --put and --page or --script, a partner with a browser or curl can send up to 1,000 files
    at once: N files of any names with -n N, or the files that --files-from names. `lakecli fs stage
    --arrived` stages the received files below PATH. A page needs a CORS rule of the bucket
    (`lakecli help clouds`). If the store supports it, large files are sent in parts, and an
    interrupted upload can continue (`lakecli help handoff`).

    Args:
        paths: lakefs://REPOSITORY/REF/PATH, or NAMESPACE@REF/PATH without a clone (lakecli help
            remotes).
        format_: With -r, format of the manifest; default: by its suffix.
        manifest: With -r, write the URLs to this file.
        script: Write a shell script that downloads everything; with --put, one that sends files.
        page: Write a web page of the links; with --put, one that sends files.
        title: The title of a web page; default: PATH.
        signed_by: Name the committer in a web page as its sender.
        check: Show which URLs expired and which objects changed.
        put: Print a URL for uploading an object; see fs stage.
        inline: Let browsers display every object, even HTML and scripts.
        count: With --put, number of URLs, for one object each.
        max_size: With --put, largest size of an object; default: 5GiB.

    Examples:
        lakecli fs presign lakefs://demo/main/reports/2026.csv --expires 12h
        curl -f -o 2026.csv "$(lakecli fs presign -q lakefs://demo/v1.0/reports/2026.csv)"
        lakecli fs presign -r lakefs://demo/v1.0/reports/ --manifest links.html --script get.sh
        lakecli fs presign -r lakefs://demo/v1.0/reports/ --expires 7d --manifest links.json
        lakecli fs presign --files-from names.txt lakefs://demo/v1.0/reports/
        lakecli fs presign --check links.json
        lakecli fs presign --put lakefs://demo/main/inbox/orders.csv --expires 1d
        lakecli fs presign --put lakefs://demo/main/inbox/orders.csv --max-size 100MB
        lakecli fs presign --put lakefs://demo/main/inbox/ -n 20 --page put.html --script put.sh
        lakecli fs presign s3://my-bucket/demo@main/reports/2026.csv
    """
    listed = read_names(context, names)
    files = presigned_links.OutputFiles(
        manifest, script, page, title, context.committer() if signed_by else ""
    )
    path = paths[0] if paths else None
    is_check, is_set = check is not None, bool(script or page)
    is_tree = recursive or (listed is not None and not put)
    too_many = len(paths) > 1 and (is_check or put or recursive or listed is not None)
    is_listed_put = put and listed is not None and not is_set
    too_large = max_size is not None and not 0 < max_size <= LARGEST_PUT
    of_put = count != 1 or max_size is not None
    refuse_first(
        (too_many, "-r, --files-from, --put and --check take one PATH", "run one command for each"),
        (is_check + put + is_tree > 1, "-r, --check and --put exclude each other", _ONE),
        (is_check and path, "--check takes no PATH; the manifest names it", f"{_CHECK} MANIFEST"),
        ((format_ or manifest) and not is_tree, "--format and --manifest need -r", None),
        (is_set and not (is_tree or put), "--page and --script need -r or --put", None),
        (inline and (is_check or put), "--inline is for URLs that read objects", None),
        (of_put and not put, "--count and --max-size need --put", None),
        (too_large, "--max-size is 1 byte to 5GiB", None),
        (is_check and expires is not None, "--expires and --check exclude each other", None),
        (not (is_check or path), "PATH is missing", f"{_PROGRAM} PATH"),
        (is_listed_put, "with --put, --files-from needs --page or --script", None),
    )
    if check is not None:
        return presigned_links.check_manifest(context, check)
    assert path is not None
    largest = max_size or LARGEST_PUT
    if put and is_set:
        presigned_links.presign_set(
            context, path, expires, files, count=count, names=listed, max_size=largest
        )
    elif put:
        presigned_links.presign_put(context, path, expires, count=count, max_size=largest)
    elif is_tree:
        presigned_links.presign_tree(
            context, path, expires, files, format_name=format_, inline=inline, names=listed
        )
    else:
        _presign_each(context, paths, expires, inline=inline)
    return None


def _presign_each(
    context: Context, paths: list[LakeUri], expires: timedelta | None, *, inline: bool
) -> None:
    hint = f"for all objects: {_PROGRAM} -r {paths[0]}"
    wanted = [(ref_of(path), path_of(path, hint=hint)) for path in paths]
    repository = context.synced_repository(*paths)
    entries = [(name, stat(repository, ref, name)) for ref, name in wanted]
    signed = [
        (name, presigned_links.presigned(context, repository, entry, name, expires, inline=inline))
        for name, entry in entries
    ]
    context.out.stream(
        signed,
        record=lambda item: pick(PresignedJson, item[1], path=item[0]),
        text=lambda item: item[1].url,
    )
    if not context.out.json:
        expiry = min(each.expires_at for _, each in signed)
        context.out.note(f"expires at {local_date(expiry)}")

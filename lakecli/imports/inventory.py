"""An S3 Inventory as a source: its ``manifest.json`` names files in CSV or Parquet."""

from collections.abc import Sequence
from typing import Final

from lakecli.base.model import MAX_PATH_SIZE, NO_ACCOUNT, Account
from lakecli.base.parsing import Unparsable, parse_json
from lakecli.base.validation import MAX_COUNT, Invalid, Record, list_of, text, whole
from lakecli.errors import IntegrityError, Unsupported, UsageError
from lakecli.imports.manifest import CSV, PARQUET, Manifest, ManifestFile, check_arrow, open_object
from lakecli.imports.manifest_rows import Layout

SUFFIX: Final = "/manifest.json"

_REQUIRED: Final = ("Bucket", "Key", "Size", "ETag")
_MAX_MANIFEST_SIZE: Final = 256 << 20
"""Maximum size of a ``manifest.json`` in bytes; it has about 200 bytes for each of its files."""
_FILE: Final = Record(
    {"key": text(MAX_PATH_SIZE), "size": whole(0, MAX_COUNT), "MD5checksum": text(64)}
)
_MANIFEST: Final = Record(
    {
        "fileFormat": text(64),
        "fileSchema": text(16 << 10),
        "destinationBucket": text(2048),
        "files": list_of(_FILE.read, _MAX_MANIFEST_SIZE),
    }
)
_COLUMNS: Final = {
    "Bucket": ("bucket", "bucket"),
    "Key": ("path", "key"),
    "Size": ("size", "size"),
    "LastModifiedDate": ("mtime", "last_modified_date"),
    "ETag": ("checksum", "e_tag"),
    "IsLatest": ("latest", "is_latest"),
    "IsDeleteMarker": ("deleted", "is_delete_marker"),
}
"""For each field of an inventory: the field of `Layout`, and the name of the column in Parquet."""


def read_inventory(uri: str, account: Account = NO_ACCOUNT) -> Manifest:
    """Read the ``manifest.json`` of an inventory.

    Only the latest version of each object is imported, and no delete markers. If the inventory was
    copied elsewhere, its files must be in ``data/`` beside the directory of the manifest, where S3
    writes them.

    Raises:
        ObjectNotFound: the file does not exist.
        IntegrityError: the file is not the manifest of an inventory.
        Unsupported: the inventory is in ORC; or it is in Parquet, and Arrow is not installed.
        UsageError: the inventory lacks a field.
    """
    with open_object(uri, account) as stream:
        data = stream.read(_MAX_MANIFEST_SIZE + 1)
    try:
        found = _MANIFEST.read(parse_json(data, max_size=_MAX_MANIFEST_SIZE))
    except (Unparsable, Invalid) as error:
        raise IntegrityError(
            f"{uri} is not the manifest of an S3 Inventory: {error}",
            hint="a manifest has fileFormat, fileSchema, destinationBucket and files",
        ) from error
    kind, names = found["fileFormat"], found["fileSchema"]
    bucket = found["destinationBucket"].rpartition(":")[2]  # the name at the end of an ARN
    if kind not in ("CSV", "Parquet"):
        hint = "have S3 write the inventory as Parquet or CSV"
        raise Unsupported(f"an inventory in {kind}", hint=hint)
    is_csv = kind == "CSV"
    if found["files"] and not is_csv:
        check_arrow(uri)
    columns = [name.strip() for name in names.split(",")] if is_csv else []
    layout = _layout(columns if is_csv else _parquet_columns(names), is_csv=is_csv)
    form = CSV if is_csv else PARQUET
    files = []
    for file in found["files"]:
        place, md5, size = _place(uri, bucket, file["key"]), file["MD5checksum"], file["size"]
        is_gzip = is_csv and file["key"].endswith(".gz")
        files.append(ManifestFile(place, form, "", size, is_gzip, tuple(columns), account, md5))
    return Manifest(tuple(files), layout)


def _parquet_columns(schema: str) -> list[str]:
    """Return the known fields of a Parquet schema in message type notation."""
    words = schema.replace(";", " ").split()
    return [field for field, (_, name) in _COLUMNS.items() if name in words]


def _layout(fields: Sequence[str], *, is_csv: bool) -> Layout:
    missing = [name for name in _REQUIRED if name not in fields]
    if missing:
        raise UsageError(
            f"the inventory lacks the field {' and the field '.join(missing)}",
            hint="add it to the inventory's optional fields in S3",
        )

    names = {
        name: field if is_csv else in_parquet
        for field, (name, in_parquet) in _COLUMNS.items()
        if field in fields
    }
    return Layout(**{"address": "", **names}, is_quoted=is_csv, scheme="s3")


def _place(manifest: str, bucket: str, key: str) -> str:
    """Return the URI of a file of an inventory."""
    if manifest.startswith("s3://"):
        return f"s3://{bucket}/{key}"
    above = manifest.removesuffix(SUFFIX).rpartition("/")[0]
    return f"{above}/data/{key.rpartition('/')[2]}"

"""Content types by suffix, from a frozen table.

Not the system's table, because the same file must have the same identity on every machine. A new
suffix changes the identity of files that are uploaded again, and so does a changed one: add
suffixes only for new formats, and never change one.
"""

from __future__ import annotations

DEFAULT = "application/octet-stream"

_SUFFIXES = {
    "application/avro": "avro",
    "application/geo+json": "geojson",
    "application/gzip": "gz tgz",
    "application/java-archive": "jar",
    "application/json": "json",
    "application/jsonl": "jsonl",
    "application/msword": "doc",
    "application/pdf": "pdf",
    "application/postscript": "ps",
    "application/rtf": "rtf",
    "application/sql": "sql",
    "application/toml": "toml",
    "application/vnd.apache.arrow.file": "arrow feather",
    "application/vnd.apache.orc": "orc",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.ms-excel": "xls",
    "application/vnd.ms-powerpoint": "ppt",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.rar": "rar",
    "application/vnd.sqlite3": "sqlite",
    "application/wasm": "wasm",
    "application/x-7z-compressed": "7z",
    "application/x-bzip2": "bz2",
    "application/x-hdf5": "h5 hdf5",
    "application/x-ipynb+json": "ipynb",
    "application/x-lz4": "lz4",
    "application/x-ndjson": "ndjson",
    "application/x-netcdf": "nc",
    "application/x-sh": "sh",
    "application/x-snappy-framed": "snappy",
    "application/x-tar": "tar",
    "application/x-xz": "xz",
    "application/xml": "xml",
    "application/yaml": "yaml yml",
    "application/zip": "zip",
    "application/zstd": "zst",
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/wav": "wav",
    "font/otf": "otf",
    "font/ttf": "ttf",
    "font/woff": "woff",
    "font/woff2": "woff2",
    "image/avif": "avif",
    "image/bmp": "bmp",
    "image/gif": "gif",
    "image/heic": "heic",
    "image/jpeg": "jpeg jpg",
    "image/png": "png",
    "image/svg+xml": "svg",
    "image/tiff": "tif tiff",
    "image/vnd.microsoft.icon": "ico",
    "image/webp": "webp",
    "text/calendar": "ics",
    "text/css": "css",
    "text/csv": "csv",
    "text/html": "htm html",
    "text/javascript": "js mjs",
    "text/markdown": "md",
    "text/plain": "conf ini log proto txt",
    "text/tab-separated-values": "tsv",
    "text/x-c": "c cpp h",
    "text/x-go": "go",
    "text/x-java": "java",
    "text/x-python": "py",
    "text/x-rst": "rst",
    "text/x-rust": "rs",
    "text/x-scala": "scala",
    "text/x-typescript": "ts",
    "video/mp4": "mp4",
    "video/mpeg": "mpeg",
    "video/quicktime": "mov",
    "video/webm": "webm",
    "video/x-msvideo": "avi",
}
"""Suffixes by content type, separated by spaces."""

_BY_SUFFIX = {
    suffix.encode(): name for name, suffixes in _SUFFIXES.items() for suffix in suffixes.split()
}


def content_type_of(path: bytes) -> str:
    """Return the content type that the suffix of a path implies."""
    name = path.rpartition(b"/")[2]
    stem, dot, suffix = name.rpartition(b".")
    if not (dot and stem):
        return DEFAULT
    return _BY_SUFFIX.get(suffix.lower(), DEFAULT)

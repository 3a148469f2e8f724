"""Content types by file name suffix, from a fixed table.

The table of the operating system is not used, because a file must get the same content type, and
so the same identity, on every machine. If the table changes, files with that suffix get another
identity at their next upload: add suffixes only for new formats, and never change an existing one.
"""

from __future__ import annotations

DEFAULT = "application/octet-stream"

_BY_SUFFIX = {
    b"7z": "application/x-7z-compressed",
    b"aac": "audio/aac",
    b"arrow": "application/vnd.apache.arrow.file",
    b"avi": "video/x-msvideo",
    b"avif": "image/avif",
    b"avro": "application/avro",
    b"bmp": "image/bmp",
    b"bz2": "application/x-bzip2",
    b"c": "text/x-c",
    b"conf": "text/plain",
    b"cpp": "text/x-c",
    b"css": "text/css",
    b"csv": "text/csv",
    b"doc": "application/msword",
    b"docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    b"feather": "application/vnd.apache.arrow.file",
    b"flac": "audio/flac",
    b"geojson": "application/geo+json",
    b"gif": "image/gif",
    b"go": "text/x-go",
    b"gz": "application/gzip",
    b"h": "text/x-c",
    b"h5": "application/x-hdf5",
    b"hdf5": "application/x-hdf5",
    b"heic": "image/heic",
    b"htm": "text/html",
    b"html": "text/html",
    b"ico": "image/vnd.microsoft.icon",
    b"ics": "text/calendar",
    b"ini": "text/plain",
    b"ipynb": "application/x-ipynb+json",
    b"jar": "application/java-archive",
    b"java": "text/x-java",
    b"jpeg": "image/jpeg",
    b"jpg": "image/jpeg",
    b"js": "text/javascript",
    b"json": "application/json",
    b"jsonl": "application/jsonl",
    b"log": "text/plain",
    b"lz4": "application/x-lz4",
    b"md": "text/markdown",
    b"mjs": "text/javascript",
    b"mov": "video/quicktime",
    b"mp3": "audio/mpeg",
    b"mp4": "video/mp4",
    b"mpeg": "video/mpeg",
    b"nc": "application/x-netcdf",
    b"ndjson": "application/x-ndjson",
    b"ods": "application/vnd.oasis.opendocument.spreadsheet",
    b"odt": "application/vnd.oasis.opendocument.text",
    b"ogg": "audio/ogg",
    b"orc": "application/vnd.apache.orc",
    b"otf": "font/otf",
    b"parquet": "application/vnd.apache.parquet",
    b"pdf": "application/pdf",
    b"png": "image/png",
    b"ppt": "application/vnd.ms-powerpoint",
    b"pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    b"proto": "text/plain",
    b"ps": "application/postscript",
    b"py": "text/x-python",
    b"rar": "application/vnd.rar",
    b"rs": "text/x-rust",
    b"rst": "text/x-rst",
    b"rtf": "application/rtf",
    b"scala": "text/x-scala",
    b"sh": "application/x-sh",
    b"snappy": "application/x-snappy-framed",
    b"sql": "application/sql",
    b"sqlite": "application/vnd.sqlite3",
    b"svg": "image/svg+xml",
    b"tar": "application/x-tar",
    b"tgz": "application/gzip",
    b"tif": "image/tiff",
    b"tiff": "image/tiff",
    b"toml": "application/toml",
    b"ts": "text/x-typescript",
    b"tsv": "text/tab-separated-values",
    b"ttf": "font/ttf",
    b"txt": "text/plain",
    b"wasm": "application/wasm",
    b"wav": "audio/wav",
    b"webm": "video/webm",
    b"webp": "image/webp",
    b"woff": "font/woff",
    b"woff2": "font/woff2",
    b"xls": "application/vnd.ms-excel",
    b"xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    b"xml": "application/xml",
    b"xz": "application/x-xz",
    b"yaml": "application/yaml",
    b"yml": "application/yaml",
    b"zip": "application/zip",
    b"zst": "application/zstd",
}
"""Content types by suffix in lower case."""


def content_type_of(path: bytes) -> str:
    """Return the content type that the suffix of a path implies."""
    name = path.rpartition(b"/")[2]
    stem, dot, suffix = name.rpartition(b".")
    if not (dot and stem):
        return DEFAULT
    return _BY_SUFFIX.get(suffix.lower(), DEFAULT)

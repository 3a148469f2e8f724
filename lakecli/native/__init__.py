"""The compiled core: C functions for records, entries, listings, checksums and many small files.

The core makes large imports, commits, listings and diffs much faster, because these mostly decode
blocks and encode entries. No user needs a C compiler: each function has a twin, a Python function
with the same results, which is used if the compiled core is missing.

::

    core.c     the module, and helpers of its functions
    blocks.c   reading blocks of every kind, and writing blocks of records
    lookup.c   unpacking stored blocks, and reading values of a table from its file
    entries.c  decoding entries, and encoding the entries of external objects
    files.c    reading and writing many small files
    lines.c    lines of a listing, from entries
    columns.c  columns of entries, for Arrow and for working directories
    crc64.c    a checksum of S3

`.ci/build_core.py` compiles them to ``_core.abi3.so`` in this directory.

This package imports nothing from lakecli.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, Protocol


class Core(Protocol):
    """The functions of the compiled core; each has a twin, a Python function with the same results.

    Unless documented otherwise, the result ``None`` means that the caller must call the twin.
    """

    SOURCE: str
    """The SHA-256 digest of the files that were compiled."""

    def decode_records(self, payload: bytes, /) -> tuple[list[bytes], list[bytes]] | None:
        """Do the same as `lakecli.sstable.block.decode_records`."""

    def decode_run(
        self, data: bytes, offsets: list[int], sizes: list[int], /
    ) -> tuple[list[bytes], list[bytes], list[int]] | None:
        """Verify and decode many stored blocks, as `lakecli.sstable.reader.decode_block` does each.

        Returns:
            The keys and the values of all records, and where the records of each block begin.
        """

    def decode_index(self, payload: bytes, /) -> tuple[list[bytes], list[int]] | None:
        """Do the same as `lakecli.sstable.directory.decode_handles`."""

    def decode_pairs(self, payload: bytes, /) -> tuple[list[bytes], list[bytes]] | None:
        """Return the keys and the values of `lakecli.sstable.block.decode_pairs`."""

    def decode_tail(
        self, tail: bytes, size: int, /
    ) -> tuple[tuple[list[bytes], list[bytes]], int, bytes, int] | None:
        """Do the same as `lakecli.sstable.directory.read_tail`, from a file's last bytes."""

    def find_handle(self, payload: bytes, key: bytes, /) -> Any:  # noqa: ANN401
        """Do the same as `lakecli.sstable.directory.find_handle`.

        ``NotImplemented`` means that the caller must call the twin.
        """

    def find_value(self, payload: bytes, key: bytes, /) -> Any:  # noqa: ANN401
        """Do the same as `lakecli.sstable.block.find_value`.

        ``NotImplemented`` means that the caller must call the twin.
        """

    def find_in_file(
        self, file: int, top: bytes, partitions_end: int, blocks_end: int, keys: list[bytes], /
    ) -> list[Any]:
        """Do the same as `lakecli.sstable.reader.KeyLookup.get` for each of several keys.

        Args:
            file: the descriptor of the table's file.

        Returns:
            The values; ``NotImplemented`` means that the caller must call the twin for this key.
        """

    def unpack_block(self, stored: bytes, /) -> bytes | None:
        """Do the same as `lakecli.sstable.block.unpack`."""

    def encode_block(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        checksums: Sequence[int],
        start: int,
        /,
    ) -> tuple[bytes, int, bool] | None:
        """Do the same as `lakecli.sstable.block.encode_block`."""

    def encode_index_entries(
        self, keys: Sequence[bytes], sizes: Sequence[int], offset: int, /
    ) -> list[bytes] | None:
        """Do the same as `lakecli.sstable.writer.encode_index_entries`."""

    def encode_external(
        self,
        hasher: Any,  # noqa: ANN401
        columns: tuple[
            Sequence[bytes],
            Sequence[int],
            Sequence[bytes],
            Sequence[int],
            Sequence[bytes] | None,
            Sequence[bytes] | None,
        ],
        /,
    ) -> list[bytes] | None:
        """Do the same as `lakecli.committed.values.encode_external`.

        An empty value in the result means that the twin must encode this value. The hasher has the
        methods ``update``, ``digest`` and ``reset`` of ``blake3.blake3``.
        """

    def decode_entry(
        self, value: bytes, /
    ) -> tuple[str, int, str, int, str, dict[str, str]] | None:
        """Return the fields of `lakecli.base.model.Entry`, with the time in unix seconds.

        The twin is `lakecli.committed.values.decode_entry`, which calls this function if there is a
        core.
        """

    def find_owned(self, values: Sequence[bytes], /) -> list[int] | None:
        """Do the same as `lakecli.committed.values.find_owned`; may return extra positions."""

    def read_files(
        self, directory: int, names: list[bytes], limit: int, /
    ) -> list[tuple[bytes, int] | None]:
        """Return the bytes and the modification time (unix seconds) of each regular file.

        The result is ``None`` for a file that is missing, unreadable, not regular, too large or
        changing. The caller then reads that file itself to get the error.

        Args:
            directory: descriptor of the directory that the names are relative to.
            names: names of the files; a symbolic link is not followed.
            limit: largest size of a file in bytes.
        """

    def write_files(
        self,
        directory: int,
        names: list[bytes],
        contents: list[bytes],
        seconds: list[int] | None,
        /,
    ) -> list[Any]:
        """Write new files; return ``None`` for a file that exists already or could not be written.

        Args:
            directory: descriptor of the directory that the names are relative to.
            names: names of the files.
            contents: bytes of the files.
            seconds: modification times of the files, in unix seconds; ``None``: now.

        Returns:
            For each file that was written: inode, size, mtime and ctime in nanoseconds; without
            `seconds`, ``True``.
        """

    def list_lines(
        self,
        items: list[Any],
        cut: int,
        zones_of: Callable[[int], Any],
        quote: Callable[[bytes], str],
        /,
    ) -> tuple[list[str | None], int]:
        """Return the lines of a listing of objects, and the sum of the sizes of these objects.

        A line is ``None`` if the twin, `lakecli.cli.commands.fs_ls.object_line`, must make it.

        Args:
            items: pairs of a path and a value; other items are left to the twin.
            cut: number of bytes at the beginning of each path that are not shown.
            zones_of: the function `lakecli.cli.out.text.zones_of`.
            quote: the function `lakecli.cli.out.text.quote_path`.
        """

    def entry_columns(self, values: list[bytes], namespace: bytes, /) -> tuple[Any, ...] | None:
        """Return the columns of `lakecli.exports.entry_columns.columns_of` as buffers."""

    def content_objects(
        self, values: list[bytes], special: bytes, /
    ) -> list[tuple[str, int, str, int] | None]:
        """Do the same as `lakecli.committed.values.content_objects`.

        An item is ``None`` if the caller must call the twin for this value.
        """

    def crc64nvme(self, data: bytes, crc: int, /) -> int:
        """Do the same as `lakecli.serving.s3.checksums.python_crc64nvme`."""


INTERFACE: Final = 17
"""Version of the interface; a compiled core with another version is not used."""

MISSING: Final = "there was no C compiler at the installation"
OUTDATED: Final = "it was compiled from another version of its source"


@cache
def load() -> tuple[Core | None, str]:
    """Return the compiled core, or ``None`` and the reason why it is not used."""
    try:
        import lakecli.native._core as compiled  # type: ignore[import-not-found]
    except ModuleNotFoundError:
        return None, MISSING
    except ImportError as error:
        return None, f"it cannot be loaded: {error}"
    if getattr(compiled, "INTERFACE", None) != INTERFACE:
        return None, OUTDATED
    return compiled, ""


def core() -> Core | None:
    """Return the compiled core, or ``None`` if Python functions replace it."""
    return load()[0]


def problem() -> str:
    """Return the reason why the compiled core is not used; ``""`` if it is used."""
    return load()[1]

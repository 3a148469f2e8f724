"""What is written in C, too: blocks of records, entries, lines of a listing, and many small files.

With it large imports, commits, listings and diffs take much less processor time: decoding blocks
and encoding entries are most of their work. No user needs a C compiler: an installation without one
lacks the compiled core, and the twins in Python do the work, with the same answers.

::

    core.c     the module, and helpers of its functions
    blocks.c   reading blocks, and writing those of records
    lookup.c   reading one value of a table from its file
    entries.c  decoding entries, and encoding those of external objects
    files.c    reading and writing many small files
    lines.c    lines of a listing, from entries
    columns.c  columns of entries, for Arrow

`.ci/build_core.py` compiles it to ``_core.abi3.so`` in this directory.

May import nothing of lakecli.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, Protocol


class Core(Protocol):
    """The functions of the core. What they leave to the twin is ``None`` if not noted."""

    SOURCE: str
    """The SHA-256 digest of the files that were compiled."""

    def decode_records(self, payload: bytes, /) -> tuple[list[bytes], list[bytes]] | None:
        """As `lakecli.sstable.block.decode_records`."""

    def decode_index(self, payload: bytes, /) -> tuple[list[bytes], list[int]] | None:
        """As `lakecli.sstable.directory.decode_handles`."""

    def decode_pairs(self, payload: bytes, /) -> tuple[list[bytes], list[bytes]] | None:
        """Return the keys and the values of `lakecli.sstable.block.decode_pairs`."""

    def find_handle(self, payload: bytes, key: bytes, /) -> Any:  # noqa: ANN401
        """As `lakecli.sstable.directory.find_handle`; ``NotImplemented`` is left to the twin."""

    def find_value(self, payload: bytes, key: bytes, /) -> Any:  # noqa: ANN401
        """As `lakecli.sstable.block.find_value`; ``NotImplemented`` is left to the twin."""

    def find_in_file(
        self, file: int, top: bytes, partitions_end: int, blocks_end: int, key: bytes, /
    ) -> Any:  # noqa: ANN401
        """As `lakecli.sstable.reader.KeyLookup.get`, from the descriptor of a file.

        ``NotImplemented`` is left to the twin.
        """

    def encode_block(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        checksums: Sequence[int],
        start: int,
        /,
    ) -> tuple[bytes, int, bool] | None:
        """As `lakecli.sstable.block.encode_block`."""

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
        """As `lakecli.committed.values.encode_external`; a value that is left to the twin is empty.

        The hasher has the methods ``update``, ``digest`` and ``reset`` of ``blake3.blake3``.
        """

    def decode_entry(
        self, value: bytes, /
    ) -> tuple[str, int, str, int, str, dict[str, str]] | None:
        """Return the fields of `lakecli.base.model.Entry`, with the time in unix seconds.

        The twin is `lakecli.committed.values.decode_entry` without the core.
        """

    def find_owned(self, values: Sequence[bytes], /) -> list[int] | None:
        """As `lakecli.committed.values.find_owned`; it may find more."""

    def read_files(
        self, directory: int, names: list[bytes], limit: int, /
    ) -> list[tuple[bytes, int] | None]:
        """Return the bytes of regular files, and when each was modified, in unix seconds.

        Whoever reads by itself a file for which there is ``None`` has the error.

        Args:
            directory: the opened directory that the names are relative to.
            names: of the files; a link in the place of a file is not followed.
            limit: bytes of the largest file.
        """

    def write_files(
        self,
        directory: int,
        names: list[bytes],
        contents: list[bytes],
        seconds: list[int] | None,
        /,
    ) -> list[Any]:
        """Write new files; return ``None`` for each one that has a name which is taken, or failed.

        Args:
            directory: the opened directory that the names are relative to.
            names: of the files.
            contents: of the files.
            seconds: their modification times, in unix seconds; ``None``: now.

        Returns:
            For a file that was written inode, size, and the times in nanoseconds when bytes and
            inode were changed; if no times are given, ``True``.
        """

    def list_lines(
        self,
        items: list[Any],
        cut: int,
        zones_of: Callable[[int], Any],
        quote: Callable[[bytes], str],
        /,
    ) -> tuple[list[str | None], int]:
        """Return the lines of objects, and the size of all of these objects.

        ``None`` stands for a line that is left to the twin.

        The twin is `lakecli.cli.commands.fs_ls.object_line`.

        Args:
            items: pairs of a path and a value; other items are left to the twin.
            cut: bytes of each path that are not shown.
            zones_of: as `lakecli.cli.out.text.zones_of`.
            quote: as `lakecli.cli.out.text.quote_path`.
        """

    def entry_columns(self, values: list[bytes], namespace: bytes, /) -> tuple[Any, ...] | None:
        """Return the columns of `lakecli.exports.entry_columns.columns_of` as buffers."""


INTERFACE: Final = 12
"""The meaning of the functions; a core with another one is not used."""

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
    """Return the compiled core, or ``None`` where the twins do the work."""
    return load()[0]


def problem() -> str:
    """Return why the compiled core is not used; ``""`` if it is."""
    return load()[1]

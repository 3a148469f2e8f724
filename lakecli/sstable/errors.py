"""Errors of SSTables."""

from __future__ import annotations

from lakecli.errors import IntegrityError


class CorruptTable(IntegrityError):
    """A damaged SSTable.

    Attributes:
        name: of the file.
        offset: of the damaged part in the file.
    """

    def __init__(self, name: str, offset: int, what: str) -> None:
        super().__init__(
            f"damaged SSTable {name} at offset {offset}: {what}", hint="run lakecli fsck"
        )
        self.name = name
        self.offset = offset


class UnknownTableFormat(CorruptTable):
    """A file whose footer is of another format: a newer one, or another program's."""

    def __init__(self, name: str, offset: int, what: str) -> None:
        super().__init__(name, offset, what)
        self.message = f"{name} is not an SSTable that this lakecli reads, offset {offset}: {what}"
        self.args = (self.message,)
        self.hint = "update lakecli if a newer program wrote it, else run lakecli fsck"

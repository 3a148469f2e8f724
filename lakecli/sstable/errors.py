"""What can be wrong with an SSTable."""

from __future__ import annotations

from lakecli.errors import IntegrityError


class CorruptTable(IntegrityError):
    """A file that is not the SSTable it should be.

    Attributes:
        name: of the file.
        offset: in the file, of the part that is wrong.
    """

    def __init__(self, name: str, offset: int, what: str) -> None:
        super().__init__(
            f"damaged SSTable {name} at offset {offset}: {what}", hint="run lakecli fsck"
        )
        self.name = name
        self.offset = offset


class UnknownTableFormat(CorruptTable):
    """A file whose footer is not of the one format that is read here: newer, or another's."""

    def __init__(self, name: str, offset: int, what: str) -> None:
        super().__init__(name, offset, what)
        self.message = f"{name} is not an SSTable this lakecli reads, at offset {offset}: {what}"
        self.args = (self.message,)
        self.hint = (
            "it is damaged, or a newer program wrote it: update lakecli, or run lakecli fsck"
        )

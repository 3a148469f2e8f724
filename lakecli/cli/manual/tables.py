"""Tables in text files: names, and below them an indented text about these names."""

from pathlib import Path
from typing import NamedTuple


class TableEntry(NamedTuple):
    """An entry of a table.

    Attributes:
        names: the names, which are separated by commas in the file.
        text: the text about the names, as one line.
    """

    names: tuple[str, ...]
    text: str


def read_texts(file: Path) -> dict[str, str]:
    """Return the texts of a file by their names; several names are one key, such as ``A, B``."""
    return {", ".join(names): text for names, text in read_table(file)}


def read_table(file: Path) -> list[TableEntry]:
    """Return the entries of a file, which are separated by empty lines."""
    entries = []
    for paragraph in file.read_text("utf-8").split("\n\n"):
        names, _, text = paragraph.strip().partition("\n    ")
        entries.append(
            TableEntry(tuple(" ".join(names.split()).split(", ")), " ".join(text.split()))
        )
    return entries

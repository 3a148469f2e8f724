"""Read tables from text files; an entry is a line of names, and an indented text about them."""

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
    """Return the texts of a file by name; an entry with several names has one key: ``A, B``."""
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

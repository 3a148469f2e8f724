"""Read tables from text files; an entry is a line of names, and an indented text about them."""

from pathlib import Path


def read_texts(file: Path) -> dict[str, str]:
    """Return the texts of a file by name; an entry with several names has one key: ``A, B``."""
    return {", ".join(names): text for names, text in read_table(file)}


def read_table(file: Path) -> list[tuple[list[str], str]]:
    """Return the entries of a file, which are separated by empty lines.

    An entry has its names, which are separated by commas in the file, and its text as one line.
    """
    entries = []
    for paragraph in file.read_text("utf-8").split("\n\n"):
        names, _, text = paragraph.strip().partition("\n    ")
        entries.append((" ".join(names.split()).split(", "), " ".join(text.split())))
    return entries

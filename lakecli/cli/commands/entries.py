"""The output about one object: its JSON record and its lines of text."""

from lakecli.base.model import Entry
from lakecli.cli.context import Context
from lakecli.cli.out.records import EntryJson
from lakecli.cli.out.text import entry_lines
from lakecli.repository.contract import Repository
from lakecli.repository.reading.addresses import full_address


def entry_record(repository: Repository, path: bytes, entry: Entry) -> EntryJson:
    """Return the JSON record of an object, with the full URI of its bytes."""
    # Not by `pick`: a listing has one for each object.
    return {
        "path": path,
        "size": entry.size,
        "checksum": entry.checksum,
        "modified_at": entry.modified_at,
        "content_type": entry.content_type,
        "metadata": entry.metadata,
        "physical_address": full_address(repository, entry),
    }


def emit_entry(context: Context, repository: Repository, path: bytes, entry: Entry) -> None:
    """Report one object, with the full URI of its bytes."""
    context.out.emit(
        lambda: entry_record(repository, path, entry),
        text=lambda: entry_lines(path, entry, physical_address=full_address(repository, entry)),
    )

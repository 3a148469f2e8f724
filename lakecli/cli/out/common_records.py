"""JSON answers that several commands give; a command that answers in text imports no classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakecli.base import model
    from lakecli.cli.out.answers.history import Commit, Ref, Repository
    from lakecli.cli.out.answers.objects import Entry


def repository_record(record: model.RepositoryRecord) -> Repository:
    """Return the JSON answer about a repository."""
    from lakecli.cli.out.answers import pick
    from lakecli.cli.out.answers.history import Repository

    return pick(Repository, record)


def commit_record(commit: model.Commit) -> Commit:
    """Return the JSON answer about a commit."""
    from lakecli.cli.out.answers import pick
    from lakecli.cli.out.answers.history import Commit

    return pick(Commit, commit)


def ref_record(ref: model.Branch | model.Tag) -> Ref:
    """Return the JSON answer about a branch or a tag."""
    from lakecli.cli.out.answers import pick
    from lakecli.cli.out.answers.history import Ref

    return pick(Ref, ref)


def entry_record(path: bytes, entry: model.Entry, *, physical_address: str) -> Entry:
    """Return the JSON answer about an object; the address is the full URI."""
    # Not by `pick`: a listing has one for each object.
    return {
        "path": path,
        "size": entry.size,
        "checksum": entry.checksum,
        "modified_at": entry.modified_at,
        "content_type": entry.content_type,
        "metadata": entry.metadata,
        "physical_address": physical_address,
    }

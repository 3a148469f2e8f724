"""JSON answers that several commands give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.cli.answers import pick
from lakecli.cli.answers.history import Commit, Ref, Repository
from lakecli.cli.answers.objects import Entry

if TYPE_CHECKING:
    from lakecli import model


def repository_record(record: model.RepositoryRecord) -> Repository:
    """Return the JSON answer about a repository."""
    return pick(Repository, record)


def commit_record(commit: model.Commit) -> Commit:
    """Return the JSON answer about a commit."""
    return pick(Commit, commit)


def ref_record(ref: model.Branch | model.Tag) -> Ref:
    """Return the JSON answer about a branch or a tag."""
    return pick(Ref, ref)


def entry_record(path: bytes, entry: model.Entry, *, physical_address: str) -> Entry:
    """Return the JSON answer about an object; the address is the full URI."""
    return pick(Entry, entry, path=path, physical_address=physical_address)

"""The JSON fields of what commands answer with; documented, and tested against these functions.

Fields are snake_case. Times stay datetimes and paths bytes here; ``output.to_json`` writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakecli.model import Commit, CommitId, Difference, Entry, RepositoryRecord


def repository_record(record: RepositoryRecord) -> dict[str, object]:
    """Return the fields of a repository."""
    return {
        "name": record.name,
        "storage_namespace": record.storage_namespace,
        "default_branch": record.default_branch,
        "created_at": record.created_at,
        "range_entries": record.range_entries,
        "uuid": record.uuid,
    }


def commit_record(commit: Commit) -> dict[str, object]:
    """Return the fields of a commit."""
    return {
        "id": commit.id,
        "parents": list(commit.parents),
        "message": commit.message,
        "committer": commit.committer,
        "created_at": commit.created_at,
        "metadata": dict(commit.metadata),
        "metarange_id": commit.metarange_id,
        "generation": commit.generation,
    }


def ref_record(name: str, commit_id: CommitId) -> dict[str, object]:
    """Return the fields of a branch or a tag."""
    return {"name": name, "commit_id": commit_id}


def difference_record(difference: Difference) -> dict[str, object]:
    """Return the fields of one path that differs."""
    return {"type": difference.type, "path": difference.path}


def entry_record(path: bytes, entry: Entry, *, physical_address: str) -> dict[str, object]:
    """Return the fields of an object; the address is the full URI."""
    return {
        "path": path,
        "size": entry.size,
        "checksum": entry.checksum,
        "modified_at": entry.modified_at,
        "content_type": entry.content_type,
        "metadata": dict(entry.metadata),
        "physical_address": physical_address,
    }

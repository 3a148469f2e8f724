"""The document that names the three lists of a refs dump.

lakeFS prints it from ``lakectl refs-dump`` and writes it to ``_lakefs/refs_manifest.json``::

    {"commits_meta_range_id": "…", "tags_meta_range_id": "…", "branches_meta_range_id": "…"}

lakeFS's support script ``lakefs-refs.py`` wraps it and adds what lakeFS's restore needs besides::

    {"repository": {"name": …, "storage_namespace": …, "default_branch": …}, "refs": {…}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.ids import MetarangeId
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.validation import Invalid, Record, identifier, nullable, optional, text_that
from lakecli.errors import UsageError
from lakecli.refs.names import is_branch_name
from lakecli.stores.contract import ObjectNotFound, get_bounded

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

MANIFEST_KEY: Final = "_lakefs/refs_manifest.json"
MAX_SIZE: Final = 64 << 10

_HINT: Final = "make one with: lakectl refs-dump lakefs://REPOSITORY"

_branch = text_that(is_branch_name, "a name that a branch can have")
LISTS: Final = Record(
    {
        "commits_meta_range_id": identifier(MetarangeId),
        "branches_meta_range_id": identifier(MetarangeId),
        "tags_meta_range_id": identifier(MetarangeId),
    }
)
"""The fields of the document."""

_REPOSITORY: Final = Record({"default_branch": optional(nullable(_branch), None)})


class RefsManifest(NamedTuple):
    """The metaranges of the three lists.

    Attributes:
        default_branch: if the document names it.
    """

    commits: MetarangeId
    branches: MetarangeId
    tags: MetarangeId
    default_branch: str | None = None


def parse_manifest(data: bytes) -> RefsManifest:
    """Return the manifest in a document, wrapped or not.

    Raises:
        UsageError: it is no such document.
    """
    try:
        found = parse_json_object(data, max_size=MAX_SIZE)
        default_branch = None
        if "refs" in found:
            default_branch = _REPOSITORY.read(found.get("repository", {}))["default_branch"]
            found = found["refs"]
        lists = LISTS.read(found)
    except (Unparsable, Invalid) as error:
        raise UsageError(f"not the manifest of a refs dump: {error}", hint=_HINT) from None
    return manifest_of(lists)._replace(default_branch=default_branch)


def manifest_of(lists: Mapping[str, MetarangeId]) -> RefsManifest:
    """Return the manifest of which `LISTS` has validated the fields."""
    return RefsManifest(
        lists["commits_meta_range_id"],
        lists["branches_meta_range_id"],
        lists["tags_meta_range_id"],
    )


def manifest_fields(manifest: RefsManifest) -> dict[str, str]:
    """Return the fields of the document as lakeFS writes it."""
    return {
        "commits_meta_range_id": manifest.commits,
        "tags_meta_range_id": manifest.tags,
        "branches_meta_range_id": manifest.branches,
    }


def format_manifest(manifest: RefsManifest) -> bytes:
    """Return the document."""
    return json.dumps(manifest_fields(manifest), indent=2).encode() + b"\n"


def find_manifest(store: ObjectStore) -> RefsManifest | None:
    """Return the manifest that a lakeFS server left in a namespace, or ``None``.

    Raises:
        UsageError: the object there is no manifest.
    """
    try:
        return parse_manifest(get_bounded(store, MANIFEST_KEY, MAX_SIZE))
    except ObjectNotFound:
        return None

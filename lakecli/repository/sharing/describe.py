"""Describe the repository in a storage namespace before this machine has anything of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.base.model import RepositoryRecord
from lakecli.errors import NotFound, Refused
from lakecli.repository.contract import Runtime
from lakecli.repository.records import namespace

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore


def describe_there(runtime: Runtime, uri: str, name: str) -> tuple[ObjectStore, RepositoryRecord]:
    """Return the store of a namespace, and the record of the repository in it.

    Args:
        runtime: opens the store.
        uri: of the namespace, normalised.
        name: of the repository on this machine, for the record.

    Raises:
        NotFound: there is no repository in that namespace.
        Refused: it belongs to lakeFS, or needs a newer lakecli.
    """
    store, region = runtime.for_repository(name).find_store(uri)
    description = namespace.describe(store)
    if description is None:
        suggested = "NAME" if "/" in name else name
        marker = namespace.find_lakefs_marker(store)
        if marker is not None:
            raise Refused(
                f"{store.uri} belongs to a lakeFS repository (found {marker})",
                hint="dump its refs (lakectl refs-dump lakefs://REPO > refs.json) and clone it: "
                f"lakecli clone --from-lakefs {uri} lakefs://{suggested} --refs refs.json",
            )
        raise NotFound(
            f"no repository in {uri}",
            hint=f"create one there: lakecli repo create lakefs://{suggested} {uri}",
        )
    namespace.check_needs(store, description, writing=False)
    return store, RepositoryRecord(
        name=name,
        uuid=description.uuid,
        storage_namespace=uri,
        default_branch=description.default_branch,
        created_at=description.created_at,
        range_entries=description.range_entries,
        region=region,
    )

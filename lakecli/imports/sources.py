"""The sources that ``--from`` names: a directory, a bucket prefix, a manifest, an S3 Inventory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Protocol

from lakecli.base.model import Account
from lakecli.engine.runner import Runner
from lakecli.engine.store_location import account_of, open_by_uri
from lakecli.errors import Unsupported, UsageError
from lakecli.imports.addresses import check_outside
from lakecli.imports.bucket import BucketSource
from lakecli.imports.directory import DirectorySource
from lakecli.imports.inventory import SUFFIX, read_inventory
from lakecli.imports.manifest import KINDS, Manifest, file_at, files_below, kind_of, manifest_of
from lakecli.imports.task import ImportPart, Task
from lakecli.repository.contract import Repository
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.stores.capabilities import versions_of
from lakecli.stores.uri import is_local, parse


class Unversioned(Unsupported):
    """A source keeps no versions that entries could name."""


class ImportSource(Protocol):
    """A source of objects to import."""

    def estimate(self) -> int | None:
        """Return about how many objects there are; ``None`` if that is unknown without listing."""

    def recount(self, task: Task) -> int | None:
        """List again, and return how many objects there are; ``None``: nothing is listed."""

    def plan(self, task: Task, runner: Runner, high: bytes | None) -> Iterator[ImportPart]:
        """Yield the parts that cover everything from the prefix up to `high`, in order.

        Args:
            task: shared by all parts.
            runner: runs what planning itself has to read.
            high: the first path after those below the prefix; ``None``: there is none.

        Raises:
            NotSorted: the source is not sorted by key.
        """


def open_source(
    repository: Repository,
    text: str,
    *,
    is_manifest: bool = False,
    links: LinkPolicy,
    may_be_empty: bool = False,
) -> ImportSource:
    """Return the source that a URI names.

    Args:
        repository: the destination's repository.
        text: the value of ``--from``; a path without a scheme is on this machine.
        is_manifest: whether it is a manifest, whatever its name.
        links: how to treat symbolic links in a directory.
        may_be_empty: whether to accept an empty directory or prefix.

    Raises:
        UsageError: the URI names nothing that can be imported.
        Refused: the source lies in the repository's own namespace, or contains it.
    """
    uri = str(parse(text if "://" in text else os.path.abspath(text)))
    found = _find_manifest(uri, account_of(repository), is_manifest=is_manifest)
    if found is not None:
        return found
    check_outside(repository, uri)
    if is_local(uri):
        root = os.fsencode(uri.removeprefix("local://"))
        return DirectorySource(root, links, set(), may_be_empty)
    return BucketSource(uri, may_be_empty)


def check_pinnable(source: ImportSource, account: Account) -> None:
    """Refuse a source whose listing does not contain the versions of its objects.

    Args:
        source: the source.
        account: how its bucket is accessed.

    Raises:
        Unsupported: it is not a bucket prefix, or the bucket keeps no versions.
    """
    if isinstance(source, Manifest):
        raise Unsupported(
            "versions cannot be pinned when a manifest or inventory is imported",
            hint="name the versions in the manifest: s3://BUCKET/KEY?versionId=ID",
        )
    if not isinstance(source, BucketSource):
        raise Unversioned(
            "a directory keeps no versions of its files",
            hint="copy the bytes into the repository instead: --copy",
        )
    versions_of(open_by_uri(source.uri, account=account)).check_versions()


def roots_of(source: ImportSource) -> tuple[str, ...]:
    """Return the directory of this machine that a source is, or that contains its manifest."""
    if isinstance(source, DirectorySource):
        return ("local://" + os.fsdecode(source.root),)
    if isinstance(source, Manifest) and source.files and is_local(source.files[0].uri):
        return (source.files[0].uri.rpartition("/")[0],)
    return ()


def _find_manifest(uri: str, account: Account, *, is_manifest: bool) -> Manifest | None:
    """Return the manifest that a URI names; ``None`` if it names something else.

    Raises:
        UsageError: the URI names no manifest, and `is_manifest` is set.
    """
    kind = kind_of(uri)
    if not (is_manifest or kind or uri.endswith(SUFFIX)):
        return None
    file = file_at(uri, account)
    if file is None:
        return manifest_of(files_below(uri, account), uri) if is_manifest else None
    if uri.endswith(SUFFIX):
        return read_inventory(uri, account)
    if not kind:
        raise UsageError(
            f"the name of the manifest {uri} does not tell its format",
            hint=f"rename it to end in {', '.join(KINDS)}, except for Parquet also with .gz",
        )
    return manifest_of([file], uri)

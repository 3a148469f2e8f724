"""The sources that ``--from`` names: a directory, a bucket prefix, a manifest, an S3 Inventory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from lakecli.base.model import Account
from lakecli.engine.runner import Runner
from lakecli.engine.store_location import account_of, open_by_uri
from lakecli.errors import NotFound, Unsupported, UsageError, install_command
from lakecli.imports.addresses import check_outside
from lakecli.imports.arrow import Layout
from lakecli.imports.files import plan_files
from lakecli.imports.finished_parts import digest_of
from lakecli.imports.inventory import SUFFIX, read_inventory
from lakecli.imports.listing import list_between, plan_listing
from lakecli.imports.manifest import (
    Piece,
    divided,
    groups_of,
    layout_of,
    parquet_names,
    plan_groups,
)
from lakecli.imports.manifest_file import (
    CSV,
    JSON_LINES,
    PARQUET,
    ManifestFile,
    csv_names,
    has_arrow,
    json_names,
)
from lakecli.imports.part import NotSorted, Part, Task
from lakecli.imports.plain import PlainSource
from lakecli.imports.remote_file import head
from lakecli.imports.sorting import RUN_ROWS, Spill, plan_runs, write_runs
from lakecli.repository.contract import Repository
from lakecli.repository.transfer.own_files import is_own
from lakecli.repository.transfer.walk import LinkPolicy, walk
from lakecli.stores.capabilities import versions_of
from lakecli.stores.contract import ObjectInfo
from lakecli.stores.uri import is_local, parse

KINDS: Final = {".parquet": PARQUET, ".csv": CSV, ".jsonl": JSON_LINES, ".ndjson": JSON_LINES}
"""Kinds of manifests by the suffix of their names."""

ROW_SIZE: Final = 150
GZIP_ROW_SIZE: Final = 25
"""Approximate bytes of a row of text."""


class EmptySource(NotFound):
    """A source has no object, so that an import would remove everything from its destination."""


class Unversioned(Unsupported):
    """A source keeps no versions that entries could name."""


class Source(Protocol):
    """A source of objects to import."""

    def estimate(self) -> int | None:
        """Return about how many objects there are; ``None`` if that is unknown without listing."""

    def recount(self, task: Task) -> int | None:
        """List again, and return how many objects there are; ``None``: nothing is listed."""

    def plan(
        self, task: Task, runner: Runner, high: bytes | None, *, spill: Path | None
    ) -> Iterator[Part]:
        """Yield the parts that cover everything from the prefix up to `high`, in order.

        Args:
            task: shared by all parts.
            runner: runs what planning itself has to read.
            high: the first path after those below the prefix; ``None``: there is none.
            spill: directory in which to sort the source; ``None``: take the source as sorted.

        Raises:
            NotSorted: the source is not sorted by key, and `spill` is ``None``.
        """


class Directory(NamedTuple):
    """All files below a directory.

    Attributes:
        root: absolute path.
        links: how to treat symbolic links.
        left_out: gets the names below the directory that are Git's, lakecli's or the system's own.
        may_be_empty: whether to accept a directory without files.
    """

    root: bytes
    links: LinkPolicy
    left_out: set[bytes]
    may_be_empty: bool = False

    def estimate(self) -> int | None:
        """Return ``None``: the number is unknown before listing."""
        return None

    def recount(self, task: Task) -> int | None:
        """List again, and return how many files there are."""
        del task

        return sum(not is_own(each.relative) for each in walk(self.root, self.links))

    def plan(
        self, task: Task, runner: Runner, high: bytes | None, *, spill: Path | None
    ) -> Iterator[Part]:
        """Yield the parts; see `Source`.

        Raises:
            NotFound: there is no file. The mount point of a disk that is not mounted looks like an
                empty directory, which would remove everything from the branch.
        """
        del runner, spill

        if (
            not self.may_be_empty
            and os.path.isdir(self.root)
            and all(is_own(each.relative) for each in walk(self.root, self.links))
        ):
            raise EmptySource(
                f"no file below {os.fsdecode(self.root)}",
                hint="check that the disk is mounted, or allow an empty source: --allow-empty",
            )
        return plan_files(
            self.root, self.links, prefix=task.prefix, high=high, left_out=self.left_out
        )


class Bucket(NamedTuple):
    """All objects below a prefix.

    Attributes:
        uri: normalised URI.
        may_be_empty: whether to accept a prefix without objects.
    """

    uri: str
    may_be_empty: bool = False

    def estimate(self) -> int | None:
        """Return ``None``: the number is unknown before listing."""
        return None

    def recount(self, task: Task) -> int | None:
        """List again, and return how many objects there are."""
        store = open_by_uri(self.uri, account=task.location.account)
        return sum(bool(info.key) for info, _ in list_between(store, "", "", pins=task.pins))

    def plan(
        self, task: Task, runner: Runner, high: bytes | None, *, spill: Path | None
    ) -> Iterator[Part]:
        """Yield the parts; see `Source`.

        Raises:
            NotFound: there is no object. A misspelled prefix looks like an empty one, which would
                remove everything from the branch.
        """
        del spill
        store = open_by_uri(self.uri, account=task.location.account)
        if not self.may_be_empty and next(store.list(), None) is None:
            raise EmptySource(
                f"no object at {self.uri}/",
                hint="name a directory, a bucket prefix or a manifest, or allow an empty source: "
                "--allow-empty",
            )
        return plan_listing(store, task.prefix, high, runner=runner, account=task.location.account)


class Manifest(NamedTuple):
    """A manifest: files that list objects.

    Attributes:
        files: files, all of one kind.
        layout: names of their columns.
    """

    files: tuple[ManifestFile, ...]
    layout: Layout

    @property
    def is_parquet(self) -> bool:
        """Whether the files are of Parquet, so that their rows are known."""
        return not self.files or self.files[0].kind == PARQUET

    def estimate(self) -> int | None:
        """Return the rows of Parquet files; estimate those of others by their size.

        A Parquet file counts for no more rows than it has bytes, whatever it claims.
        """
        if self.is_parquet:
            rows = sum(group.rows for group in groups_of(self.files, self.layout))
            return min(rows, sum(file.size for file in self.files))
        return sum(map(_rows_of_text, self.files))

    def recount(self, task: Task) -> int | None:
        """Return ``None``: a manifest says itself what there is."""
        del task
        return None

    def known_rows(self) -> int | None:
        """Return the number of objects, if the files say so: those of text and versions do not."""
        has_all = self.is_parquet and not (self.layout.latest or self.layout.deleted)
        return self.estimate() if has_all else None

    def sized_pieces(self, *, divides: bool) -> list[tuple[Piece, int]]:
        """Return pieces that can be read at the same time, with their rows or bytes of text.

        Args:
            divides: whether to divide text files at line ends.
        """
        if self.is_parquet:
            groups = groups_of(self.files, self.layout)
            return [(group.piece, group.rows) for group in groups]
        if not divides:
            return [(Piece(file, self.layout), file.size) for file in self.files]
        pieces = chain.from_iterable(divided(file, self.layout) for file in self.files)
        return [(piece, piece.size) for piece in pieces]

    def plan(
        self, task: Task, runner: Runner, high: bytes | None, *, spill: Path | None
    ) -> Iterator[Part]:
        """Yield the parts; see `Source`."""
        if not self.is_parquet and not has_arrow():
            yield Part(task.prefix, high, PlainSource(self.files, self.layout))
            return
        if spill is None:
            if not self.is_parquet:
                raise NotSorted("the manifest may not be sorted by key")
            yield from plan_groups(groups_of(self.files, self.layout), task.prefix, high)
            return
        write = partial(write_runs, Spill(str(spill), task.seconds))
        runs = [run for _, runs in runner.run(write, self._portions()) for run in runs]
        yield from plan_runs(runs, task.prefix, high, origin=self.origin())

    def _portions(self) -> Iterator[tuple[Piece, ...]]:
        """Yield groups of pieces that together make a run."""
        if not self.is_parquet:
            sizes = [(Piece(file, self.layout), _rows_of_text(file)) for file in self.files]
        else:
            groups = groups_of(self.files, self.layout)
            sizes = [(group.piece, group.rows) for group in groups]
        taken: list[Piece] = []
        count = 0
        for piece, rows in sizes:
            if taken and count + rows > RUN_ROWS:
                yield tuple(taken)
                taken, count = [], 0
            taken.append(piece)
            count += rows
        if taken:
            yield tuple(taken)

    def origin(self) -> str:
        """Return a digest that changes whenever the objects do."""
        return digest_of([[list(file) for file in self.files], list(self.layout)])


def _rows_of_text(file: ManifestFile) -> int:
    """Estimate the number of rows of a text file by its size."""
    return file.size // (GZIP_ROW_SIZE if file.is_gzip else ROW_SIZE)


def open_source(
    repository: Repository,
    text: str,
    *,
    is_manifest: bool = False,
    links: LinkPolicy,
    may_be_empty: bool = False,
) -> Source:
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
        return Directory(os.fsencode(uri.removeprefix("local://")), links, set(), may_be_empty)
    return Bucket(uri, may_be_empty)


def check_pinnable(source: Source, account: Account) -> None:
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
    if not isinstance(source, Bucket):
        raise Unversioned(
            "a directory keeps no versions of its files",
            hint="copy the bytes into the repository instead: --copy",
        )
    versions_of(open_by_uri(source.uri, account=account)).check_versions()


def roots_of(source: Source) -> tuple[str, ...]:
    """Return the directory of this machine that a source is, or that contains its manifest."""
    if isinstance(source, Directory):
        return ("local://" + os.fsdecode(source.root),)
    if isinstance(source, Manifest) and source.files and is_local(source.files[0].uri):
        return (source.files[0].uri.rpartition("/")[0],)
    return ()


def _find_manifest(uri: str, account: Account, *, is_manifest: bool) -> Manifest | None:
    """Return the manifest that a URI names; ``None`` if it names something else.

    Raises:
        UsageError: the URI names no manifest, and `is_manifest` is set.
    """
    kind = _kind_of(uri)
    if not (is_manifest or kind or uri.endswith(SUFFIX)):
        return None
    try:
        info = head(uri, account)
    except NotFound:
        info = None
    if info is None:
        return _manifest_of(_files_below(uri, account), uri) if is_manifest else None
    if uri.endswith(SUFFIX):
        found = Manifest(*read_inventory(uri, account))
        if any(file.kind == PARQUET for file in found.files):
            check_arrow(uri)
        return found
    if not kind:
        raise UsageError(
            f"the name of the manifest {uri} does not tell its format",
            hint=f"rename it to end in {', '.join(KINDS)}, except for Parquet also with .gz",
        )
    return _manifest_of([_file_of(uri, kind, info, account)], uri)


def _manifest_of(files: list[ManifestFile], uri: str) -> Manifest:
    if not files:
        raise UsageError(
            f"no manifest at {uri}", hint="name a file or directory of Parquet, CSV or JSON lines"
        )
    first = files[0]
    if first.kind == PARQUET:
        check_arrow(first.uri)
        names = parquet_names(first)
    else:
        names = csv_names(first) if first.kind == CSV else json_names(first)
    return Manifest(tuple(files), layout_of(names, first.uri))


def check_arrow(uri: str) -> None:
    """Refuse to read Parquet without Arrow.

    Raises:
        Unsupported: Arrow is not installed.
    """
    if not has_arrow():
        raise Unsupported(
            f"reading Parquet needs pyarrow, which is not installed: {uri}",
            hint=f"{install_command('spark')}; or use a manifest in CSV or JSON lines",
        )


def _files_below(uri: str, account: Account) -> list[ManifestFile]:
    """Return the files of a manifest in a directory or below a prefix, as Spark writes them."""
    files = []
    for info in open_by_uri(uri, account=account).list():
        name = info.key.rpartition("/")[2]
        kind = _kind_of(name)
        if kind and not name.startswith(("_", ".")) and info.size:
            files.append(_file_of(f"{uri.rstrip('/')}/{info.key}", kind, info, account))
    kinds = {file.kind for file in files}
    if len(kinds) > 1:
        raise UsageError(f"the manifest has files of several kinds: {', '.join(sorted(kinds))}")
    return files


def _file_of(uri: str, kind: str, info: ObjectInfo, account: Account) -> ManifestFile:
    is_gzip = uri.endswith(".gz")
    return ManifestFile(uri, kind, str(info.version), info.size, is_gzip=is_gzip, account=account)


def _kind_of(name: str) -> str:
    """Return the kind of manifest by the suffix of a name, or ``""``."""
    plain = name.removesuffix(".gz")
    for suffix, kind in KINDS.items():
        if plain.endswith(suffix) and (plain == name or kind != PARQUET):
            return kind
    return ""

from __future__ import annotations

import io
import tracemalloc
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.committed.values import encode_entry
from lakecli.errors import NotFound, PermissionDenied, Unsupported
from lakecli.repository.commit import commit
from lakecli.repository.handoff import manifest
from lakecli.repository.handoff.download_script import ShellScript
from lakecli.repository.handoff.links import ObjectLinks, open_handoff, presign_entry
from lakecli.repository.handoff.manifest import FORMATS
from lakecli.repository.reading.addresses import remember
from lakecli.repository.staged.stager import Stager
from lakecli.stores.presigned_urls import PresignedUrl, PresignRequest, response_headers
from tests.support.lakes import checksums, entry_of, stage, stage_entries, unclaimed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.repository.contract import Repository
    from tests.support.signing import SigningStore

HOUR = timedelta(hours=1)
CONTENTS = {b"p/a.csv": b"1", b"p/d/b.html": b"22", b"p/d/c": b"333", b"pq": b"4", b"o": b"5"}


def commit_all(repository: Repository, contents: Mapping[bytes, bytes | None]) -> str:
    stage(repository, "main", contents)
    return commit(repository, "main", message="m", committer="c").id


def read(repository: Repository, ref: str, prefix: bytes) -> ObjectLinks:
    with open_handoff(repository, ref, prefix, expires_in=HOUR) as handoff:
        for _ in handoff:
            pass
        return handoff


def test_every_object_below_a_prefix_has_a_link(
    repository: Repository, store: SigningStore
) -> None:
    commit_id = commit_all(repository, CONTENTS)
    with open_handoff(repository, "main", b"p", expires_in=HOUR) as handoff:
        links = list(handoff)
        header, totals = handoff.header, handoff.totals
    below = {path: data for path, data in CONTENTS.items() if path.startswith(b"p/")}
    assert {link.path: link.checksum for link in links} == checksums(below)
    assert [link.name for link in links] == [b"a.csv", b"d/b.html", b"d/c"]
    assert [link.size for link in links] == [1, 2, 3]
    assert {link.expires_at for link in links} == {header.created_at + HOUR}
    assert len({link.url for link in links}) == 3
    assert (header.repository, header.ref, header.prefix) == ("lakefs://demo", "main", b"p/")
    assert (header.commit_id, header.uuid) == (commit_id, repository.record.uuid)
    assert not header.uncommitted
    assert (totals.count, totals.size, totals.expires_at) == (3, 6, header.created_at + HOUR)
    assert handoff.failures == []


def test_each_path_has_its_type_and_its_file_name(
    repository: Repository, store: SigningStore
) -> None:
    entry = entry_of(b"same bytes")
    Stager(repository, "main").write(
        unclaimed(
            [
                (b"p/a.csv", encode_entry(entry._replace(content_type="text/csv"))),
                (b"p/\xff.bin", encode_entry(entry._replace(content_type=""))),
                (b"q/a", encode_entry(entry._replace(metadata={"content-encoding": "gzip"}))),
                (b"q/b", encode_entry(entry._replace(metadata={"content-encoding": "a\r\nb"}))),
            ]
        ),
        kind="test",
    )
    with open_handoff(repository, "main", b"q/", expires_in=HOUR) as handoff:
        assert [link.encoding for link in handoff] == ["gzip", ""]
    assert [each.content_encoding for _, each in store.requests] == ["gzip", ""]
    store.requests.clear()
    read(repository, "main", b"p/")
    keys = {key for key, _ in store.requests}
    assert keys == {entry.physical_address}
    requests = [request for _, request in store.requests]
    assert [(r.method, r.content_type, r.file_name) for r in requests] == [
        ("GET", "text/csv", "a.csv"),
        ("GET", "", "\udcff.bin"),
    ]


def test_uncommitted_changes_are_included_and_counted(
    repository: Repository, store: SigningStore
) -> None:
    commit_all(repository, CONTENTS)
    stage(repository, "main", {b"p/new": b"n", b"p/a.csv": None})
    with open_handoff(repository, "main", b"p/", expires_in=HOUR) as handoff:
        assert [link.name for link in handoff] == [b"d/b.html", b"d/c", b"new"]
        assert handoff.header.uncommitted
    with open_handoff(repository, "main@", b"p/", expires_in=HOUR) as handoff:
        assert [link.name for link in handoff] == [b"a.csv", b"d/b.html", b"d/c"]
        assert not handoff.header.uncommitted
        assert handoff.header.ref == "main@"
    assert not read(repository, "main", b"p/d").header.uncommitted


def test_an_empty_prefix_is_not_found(repository: Repository, store: SigningStore) -> None:
    commit_all(repository, CONTENTS)
    for prefix in (b"p/a.csv", b"nothing", b"p/d/b"):
        with pytest.raises(NotFound, match="no object at"):
            read(repository, "main", prefix)
    with pytest.raises(NotFound):
        read(repository, "nowhere", b"p")


def test_a_namespace_without_urls_is_refused_at_once(repository: Repository) -> None:
    commit_all(repository, CONTENTS)
    with pytest.raises(Unsupported) as raised:
        read(repository, "main", b"p")
    assert raised.value.hint


def test_missing_credentials_end_the_command(repository: Repository, store: SigningStore) -> None:
    commit_all(repository, CONTENTS)
    store.refuse = PermissionDenied("no credentials")
    with pytest.raises(PermissionDenied):
        read(repository, "main", b"p")


def test_an_external_object_fails_alone(
    repository: Repository, store: SigningStore, tmp_path: object
) -> None:
    commit_all(repository, {b"p/b": b"2"})
    elsewhere = entry_of(b"1")._replace(physical_address=f"local://{tmp_path}/other/a")
    unknown = entry_of(b"1")._replace(physical_address="ftp://host/a")
    Stager(repository, "main").write(
        unclaimed([(b"p/a", encode_entry(elsewhere)), (b"p/c", encode_entry(unknown))]), kind="test"
    )
    handoff = read(repository, "main", b"p")
    assert handoff.totals.count == 1
    assert [path for path, _ in handoff.failures] == [b"p/a", b"p/c"]
    assert all(why for _, why in handoff.failures)
    stage(repository, "main", {b"p/b": None})
    remember(repository, [f"local://{tmp_path}/other"])
    with pytest.raises(Unsupported):  # then it is no matter of single objects
        read(repository, "main", b"p")


def test_the_earliest_expiry_counts(
    repository: Repository, store: SigningStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_all(repository, CONTENTS)
    ends = iter([5, 3, 4])

    def presign(_key: str, _request: object, *, now: datetime) -> PresignedUrl:
        return PresignedUrl("https://x", now + next(ends) * HOUR)

    monkeypatch.setattr(store, "presign", presign)
    handoff = read(repository, "main", b"p")
    assert handoff.totals.expires_at == handoff.header.created_at + 3 * HOUR


def test_the_middle_of_a_document_does_not_stay_in_memory(
    repository: Repository, store: SigningStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "IN_MEMORY", 10_000)
    commit_all(repository, {b"p/%06d" % number: b"x" for number in range(1_500)})
    monkeypatch.setattr(store, "requests", Forgetful())
    for format_ in (*FORMATS.values(), ShellScript):
        with (
            format_() as document,
            open_handoff(repository, "main", b"p", expires_in=HOUR) as handoff,
        ):
            tracemalloc.start()
            for link in handoff:
                document.add(link)
            kept = tracemalloc.take_snapshot().filter_traces(
                [tracemalloc.Filter(inclusive=True, filename_pattern="*/handoff/*")]
            )
            tracemalloc.stop()
            target = io.BytesIO()
            document.write(target, handoff.header, handoff.totals)
        assert len(target.getvalue()) > 1_500 * 60
        assert sum(trace.size for trace in kept.traces) < 100_000  # all lines take 450,000


class Forgetful(list):  # type: ignore[type-arg]
    """A list that keeps nothing."""

    def append(self, item: object) -> None:
        """Forget it."""


@pytest.mark.parametrize(
    ("content_type", "attachment"),
    [
        ("text/plain", False),
        ("text/csv; charset=utf-8", False),
        ("TEXT/CSV", False),
        ("application/json", False),
        ("image/png", False),
        ("", True),
        ("text/html", True),
        ("Text/HTML; charset=utf-8", True),
        ("text/plain, text/html", True),
        ("text/plain; charset=utf-8, text/html", True),
        ("text/plain\ntext/html", True),
        (" text/html", True),
        ("image/svg+xml", True),
        ("text/xml", True),
        ("application/xml", True),
        ("application/xhtml+xml", True),
        ("text/javascript", True),
        ("application/x-unknown", True),
        ("application/octet-stream", True),
    ],
)
def test_browsers_save_types_that_they_would_run(
    repository: Repository,
    store: SigningStore,
    monkeypatch: pytest.MonkeyPatch,
    content_type: str,
    *,
    attachment: bool,
) -> None:
    asked: list[PresignRequest] = []

    def presign(_key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        asked.append(request)
        return PresignedUrl("https://x", now + HOUR)

    monkeypatch.setattr(store, "presign", presign)
    entry = entry_of(b"1")._replace(content_type=content_type)
    for inline in (False, True):
        presign_entry(repository, entry, b"p/a", expires_in=HOUR, inline=inline)
    stage_entries(repository, "main", {b"p/a": entry})
    for inline in (False, True):
        with open_handoff(repository, "main", b"p", expires_in=HOUR, inline=inline) as handoff:
            assert len(list(handoff)) == 1
    assert [each.attachment for each in asked] == [attachment, False, attachment, False]
    said = response_headers(asked[0])["content-disposition"]
    assert said.startswith("attachment;" if attachment else "inline;")

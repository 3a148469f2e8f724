from __future__ import annotations

import csv
import io
import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.errors import IntegrityError
from lakecli.repository.handoff import manifest as manifests
from lakecli.repository.handoff.links import ObjectLink
from lakecli.repository.handoff.manifest import (
    ListedLink,
    ManifestHeader,
    NotAManifest,
    read_manifest,
    time_text,
)
from tests.repository.handoff.links import CREATED, END, HEADER, ODD_NAMES, link_to, write

if TYPE_CHECKING:
    from collections.abc import Sequence

KINDS = ("json", "csv")
URL = "https://bucket.example/data/k?X-Signature=secret"
LINKS = [link_to(name, name, URL) for name in sorted(ODD_NAMES)]
SOURCE = ManifestHeader(HEADER.repository, HEADER.uuid, HEADER.ref, HEADER.commit_id, HEADER.prefix)


def read(data: bytes) -> tuple[ManifestHeader, list[ListedLink]]:
    file = io.TextIOWrapper(
        io.BytesIO(data), encoding="utf-8", errors="surrogateescape", newline=""
    )
    source, items = read_manifest(file)
    return source, list(items)


def items_of(links: Sequence[ObjectLink]) -> list[ListedLink]:
    return [ListedLink(link.path, link.size, link.checksum, link.expires_at) for link in links]


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_survives_a_round_trip(kind: str) -> None:
    data, left_out = write(kind, LINKS)
    assert read(data) == (SOURCE, items_of(LINKS))
    assert left_out == {}


@pytest.mark.parametrize("kind", KINDS)
@given(
    paths=st.lists(st.binary(min_size=1, max_size=30), unique=True, max_size=5),
    prefix=st.binary(max_size=10),
    checksum=st.text(st.characters(codec="ascii", min_codepoint=32), max_size=20),
)
def test_any_path_survives_a_round_trip(
    kind: str, paths: list[bytes], prefix: bytes, checksum: str
) -> None:
    links = [ObjectLink(path, path, 5, checksum, URL, END) for path in paths]
    data, _ = write(kind, links, header=HEADER._replace(prefix=prefix))
    assert read(data) == (SOURCE._replace(prefix=prefix), items_of(links))


def test_a_manifest_is_the_same_from_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 400
    links = [ObjectLink(b"%d" % at, b"%d" % at, at, "c", URL, END) for at in range(count)]
    whole = write("json", links)
    monkeypatch.setattr(manifests, "IN_MEMORY", len(whole[0]) // 4)
    assert write("json", links) == whole
    assert read(whole[0]) == (SOURCE, items_of(links))


def test_json_is_one_object_with_an_object_a_line() -> None:
    later = LINKS[1]._replace(expires_at=END + timedelta(hours=1))
    data, _ = write("json", [LINKS[0], later])
    manifest = json.loads(data)
    assert data.isascii()
    assert manifest["objects"] == [
        {
            "path": os.fsdecode(link.path),
            "size": link.size,
            "checksum": link.checksum,
            "url": URL,
            "expires_at": time_text(link.expires_at),
        }
        for link in (LINKS[0], later)
    ]
    del manifest["objects"]
    assert manifest == {
        "manifest": 1,
        "repository": "lakefs://demo",
        "uuid": "0" * 32,
        "ref": "main",
        "commit_id": "c" * 64,
        "uncommitted": False,
        "prefix": "data/",
        "created_at": "2026-03-01T12:00:00Z",
        "expires_at": "2096-03-01T12:00:00Z",
        "count": 2,
        "size": LINKS[0].size + LINKS[1].size,
    }
    assert data.count(b"\n") == len(manifest) + 2 + 3


def test_csv_is_what_csv_readers_read() -> None:
    data, _ = write("csv", LINKS)
    text = data.decode("utf-8", "surrogateescape")
    comment, _, rest = text.partition("\r\n")
    assert json.loads(comment.removeprefix("# "))["count"] == len(LINKS)
    rows = list(csv.DictReader(io.StringIO(rest, newline="")))
    assert [os.fsencode(row["path"]) for row in rows] == [link.path for link in LINKS]
    assert {row["url"] for row in rows} == {URL}


def test_an_empty_manifest_is_valid() -> None:
    for kind in KINDS:
        assert read(write(kind, [])[0]) == (SOURCE, [])


def test_reformatted_json_is_read() -> None:
    manifest = json.loads(write("json", LINKS)[0])
    for text in (
        json.dumps(manifest),
        json.dumps(manifest, indent=2, sort_keys=True),
        "\n " + json.dumps(manifest, ensure_ascii=True, separators=(",", ":")),
    ):
        assert read(text.encode()) == (SOURCE, items_of(LINKS))


def test_newlines_of_any_kind_are_read() -> None:
    for kind in KINDS:
        links = LINKS[:1]
        data = write(kind, links)[0]
        for newline in (b"\n", b"\r\n"):
            text = data.replace(b"\r\n", b"\n").replace(b"\n", newline)
            assert read(text) == (SOURCE, items_of(links))


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"https://a?b=c\n", b"[]", b"<!DOCTYPE html>", b"{}", b"# {}\r\n", b"\xff\0"],
)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(NotAManifest):
        read(data)


def test_a_later_version_is_refused() -> None:
    manifest = json.loads(write("json", LINKS)[0])
    manifest["manifest"] = 2
    with pytest.raises(NotAManifest, match="later"):
        read(json.dumps(manifest).encode())


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_manifest_is_refused(kind: str) -> None:
    """A CSV file that ends after a row cannot be told from a whole one, but for its count."""
    data = write(kind, LINKS[:3])[0]
    whole = items_of(LINKS[:3])
    for end in range(len(data) - 3):
        items, complaint = read_what_can_be(data[:end])
        assert "secret" not in complaint
        assert complaint or kind == "csv"
        assert items == whole[: len(items)]


def read_what_can_be(data: bytes) -> tuple[list[ListedLink], str]:
    try:
        return read(data)[1], ""
    except (IntegrityError, NotAManifest) as error:
        return [], f"{error} {error.hint}"


@pytest.mark.parametrize(
    "change",
    [
        {"size": "x"},
        {"size": None},
        {"path": 5},
        {"checksum": None},
        {"expires_at": "tomorrow"},
        {"expires_at": "2026-03-01T12:00:00"},
        {"expires_at": URL},
        {"path": URL, "size": URL},
    ],
)
def test_errors_about_objects_show_no_urls(change: dict[str, Any]) -> None:
    manifest = json.loads(write("json", LINKS)[0])
    manifest["objects"][1] |= change
    with pytest.raises(IntegrityError, match="number 2 of its list") as raised:
        read(json.dumps(manifest).encode())
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("field", ["repository", "uuid", "ref", "commit_id", "prefix"])
def test_an_incomplete_header_is_refused(field: str) -> None:
    manifest = json.loads(write("json", LINKS)[0])
    del manifest[field]
    with pytest.raises(IntegrityError, match="header"):
        read(json.dumps(manifest).encode())


def test_objects_are_read_lazily() -> None:
    data = write("json", [LINKS[0]] * 5)[0]
    cut = data[: data.rindex(b"\n{")]
    file = io.TextIOWrapper(io.BytesIO(cut), encoding="utf-8", newline="")
    source, items = read_manifest(file)
    assert source == SOURCE
    for _ in range(4):
        assert next(items) == items_of(LINKS)[0]
    with pytest.raises(IntegrityError, match="end is missing"):
        next(items)


def test_times_are_written_in_utc() -> None:
    assert time_text(CREATED) == "2026-03-01T12:00:00Z"


FORMULAS = (b"=1+1", b"+1", b"-1", b"@SUM(A1)", b"\t=1", b"\r=1", b"'=1", b"''+1")


def test_no_value_of_csv_is_a_formula() -> None:
    names = (*FORMULAS, b"'", b"'a", b"a=1")
    links = [link_to(name, name, URL)._replace(path=name) for name in names]
    data, _ = write("csv", [link._replace(checksum="=HYPERLINK(1)") for link in links])
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))[2:]
    assert [row[0][0] for row in rows] == ["'"] * len(FORMULAS) + ["'", "'", "a"]
    assert [row[2] for row in rows] == ["'=HYPERLINK(1)"] * len(links)
    _, items = read(data)
    assert [item.path for item in items] == [link.path for link in links]
    assert {item.checksum for item in items} == {"=HYPERLINK(1)"}

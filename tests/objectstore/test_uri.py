from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.errors import UsageError
from lakecli.objectstore.uri import normalise, parse


@pytest.mark.parametrize(
    ("typed", "canonical"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("S3://bucket/a/b//", "s3://bucket/a/b"),
        ("s3://bucket/a%20b?c#d e", "s3://bucket/a%20b?c#d e"),
        ("s3://bucket/a//b", "s3://bucket/a//b"),
        ("s3://Bucket_1.x-y/p", "s3://Bucket_1.x-y/p"),
        ("local:///a/b", "local:///a/b"),
        ("file:///a/b/", "local:///a/b"),
        ("FILE:///a", "local:///a"),
        ("/a/b", "local:///a/b"),
        ("//a///./b/.//", "local:///a/b"),
        ("/a%2Fb/c?d#e f", "local:///a%2Fb/c?d#e f"),
        ("/...", "local:///..."),
        ("/a/\udcff", "local:///a/\udcff"),
    ],
)
def test_one_spelling_for_each_place(typed: str, canonical: str) -> None:
    assert normalise(typed) == canonical
    assert normalise(canonical) == canonical


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "not a storage namespace"),
        ("a/b", "not a storage namespace"),
        ("./a", "not a storage namespace"),
        ("~/a", "not a storage namespace"),
        ("s3:/bucket/x", "not a storage namespace"),
        ("s3://", "no bucket"),
        ("s3:///prefix", "no bucket"),
        ("s3://buck et/x", "illegal bucket name"),
        ("s3://bucket?x=y", "illegal bucket name"),
        ("s3://key:secret@bucket/x", "illegal bucket name"),
        ("local://a/b", "must be absolute"),
        ("file://host/b", "must be absolute"),
        ("local://", "must be absolute"),
        ("local:///", "the root directory"),
        ("/.", "the root directory"),
        ("/a/../b", r"'\.\.'"),
        ("/a\0b", "NUL"),
        ("gs://bucket/x", "unsupported scheme 'gs'"),
        ("https://example.com/x", "unsupported scheme 'https'"),
        ("lakefs://repo/main", "unsupported scheme 'lakefs'"),
    ],
)
def test_what_is_no_namespace_is_refused(typed: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        normalise(typed)


def test_an_unknown_scheme_is_told_what_there_is() -> None:
    with pytest.raises(UsageError) as raised:
        parse("ftp://host/x")
    assert "s3://BUCKET/PREFIX" in str(raised.value.hint)
    assert "local:///" in str(raised.value.hint)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_normalising_twice_changes_nothing(text: str) -> None:
    for typed in (text, f"/{text}", f"s3://b/{text}"):
        try:
            once = normalise(typed)
        except UsageError:
            continue
        assert normalise(once) == once
        assert str(parse(once)) == once

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.errors import UsageError
from lakecli.stores.uri import normalise, parse


@pytest.mark.parametrize(
    ("typed", "canonical"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("S3://bucket/a/b//", "s3://bucket/a/b"),
        ("s3://bucket/a%20b?c#d e", "s3://bucket/a%20b?c#d e"),
        ("s3://bucket/a//b", "s3://bucket/a//b"),
        ("s3://Bucket_1.x-y/p", "s3://Bucket_1.x-y/p"),
        ("gs://bucket", "gs://bucket"),
        ("GS://bucket/a b?c#%20/", "gs://bucket/a b?c#%20"),
        ("az://account/container", "az://account/container"),
        ("AZ://account1/con-tainer/a/b%20?c//", "az://account1/con-tainer/a/b%20?c"),
        ("az://account/$root/x", "az://account/$root/x"),
        ("https://account.blob.core.windows.net/container", "az://account/container"),
        ("https://Account.Blob.core.windows.net/con/a%20b%25/%C3%BC/", "az://account/con/a b%/ü"),
        ("memory://bucket/a//", "memory://bucket/a"),
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
def test_each_location_has_one_spelling(typed: str, canonical: str) -> None:
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
        ("s3://key:secret@bucket/x", "a user name and a password"),
        ("local://a/b", "must be absolute"),
        ("file://host/b", "must be absolute"),
        ("local://", "must be absolute"),
        ("local:///", "the root directory"),
        ("/.", "the root directory"),
        ("/a/../b", r"'\.\.'"),
        ("/a\0b", "NUL"),
        ("gs://", "no bucket"),
        ("gs://buck:et/x", "illegal bucket name"),
        ("az://", "illegal storage account ''"),
        ("az://account", "illegal container name ''"),
        ("az:///container", "illegal storage account"),
        ("az://My_Account/container", "illegal storage account"),
        ("az://account/Container", "illegal container name"),
        ("az://account/con--tainer", "illegal container name"),
        ("az://account/co", "illegal container name"),
        ("https://account.blob.core.windows.net", "illegal container name"),
        ("https://a.b.blob.core.windows.net/container", "illegal storage account"),
        ("https://account.blob.core.windows.net:1/container", "unsupported scheme 'https'"),
        ("https://account.blob.core.windows.net/con/x#y", "a query in the URL"),
        ("https://example.com/x", "unsupported scheme 'https'"),
        ("lakefs://repo/main", "unsupported scheme 'lakefs'"),
    ],
)
def test_a_malformed_namespace_is_refused(typed: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        normalise(typed)


def test_a_signature_is_not_repeated() -> None:
    with pytest.raises(UsageError) as raised:
        parse("https://account.blob.core.windows.net/container/p?sv=2025&sig=secret")
    assert "secret" not in raised.value.message
    assert "AZURE_STORAGE_SAS_TOKEN" in str(raised.value.hint)


def test_the_error_for_an_unknown_scheme_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as raised:
        parse("ftp://host/x")
    for form in ("s3://BUCKET/PREFIX", "gs://BUCKET/PREFIX", "az://ACCOUNT/CONTAINER/PREFIX"):
        assert form in str(raised.value.hint)
    assert "local:///" in str(raised.value.hint)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_normalising_is_idempotent(text: str) -> None:
    for typed in (
        text,
        f"/{text}",
        f"s3://b/{text}",
        f"az://acc/con/{text}",
        f"https://acc.blob.core.windows.net/con/{text}",
    ):
        try:
            once = normalise(typed)
        except UsageError:
            continue
        assert normalise(once) == once
        assert str(parse(once)) == once

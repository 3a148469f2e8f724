"""Tokens of listings are those of this run and this listing, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.listing import encoding_of, most_of, number_of, position_of, token_of

SECRET = b"s" * 32
LISTING = ("sales", "main/", "/")


def is_refused(token: str, listing: tuple[str, ...] = LISTING, secret: bytes = SECRET) -> bool:
    with pytest.raises(S3Error) as caught:
        position_of(secret, listing, token)
    return caught.value.code == "InvalidArgument"


@given(st.binary(max_size=1100), st.lists(st.text(st.characters()), max_size=3))
def test_tokens(position: bytes, listing: list[str]) -> None:
    surrogates = [text.encode(errors="replace").decode() + "\udcff" for text in listing]
    token = token_of(SECRET, surrogates, position)
    assert position_of(SECRET, surrogates, token) == position
    assert token.isascii()
    assert all(each.isalnum() or each in "-_" for each in token)


def test_tokens_of_others() -> None:
    token = token_of(SECRET, LISTING, b"main/a")
    assert is_refused(token, ("sales", "main/", ""))
    assert is_refused(token, ("other", "main/", "/"))
    assert is_refused(token, ("salesmain/", "", "/"))
    assert is_refused(token, secret=b"t" * 32)
    assert is_refused(token_of(SECRET, LISTING, b"") + "AAAA")
    for other in ("", "a", "main/a", "\u00e9", "=" * 9, "A" * 40_000, token[:-1], token.upper()):
        assert is_refused(other)


@given(st.integers(0, 100), st.sampled_from("Aa0-"))
def test_no_changed_token_passes(place: int, letter: str) -> None:
    token = token_of(SECRET, LISTING, b"main/abc")  # 24 bytes: base64 without unused bits
    place %= len(token)
    changed = token[:place] + letter + token[place + 1 :]
    assert changed == token or is_refused(changed)


def test_numbers_of_names() -> None:
    assert [most_of(text) for text in (None, "", "0", "1", "1000", "1001", "2147483647")] == [
        1000, 1000, 0, 1, 1000, 1000, 1000,
    ]  # fmt: skip
    for text in ("-1", "x", "1.0", "2147483648", "9" * 99, "\u0661", " 1"):
        with pytest.raises(S3Error, match="max-uploads") as caught:
            most_of(text, "max-uploads")
        assert caught.value.code == "InvalidArgument"


def test_numbers_are_not_cut() -> None:
    assert number_of("9999", "part-number-marker") == 9999
    with pytest.raises(S3Error, match="part-number-marker"):
        number_of("", "part-number-marker")


def test_encodings() -> None:
    assert [encoding_of(text) for text in (None, "", "url", "URL")] == ["", "", "url", "url"]
    with pytest.raises(S3Error):
        encoding_of("base64")

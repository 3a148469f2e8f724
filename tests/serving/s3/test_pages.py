"""The parameters of listings."""

from __future__ import annotations

import pytest

from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.listing import encoding_of, most_of, number_of


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

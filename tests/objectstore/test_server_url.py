"""URLs of servers have the parts that `urllib` finds, whether it is loaded for them or not."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

import pytest

from lakecli.objectstore.server_url import UsualUrl, split_url

USUAL = [
    "http://localhost",
    "http://localhost:8080",
    "https://127.0.0.1:9/",
    "https://s3.eu-north-1.amazonaws.com/bucket-1/a/b_c~d/",
    "http://h:0",
    "http://h:59999/",
]
ODD = [
    *("", "h", "ftp://h", "HTTPS://h", "https://H", "http://user:secret@h/p", "http://[::1]:80/"),
    *("http://h?q", "http://h/p?q", "http://h/p#f", "http:///p", "http://", "//h/p", "http://h:"),
    *("http://h_1/", "http://-h/", "http://h:60000", "http://h/a%20b", "http://h/a:b"),
]


def parts(url: UsualUrl | SplitResult) -> tuple[object, ...]:
    return url.scheme, url.netloc, url.hostname, url.port, url.path, url.query


@pytest.mark.parametrize("url", USUAL + ODD)
def test_the_parts_are_those_of_the_standard_library(url: str) -> None:
    found = split_url(url)
    assert parts(found) == parts(urlsplit(url))
    assert isinstance(found, UsualUrl) == (url in USUAL)


def test_a_port_that_is_none_is_malformed() -> None:
    for port in ("65536", "99999", "-1", "1a"):
        url = split_url(f"http://h:{port}")
        with pytest.raises(ValueError, match=r"[Pp]ort"):
            assert url.port

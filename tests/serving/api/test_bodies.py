"""Bodies of uploads: bytes, or a form, however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.validation import Invalid
from lakecli.serving.api.objects import open_upload

TYPE = 'multipart/form-data; boundary="bound"'


def form(*parts: tuple[str, bytes], end: bytes = b"\r\n--bound--\r\n") -> bytes:
    """Return a form; each part has its head and its contents."""
    return (
        b"\r\n".join(b"--bound\r\n" + head.encode() + b"\r\n\r\n" + data for head, data in parts)
        + end
    )


CONTENT = 'Content-Disposition: form-data; name="content"; filename="a"\r\nContent-Type: text/csv'


@given(st.lists(st.sampled_from([b"\r", b"\n", b"--", b"bound", b"x"])), st.integers(1, 40))
def test_form_gives_its_file_however_it_is_cut(words: list[bytes], size: int) -> None:
    data = b"".join(words).replace(b"\r\n--bound", b"")
    whole = b"preamble\r\n" + form(
        ('Content-Disposition: form-data; name="x"', b"1"), (CONTENT, data)
    )
    pieces = iter([whole[at : at + size] for at in range(0, len(whole), size)])
    content_type, contents = open_upload(TYPE, pieces)
    assert content_type == "text/csv"
    assert b"".join(contents) == data
    assert next(pieces, None) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no form",
        form(('Content-Disposition: form-data; name="other"', b"1")),
        form((CONTENT, b"data"), end=b""),
        form((CONTENT, b"data"), end=b"\r\n--bou"),
        form((CONTENT + "\r\nX: " + "y" * 20_000, b"data")),
        b"--bound\r\n" + b"x" * 40_000,
    ],
)
def test_form_that_is_not_whole_is_refused(body: bytes) -> None:
    def read() -> bytes:
        return b"".join(open_upload(TYPE, iter([body[:7], body[7:]]))[1])

    with pytest.raises(Invalid):
        read()


@pytest.mark.parametrize("header", ["multipart/form-data", 'multipart/form-data; boundary="\x01"'])
def test_form_needs_a_boundary(header: str) -> None:
    with pytest.raises(Invalid):
        open_upload(header, iter([form((CONTENT, b"1"))]))


def test_other_bodies_are_the_object() -> None:
    content_type, contents = open_upload("text/csv", iter([b"a", b"b"]))
    assert (content_type, list(contents)) == ("text/csv", [b"a", b"b"])


def test_part_without_a_head_is_skipped() -> None:
    body = b"--bound\r\n\r\nx\r\n" + form((CONTENT, b"data"))
    assert b"".join(open_upload(TYPE, iter([body]))[1]) == b"data"

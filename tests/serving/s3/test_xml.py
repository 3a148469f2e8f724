"""Documents are read with bounds, and written so that every client reads the same names."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus, unquote_to_bytes
from xml.etree.ElementTree import fromstring
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.xml import (
    NAMESPACE,
    ToDelete,
    document,
    elements,
    error_document,
    name_of,
    parse,
    read_deletion,
)

if TYPE_CHECKING:
    from collections.abc import Callable

in_xml = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff")
)


def code_of(read: Callable[[bytes], object], data: bytes) -> str:
    with pytest.raises(S3Error) as caught:
        read(data)
    return caught.value.code


def deleting(*objects: str, start: str = "<Delete>") -> bytes:
    return f"{start}{''.join(f'<Object>{each}</Object>' for each in objects)}</Delete>".encode()


@pytest.mark.parametrize(
    "start",
    [
        "<Delete>",
        f'<Delete xmlns="{NAMESPACE}">',
        f'\ufeff<?xml version="1.0" encoding="UTF-8"?>\n<Delete xmlns="{NAMESPACE}">\n  ',
        "<?xml version='1.0'?><!-- of a client --><Delete>",
    ],
)
def test_deletion(start: str) -> None:
    first = '<Key> a&amp;b&#13;\u00e9/</Key><ETag> "x-1" </ETag>'
    body = deleting(first, "<Key>b</Key>", start=start)
    found, is_quiet = read_deletion(body)
    assert found == [ToDelete(" a&b\r\u00e9/", '"x-1"'), ToDelete("b", "")]
    assert not is_quiet
    assert read_deletion(body.replace(b"</Delete>", b"<Quiet>true</Quiet></Delete>"))[1]


def test_prefixes_of_namespaces_do_not_count() -> None:
    body = f'<s:Delete xmlns:s="{NAMESPACE}"><s:Object><s:Key>a</s:Key></s:Object></s:Delete>'
    assert read_deletion(body.encode())[0] == [ToDelete("a", "")]


@given(st.lists(in_xml.filter(bool), min_size=1, max_size=5))
def test_any_name_is_deleted(names: list[str]) -> None:
    found = read_deletion(deleting(*(f"<Key>{escape(name)}</Key>" for name in names)))
    assert [each.key for each in found[0]] == names


def test_number_of_objects_to_delete() -> None:
    assert len(read_deletion(deleting(*["<Key>a</Key>"] * 1000))[0]) == 1000
    assert code_of(read_deletion, deleting(*["<Key>a</Key>"] * 1001)) == "MalformedXML"
    assert code_of(read_deletion, deleting()) == "MalformedXML"
    assert code_of(read_deletion, deleting("<Key></Key>")) == "MalformedXML"
    assert code_of(read_deletion, deleting("<ETag>a</ETag>")) == "MalformedXML"


def test_no_version_of_an_object_is_deleted() -> None:
    body = deleting("<Key>a</Key>", "<VersionId>null</VersionId>\n<Key>b</Key>")
    assert code_of(read_deletion, body) == "InvalidArgument"


def part(number: object, etag: str = '"x"', more: str = "") -> str:
    return f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag>{more}</Part>"


def completing(*parts: str) -> bytes:
    return f"<CompleteMultipartUpload>{''.join(parts)}</CompleteMultipartUpload>".encode()


def test_as_many_parts_as_there_may_be() -> None:
    more = f"<ChecksumSHA256>{'A' * 44}</ChecksumSHA256>"
    body = completing(*(part(number, "e" * 64, more) for number in range(1, 10_001)))
    assert len(parse(body, "CompleteMultipartUpload")) == 10_000


BOMB = b"""<!DOCTYPE Delete [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<Delete><Object><Key>&b;</Key></Object></Delete>"""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"Delete",
        b"<Delete>",
        b"<Delete/><Delete/>",
        b"<Error/>",
        BOMB,
        b'<!DOCTYPE Delete SYSTEM "file:///etc/passwd"><Delete/>',
        b"<?php x?><Delete/>",
        b"<Delete>&lt;&x;</Delete>",
        b"<Delete>&#1;</Delete>",
        b"<Delete>\x00</Delete>",
        b"<Delete>\xff</Delete>",
        b"<Delete>" + b"<a>" * 99_000 + b"</a>" * 99_000 + b"</Delete></Delete>",
        b"<Delete>" + b"<a>" * 100_000,
        b"<Delete>" + b"x<a/>" * 200_000 + b"</Delete>",
    ],
)
def test_documents_that_are_refused(data: bytes) -> None:
    assert code_of(partial(parse, root="Delete"), data) == "MalformedXML"


def test_a_long_namespace_is_not_put_before_every_name() -> None:
    start = f'<p:Delete xmlns:p="{"u" * 100_000}" '
    attributes = " ".join(f'p:a{number}=""' for number in range(2_000))
    data = f"{start}{attributes}>{'<p:b/>' * 2_000}</p:Delete>".encode()
    tracemalloc.start()
    assert len(parse(data, "Delete")) == 2_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


@given(st.binary(max_size=60))
def test_nonsense_is_refused(data: bytes) -> None:
    assert code_of(read_deletion, data) == "MalformedXML"


@given(in_xml)
def test_what_is_written_is_read(text: str) -> None:
    inner = elements(Text=text, None_=None, Number=5, Flag=True)
    found = fromstring(document("Root", Inner=inner))
    assert [each.text or "" for each in found[0]] == [text, "5", "true"]
    assert found.tag == f"{{{NAMESPACE}}}Root"


def test_a_list_is_an_element_for_each_item() -> None:
    items = [elements(T=1), elements(T=2)]
    found = fromstring(document("R", Item=items, Other=[], Last="x"))
    assert [each.text for each in found.iter()] == [None, None, "1", None, "2", "x"]


def test_what_xml_cannot_contain_is_replaced() -> None:
    assert fromstring(document("R", T="a\0&\ud800\uffff\x7f"))[0].text == (
        "a\ufffd&\ufffd\ufffd\x7f"
    )


def test_line_breaks_in_texts_are_kept() -> None:
    assert fromstring(document("R", T="a\r\n\tb"))[0].text == "a\r\n\tb"


@given(st.binary(max_size=20))
def test_encoded_names(path: bytes) -> None:
    encoded = name_of(path, encoding="url")
    assert encoded.isascii()
    assert encoded.isprintable()
    assert unquote_to_bytes(encoded) == path
    # The SDK takes a plus for a blank.
    assert unquote_plus(encoded, errors="surrogateescape").encode(errors="surrogateescape") == path


@given(st.binary(max_size=8) | in_xml.map(str.encode))
def test_plain_names(path: bytes) -> None:
    try:
        text = name_of(path)
    except S3Error:
        assert not path.decode(errors="replace").replace("\ufffd", "\n").isprintable()
        return
    found = fromstring(document("R", Key=text))[0].text or ""
    assert found.encode() == path


@pytest.mark.parametrize("path", [b"\x00", b"a\nb", b"\x7f\x1b", b"\xff", b"\xef\xbf\xbe"])
def test_names_that_xml_cannot_contain(path: bytes) -> None:
    with pytest.raises(S3Error, match=r"InvalidArgument: .* repeat with encoding-type=url"):
        name_of(path)


def test_an_error() -> None:
    error = S3Error("NoSuchKey", "a <b> & \x00\ud800")
    data = error_document(error, Resource="/sales/\x1b", Key="\uffff", RequestId="id-1")
    found = fromstring(data)
    assert found.tag == "Error"
    assert {each.tag: each.text for each in found} == {
        "Code": "NoSuchKey",
        "Message": "a <b> & \ufffd\ufffd",
        "Resource": "/sales/\ufffd",
        "Key": "\ufffd",
        "RequestId": "id-1",
    }
    assert data.startswith(b'<?xml version="1.0" encoding="UTF-8"?>')
    assert b"<Code>NoSuchKey</Code>" in data

"""What kind of evidence a recorded checksum is, by its form."""

import pytest

from lakecli.base.identity import Evidence, evidence_of


@pytest.mark.parametrize(
    ("checksum", "kind"),
    [
        ("af" * 32, Evidence.BLAKE3),
        ("AF" * 32, Evidence.ETAG),
        ("af" * 31, Evidence.ETAG),
        ("5d41402abc4b2a76b9719d911017c592", Evidence.MD5),
        ("5d41402abc4b2a76b9719d911017c592-2", Evidence.ETAG),
        ("0x8D9F1E2A3B4C5D6", Evidence.ETAG),
        ("CKih16GjycICEAE=", Evidence.ETAG),
        ("", Evidence.NONE),
    ],
)
def test_the_form_of_a_checksum_says_what_it_proves(checksum: str, kind: Evidence) -> None:
    assert evidence_of(checksum) is kind

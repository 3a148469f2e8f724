"""The conformance suite for S3: all its cases, by what Amazon's public documentation says.

What other servers do instead, and where `lakecli serve` differs on purpose, is in
`s3_differences.py`.
"""

from __future__ import annotations

from typing import Final

from tests.serving import s3_cases_changes, s3_cases_listings, s3_cases_objects, s3_cases_requests
from tests.serving.s3_case import Case

CASES: Final[tuple[Case, ...]] = (
    *s3_cases_objects.BUCKETS,
    *s3_cases_objects.PUTS,
    *s3_cases_objects.GETS,
    *s3_cases_objects.HEADS,
    *s3_cases_changes.DELETES,
    *s3_cases_changes.COPIES,
    *s3_cases_changes.PARTS,
    *s3_cases_listings.V2,
    *s3_cases_listings.V1,
    *s3_cases_requests.PAYLOADS,
    *s3_cases_requests.SIGNATURES,
)

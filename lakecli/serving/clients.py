"""Configuration lines that connect clients to an endpoint, from templates in ``clients.txt``."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from string import Template
from typing import Final, NamedTuple, Self

REGION: Final = "us-east-1"
"""The AWS region that S3 clients must name."""


class ClientKind(StrEnum):
    """The clients for which `lakecli serve` prints configuration lines.

    Attributes:
        use: a short description of the lines.
    """

    use: str

    def __new__(cls, name: str, use: str) -> Self:
        """Return a member with a name and a description."""
        made = str.__new__(cls, name)
        made._value_, made.use = name, use
        return made

    ENV = "env", "variables of a shell, for SDKs of AWS, pandas, Polars, PyArrow and delta-rs"
    AWS = "aws", "a profile for the AWS CLI and the SDKs"
    BOTO3 = "boto3", "a client in Python"
    DUCKDB = "duckdb", "a secret for DuckDB's httpfs"
    POLARS = "polars", "options for Polars"
    SPARK = "spark", "settings for Spark and Hadoop, for URLs with s3a://"
    RCLONE = "rclone", "a remote for rclone"
    DELTA = "delta", "options for delta-rs; writers at the same time lose no commit"
    PYARROW = "pyarrow", "a file system of PyArrow"
    OBSTORE = "obstore", "a store of obstore"
    S5CMD = "s5cmd", "variables for s5cmd"
    LAKECTL = "lakectl", "a configuration for lakectl and other programs for lakeFS"


class EndpointAddress(NamedTuple):
    """How a client connects to an endpoint.

    Attributes:
        url: URL of the endpoint for S3 clients, without a trailing slash; lakeFS's API is below it,
            at /api/v1.
        access_key: access key for S3 and for lakeFS's API.
        secret_key: secret key that belongs to the access key.
        region: region that S3 clients must name.
        bucket: name of a repository, for the examples; ``""`` if there is none yet.
        branch: name of a branch, for the examples.
    """

    url: str
    access_key: str
    secret_key: str
    region: str = REGION
    bucket: str = ""
    branch: str = "main"


def url_of(host: str, port: int, *, secure: bool) -> str:
    """Return the URL of an endpoint, without a trailing slash."""
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{shown}:{port}"


@cache
def _templates() -> Mapping[str, Template]:
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    sections = (each.partition("\n") for each in text.split("==== ")[1:])
    return {name: Template(lines.strip("\n")) for name, _, lines in sections}


def lines_for(kind: ClientKind, to: EndpointAddress) -> list[str]:
    """Return the configuration lines for a client; lines that begin with ``#`` are comments."""
    to = to._replace(bucket=to.bucket or "REPOSITORY")
    scheme, _, host = to.url.partition("://")
    is_secure = scheme == "https"
    text = _templates()[kind].substitute(
        to._asdict(),
        host=host,
        plain=str(not is_secure).lower(),
        secure=str(is_secure).lower(),
        scheme=scheme,
        allowed=not is_secure,
        where=f"s3://{to.bucket}/{to.branch}",
    )
    return text.split("\n")

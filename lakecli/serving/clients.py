"""Configuration lines that connect a client to an endpoint, for a shell, a program or a file."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple, Self


class ClientKind(StrEnum):
    """The clients for which lines are printed.

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
    region: str = "us-east-1"
    bucket: str = ""
    branch: str = "main"

    @property
    def host(self) -> str:
        """The host and the port."""
        return self.url.partition("://")[2]


def lines_for(kind: ClientKind, to: EndpointAddress) -> list[str]:
    """Return the configuration lines for a client; lines that begin with ``#`` are comments."""
    to = to._replace(bucket=to.bucket or "REPOSITORY")
    is_secure = to.url.startswith("https:")
    text = _TEMPLATES[kind].format(
        to=to,
        plain=str(not is_secure).lower(),
        secure=str(is_secure).lower(),
        scheme=to.url.partition(":")[0],
        allowed=not is_secure,
        where=f"s3://{to.bucket}/{to.branch}",
    )
    return text.strip("\n").split("\n")


_TEMPLATES: Final = {
    ClientKind.ENV: """
export AWS_ENDPOINT_URL_S3={to.url}
export AWS_ACCESS_KEY_ID={to.access_key}
export AWS_SECRET_ACCESS_KEY={to.secret_key}
export AWS_DEFAULT_REGION={to.region}
export AWS_ALLOW_HTTP={plain}
""",
    ClientKind.AWS: """
# in ~/.aws/config; then: aws --profile lakecli s3 ls {where}/
[profile lakecli]
aws_access_key_id = {to.access_key}
aws_secret_access_key = {to.secret_key}
region = {to.region}
endpoint_url = {to.url}
s3 =
  addressing_style = path
  signature_version = s3v4
""",
    ClientKind.BOTO3: """
import boto3
from botocore.config import Config

s3 = boto3.client(
    "s3",
    endpoint_url="{to.url}",
    aws_access_key_id="{to.access_key}",
    aws_secret_access_key="{to.secret_key}",
    region_name="{to.region}",
    config=Config(signature_version="s3v4", s3={{"addressing_style": "path"}}),
)
s3.list_objects_v2(Bucket="{to.bucket}", Prefix="{to.branch}/")
""",
    ClientKind.DUCKDB: """
INSTALL httpfs;
LOAD httpfs;
CREATE OR REPLACE SECRET lakecli (
    TYPE s3,
    ENDPOINT '{to.host}',
    KEY_ID '{to.access_key}',
    SECRET '{to.secret_key}',
    REGION '{to.region}',
    URL_STYLE 'path',
    USE_SSL {secure}
);
SELECT * FROM '{where}/FILE.parquet';
""",
    ClientKind.POLARS: """
import polars

options = {{
    "aws_endpoint_url": "{to.url}",
    "aws_access_key_id": "{to.access_key}",
    "aws_secret_access_key": "{to.secret_key}",
    "aws_region": "{to.region}",
    "aws_virtual_hosted_style_request": "false",
    "aws_allow_http": "{plain}",
}}
polars.read_parquet("{where}/FILE.parquet", storage_options=options)
""",
    ClientKind.SPARK: """
# in spark-defaults.conf, or each after --conf as NAME=VALUE; then: s3a://{to.bucket}/{to.branch}/
spark.hadoop.fs.s3a.endpoint {to.url}
spark.hadoop.fs.s3a.endpoint.region {to.region}
spark.hadoop.fs.s3a.access.key {to.access_key}
spark.hadoop.fs.s3a.secret.key {to.secret_key}
spark.hadoop.fs.s3a.path.style.access true
spark.hadoop.fs.s3a.connection.ssl.enabled {secure}
""",
    ClientKind.RCLONE: """
# in ~/.config/rclone/rclone.conf; then: rclone ls lakecli:{to.bucket}/{to.branch}
[lakecli]
type = s3
provider = Other
access_key_id = {to.access_key}
secret_access_key = {to.secret_key}
region = {to.region}
endpoint = {to.url}
force_path_style = true
""",
    ClientKind.DELTA: """
import deltalake

options = {{
    "AWS_ENDPOINT_URL": "{to.url}",
    "AWS_ACCESS_KEY_ID": "{to.access_key}",
    "AWS_SECRET_ACCESS_KEY": "{to.secret_key}",
    "AWS_REGION": "{to.region}",
    "AWS_ALLOW_HTTP": "{plain}",
    "aws_conditional_put": "etag",
}}
deltalake.DeltaTable("{where}/TABLE", storage_options=options)
""",
    ClientKind.PYARROW: """
from pyarrow import dataset, fs

s3 = fs.S3FileSystem(
    access_key="{to.access_key}",
    secret_key="{to.secret_key}",
    endpoint_override="{to.host}",
    scheme="{scheme}",
    region="{to.region}",
)
dataset.dataset("{to.bucket}/{to.branch}/TABLE", filesystem=s3)
""",
    ClientKind.OBSTORE: """
from obstore.store import S3Store

store = S3Store(
    "{to.bucket}",
    prefix="{to.branch}",
    endpoint="{to.url}",
    access_key_id="{to.access_key}",
    secret_access_key="{to.secret_key}",
    region="{to.region}",
    virtual_hosted_style_request=False,
    client_options={{"allow_http": {allowed}}},
)
store.list().collect()
""",
    ClientKind.S5CMD: """
export S3_ENDPOINT_URL={to.url}
export AWS_ACCESS_KEY_ID={to.access_key}
export AWS_SECRET_ACCESS_KEY={to.secret_key}
export AWS_REGION={to.region}
""",
    ClientKind.LAKECTL: """
# in ~/.lakectl.yaml; then: lakectl branch list lakefs://{to.bucket}
credentials:
  access_key_id: {to.access_key}
  secret_access_key: {to.secret_key}
server:
  endpoint_url: {to.url}/api/v1
""",
}

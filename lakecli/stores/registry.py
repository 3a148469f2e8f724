"""Opens the store of a namespace's URI; the module of its adapter is imported on first use."""

from typing import Protocol

from lakecli.base.model import NO_ACCOUNT, Account
from lakecli.errors import UsageError
from lakecli.stores.contract import ObjectStore
from lakecli.stores.uri import SUPPORTED, NamespaceUri, parse


class NamespaceStore(ObjectStore, Protocol):
    """A store that can also prepare its namespace for a new repository."""

    def prepare(self) -> str:
        """Prepare the namespace for a new repository; see `prepare_namespace`."""


def open_store(uri: str, *, region: str = "", account: Account = NO_ACCOUNT) -> ObjectStore:
    """Return the store of a storage namespace, without a request.

    Args:
        region: region of the bucket, as `prepare_namespace` returned it.

    Raises:
        UsageError: the URI is malformed, or its scheme is not supported.
    """
    return _open(parse(uri), region, account)


def prepare_namespace(uri: str, *, account: Account = NO_ACCOUNT) -> str:
    """Prepare a namespace: create a missing directory, or request the region of a bucket.

    Buckets are not created. Call this only to create a repository: if the directory of an existing
    repository is missing, its disk is probably not mounted, and creating it would be wrong.

    Args:
        uri: URI of the namespace, in any spelling.

    Returns:
        The region, to store with the repository; ``""`` if the store has none.

    Raises:
        UsageError: the URI is malformed, or its scheme is not supported.
        BucketNotFound: the bucket does not exist.
    """
    return _open(parse(uri), "", account).prepare()


# A new adapter needs a case here, and its scheme in `uri.parse`.
def _open(uri: NamespaceUri, region: str, account: Account) -> NamespaceStore:
    match uri.scheme:
        case "s3":
            from lakecli.stores.s3.store import S3Store

            return S3Store(uri.bucket, uri.path, region=region, account=account)
        case "gs":
            from lakecli.stores.gs.store import GsStore

            return GsStore(uri.bucket, uri.path, account)
        case "az":
            from lakecli.stores.azure.store import AzureStore

            name, _, container = uri.bucket.partition("/")
            return AzureStore(name, container, uri.path, account)
        case "local":
            from lakecli.stores.local.store import DirectoryStore

            return DirectoryStore(uri.path)
        case scheme:  # tests open memory://
            raise UsageError(f"no store has the scheme {scheme!r}", hint=SUPPORTED)

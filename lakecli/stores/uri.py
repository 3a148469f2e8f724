"""URIs of storage namespaces, in one canonical spelling.

::

    s3://bucket/prefix               a prefix in a bucket of S3
    gs://bucket/prefix               … of Google Cloud Storage
    az://account/container/prefix    … in a container of an Azure storage account; also accepted:
                                     https://account.blob.core.windows.net/container/prefix
    local:///absolute/path           a directory on this machine; also accepted: file:///… or /…
    memory://bucket/prefix           a bucket in the memory of this process, in tests only

Nothing is decoded: a percent sign, ``?`` or ``#`` is an ordinary character, except in the
``https://`` form, which is a URL. Trailing slashes are ignored.
"""

import re
from typing import NamedTuple

from lakecli.base.uri import check_no_password
from lakecli.errors import UsageError

SUPPORTED = (
    "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://ACCOUNT/CONTAINER/PREFIX, "
    "local:///ABSOLUTE/PATH, file:///ABSOLUTE/PATH or /ABSOLUTE/PATH"
)
_OF_REPOSITORIES = (
    "lakefs:// names no storage namespace; from a branch to a branch: `fs cp PATH DEST`"
)
AZURE = "az://ACCOUNT/CONTAINER/PREFIX"

# Compiled on first use: most commands open one kind of namespace.
_SCHEME = r"[a-z][a-z0-9+.-]*"
_BUCKET = r"[A-Za-z0-9._-]{1,255}"
_ACCOUNT = r"[a-z0-9]{3,24}"
_CONTAINER = r"[a-z0-9](-?[a-z0-9]){2,62}|\$(root|web|logs)"
_AZURE_HOST = ".blob.core.windows.net"


class NamespaceUri(NamedTuple):
    """A parsed URI of a storage namespace.

    Attributes:
        scheme: ``s3``, ``gs``, ``az``, ``local`` or ``memory``.
        bucket: name of the bucket; for Azure the account, a slash and the container; empty for a
            directory.
        path: the prefix in the bucket, without trailing slashes; or the path of the directory.
    """

    scheme: str
    bucket: str
    path: str

    def __str__(self) -> str:
        """Return the canonical spelling, which `parse` accepts."""
        if not self.bucket:
            return f"{self.scheme}://{self.path}"
        return f"{self.scheme}://{self.bucket}" + (f"/{self.path}" if self.path else "")


def parse(text: str) -> NamespaceUri:
    """Parse the URI of a storage namespace.

    Raises:
        UsageError: the text is malformed, or the scheme is not supported.
    """
    if text.startswith("/"):
        return _directory(text, text)
    check_no_password(text)
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower() if separator and scheme.isascii() else ""
    if scheme in {"local", "file"}:
        return _directory(rest, text)
    if scheme in {"s3", "gs", "memory"}:
        return _bucket(scheme, rest, text)
    if scheme == "az":
        return _container(rest, text)
    if scheme == "https" and rest.partition("/")[0].lower().endswith(_AZURE_HOST):
        return _container_url(rest)
    if not re.fullmatch(_SCHEME, scheme):
        hint = f"{SUPPORTED}; a directory needs its absolute path"
        raise UsageError(f"not a storage namespace: {text!r}", hint=hint)
    hint = _OF_REPOSITORIES if scheme == "lakefs" else SUPPORTED
    raise UsageError(f"unsupported scheme {scheme!r} of a storage namespace: {text!r}", hint=hint)


def normalise(text: str) -> str:
    """Return the canonical spelling of a URI, in which namespaces are stored and compared."""
    return str(parse(text))


def as_url(uri: str) -> str:
    """Return a normalised URI in lakeFS's spelling, in which an Azure container is an HTTPS URL."""
    from urllib.parse import quote

    parsed = parse(uri)
    if parsed.scheme != "az":
        return uri
    account, _, container = parsed.bucket.partition("/")
    return f"https://{account}{_AZURE_HOST}/" + quote(f"{container}/{parsed.path}".rstrip("/"))


def is_local(uri: str) -> bool:
    """Return whether a normalised URI names a directory on this machine."""
    return uri.startswith("local://")


def _check(grammar: str, name: str, text: str, *, what: str, hint: str) -> None:
    """Refuse a name in the URI `text` that does not have the grammar of `what`."""
    if not re.fullmatch(grammar, name, re.ASCII):
        raise UsageError(f"illegal {what} {name!r} in the storage namespace {text!r}", hint=hint)


def _bucket(scheme: str, rest: str, text: str) -> NamespaceUri:
    bucket, _, prefix = rest.partition("/")
    form = f"{scheme}://BUCKET/PREFIX"
    if not bucket:
        raise UsageError(f"no bucket in the storage namespace {text!r}", hint=form)
    hint = f"{form}, the bucket of letters, digits, '.', '-' and '_'"
    _check(_BUCKET, bucket, text, what="bucket name", hint=hint)
    return NamespaceUri(scheme, bucket, prefix.rstrip("/"))


def _container(rest: str, text: str) -> NamespaceUri:
    account, _, rest = rest.partition("/")
    container, _, prefix = rest.partition("/")
    hint = f"{AZURE}, the account of 3 to 24 lower-case letters and digits"
    _check(_ACCOUNT, account, text, what="storage account", hint=hint)
    hint = f"{AZURE}, the container of 3 to 63 lower-case letters, digits and '-'"
    _check(_CONTAINER, container, text, what="container name", hint=hint)
    return NamespaceUri("az", f"{account}/{container}", prefix.rstrip("/"))


def _container_url(rest: str) -> NamespaceUri:
    from urllib.parse import unquote

    if "?" in rest or "#" in rest:
        # The query may be a signature, so the message does not repeat it.
        hint = f"{AZURE}; a shared access signature goes into AZURE_STORAGE_SAS_TOKEN"
        raise UsageError("a query in the URL of a storage namespace", hint=hint)
    host, _, path = rest.partition("/")
    account = host.lower().removesuffix(_AZURE_HOST)
    path = unquote(path, errors="surrogateescape")
    return _container(f"{account}/{path}", f"https://{rest}")


def _directory(path: str, text: str) -> NamespaceUri:
    if not path.startswith("/"):
        raise UsageError(
            f"the path of a local storage namespace must be absolute: {text!r}",
            hint="local:///ABSOLUTE/PATH, with three slashes, or the plain path",
        )
    names = [name for name in path.split("/") if name not in {"", "."}]
    if ".." in names:
        # After a symbolic link, '..' is the parent of the link's target, not of the link.
        hint = "write the directory without it, as `realpath` prints it"
        raise UsageError(f"'..' in the path of a storage namespace: {text!r}", hint=hint)
    if "\0" in path:
        raise UsageError(f"a NUL in the path of a storage namespace: {text!r}")
    if not names:
        hint = "name a directory below it"
        raise UsageError(f"the root directory cannot be a storage namespace: {text!r}", hint=hint)
    return NamespaceUri("local", "", "/" + "/".join(names))

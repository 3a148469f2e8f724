"""``lakecli serve``: serve repositories as S3, as the API of lakeFS and as pages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypedDict

from lakecli.base.model import is_repository_name
from lakecli.base.uri import LakeUri, is_namespace, parse_repository
from lakecli.cli.context import Context
from lakecli.cli.line import argument, flag, option
from lakecli.cli.out.records import answers, fields_of
from lakecli.cli.parsers import each
from lakecli.errors import LakeError, Unsupported, UsageError, install_command
from lakecli.serving.clients import ClientKind, EndpointAddress, lines_for, url_of

if TYPE_CHECKING:
    from lakecli.repository.contract import Notice
    from lakecli.repository.handle.lake import LocalRepository
    from lakecli.serving.served import Served


class ServedJson(TypedDict):
    """An endpoint that has started.

    The other fields are those of `EndpointAddress`.

    Attributes:
        page: URL of the pages, which a browser can open once.
        repositories: names of the repositories, which are the names of the buckets.
        read_only: true if nothing can be written.
    """

    page: str
    repositories: Sequence[str]
    read_only: bool


def _read_served(text: str, context: Context) -> LakeUri:
    """Parse the name of a repository, its URI, or a storage namespace."""
    if is_repository_name(text):
        return LakeUri(text)
    return parse_repository(text, base=context.base_uri, anywhere=is_namespace(text))


@answers(ServedJson)
def serve(
    context: Context,
    repositories: Sequence[LakeUri] = argument("REPOSITORY", default=(), read=each(_read_served)),
    *,
    host: str = option("ADDRESS", default="127.0.0.1"),
    port: int | None = option("NUMBER", min=0),
    read_only: bool = flag(),
    committed: bool = flag(),
    redirect: bool = flag(),
    access_key: str = option("NAME"),
    tls_cert: Path | None = option("FILE"),
    tls_key: Path | None = option("FILE"),
    open_: bool = flag("--open"),
    print_: ClientKind | None = option("CLIENT", "--print"),
) -> None:
    """Serve repositories to other programs: as S3, as lakeFS's API and as pages.

    A repository is a bucket, and the first part of a key is a branch, a tag, a commit or any other
    ref expression: s3://sales/main/orders.csv. Uploads are staged on the branch, as `fs upload`
    does; commit them with `commit`. Tags and commits can only be read. Programs for lakeFS, such as
    lakectl, work with the same address.

    Only programs on this machine can connect, and they need the keys that are printed, with lines
    for well-known clients. The keys are new each time, unless the settings serve.access-key and
    serve.secret-key, or LAKECLI_SERVE_ACCESS_KEY and LAKECLI_SERVE_SECRET_KEY, are set. For other
    machines, give --host, --tls-cert and --tls-key.

    Other commands can be used meanwhile; nothing is kept in this process. The operation log names
    the clients, so `undo` takes their writes back. Ctrl-C ends it. See `lakecli help serve`.

    Args:
        repositories: lakefs://REPOSITORY, its name, or a storage namespace to read without a clone;
            default: all repositories of this machine.
        host: Address to listen on; an address that other machines can reach needs TLS.
        port: Port; 0: any free one; default: 8000 if it is free, else any.
        read_only: Refuse all writes.
        committed: Leave out uncommitted changes when a branch is read.
        redirect: Redirect clients that follow redirects to the bucket for large objects.
        access_key: Access key; default: a new one, or serve.access-key.
        tls_cert: Certificate, with its chain, in PEM.
        tls_key: Key of the certificate, in PEM.
        open_: Open the pages in the browser.
        print_: Print the lines for one client only (see `help serve`); with keys in the settings,
            do not serve.

    Examples:
        lakecli serve
        lakecli serve sales --read-only
        lakecli serve s3://bucket/sales
        lakecli serve --print duckdb
    """
    fixed = _keys(context, access_key)
    if (tls_cert is None) != (tls_key is None):
        raise UsageError("a certificate needs its key: --tls-cert and --tls-key")
    served = _served(context, repositories, read_only=read_only, committed=committed)
    names = served.names()

    def show(url: str, access_key: str, secret: str, page: str = "") -> None:
        to = EndpointAddress(url, access_key, secret, bucket=names[0] if names else "")
        shown = ServedJson(page=page, repositories=names, read_only=read_only)
        _print(context, to, shown, print_)

    if print_ is not None and fixed is not None:
        if port == 0:
            raise UsageError(
                "--print cannot know which port --port 0 will choose",
                hint="give the port of the endpoint: --port NUMBER",
            )
        show(url_of(host, port or 8000, secure=tls_cert is not None), *fixed)
        return
    try:
        from lakecli.serving import server
    except ImportError as error:
        raise Unsupported(
            f"serving needs more packages: {error.name} is missing", hint=install_command("serve")
        ) from error
    from lakecli.serving.access import EndpointAccess, new_key_pair
    from lakecli.serving.context import Options, ServingContext

    if tls_cert is None and not server.is_loopback(host):
        raise UsageError(
            f"other machines could read the keys on their way to {host}",
            hint="give a certificate and its key: --tls-cert FILE --tls-key FILE",
        )
    list(served.records())  # opens what is read without a clone, and raises if it is not there
    key, secret = fixed or new_key_pair()
    access = EndpointAccess(access_key or key, secret)
    bound = server.bind(host, port)
    url = url_of(host, bound.getsockname()[1], secure=tls_cert is not None)
    page = f"{url}/?token={access.new_link_token()}"
    options = Options(url, server.names_of(host), redirect=redirect)

    def started() -> None:
        show(url, access.access_key, secret, page)
        if open_:
            import webbrowser

            webbrowser.open(page)

    endpoint = server.Endpoint(
        ServingContext(served, access, context.now, options, context.committer),
        bound,
        tls=None if tls_cert is None else (str(tls_cert), str(tls_key)),
        report=partial(_report, context),
        started=started,
    )
    if not endpoint.run_until_stopped():
        # Some requests still wait for a bucket. Ending now is as safe as being killed, and the user
        # wants the command to end.
        context.out.flush()
        os._exit(0)


def _keys(context: Context, access_key: str) -> tuple[str, str] | None:
    """Return the key pair of the settings, or ``None`` if they have none.

    Args:
        access_key: replaces the access key of the settings; ``""`` to keep that key.
    """
    from lakecli.settings.keys import SERVE_ACCESS_KEY, find_key

    pair = context.settings.serve_keys
    if access_key:
        find_key(SERVE_ACCESS_KEY).parse(access_key)
    return pair and (access_key or pair[0], pair[1])


def _print(
    context: Context, connection: EndpointAddress, served: ServedJson, only: ClientKind | None
) -> None:
    """Print how to connect to an endpoint."""
    names = served["repositories"]

    def text() -> list[str]:
        if only is not None:
            return lines_for(only, connection)
        named = ", ".join(names[:_SHOWN]) + (", …" if names[_SHOWN:] else "")
        lines = [
            f"Serving {named or 'no repository yet'}"
            + (", read-only" if served["read_only"] else ""),
            f"Address: {connection.url}",
            f"Page: {served['page']}",
        ]
        for kind in (ClientKind.ENV, ClientKind.DUCKDB, ClientKind.LAKECTL):
            lines += ["", f"{kind}:", *(f"  {line}" for line in lines_for(kind, connection))]
        others = ", ".join(kind for kind in ClientKind)
        return [*lines, "", f"For one client: --print {others}", "Ctrl-C ends it."]

    context.out.emit(fields_of(connection) | served, text=text)
    context.out.flush()


_SHOWN = 10


def _bucket_of(uri: LakeUri) -> str:
    """Return the name of the bucket for a repository or a storage namespace."""
    if uri.namespace is None:
        return uri.repository
    name = uri.namespace.rstrip("/").rpartition("/")[2].lower()
    plain = re.sub("[^a-z0-9]", "-", name).strip("-")[:63]
    return plain if is_repository_name(plain) else f"repository-{plain}".rstrip("-")


def _served(
    context: Context, repositories: Sequence[LakeUri], *, read_only: bool, committed: bool
) -> Served:
    """Return the repositories to serve.

    Raises:
        NotFound: a repository is not on this machine.
        UsageError: two repositories would have the same bucket name.
    """
    from lakecli.opening import catch_up
    from lakecli.repository.open_remote import open_remote
    from lakecli.serving.served import Opening, Served

    lake = context.lake()

    def open_repository(name: str) -> LocalRepository:
        opened = lake.repository(name)
        # Unlike `Context.keep`, this keeps no handle: repositories are opened again and again.
        context.add_hooks(opened)
        return opened

    opening = Opening(
        repository=open_repository,
        namespace=lambda uri: open_remote(context.lake_home(), context.runtime, uri),
        mover=context.mover_of,
        catch_up=catch_up,
        notify=_notices(context),
    )
    buckets: dict[str, LakeUri] = {}
    for uri in repositories:
        name = _bucket_of(uri)
        if name in buckets:
            raise UsageError(
                f"two repositories would be the bucket {name!r}", hint="serve one of them elsewhere"
            )
        buckets[name] = uri
        if uri.namespace is None:
            lake.repository(name)  # raises `NotFound` if it is not here
    namespaces = {name: uri.namespace for name, uri in buckets.items() if uri.namespace is not None}
    names = buckets.keys() - namespaces if repositories else None
    how = {"read_only": read_only, "committed": committed}
    return Served(lake, opening, names=names, namespaces=namespaces, **how)


def _notices(context: Context) -> Callable[[Notice], None]:
    """Return a function that shows notices from any thread; a repeated notice is shown once."""
    lock = Lock()
    last: list[Notice] = []

    def show(notice: Notice) -> None:
        with lock:
            if [notice] != last:
                context.out.warn(notice.message, notice.hint)
            last[:] = [notice]

    return show


def _report(context: Context, error: BaseException) -> None:
    """Show an error that no response describes; the endpoint goes on."""
    known = isinstance(error, LakeError)
    message = str(error) if known else f"internal error: {type(error).__name__}: {error}"
    context.out.warn(message, getattr(error, "hint", None))
    if context.verbose:
        context.out.traceback(error)

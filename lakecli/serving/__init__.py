"""An endpoint on this machine, which speaks S3 and lakeFS's API to other programs.

::

    server           sockets, TLS and limits; runs until it is stopped
    app              checks the sender of a request, and picks the surface that handles it
    s3               the S3 protocol
    api              lakeFS's REST API
    page             pages for browsers, which only read
    context          the objects and threads that all surfaces share
    access           key pairs, and sessions of browsers
    served           the repositories, opened for many threads
    writes           writes to branches; concurrent ones are staged in one transaction
    reading          conditional requests, and byte ranges of objects
    responses        responses with the contents of objects
    statuses         the HTTP status of each error, and its code in S3
    clients          configuration lines for well-known clients, from clients.txt

The endpoint has no state of its own on disk: like the commands, it uses the local store and the
bucket. Starlette, uvicorn and Jinja2 are imported only here. `s3`, `api` and `page` do not import
each other; pages only link to contents of objects, which `api` sends. A handler runs in the event
loop; whatever reads or writes the repository runs in a thread (`context.ServingContext.in_thread`).
A view belongs to one thread. No view stays open while the endpoint waits for a client, because an
open view keeps the local store from reusing space.

This package may import `fsck`, `gc`, `exports` and the layers below.
"""

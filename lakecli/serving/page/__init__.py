"""Pages for browsers, which show repositories and change nothing.

::

    routes           checks access, picks the page; headers, and errors as pages
    asked            the parameters of a request, and links to other pages
    views            the data of each page
    graph            the history as a drawing
    preview          the beginning of an object, as a table, text or image
    templates, style.css

No page needs a script. Downloads and images come from lakeFS's API, which accepts the session of a
browser for reading. Everything from a repository is shown as text, with invisible characters
escaped. Links have paths percent-encoded in the query, because a browser would resolve ``..`` in
the path of a URL. How much a page reads is bounded by a constant times how much it shows; a page of
the history or of the operation log also reads what the pages before it show. A page that does not
show everything says so and links to the rest.
"""

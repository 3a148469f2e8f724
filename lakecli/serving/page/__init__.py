"""Pages for browsers, which show repositories and change nothing.

::

    routes           who may look; which page answers a request; headers, and errors as pages
    asked            the parameters of a request, and links to other pages
    views            the data of each page
    changes          differences, by directory
    graph            the history as a drawing
    preview          the beginning of an object, as a table, text or image
    templates, style.css

No page needs a script. What comes from a repository is text, whatever it contains: invisible
characters are escaped, and links have each byte of a path percent-encoded in the query, since a
browser would change ``..`` in the path of a URL. No page reads more of a repository than it shows,
times a constant; where there is more, the page says so and links to it.
"""

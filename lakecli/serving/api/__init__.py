"""lakeFS's REST API below ``/api/v1``, for the clients of lakeFS.

::

    routes                   finds the operation, checks who asks, answers errors
    configuration            version, storage, user, login
    tasks                    imports, refs dumps
    objects                  read, list, write, copy, delete; forms; uploads to the bucket itself
    refs                     branches, tags, commits, log, diff, merge
    repositories             repositories, protected branches
    requests                 how an operation is declared; parameters, errors, JSON, pages

Paths, names of fields and statuses are those of lakeFS 1.84; its document is the schema.
"""

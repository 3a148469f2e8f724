"""lakeFS's REST API below ``/api/v1``, for the clients of lakeFS.

::

    routes                   finds the operation, checks access, sends errors
    configuration            version, storage, user
    tasks                    imports, refs dumps
    objects                  read, list, write, copy, delete; forms; uploads to the bucket itself
    refs                     branches, tags, commits, log, diff, merge
    repositories             repositories, protected branches
    requests                 declarations of operations; parameters, errors, JSON, pages

Paths, field names and statuses are the same as in lakeFS 1.84, whose OpenAPI document is the
schema.
"""

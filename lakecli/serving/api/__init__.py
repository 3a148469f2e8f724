"""lakeFS's REST API below ``/api/v1``, for the clients of lakeFS.

::

    routes                   finds the operation, checks who asks, answers errors
    configuration            version, storage, user, login
    staging                  uploads to the bucket itself, imports
    objects                  read, list, write, copy, delete
    refs                     branches, tags, commits, log, diff, merge
    repositories             repositories, protected branches, refs dumps
    refused                  all other operations, for the manual
    bodies                   forms with a file
    records                  lakeFS's records as JSON
    requests                 parameters, checks, pages, errors; how an operation is declared

Paths, names of fields and statuses are those of lakeFS 1.84; its document is the schema.
"""

"""What real servers lack of what lakecli needs: the table in the topic `clouds`, measured.

::

    programs   fetches servers by Go, Cargo and Maven, and keeps them between runs
    catalogue  the servers, and how each is started
    job        the main job on one bucket, and what does not work there
    table      the rows in the manual; `python -m tests.servers.table` measures and writes them
"""
